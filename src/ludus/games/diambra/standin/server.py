"""gRPC server of the stand-in: DIAMBRA's own generated classes, one game at a time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NoReturn

import grpc
from diambra.arena import available_games
from diambra.engine import model, service

from ludus.games.diambra.standin.drawing import draw
from ludus.games.diambra.standin.fight import MOVE_NAMES
from ludus.games.diambra.standin.match import EpisodeRules, FightRules, FightSeat, Match

_LABELS = (" ", "←", "↖", "↑", "↗", "→", "↘", "↓", "↙")
_SIDES = (model.RamStatesCategories.P1, model.RamStatesCategories.P2)


class EngineStandIn(service.EnvServerServicer):  # type: ignore[misc]  # generated without types
    """Answers the five calls. `game_id` None plays any game; `step_ms` is the minimum duration of a step.

    `counts` has the number of calls by name, for tests.
    """

    def __init__(self, game_id: str | None = None, step_ms: float = 0.0) -> None:
        self._only = game_id
        self._step_seconds = step_ms / 1000
        self._lock = threading.Lock()
        self.counts = {"EnvInit": 0, "Reset": 0, "Step": 0, "Close": 0}
        self.shutdown = threading.Event()
        self._rules: FightRules | None = None
        self._match: Match | None = None

    def EnvInit(self, request: Any, context: Any) -> Any:
        with self._lock:
            self.counts["EnvInit"] += 1
            listed = available_games(False)
            if self._only not in (None, request.game_id):
                _refuse(context, f"this stand-in engine plays only {self._only}, got {request.game_id}")
            if request.game_id not in listed:
                _refuse(context, f"unknown game '{request.game_id}'")
            self._rules = rules = FightRules.of(listed[request.game_id])
            self._match = None
            height, width, channels = rules.frame_shape
            if request.frame_shape.h > 0 and request.frame_shape.w > 0:
                height, width = request.frame_shape.h, request.frame_shape.w
            self._shape = (height, width, 1 if request.frame_shape.c == 1 else channels)
            self._step_ratio = max(1, request.step_ratio)
            self._n_players = request.n_players
            return self._description(rules, listed[request.game_id])

    def Reset(self, request: Any, context: Any) -> Any:
        with self._lock:
            self.counts["Reset"] += 1
            rules = self._rules
            if rules is None:
                _out_of_order(context, "Reset before EnvInit")
            if len(request.player_settings) != self._n_players:
                _refuse(
                    context,
                    f"expected settings of {self._n_players} players, got {len(request.player_settings)}",
                )
            players = tuple(self._player(rules, one, context) for one in request.player_settings)
            episode = EpisodeRules(
                request.random_seed, max(1, request.difficulty), request.continue_game, players
            )
            self._match = Match(rules, episode, self._step_ratio)
            return self._answer(self._match)

    def Step(self, request: Any, context: Any) -> Any:
        began = time.perf_counter()
        with self._lock:
            self.counts["Step"] += 1
            match = self._match
            if match is None:
                _out_of_order(context, "Step before Reset")
            if match.done.episode:
                _out_of_order(context, "Step after the end of an episode")
            if len(request.actions) != self._n_players:
                _refuse(context, f"expected {self._n_players} actions, got {len(request.actions)}")
            match.step([(action.move, action.attack) for action in request.actions])
            answer = self._answer(match)
        left = self._step_seconds - (time.perf_counter() - began)
        if left > 0:
            time.sleep(left)
        return answer

    def Close(self, request: Any, context: Any) -> Any:
        with self._lock:
            self.counts["Close"] += 1
            self._rules = self._match = None
        return model.Empty()

    def Shutdown(self, request: Any, context: Any) -> Any:
        self.shutdown.set()
        return model.Empty()

    def _player(self, rules: FightRules, settings: Any, context: Any) -> FightSeat:
        if settings.role not in _SIDES:
            _refuse(context, f"expected role P1 or P2, got {settings.role}")
        unknown = [name for name in settings.characters if name not in rules.characters]
        if unknown:
            _refuse(context, f"{rules.game_id} has no character '{unknown[0]}'")
        numbers = tuple(rules.characters.index(name) for name in settings.characters)
        return FightSeat(_SIDES.index(settings.role), numbers or (0,), max(0, settings.super_art - 1))

    def _description(self, rules: FightRules, listed: dict[str, Any]) -> Any:
        reply = model.EnvInitResponse()
        reply.frame_shape.h, reply.frame_shape.w, reply.frame_shape.c = self._shape
        actions = reply.available_actions
        actions.n_moves, actions.n_attacks = rules.moves, rules.attacks
        actions.n_attacks_no_comb = rules.single_attacks
        for key, label in zip(MOVE_NAMES[: rules.moves], _LABELS, strict=False):
            actions.moves.add(key=key, label=label)
        for number in range(rules.attacks):
            actions.attacks.add(key=f"But{number}", label=f"Attack{number}" if number else " ")
        rounds, stages = rules.rounds, rules.stages
        reply.cumulative_reward_bounds.min = -((rounds - 1) * (stages - 1) + rounds) * rules.team_health
        reply.cumulative_reward_bounds.max = rounds * stages * rules.team_health
        info = reply.characters_info
        info.char_list.extend(rules.characters)
        info.char_forbidden_list.extend(listed["char_forbidden_list"])
        for name, namesake in listed["char_homonymy_map"].items():
            info.char_homonymy_map[name] = namesake
        info.chars_per_round = rules.team
        info.chars_to_select = listed["number_of_chars_to_select"]
        info.partner_list.extend(listed.get("partner_list", []))
        reply.difficulty_bounds.min, reply.difficulty_bounds.max = listed["difficulty"][:2]
        for category, states in self._categories(rules.common, rules.player, rules.player):
            for name, (kind, low, high) in states.items():
                entry = reply.ram_states_categories[category].ram_states[model.RamStates.Value(name)]
                entry.type, entry.min, entry.max = model.SpaceTypes.Value(kind), low, high
        return reply

    def _answer(self, match: Match) -> bytes:
        """Return the response as bytes. Concatenated protobuf messages are parsed as one.

        Most parts repeat from step to step, and encoding them in pure Python takes a millisecond.
        """
        frame = draw(match, self._shape).tobytes()
        reported = self._categories(match.common_states(), match.states(0), match.states(1))
        parts = [_states_in_bytes(category, tuple(states.items())) for category, states in reported]
        done = match.done
        happened = _happened_in_bytes(match.reward, done.round, done.stage, done.game, done.episode)
        return b"".join([_before_frame(len(frame)), frame, *parts, happened])

    def _categories(self, common: Any, first: Any, second: Any) -> list[tuple[int, Any]]:
        return [(model.RamStatesCategories.common, common), (_SIDES[0], first), (_SIDES[1], second)]


class Serving:
    """A stand-in that listens on `address`. Port 0 chooses a free port. Close it at the end.

    OSError if the port is in use.
    """

    def __init__(self, standin: Any, host: str = "127.0.0.1", port: int = 0) -> None:
        self.standin = standin
        self._server = grpc.server(ThreadPoolExecutor(max_workers=4), options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((_handlers(standin),))
        try:
            chosen = self._server.add_insecure_port(f"{host}:{port}")
        except RuntimeError as error:  # raised by newer versions of gRPC
            raise OSError(f"cannot listen on {host}:{port}: {error}") from error
        if chosen == 0:
            raise OSError(f"cannot listen on {host}:{port}")
        self.address = f"{host}:{chosen}"
        self._server.start()

    def close(self, grace: float | None = None) -> None:
        self._server.stop(grace).wait()

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@lru_cache(maxsize=4096)
def _states_in_bytes(category: int, states: tuple[tuple[str, int], ...]) -> bytes:
    reply = model.StepResetResponse()
    values = reply.observation.ram_states_categories[category].ram_states
    for name, value in states:
        values[model.RamStates.Value(name)] = value
    return bytes(reply.SerializeToString())


@lru_cache(maxsize=4)
def _before_frame(size: int) -> bytes:
    """Return the bytes before a frame in a response without other fields."""
    reply = model.StepResetResponse()
    reply.observation.frame = bytes(size)
    return bytes(reply.SerializeToString()[:-size])


@lru_cache(maxsize=512)
def _happened_in_bytes(
    reward: int, round_done: bool, stage_done: bool, game_done: bool, episode_done: bool
) -> bytes:
    reply = model.StepResetResponse(reward=reward)
    happened = reply.info.game_states
    happened[model.GameStates.round_done] = round_done
    happened[model.GameStates.stage_done] = stage_done
    happened[model.GameStates.game_done] = game_done
    happened[model.GameStates.episode_done] = episode_done
    happened[model.GameStates.env_done] = episode_done
    return bytes(reply.SerializeToString())


def _handlers(standin: Any) -> Any:
    """Return the service as DIAMBRA declares it, except that responses may already be bytes."""
    requests = {
        "EnvInit": model.EnvSettings,
        "Reset": model.EnvSettings.EpisodeSettings,
        "Step": model.Actions,
        "Close": model.Empty,
        "Shutdown": model.Empty,
    }
    methods = {
        name: grpc.unary_unary_rpc_method_handler(
            getattr(standin, name), request_deserializer=request.FromString, response_serializer=_in_bytes
        )
        for name, request in requests.items()
    }
    return grpc.method_handlers_generic_handler("interface.EnvServer", methods)


def _in_bytes(response: Any) -> bytes:
    return response if isinstance(response, bytes) else bytes(response.SerializeToString())


def _refuse(context: Any, why: str) -> NoReturn:
    context.abort(grpc.StatusCode.INVALID_ARGUMENT, why)
    raise AssertionError("abort raises")


def _out_of_order(context: Any, what: str) -> NoReturn:
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, what)
    raise AssertionError("abort raises")

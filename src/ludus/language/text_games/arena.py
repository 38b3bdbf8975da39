"""TextArena's games, behind the `StartedGame` that a `TextGame` is played on."""

from __future__ import annotations

import copy
import functools
import importlib
import math
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from ludus.config.language import GameSpec
from ludus.envs.seats import Observed
from ludus.errors import MissingExtra, UserError
from ludus.language.text_games.seclusion import LOCK, Seclusion, secluded

_GAME = -1  # sender of the game's own messages


@functools.cache
def textarena() -> Any:
    """Return the package, imported once. Raises MissingExtra."""
    with LOCK, warnings.catch_warnings():  # the package disables a warning for the whole process
        try:
            package = importlib.import_module("textarena")
        except ModuleNotFoundError as error:
            if error.name != "textarena":
                raise
            raise MissingExtra("playing text games", "text") from None
    known = package.envs.registration.ENV_REGISTRY
    package.envs.registration.register_with_versions(
        id="KuhnPoker-v0-stakes",
        entry_point="ludus.language.text_games.stakes:KuhnWithStakes",
        wrappers={
            "default": known["KuhnPoker-v0"].default_wrappers,
            "-train": known["KuhnPoker-v0-train"].default_wrappers,
        },
        max_rounds=1,
    )
    return package


def registry() -> Mapping[str, Any]:
    """TextArena's entries by id, each with `entry_point`, `kwargs` and `default_wrappers`."""
    entries: Mapping[str, Any] = textarena().envs.registration.ENV_REGISTRY
    return entries


def make_env(game_id: str, kwargs: Mapping[str, Any]) -> Any:
    """Return a new env of TextArena; call it within `secluded`. UserError if it cannot be created."""
    # games shuffle their arguments, and those of the registry are shared
    settings = copy.deepcopy({**registry()[game_id].kwargs, **kwargs})
    try:
        env = textarena().make(game_id, **settings)
    except UserError:
        raise
    except SyntaxError as error:
        raise UserError(
            f"{game_id} cannot be read by Python {sys.version_info.major}.{sys.version_info.minor}: {error}",
            where=f"TextArena {textarena().__version__}",
            fix="some of its games are written for Python 3.12 and newer",
        ) from error
    except Exception as error:  # a missing key, an unknown keyword, a missing file
        raise UserError(
            f"{game_id} cannot be made: {error}",
            where=f"TextArena {textarena().__version__}, with kwargs {dict(kwargs)}",
            fix="see docs/how-to/text-games.md for what works",
        ) from error
    _silence(str(registry()[game_id].entry_point))
    return env


def start_env(spec: GameSpec, players: int, seed: int) -> Any:
    """Return a new env after its reset; call it within `secluded`. Raises the errors of the game."""
    env = make_env(spec.id, spec.kwargs)
    env.reset(num_players=players, seed=seed)
    seats = innermost(env).state.num_players
    if seats != players:  # some games accept any number of players and ignore it
        raise ValueError(f"expected {seats} players, got {players}")
    return env


def innermost(env: Any) -> Any:
    """The game itself, without TextArena's wrappers."""
    while isinstance(env, textarena().Wrapper):
        env = env.env
    return env


class ArenaTable:
    """A started game of TextArena. GameFault if it cannot be started, UserError if something is missing."""

    last_reward = 0.0  # TextArena gives rewards at the end only

    def __init__(self, spec: GameSpec, players: int, seed: int) -> None:
        self._seclusion = Seclusion(seed)
        self._players = players
        self._refused = False
        self._observed = Observed("", "", "", 0)
        self._rewards = (0.0,) * players
        self._seen: dict[int, list[tuple[int, str, str]]] = {seat: [] for seat in range(players)}
        with secluded(self._seclusion, f"{spec.id} cannot be started by {players}"):
            self._env = start_env(spec, players, seed)
            self._inner = innermost(self._env)
            self._inner.get_observation = functools.partial(self._keep, self._inner.get_observation)
            self._state = self._inner.state
            if hasattr(self._state, "elimination_order"):
                self._state.step = functools.partial(self._step_if_anyone_is_left, self._state.step)
            if hasattr(self._state, "set_invalid_move"):
                # the state does not keep that a move was refused
                self._state.set_invalid_move = functools.partial(self._refuse, self._state.set_invalid_move)
            self._next_turn()

    def observe(self) -> Observed:
        return self._observed

    def play(self, action: str) -> bool:
        with secluded(self._seclusion, "the game raised"):
            lost_before = self.invalid()
            self._refused = False
            self._env.step(action)
            self._next_turn()
            return not self._refused and self.invalid() == lost_before

    def rewards(self) -> tuple[float, ...]:
        return self._rewards

    def reason(self) -> str:
        reasons = (self._about(seat).get("reason") for seat in range(self._players))
        return next((str(reason) for reason in reasons if reason), "")

    def invalid(self) -> tuple[bool, ...]:
        return tuple(bool(self._about(seat).get("invalid_move")) for seat in range(self._players))

    @property
    def state(self) -> dict[str, Any]:
        held: dict[str, Any] = self._state.game_state or {}
        return held

    def _next_turn(self) -> None:
        self.over = bool(self._state.done)
        if self.over:
            given = self._state.rewards or {}
            # here, so that rewards that are not numbers are a fault of the game
            self._rewards = tuple(float(given.get(seat) or 0.0) for seat in range(self._players))
            if not all(map(math.isfinite, self._rewards)):
                raise ValueError(f"the rewards {self._rewards} are not all finite")
            return
        # once per turn: some games change the observation at every call
        seat, text = self._env.get_observation()
        seen = self._seen[seat]
        prompts = [message for _, message, kind in seen if kind == "PROMPT"]
        boards = [message for _, message, kind in seen if kind == "GAME_BOARD"]
        self._observed = Observed(
            text if isinstance(text, str) else self._transcript(seat),  # raw ids give messages, not text
            boards[-1] if boards else "",
            prompts[0] if prompts else "",
            int(seat),
        )

    def _about(self, seat: int) -> dict[str, Any]:
        held: dict[str, Any] = getattr(self._state, "game_info", {}).get(seat, {})
        return held

    def _keep(self, get_observation: Any) -> Any:
        seat, messages = get_observation()
        self._seen[seat] += [
            (sender, str(message), getattr(kind, "name", "")) for sender, message, kind in messages or ()
        ]
        return seat, messages

    def _refuse(self, set_invalid_move: Any, *args: Any, **kwargs: Any) -> Any:
        self._refused = True
        return set_invalid_move(*args, **kwargs)

    def _step_if_anyone_is_left(self, step: Any, *args: Any, **kwargs: Any) -> Any:
        # TextArena would search for the next player forever
        if not self._state.done and len(set(self._state.elimination_order)) >= self._players:
            raise RuntimeError("every player was eliminated, and nobody won")
        return step(*args, **kwargs)

    def _transcript(self, seat: int) -> str:
        names = self._state.role_mapping or {}
        return "".join(
            f"\n[{'GAME' if sender == _GAME else names.get(sender, f'Player {sender}')}] {message}"
            for sender, message, _ in self._seen[seat]
        )


@functools.cache
def _silence(entry_point: str) -> None:
    """Replace `print` in the game's modules. The process's stdout is not replaced: other code uses it."""
    package = entry_point.partition(":")[0].rpartition(".")[0]
    for name, module in list(sys.modules.items()):
        if name.startswith(package) and module is not None:
            vars(module).setdefault("print", _say_nothing)


def _say_nothing(*args: Any, **kwargs: Any) -> None:
    return None

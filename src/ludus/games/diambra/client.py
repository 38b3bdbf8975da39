"""The official client: from our settings to its objects, and a game opened on an engine. The only file to import it."""

from __future__ import annotations

import functools
import logging
import math
from pathlib import Path
from typing import Any

import diambra.arena
import grpc
import numpy as np
from diambra.arena import (
    EnvironmentSettings,
    EnvironmentSettingsMultiAgent,
    Roles,
    SpaceTypes,
)
from diambra.arena import RecordingSettings as ClientRecording
from diambra.arena import WrappersSettings as ClientWrappers
from diambra.arena.engine import interface
from diambra.engine import Client, model

from ludus.games.diambra.answers import AnswerReader
from ludus.games.diambra.engines import EngineAddress, engines
from ludus.games.diambra.settings import DiambraSettings, filter_keys, players_characters

_SAME_NAME = (
    "step_ratio",
    "frame_shape",
    "difficulty",
    "continue_game",
    "show_final",
    "tower",
    "disable_keyboard",
    "disable_joystick",
    "splash_screen",
    "grpc_timeout",
)
_PER_PLAYER = ("outfits", "super_art", "fighting_style", "ultimate_style", "speed_mode")
_MOST_CHARACTERS = 3
_CALLS = ("EnvInit", "Reset", "Step", "Close")
_STEP = "/interface.EnvServer/Step"
_LARGEST_ANSWER = 4 * 1024 * 1024  # bytes that gRPC takes


class Nonsense(Exception):
    """An answer that is a message of the protocol, and cannot be true."""


class PatientClient(Client):  # type: ignore[misc]  # it comes without types
    """The client's connection, patient for `timeout` seconds: by itself it sets no deadline to any call.

    Steps are answered by the same messages, which are only read where they differ from the last.
    """

    EnvInit: Any

    def __init__(self, address: str, timeout: int) -> None:
        super().__init__(address, timeout)
        self.Step = self.channel.unary_unary(
            _STEP,
            request_serializer=model.Actions.SerializeToString,
            response_deserializer=AnswerReader().read,
        )
        for name in _CALLS:
            setattr(self, name, functools.partial(getattr(self, name), timeout=timeout))
        self._describe, self.EnvInit = self.EnvInit, self._checked

    def _checked(self, settings: Any) -> Any:
        """The engine's description of its game, before memory is taken for frames of the size it tells."""
        described = self._describe(settings)
        shape = described.frame_shape
        sides = (shape.h, shape.w, shape.c)
        if min(sides) < 1 or math.prod(sides) > _LARGEST_ANSWER:
            raise Nonsense(f"frames of {' x '.join(map(str, sides))}")
        return described


interface.Client = PatientClient  # where the client looks for it when it opens a game


def open_game(game_id: str, settings: DiambraSettings, engine: EngineAddress, render_mode: str | None) -> Any:
    """The client's env on `engine`, wrapped as `settings` say. Raises whatever the client raises."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())  # or the client would set up the logging of the whole process
    return diambra.arena.make(
        game_id,
        _env_settings(settings),
        _wrappers(game_id, settings),
        _recording(settings, engine),
        render_mode,
        rank=engine.rank,
        env_addresses=[each.address for each in engines()],
        log_level=logging.WARNING,
    )


def in_words(error: BaseException) -> str:
    """What an engine did to make the client raise `error`."""
    problem: BaseException | None = error
    while problem is not None and not isinstance(problem, grpc.RpcError | Nonsense):
        problem = problem.__cause__ or problem.__context__
    if isinstance(problem, Nonsense):
        return f"answered nonsense: {problem}"
    if problem is None:
        if isinstance(error.__cause__, grpc.FutureTimeoutError):
            return "takes connections but does not speak the engine's protocol"
        return f"answered nonsense: {type(error).__name__}: {error}"
    code, details = problem.code(), problem.details() or ""
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return "hangs: it gave no answer in time"
    if code is grpc.StatusCode.UNAVAILABLE:
        return f"is gone: {details}"
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return f"does not speak the engine's protocol: {details}"
    if "deserializ" in details or "larger than max" in details:
        return f"answered nonsense: {details}"
    return f"refused: {code.name}: {details}"


def draw_options(game: Any, settings: DiambraSettings, chance: np.random.Generator) -> dict[str, Any]:
    """Everything that the settings leave open for an episode, drawn.

    The client would draw it too, but neither from the seed alone (it keeps shuffling one list, and takes no notice
    of a seed given twice) nor without reseeding the random numbers of the whole process.
    """
    info = game.unwrapped.env_info

    def one_of(low: int, high: int) -> int:
        return int(chance.integers(low, high + 1))

    bounds = info.difficulty_bounds
    drawn: dict[str, Any] = {
        "difficulty": one_of(bounds.min, bounds.max) if settings.difficulty is None else settings.difficulty,
        "tower": one_of(1, 4) if settings.tower is None else settings.tower,
    }
    styles = 3 if game.unwrapped.env_settings.game_id == "kof98umh" else 2
    highest = {"super_art": 3, "fighting_style": styles, "speed_mode": 2}
    role = one_of(Roles.P1, Roles.P2) if settings.role is None else Roles.Value(settings.role)
    roles = (role, Roles.P1 + Roles.P2 - role)
    players = []
    for number, names in enumerate(players_characters(settings)):
        player = {name: getattr(settings, name) or one_of(1, most) for name, most in highest.items()}
        player["ultimate_style"] = settings.ultimate_style or tuple(one_of(1, 2) for _ in range(3))
        player["characters"] = _draw_team(names, info.characters_info, chance)
        player["role"] = roles[number]
        players.append(player)
    if settings.n_players == 1:
        return drawn | players[0]
    return drawn | {name: tuple(player[name] for player in players) for name in players[0]}


def _draw_team(names: list[str | None], info: Any, chance: np.random.Generator) -> tuple[str, ...]:
    """The characters that are named, and others to fill up with."""
    team = [name for name in names if name is not None]
    for index in chance.permutation(len(info.char_list)):
        name = info.char_list[index]
        taken = name in team or info.char_homonymy_map.get(name) in team
        if not taken and name not in info.char_forbidden_list:
            team.append(name)
    return tuple(team[:_MOST_CHARACTERS])


def _env_settings(settings: DiambraSettings) -> Any:
    fields: dict[str, Any] = {name: getattr(settings, name) for name in _SAME_NAME}
    space = SpaceTypes.Value(settings.action_space)
    teams = [
        tuple((team + [None] * _MOST_CHARACTERS)[:_MOST_CHARACTERS]) for team in players_characters(settings)
    ]
    role = None if settings.role is None else Roles.Value(settings.role)
    if settings.n_players == 1:
        own = {name: getattr(settings, name) for name in _PER_PLAYER}
        return EnvironmentSettings(**fields, **own, action_space=space, role=role, characters=teams[0])
    both = {name: (getattr(settings, name),) * 2 for name in _PER_PLAYER}
    other = None if role is None else Roles.P1 + Roles.P2 - role
    return EnvironmentSettingsMultiAgent(
        **fields, **both, action_space=(space, space), role=(role, other), characters=tuple(teams)
    )


def _wrappers(game_id: str, settings: DiambraSettings) -> Any:
    chosen = settings.wrappers_settings
    fields = chosen.model_dump() | {"filter_keys": filter_keys(game_id, chosen)}
    if settings.n_players == 2:
        # seats are told apart below "agent_0" and "agent_1", which the client only has with their actions
        fields |= {"add_last_action": True, "role_relative": True, "filter_keys": []}
    return ClientWrappers(**fields)


def _recording(settings: DiambraSettings, engine: EngineAddress) -> Any:
    chosen = settings.recording_settings
    if chosen.dataset_path is None:
        return ClientRecording()
    # a file is named after the second in which it is written: two engines would overwrite each other's
    folder = Path(chosen.dataset_path) / f"engine-{engine.rank}"
    return ClientRecording(dataset_path=str(folder), username=chosen.username)

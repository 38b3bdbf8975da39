"""Interface to the official client: converts settings and opens a game on an engine. Only this file imports it."""

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
_MAX_CHARACTERS = 3
_CALLS = ("EnvInit", "Reset", "Step", "Close")
_STEP = "/interface.EnvServer/Step"
_LARGEST_ANSWER = 4 * 1024 * 1024  # gRPC's limit in bytes


class InvalidAnswer(Exception):
    """An answer that is valid in the protocol but has impossible values."""


class TimeoutClient(Client):  # type: ignore[misc]  # it comes without types
    """The client's connection with a timeout of `timeout` seconds for every call. The client itself has no timeouts.

    Answers of steps are decoded by `AnswerReader`.
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
        self._describe, self.EnvInit = self.EnvInit, self._checked_description

    def _checked_description(self, settings: Any) -> Any:
        """Return the engine's description of its game, after checking the frame size it gives."""
        described = self._describe(settings)
        shape = described.frame_shape
        sides = (shape.h, shape.w, shape.c)
        if min(sides) < 1 or math.prod(sides) > _LARGEST_ANSWER:
            raise InvalidAnswer(f"frames of {' x '.join(map(str, sides))}")
        return described


interface.Client = TimeoutClient  # the client uses this name when it opens a game


def open_game(game_id: str, settings: DiambraSettings, engine: EngineAddress, render_mode: str | None) -> Any:
    """Open a game on `engine` with the wrappers of `settings`. Raises the client's errors."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(
            logging.NullHandler()
        )  # otherwise the client configures the logging of the whole process
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


def describe_failure(error: BaseException) -> str:
    """Describe the engine's failure that made the client raise `error`."""
    problem: BaseException | None = error
    while problem is not None and not isinstance(problem, grpc.RpcError | InvalidAnswer):
        problem = problem.__cause__ or problem.__context__
    if isinstance(problem, InvalidAnswer):
        return f"sent an invalid answer: {problem}"
    if problem is None:
        if isinstance(error.__cause__, grpc.FutureTimeoutError):
            return "accepts connections but does not speak the engine's protocol"
        return f"sent an invalid answer: {type(error).__name__}: {error}"
    code, details = problem.code(), problem.details() or ""
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return "hangs: it did not answer in time"
    if code is grpc.StatusCode.UNAVAILABLE:
        return f"is not available: {details}"
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return f"does not speak the engine's protocol: {details}"
    if "deserializ" in details or "larger than max" in details:
        return f"sent an invalid answer: {details}"
    return f"refused: {code.name}: {details}"


def draw_options(game: Any, settings: DiambraSettings, chance: np.random.Generator) -> dict[str, Any]:
    """Draw every setting of an episode that is not fixed.

    The client would draw them too. But it does not depend on the seed alone (it shuffles one list again and again, and
    ignores a repeated seed), and it reseeds the random numbers of the whole process.
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
    """Return the given characters, filled up with random others."""
    team = [name for name in names if name is not None]
    for index in chance.permutation(len(info.char_list)):
        name = info.char_list[index]
        taken = name in team or info.char_homonymy_map.get(name) in team
        if not taken and name not in info.char_forbidden_list:
            team.append(name)
    return tuple(team[:_MAX_CHARACTERS])


def _env_settings(settings: DiambraSettings) -> Any:
    fields: dict[str, Any] = {name: getattr(settings, name) for name in _SAME_NAME}
    space = SpaceTypes.Value(settings.action_space)
    teams = [
        tuple((team + [None] * _MAX_CHARACTERS)[:_MAX_CHARACTERS]) for team in players_characters(settings)
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
        # the client names the keys of each seat ("agent_0", "agent_1") only if they include the actions
        fields |= {"add_last_action": True, "role_relative": True, "filter_keys": []}
    return ClientWrappers(**fields)


def _recording(settings: DiambraSettings, engine: EngineAddress) -> Any:
    chosen = settings.recording_settings
    if chosen.dataset_path is None:
        return ClientRecording()
    # files are named after the second in which they are written: two engines would overwrite each other's files
    folder = Path(chosen.dataset_path) / f"engine-{engine.rank}"
    return ClientRecording(dataset_path=str(folder), username=chosen.username)

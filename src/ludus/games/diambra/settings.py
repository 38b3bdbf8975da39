"""Typed settings of a DIAMBRA env: those of the client, its wrappers and its recorder.

The names are the client's own. Everything is checked before an engine is used, including values that the client
accepts but handles wrongly (release 2.2.7).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator
from pydantic import model_validator as checked_together

from ludus.config.explain import explain
from ludus.errors import ConfigError, nearest
from ludus.games.diambra.games import find_game, get_filter_keys, known_keys
from ludus.games.diambra.polling import poll_in_calling_thread

Role = Literal["P1", "P2"]
ActionSpace = Literal["DISCRETE", "MULTI_DISCRETE"]
_LARGEST_FRAME = 512
_LARGEST_STACK = 48
_KEY = "env.kwargs"


def _name(value: Any) -> Any:
    """Return `SpaceTypes.MULTI_DISCRETE`, `Roles.P1` or `multi_discrete` as the plain name."""
    return value.rpartition(".")[2].upper() if isinstance(value, str) else value


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _side_length(value: int) -> int:
    if not 0 <= value <= _LARGEST_FRAME:
        raise ValueError(f"a side of a frame must be 0 (unchanged) to {_LARGEST_FRAME} pixels, got {value}")
    return value


FrameShape = Annotated[tuple[int, int, int], BeforeValidator(_listed)]
Characters = str | list[str | None] | None
NamedRole = Annotated[Role | None, BeforeValidator(_name)]
NamedSpace = Annotated[ActionSpace, BeforeValidator(_name)]
Style = Annotated[tuple[Literal[1, 2], Literal[1, 2], Literal[1, 2]], BeforeValidator(_listed)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=False, frozen=True)


def _checked_frame_shape(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    height, width, channels = shape
    if (_side_length(height) == 0) != (_side_length(width) == 0):
        raise ValueError(f"height and width must both be 0 (unchanged) or both be set, got {list(shape)}")
    if channels not in (0, 1):
        raise ValueError(f"the third number must be 0 (colours) or 1 (grey), got {channels}")
    return shape


class WrapperSettings(_Strict):
    """`wrappers_settings`: the client's wrappers of a game."""

    no_op_max: int = Field(default=0, ge=0, le=12)
    repeat_action: int = Field(default=1, ge=1, le=12)
    normalize_reward: bool = False
    normalization_factor: float = Field(default=0.5, gt=0, le=1_000_000)
    clip_reward: bool = False
    no_attack_buttons_combinations: bool = False
    frame_shape: FrameShape = (0, 0, 0)
    stack_frames: int = Field(default=1, ge=1, le=_LARGEST_STACK)
    dilation: int = Field(default=1, ge=1, le=_LARGEST_STACK)
    add_last_action: bool = False
    stack_actions: int = Field(default=1, ge=1, le=_LARGEST_STACK)
    scale: bool = False
    exclude_image_scaling: bool = False
    process_discrete_binary: bool = False
    role_relative: bool = False
    flatten: bool = Field(default=True, description="must be true: nested observations are not supported")
    filter_keys: list[str] | Literal["auto"] = Field(
        default=[], description="keys to keep; empty: all; auto: those of get_filter_keys"
    )
    wrappers: list[Any] = Field(
        default=[], description="must be empty: use env.wrappers for your own classes"
    )

    @field_validator("frame_shape")
    @classmethod
    def _whole_frame(cls, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        shape = _checked_frame_shape(shape)
        if any(shape) and not all(shape):
            raise ValueError(
                "the client's wrapper only works with height, width and 1 (grey); "
                f"use the frame_shape of the game instead, got {list(shape)}"
            )
        return shape

    @field_validator("no_op_max", "repeat_action")
    @classmethod
    def _unsupported_by_client(cls, value: int, info: Any) -> int:
        usual = 0 if info.field_name == "no_op_max" else 1
        if value != usual:
            instead = "env.frame_skip" if usual else "nothing: seeds vary the start"
            raise ValueError(
                f"the client's wrapper for it is broken (it expects the old Gym); use {instead}, got {value}"
            )
        return value

    @field_validator("flatten")
    @classmethod
    def _flat(cls, value: bool) -> bool:
        if not value:
            raise ValueError("nested observations are not supported; leave it out or set true, got false")
        return value

    @field_validator("wrappers")
    @classmethod
    def _no_own_classes(cls, value: list[Any]) -> list[Any]:
        if value:
            raise ValueError(f"use env.wrappers for your own classes, as module:Class, got {value}")
        return value

    @checked_together(mode="after")
    def _stack_actions_needs_last_action(self) -> WrapperSettings:
        if self.stack_actions > 1 and not self.add_last_action:
            raise ValueError(f"stack_actions: {self.stack_actions} needs add_last_action: true")
        return self


class RecordingSettings(_Strict):
    """`recording_settings`: files of episodes for imitation learning, written by the client (as pickles)."""

    dataset_path: str | None = None
    username: str | None = None


class DiambraSettings(_Strict):
    """The keyword arguments of a DIAMBRA env, with the client's defaults. `settings_for` builds it."""

    difficulty: int | None = Field(default=None, ge=1, description="null: random in each episode")
    characters: Characters | list[Characters] = Field(
        default=None, description="a name, or a list for a team; with n_players: 2 a list of two of these"
    )
    action_space: NamedSpace = "MULTI_DISCRETE"
    step_ratio: int = Field(default=6, ge=1, le=6, description="frames of the game per step")
    frame_shape: FrameShape = Field(
        default=(0, 0, 0), description="[height, width, 1 for grey]; 0: unchanged"
    )
    role: NamedRole = Field(default=None, description="P1 or P2; null: random in each episode")
    outfits: int = Field(default=1, ge=1)
    super_art: int | None = Field(default=None, ge=1, le=3)
    fighting_style: int | None = Field(default=None, ge=1, le=3)
    ultimate_style: Style | None = None
    speed_mode: int | None = Field(default=None, ge=1, le=2)
    continue_game: float = Field(default=0.0, le=1.0, description="a probability, or -N for N continues")
    show_final: bool = False
    tower: int | None = Field(default=3, ge=1, le=4)
    n_players: Literal[1, 2] = 1
    opponent: str = Field(
        default="random", description="the opponent at the other seat with n_players: 2: a bot, or a run"
    )
    disable_keyboard: bool = True
    disable_joystick: bool = True
    splash_screen: bool = False
    grpc_timeout: int = Field(default=60, ge=1, le=3600, description="seconds to wait for an engine's answer")
    wrappers_settings: WrapperSettings = WrapperSettings()
    recording_settings: RecordingSettings = RecordingSettings()

    @field_validator("frame_shape")
    @classmethod
    def _frame(cls, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        return _checked_frame_shape(shape)

    @checked_together(mode="after")
    def _opponent_needs_two_players(self) -> DiambraSettings:
        if "opponent" in self.model_fields_set and self.n_players == 1:
            raise ValueError(f"opponent: {self.opponent} needs n_players: 2")
        return self

    @field_validator("wrappers_settings", "recording_settings", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any) -> Any:
        return {} if value is None else value


def settings_for(game_id: str, kwargs: Mapping[str, Any]) -> DiambraSettings:
    """Parse `env.kwargs` for a game. ConfigError names the invalid key, UnknownName the game."""
    game = find_game(game_id)
    if "seed" in kwargs:
        raise ConfigError(
            "env.kwargs.seed cannot be set: every engine gets its own seed, derived from the seed of the run",
            key=f"{_KEY}.seed",
            fix="remove it here and set the seed of the run",
        )
    try:
        settings = DiambraSettings(**kwargs)
    except ValidationError as error:
        raise explain(error, DiambraSettings, prefix=_KEY.split(".")) from None
    for name, value, most in (
        ("difficulty", settings.difficulty, game.difficulties),
        ("outfits", settings.outfits, game.outfits),
        ("fighting_style", settings.fighting_style, 3 if game_id == "kof98umh" else 2),
    ):
        if value is not None and value > most:
            raise ConfigError(
                f"{name} of {game_id} must be 1 to {most}, got {value}",
                key=f"{_KEY}.{name}",
                fix=f"change {name}",
            )
    _check_characters(game_id, game.team, settings)
    _check_filter_keys(game_id, settings.wrappers_settings)
    return settings


def filter_keys(game_id: str, wrappers: WrapperSettings) -> list[str]:
    """Return the keys to keep, with `auto` resolved and always with `frame`; empty for all keys."""
    wanted = wrappers.filter_keys
    if wanted == "auto":
        known = set(known_keys(game_id, role_relative=True, last_action=wrappers.add_last_action))
        wanted = [key for key in get_filter_keys(game_id) if key in known]
        if not wrappers.role_relative:
            sides = {"own_": "P1_", "opp_": "P2_"}
            wanted = [sides.get(key[:4], key[:4]) + key[4:] for key in wanted]
    return sorted({*wanted, "frame"}) if wanted else []


def _check_filter_keys(game_id: str, wrappers: WrapperSettings) -> None:
    if wrappers.filter_keys == "auto":
        return
    known = known_keys(game_id, role_relative=wrappers.role_relative, last_action=wrappers.add_last_action)
    for key in wrappers.filter_keys:
        if key in known:
            continue
        hint = ""
        if key[:4] in ("own_", "opp_") and not wrappers.role_relative:
            hint = "own_ and opp_ need wrappers_settings.role_relative: true; "
        elif key == "action":
            hint = "action needs wrappers_settings.add_last_action: true; "
        close = nearest(key, known)
        raise ConfigError(
            f"an observation of {game_id} has no key '{key}'"
            + (f"; did you mean '{close}'?" if close else ""),
            key=f"{_KEY}.wrappers_settings.filter_keys",
            fix=f"{hint}known: {', '.join(known)}",
        )


def players_characters(settings: DiambraSettings) -> list[list[str | None]]:
    """Return per player the names of its team that are set."""
    given: Any = settings.characters
    players = [given] if settings.n_players == 1 else ([None, None] if given is None else given)
    return [list(team) if isinstance(team, list) else [team] for team in players]


def _check_characters(game_id: str, team: int, settings: DiambraSettings) -> None:
    """Check names against the client's list, if the client is installed; it is when a game is played."""
    key = f"{_KEY}.characters"
    given = settings.characters
    if settings.n_players == 2 and given is not None and not (isinstance(given, list) and len(given) == 2):
        raise ConfigError(
            f"with n_players: 2, characters must be a list of two, got {given!r}",
            key=key,
            fix="give one for each player, or null for a random one",
        )
    known = _known_characters(game_id)
    for names in players_characters(settings):
        if len(names) > team:
            raise ConfigError(
                f"{game_id} has {team} characters per side, got {len(names)}",
                key=key,
                fix=f"give {team}",
            )
        for name in names:
            if known and name is not None and name not in known:
                close = nearest(str(name), known)
                raise ConfigError(
                    f"{game_id} has no character '{name}'",
                    key=key,
                    fix=f"did you mean '{close}'?" if close else f"known: {', '.join(known)}",
                )


def _known_characters(game_id: str) -> list[str]:
    poll_in_calling_thread()  # settings are checked before a game is opened: gRPC is not imported earlier
    try:
        from diambra.arena import available_games
    except ImportError:
        return []
    return [str(name) for name in available_games(False)[game_id]["char_list"]]

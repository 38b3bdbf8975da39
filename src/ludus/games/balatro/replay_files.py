"""Replay files: a game as its seed, its settings and its decisions, each with a hash of the visible state after it.

A file has one JSON object per line: the header, each decision, the result. It comes from anywhere, so sizes and values
are bounded, and nothing in it names code or a file. `replay.py` is about recordings of other programs, which hold
what was drawn instead of the seed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ludus.errors import UserError, shortened
from ludus.games.balatro.settings import BalatroSettings
from ludus.games.balatro.state import MAX_HAND
from ludus.runs.atomic import write_atomic

FORMAT: Literal["ludus-balatro-replay"] = "ludus-balatro-replay"
VERSION: Literal[1] = 1
MAX_BYTES = 64 << 20
MAX_DECISIONS = 100_000
MAX_CONSIDERED = 8
_MAX_LINE = 4096
_SMALL = 1 << 31

Model = TypeVar("Model", bound=BaseModel)
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
ActionIndex = Annotated[int, Field(ge=0, lt=_SMALL)]
MAX_ESTIMATE = 1e12
Weight = Annotated[float, Field(ge=-MAX_ESTIMATE, le=MAX_ESTIMATE)]
Amount = Annotated[int, Field(gt=-_SMALL, lt=_SMALL)]
Name = Annotated[str, Field(max_length=200)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class ReplayHeader(_Strict):
    """What the game is: its seed and settings, who played it, and the hash of its first state.

    `max_ante` is as in `BalatroSettings`, `actions` says how the indices of the decisions are meant.
    """

    format: Literal["ludus-balatro-replay"] = FORMAT
    version: Literal[1] = VERSION
    seed: Annotated[str, Field(pattern=r"^[1-9A-Z]{1,8}$")]
    deck: Name
    stake: Annotated[int, Field(ge=1, le=8)]
    max_ante: Annotated[int, Field(ge=1, lt=_SMALL)] | None
    max_hand: Annotated[int, Field(ge=5, le=MAX_HAND)]
    actions: Literal["cards", "moves"]
    policy: Name
    hash: Hash

    def settings(self) -> BalatroSettings:
        """Return the settings to play the game again, without a limit of steps that it could reach."""
        return BalatroSettings(
            self.deck,
            self.stake,
            self.max_ante,
            self.max_hand,
            max_steps=MAX_DECISIONS + 1,
            actions=self.actions,
        )


class ReplayDecision(_Strict):
    """One decision, and the hash of it and of the visible state after it.

    Optional, as far as the policy has them: its estimate of the return, and the actions that it considered most, each
    with its probability or its Q-value.
    """

    action: ActionIndex
    hash: Hash
    value: Weight | None = None
    probabilities: Annotated[list[tuple[ActionIndex, Weight]], Field(max_length=MAX_CONSIDERED)] | None = None
    q_values: Annotated[list[tuple[ActionIndex, Weight]], Field(max_length=MAX_CONSIDERED)] | None = None


class ReplayResult(_Strict):
    """How the game stood after the last decision. `over` is False for a game that was cut before its end."""

    over: bool
    won: bool
    ante: Amount
    round: Amount
    money: Amount
    lost_to: Name
    best_hand: Annotated[float, Field(ge=0)]
    decisions: Annotated[int, Field(ge=0, le=MAX_DECISIONS)]


class GameReplay(_Strict):
    """One game: its header, its decisions and its result."""

    header: ReplayHeader
    decisions: Annotated[Sequence[ReplayDecision], Field(max_length=MAX_DECISIONS)]
    result: ReplayResult

    def save(self, path: Path) -> None:
        """Write the replay to `path` atomically."""
        parts: list[_Strict] = [self.header, *self.decisions, self.result]
        write_atomic(
            path, "".join(part.model_dump_json(exclude_none=part is not self.header) + "\n" for part in parts)
        )


def load_replay(path: Path) -> GameReplay:
    """Return the replay in a file. UserError if it is not one, is damaged or too large."""
    lines = _lines(path)
    first = _object(lines[0], f"{path}, line 1")
    if first.get("format") != FORMAT:
        raise UserError(
            f"this is not a replay of a Balatro game: expected format {FORMAT!r}, "
            f"got {shortened(first.get('format'))}",
            where=f"{path}, line 1",
            fix="record one: ludus eval balatro-ppo --replays DIR; recordings of other programs: ludus balatro replay",
        )
    if first.get("version") != VERSION:
        raise UserError(
            f"unknown format version {shortened(first.get('version'))}: this Ludus reads version {VERSION}",
            where=f"{path}, line 1",
            fix="use the version of Ludus that recorded it, or record the game again",
        )
    header = _parse(ReplayHeader, lines[0], f"{path}, line 1")
    try:
        header.settings()
    except UserError as error:
        raise UserError(error.what, where=f"{path}, line 1", fix=error.fix or _FIX) from None
    if len(lines) == 1 or "over" not in _object(lines[-1], f"{path}, line {len(lines)}"):
        raise UserError(
            "the replay has no result in its last line: it is incomplete",
            where=f"{path}, line {len(lines)}",
            fix=_FIX,
        )
    decisions = [
        _parse(ReplayDecision, line, f"{path}, line {number}") for number, line in enumerate(lines[1:-1], 2)
    ]
    result = _parse(ReplayResult, lines[-1], f"{path}, line {len(lines)}")
    return GameReplay(header=header, decisions=decisions, result=result)


_FIX = "record the game again, or get an intact copy of the file"


def _lines(path: Path) -> list[str]:
    """Return the lines of a file. UserError if it is not a file, too large, empty or not text."""
    if not path.is_file():
        what = "this is not a file" if path.exists() else "file not found"
        raise UserError(f"no replay here: {what}", where=str(path), fix="give the path of a replay file")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"cannot read the replay: {error.strerror}", where=str(path), fix=_FIX) from None
    if len(data) > MAX_BYTES:
        raise UserError(f"the replay is larger than {MAX_BYTES >> 20} MiB", where=str(path), fix=_FIX)
    try:
        lines = data.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"the replay is not UTF-8 text: {error}", where=str(path), fix=_FIX) from None
    if lines == [""]:
        raise UserError("the replay is empty", where=str(path), fix=_FIX)
    if len(lines) > MAX_DECISIONS + 2:
        raise UserError(f"the replay has more than {MAX_DECISIONS:,} decisions", where=str(path), fix=_FIX)
    return lines


def _object(line: str, where: str) -> dict[str, Any]:
    _check_length(line, where)
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"invalid JSON: {shortened(str(error))}", where=where, fix=_FIX) from None
    if not isinstance(found, dict):
        raise UserError(f"expected a JSON object, got {shortened(found)}", where=where, fix=_FIX)
    return found


def _check_length(line: str, where: str) -> None:
    if len(line) > _MAX_LINE:
        raise UserError(f"the line is longer than {_MAX_LINE:,} characters", where=where, fix=_FIX)


def _parse(model: type[Model], line: str, where: str) -> Model:
    _check_length(line, where)
    try:
        return model.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        given = "" if first["type"] == "missing" else f", got {shortened(first.get('input'))}"
        raise UserError(
            f"invalid replay: {place + ': ' if place else ''}{first['msg']}{given}", where=where, fix=_FIX
        ) from None

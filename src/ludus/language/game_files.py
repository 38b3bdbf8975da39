"""The games of a run on disk: one file for each update and each evaluation.

`games/SHA256SUMS` has the hash of each, as `sha256sum --check` reads it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ludus.league.records import MatchRecord
from ludus.plain_files import read_plain
from ludus.runs.atomic import write_atomic
from ludus.runs.directory import RunDirectory
from ludus.runs.manifest import file_digest
from ludus.tracking.following import is_number
from ludus.tracking.jsonl import JsonlWriter, read_jsonl
from ludus.tracking.logs import LogFile
from ludus.types import Metrics

FOLDER = "games"
SUMS = "SHA256SUMS"
_LARGEST_SUMS = 64 << 20
_NUMBER = re.compile("[0-9]{1,18}")
_SUM = re.compile(r"([0-9a-f]{64})  ((?:train|eval)/[0-9]{1,18}\.jsonl)\n")
COMPONENTS = ("collector", "learner", "league", "evaluation")

_log = logging.getLogger("ludus.training")


class GameTracker:
    """Writes the games of a language run and the logs of its parts."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        run.logs_dir.mkdir(parents=True, exist_ok=True)
        self._handlers = {
            name: LogFile(run.logs_dir / f"{name}.log", "%(asctime)s %(message)s") for name in COMPONENTS
        }
        for name, handler in self._handlers.items():
            component_log(name).addHandler(handler)
        self._sums, self._sums_damaged = _read_sums(run.path / FOLDER / SUMS)

    def get_checkpoint_dir(self) -> Path:
        return self._run.checkpoints_dir

    def get_train_dir(self) -> Path:
        return self._run.path / FOLDER / "train"

    def get_eval_dir(self) -> Path:
        return self._run.path / FOLDER / "eval"

    def log_learner(self, metrics: Metrics) -> None:
        """Write all values of an update to the learner's log; `metrics.jsonl` has them too."""
        shown = ", ".join(f"{name} {value:.6g}" for name, value in sorted(metrics.items()))
        component_log("learner").info(shown)

    def add_trajectory(self, update: int, matches: Iterable[MatchRecord]) -> None:
        """Write the games that update number `update` learned from."""
        self._write(self.get_train_dir() / f"{update:08d}.jsonl", matches)

    def add_eval_episode(self, update: int, matches: Iterable[MatchRecord]) -> None:
        """Write the games of the evaluation after update number `update`."""
        self._write(self.get_eval_dir() / f"{update:08d}.jsonl", matches)

    def forget_after(self, update: int) -> None:
        """Remove the games that a resumed run will play again."""
        for folder in (self.get_train_dir(), self.get_eval_dir()):
            for path in folder.glob("*.jsonl"):
                if _NUMBER.fullmatch(path.stem) and int(path.stem) > update:
                    path.unlink()
        self._sums = {name: digest for name, digest in self._sums.items() if int(Path(name).stem) <= update}
        self._rewrite_sums()

    def damage(self) -> list[str]:
        """Describe the game files that were changed since they were written; `forget_after` accepts them."""
        damage = [f"{FOLDER}/{SUMS} is damaged"] if self._sums_damaged else []
        found = {
            path.relative_to(self._run.path / FOLDER).as_posix(): path
            for folder in (self.get_train_dir(), self.get_eval_dir())
            for path in folder.glob("*.jsonl")
            if _NUMBER.fullmatch(path.stem)
        }
        for name in sorted(found.keys() | self._sums.keys()):
            if name not in self._sums:
                damage.append(f"{FOLDER}/{SUMS} does not know {FOLDER}/{name}")
                self._sums[name] = file_digest(found[name])
            elif name not in found:
                damage.append(f"{FOLDER}/{name} is missing, which {FOLDER}/{SUMS} knows")
                del self._sums[name]
            elif file_digest(found[name]) != self._sums[name]:
                damage.append(f"{FOLDER}/{name} is not what was written, by {FOLDER}/{SUMS}")
        return damage

    def close(self) -> None:
        for name, handler in self._handlers.items():
            component_log(name).removeHandler(handler)
            handler.close()

    def _write(self, path: Path, matches: Iterable[MatchRecord]) -> None:
        path.unlink(missing_ok=True)
        writer = JsonlWriter(path)
        with closing(writer):
            for match in matches:
                writer.write(plain_match(match))
        name = path.relative_to(self._run.path / FOLDER).as_posix()
        known = name in self._sums
        self._sums[name] = str(writer.extent.sha256)
        if known:
            self._rewrite_sums()
        else:
            with (self._run.path / FOLDER / SUMS).open("a", encoding="utf-8") as file:
                file.write(f"{self._sums[name]}  {name}\n")

    def _rewrite_sums(self) -> None:
        path = self._run.path / FOLDER / SUMS
        if path.exists():
            write_atomic(path, "".join(f"{digest}  {name}\n" for name, digest in self._sums.items()))


def component_log(name: str) -> logging.Logger:
    """Return the logger of one part of a run, which writes to its own file only."""
    logger = logging.getLogger(f"ludus.selfplay.{name}")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    return logger


def read_games(run: RunDirectory, kind: str = "train") -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield update number and match of every game written, in order; `kind` is train or eval.

    Rows that are not a match are skipped, with a warning for each file.
    """
    for path in sorted((run.path / FOLDER / kind).glob("*.jsonl")):
        if _NUMBER.fullmatch(path.stem):
            strange = 0
            for row in read_jsonl(path):
                if _is_match(row):
                    yield int(path.stem), row
                else:
                    strange += 1
            if strange:
                _log.warning("%s: %d rows are no games and were skipped", path, strange)


_TURN: dict[str, Any] = {
    "index": int,
    "observation": str,
    "text": str,
    "well_formed": bool,
    "invalid": bool,
    "truncated": bool,
    "prompt": [int],
    "completion": [int],
    "entropy": float,
    "reward_parts": {},
}
_MATCH: dict[str, Any] = {
    "match": int,
    "game": str,
    "seed": int,
    "players": [str],
    "rewards": [float],
    "reason": str,
    "cut_off": bool,
    "length": int,
    "moves": [[]],
    "turns": [_TURN],
}


def _is_match(row: Any) -> bool:
    """Return whether `row` has the fields of `plain_match` that are displayed: the file may be untrusted."""
    return _fits(row, _MATCH) and all(
        len(move) == 2
        and isinstance(move[0], int)
        and 0 <= move[0] < len(row["players"])
        and isinstance(move[1], str)
        for move in row["moves"]
    )


def _fits(value: Any, shape: Any) -> bool:
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(one, part) for part in shape for one in value)
    if isinstance(shape, dict):
        members = shape.items()
        return isinstance(value, dict) and all(_fits(value.get(name), part) for name, part in members)
    if shape is float:  # null: it was not finite
        return value is None or is_number(value)
    return isinstance(value, shape)


def _read_sums(path: Path) -> tuple[dict[str, str], bool]:
    """Return the hashes by file name, and whether a line could not be read."""
    try:
        lines = read_plain(path, _LARGEST_SUMS).decode("utf-8", "replace").splitlines(keepends=True)
    except FileNotFoundError:
        return {}, False
    except OSError:
        return {}, True
    found = [_SUM.fullmatch(line) for line in lines]
    return {match[2]: match[1] for match in found if match is not None}, None in found


def plain_match(match: MatchRecord) -> dict[str, Any]:
    """Return a match as plain data, with tokens and log-probabilities."""
    plain = asdict(match)
    for turn in plain["turns"]:
        for name in ("log_probs", "raw_log_probs"):
            turn[name] = [round(float(value), 6) for value in turn[name]]
    return plain

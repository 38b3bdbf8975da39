"""The checkpoints and videos that appear in a run directory while it trains, each told once."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ludus.plain_files import read_plain

_SETTLED_SECONDS = 1.0  # a checkpoint is marked best a moment after it was saved
_LARGEST_JSON = 1 << 20
_VIDEOS = (".mp4", ".gif", ".webm")


@dataclass(frozen=True)
class RunFile:
    """A checkpoint's directory, or a video."""

    kind: Literal["checkpoint", "video"]
    path: Path
    step: int
    best: bool = False
    """Of a checkpoint: it is the best so far."""


class RunFiles:
    """Looks for what is new in the run directory `run`; what `known` says is there already is no news."""

    def __init__(self, run: Path, *, known: bool = False) -> None:
        self._run = run
        self._told: set[tuple[str, int]] = set()
        if known:
            self.news(last=True)

    def news(self, *, last: bool = False) -> list[RunFile]:
        """What has appeared since the last look, oldest step first; `last` also takes what is a moment old."""
        best = self._best()
        found = []
        for path in [*self._entries("checkpoints"), *self._entries("videos")]:
            step = _step_of(path)
            kind: Literal["checkpoint", "video"] = "video" if path.suffix else "checkpoint"
            marker = path if kind == "video" else path / "MANIFEST.json"
            try:
                written = marker.stat().st_mtime_ns
            except OSError:
                continue  # taken away meanwhile
            if (str(path), written) in self._told or not (last or _is_settled(written)):
                continue
            self._told.add((str(path), written))
            found.append(RunFile(kind, path, step, best=kind == "checkpoint" and step == best))
        return sorted(found, key=lambda file: file.step)

    def _entries(self, folder: str) -> list[Path]:
        suffixes = _VIDEOS if folder == "videos" else ("",)
        try:
            names = os.listdir(self._run / folder)
        except OSError:
            return []
        paths = [self._run / folder / name for name in names if name[:1].isdigit()]
        return [path for path in paths if path.suffix in suffixes and not path.is_symlink()]

    def _best(self) -> int | None:
        try:
            text = read_plain(self._run / "checkpoints" / "best.json", _LARGEST_JSON)
            return int(json.loads(text)["checkpoint"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None


def _step_of(path: Path) -> int:
    digits = path.stem.split(".")[0].split("-")[0].split("_")[0]
    return int(digits) if digits.isdecimal() else 0


def _is_settled(written_ns: int) -> bool:
    return time.time() - written_ns / 1e9 >= _SETTLED_SECONDS

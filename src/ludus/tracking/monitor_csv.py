"""Episodes as Stable-Baselines3's Monitor writes them (`r,l,t`), for tools that read `monitor.csv`.

The file follows `episodes.jsonl` and is rewritten when a run is opened. A resumed run truncates the
episodes to its checkpoint, so each of them occurs once.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from ludus.tracking.tracker import RowValue


class MonitorCsv:
    """Writes the rows of `episodes` to `path` whenever a metrics row is taken.

    `t` is the training time at the first metrics row after the episode's end.
    """

    def __init__(self, path: Path, episodes: Path, env_id: str) -> None:
        self._path = path
        self._episodes = episodes
        self._env_id = env_id
        self._read = 0
        self._file: IO[str] | None = None

    def row(self, row: Mapping[str, RowValue], step: int) -> None:
        """Copy the episodes that have ended since the last row with a time."""
        seconds = row.get("time/seconds")
        if seconds is None:
            return
        if self._file is None:  # only now: a resumed run has truncated its episodes
            self._file = self._begin()
        with self._episodes.open("rb") as source:
            source.seek(self._read)
            lines = source.read().splitlines(keepends=True)
        for line in lines:
            if not line.endswith(b"\n"):
                break  # incomplete line: complete at the next call
            self._read += len(line)
            # skip an invalid row, as in an edited file
            with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
                episode = json.loads(line)
                self._file.write(f"{float(episode['reward'])},{int(episode['length'])},{seconds}\n")
        self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _begin(self) -> IO[str]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("w", encoding="utf-8")
        file.write(f"#{json.dumps({'t_start': time.time(), 'env_id': self._env_id})}\nr,l,t\n")
        return file

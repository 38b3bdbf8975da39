"""latest.json, best.json and pins.json: small files next to the checkpoints that refer to some of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ludus.errors import CheckpointError
from ludus.plain_files import is_refusal, read_plain
from ludus.runs import atomic, strict_json

_LARGEST = 4 << 20


def checkpoint_name(step: int) -> str:
    """The directory name of a step's checkpoint: 12 digits, so that names sort like steps."""
    if step < 0:
        raise ValueError(f"a step is zero or more, not {step}")
    return f"{step:012d}"


def step_of(name: str) -> int | None:
    """Return the step of a checkpoint's name, None if it is not such a name."""
    if not re.fullmatch(r"[0-9]{12,18}", name) or checkpoint_name(int(name)) != name:
        return None
    return int(name)


class Hints:
    """Reads and writes the hint files in `directory`. A damaged one is a CheckpointError that names it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def best(self) -> int | None:
        """The step of the checkpoint marked best, None if none is."""
        hint = self._read("best.json")
        return None if hint is None else self._step("best.json", hint.get("checkpoint"))

    def best_score(self) -> tuple[str, float] | None:
        """The metric that made the best checkpoint best, and its value; None if none is marked."""
        hint = self._read("best.json")
        if hint is None:
            return None
        metric, value = hint.get("metric"), hint.get("value")
        if not isinstance(metric, str) or not isinstance(value, int | float):
            raise self._damaged("best.json", "it has no metric with a value")
        return metric, float(value)

    def set_best(self, step: int, metric: str, value: float) -> None:
        self._write("best.json", {"checkpoint": checkpoint_name(step), "metric": metric, "value": value})

    def forget_best(self) -> None:
        self._remove("best.json")

    def damaged(self) -> list[CheckpointError]:
        """Return the errors in the three files."""
        found: dict[str, CheckpointError] = {}
        for filename, read in (
            ("latest.json", self.latest),
            ("best.json", self.best_score),
            ("best.json", self.best),
            ("pins.json", self.pinned),
        ):
            try:
                read()
            except CheckpointError as error:
                found[filename] = error
        return list(found.values())

    def latest(self) -> int | None:
        """The step that latest.json names."""
        hint = self._read("latest.json")
        return None if hint is None else self._step("latest.json", hint.get("checkpoint"))

    def set_latest(self, step: int, *, exact: bool) -> None:
        self._write("latest.json", {"checkpoint": checkpoint_name(step), "exact": exact})

    def forget_latest(self) -> None:
        self._remove("latest.json")

    def pinned(self) -> set[int]:
        """The steps of the pinned checkpoints."""
        hint = self._read("pins.json")
        names = [] if hint is None else hint.get("checkpoints")
        if not isinstance(names, list):
            raise self._damaged("pins.json", "it has no list of checkpoints")
        return {self._step("pins.json", name) for name in names}

    def set_pinned(self, steps: set[int]) -> None:
        self._write("pins.json", {"checkpoints": [checkpoint_name(step) for step in sorted(steps)]})

    def _read(self, filename: str) -> dict[str, Any] | None:
        try:
            return strict_json.loads_sealed(read_plain(self._directory / filename, _LARGEST).decode("utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            if is_refusal(error):
                raise
            raise self._damaged(filename, str(error)) from error

    def _write(self, filename: str, hint: dict[str, Any]) -> None:
        atomic.write_atomic(self._directory / filename, strict_json.dumps_sealed(hint))

    def _remove(self, filename: str) -> None:
        if (self._directory / filename).exists():
            atomic.remove(self._directory / filename)

    def _step(self, filename: str, name: object) -> int:
        step = step_of(name) if isinstance(name, str) else None
        if step is None:
            raise self._damaged(filename, f"{name!r} is not a checkpoint's name")
        return step

    def _damaged(self, filename: str, reason: str) -> CheckpointError:
        return CheckpointError(
            f"{filename} is damaged: {reason}",
            where=str(self._directory),
            fix="fix the file, or delete it",
        )

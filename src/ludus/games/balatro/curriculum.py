"""A curriculum for games that are stepped together: one difficulty, the last ante, raised by their successes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any


class AnteCurriculum:
    """Counts as `CurriculumWrapper` does, over the episodes of all games: the same keys, the same rule."""

    def __init__(
        self,
        initial: float = 1.0,
        increment: float = 1.0,
        maximum: float | None = 8.0,
        success_threshold: float = 0.8,
        window: int = 20,
        success: float | None = None,
    ) -> None:
        """`success` is read by the wrapper only: here a run that was won is one."""
        self.difficulty = initial
        self._increment = increment
        self._maximum = maximum
        self._threshold = success_threshold
        self._outcomes: deque[bool] = deque(maxlen=window)

    def record(self, succeeded: bool) -> None:
        """An episode ended."""
        self._outcomes.append(succeeded)
        full = len(self._outcomes) == self._outcomes.maxlen
        if full and sum(self._outcomes) / len(self._outcomes) >= self._threshold:
            raised = self.difficulty + self._increment
            self.difficulty = raised if self._maximum is None else min(raised, self._maximum)
            self._outcomes.clear()

    def state_dict(self) -> dict[str, Any]:
        """What must be saved with a checkpoint, as JSON."""
        return {"difficulty": self.difficulty, "outcomes": list(self._outcomes)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from `state_dict`'s answer."""
        self.difficulty = float(state["difficulty"])
        self._outcomes.clear()
        self._outcomes.extend(bool(outcome) for outcome in state["outcomes"])

"""The display of a running sweep: the running trials and the best so far, or a line per trial."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from ludus.experiments.comparison.live import LiveDisplay, progress_bar
from ludus.experiments.sweep.running import SweepWork
from ludus.experiments.sweep.study import Sweep
from ludus.tracking.progress import duration, number

_STATES = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "saved"}
_LOOKS = {"COMPLETE": "green", "PRUNED": "yellow", "FAIL": "bold red", "RUNNING": "yellow"}


class SweepDisplay(LiveDisplay):
    """Displays the progress of `run_sweep`."""

    unit = "trials"

    def __init__(self, console: Console, quiet: bool = False) -> None:
        super().__init__(console, quiet)
        self._working: dict[str, SweepWork] = {}
        self._counts: dict[str, int] = {}
        self._best: tuple[int, float] | None = None
        self._total = 0

    # Events

    def begin(self, sweep: Sweep, total: int, jobs: int) -> None:
        self._total = total
        for trial in sweep.trials():
            self._counts[trial.state.name] = self._counts.get(trial.state.name, 0) + 1
        best = sweep.best()
        if best is not None and best.value is not None:
            self._best = (best.number, best.value)
        self._print(Text.assemble("  ", ("sweep", "dim"), f"  {sweep.path}"))
        names = Text(f"  tries  {', '.join(map(short, sweep.space))}")
        names.stylize("dim", 2, 7)
        lines = names.wrap(self._console, max(self._console.width - 10, 40))
        for index, line in enumerate(lines):
            self._print(Text(" " * 9 if index else "").append_text(line))
        there = len(sweep.trials())
        if there:
            self._print(Text(f"  {there} of {total} trials already exist", "dim"))
        if self._quiet or not self._console.is_terminal or there >= total:
            return
        self._redraw_from_now()

    def started(self, work: SweepWork) -> None:
        self._working[work.job.name] = work
        self._counts.pop("RUNNING", None)  # those from the start are resumed, or belong to another process

    def ended(self, work: SweepWork, state: str, value: float | None, error: str | None) -> None:
        self._working.pop(work.job.name, None)
        self._counts[state] = self._counts.get(state, 0) + 1
        if state == "COMPLETE" and value is not None and (self._best is None or value > self._best[1]):
            self._best = (work.trial.number, value)
        score = f"  {number(value)}" if value is not None else ""
        text = Text.assemble("  ", f"trial {work.trial.number:<4d}", (f"{_STATES[state]:9}", _LOOKS[state]))
        text.append(f"{score:>9}  ")
        text.append(error or in_words(work.trial.settings), "" if error else "dim")
        if self._console.is_terminal:
            text.truncate(self._console.width - 1, overflow="ellipsis")
        self._print(text)

    def waiting(self, others: int) -> None:
        """Show that no trial is left to start, and that `others` trials run in other processes."""
        note = f"waiting for {others} trial{'s' * (others > 1)} of other processes" if others else ""
        if note and note != self._note:
            self._line(note)
        self._note = note

    # Drawing

    def drawing(self) -> RenderableType:
        lines = [Text()]
        for work in list(self._working.values()):
            score = work.watch.number()
            line = Text(f"  trial {work.trial.number:<4d}")
            line.append_text(progress_bar(work.watch.fraction))
            line.append(f"{'' if score is None else number(score):>8}  ", "bold")
            line.append("pruning" if work.pruned else in_words(work.trial.settings), "dim")
            lines.append(line)
        lines.append(self._totals())
        for line in lines:
            line.truncate(self._console.width - 1, overflow="ellipsis")
        return Group(*lines)

    def _totals(self) -> Text:
        done = sum(self._counts.get(state, 0) for state in ("COMPLETE", "PRUNED", "FAIL"))
        parts = [f"{done} of {self._total} trials"]
        parts += [
            f"{self._counts[state]} {_STATES[state]}"
            for state in ("PRUNED", "FAIL")
            if self._counts.get(state)
        ]
        parts.append(f"{duration(time.monotonic() - self._started)} elapsed")
        text = Text("  " + "   ".join(parts))
        if self._best is not None:
            text.append(f"   best {number(self._best[1])} (trial {self._best[0]})", "bold")
        if self._note:
            text.append(f"   {self._note}", "yellow")
        return text


def short(key: str) -> str:
    """Return a config key without the part that all keys of a sweep share."""
    return key.removeprefix("hyperparams.")


def in_words(settings: Mapping[str, Any]) -> str:
    """Return the settings of a trial on one line."""
    return "  ".join(
        f"{short(key)}={number(value) if isinstance(value, float) else value}"
        for key, value in settings.items()
    )

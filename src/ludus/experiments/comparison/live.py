"""The display of a running comparison: a table that is redrawn, or one line per event without a terminal."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ludus.experiments.comparison.plan import Comparison, Experiment, Task
from ludus.experiments.experiment import RunResult
from ludus.experiments.processes.watch import RunWatch
from ludus.tracking.progress import duration, number

_REDRAWS_PER_SECOND = 4
_BAR = 16
_SEEDS_SHOWN = 24
_MARKS = {
    "finished": ("●", "green"),
    "stopped": ("●", "green"),
    "failed": ("✗", "bold red"),
    "interrupted": ("◌", "yellow"),
    "running": ("◐", "cyan"),
    "waiting": ("·", "bright_black"),
}


class LiveDisplay(ABC):
    """Shows `drawing` on `console` if it is a terminal, otherwise lines; `quiet` shows nothing."""

    unit: str
    """Name of the counted items: "runs" or "trials"."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._live: Live | None = None
        self._note = ""
        self._started = time.monotonic()

    @abstractmethod
    def drawing(self) -> RenderableType:
        """Return the current state, for the next redraw."""

    def __rich__(self) -> RenderableType:
        return self.drawing()

    def stopping(self) -> None:
        self._note = f"stopping: the {self.unit} save a checkpoint first (Ctrl-C again to end at once)"
        self._line(self._note)

    def close(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()

    def _redraw_from_now(self) -> None:
        self._print(Text())
        self._live = Live(
            self,
            console=self._console,
            refresh_per_second=_REDRAWS_PER_SECOND,
            redirect_stdout=not self._console.stderr,
        )
        self._live.start()

    def _line(self, text: str) -> None:
        if self._live is None:
            self._print(Text(f"  {text}"))

    def _print(self, text: Text) -> None:
        if not self._quiet:
            self._console.print(text, soft_wrap=True)


class ComparisonDisplay(LiveDisplay):
    """Displays the progress of `run_comparison`."""

    unit = "runs"

    def __init__(self, console: Console, quiet: bool = False) -> None:
        super().__init__(console, quiet)
        self._results: dict[str, RunResult] = {}
        self._watches: dict[str, RunWatch] = {}
        self._experiments: list[Experiment] = []
        self._runs = 0
        self._done_at_start = 0.0

    # Events

    def begin(self, comparison: Comparison, done: Sequence[tuple[Task, RunResult]], jobs: int) -> None:
        self._experiments = comparison.experiments
        self._runs = len(comparison.tasks())
        self._results = {task.name: result for task, result in done}
        self._started = time.monotonic()
        self._done_at_start = float(len(done))
        where = Text.assemble("  ", ("comparison", "dim"), f"  {comparison.path}")
        self._print(where)
        if done:
            rest = self._runs - len(done)
            self._print(Text(f"  {len(done)} of {self._runs} runs are already finished, {rest} left", "dim"))
        if len(done) == self._runs or self._quiet or not self._console.is_terminal:
            return
        self._redraw_from_now()

    def started(self, task: Task, watch: RunWatch) -> None:
        self._watches[task.name] = watch
        self._line(f"{task.name}: started")

    def polled(self) -> None:
        """Do nothing: the table redraws itself."""

    def ended(self, task: Task, result: RunResult) -> None:
        self._watches.pop(task.name, None)
        self._results[task.name] = result
        count = f"({sum(result.ended for result in self._results.values())}/{self._runs})"
        if result.status == "failed":
            log = _log_of(task, result)
            self._print(Text.assemble("  ", ("failed", "bold red"), f"  {task.name}: {result.error}"))
            self._print(Text(f"          {log}", "dim"))
        else:
            score = "" if result.score is None else f", reward {number(result.score)}"
            self._line(
                f"{task.name}: {result.status}{score}, {result.steps:,} steps in "
                f"{duration(result.seconds)}  {count}"
            )

    # Drawing

    def drawing(self) -> RenderableType:
        """Return the table with a line of totals below it."""
        wide = self._console.width >= 90
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", show_edge=False)
        table.add_column("  experiment", no_wrap=True)
        table.add_column("seeds", no_wrap=True)
        table.add_column("", no_wrap=True)
        for column in ("steps", "reward", "steps/s") if wide else ("steps", "reward"):
            table.add_column(column, justify="right", no_wrap=True)
        for experiment in self._experiments:
            table.add_row(*self._row(experiment, wide))
        return Group(table, Text(), self._totals())

    def _row(self, experiment: Experiment, wide: bool) -> list[Text]:
        tasks = [Task(experiment, seed) for seed in experiment.seeds]
        results = [self._results[task.name] for task in tasks if task.name in self._results]
        watches = [self._watches[task.name] for task in tasks if task.name in self._watches]
        scores = [result.score for result in results if result.score is not None]
        scores += [score for watch in watches if (score := _newest_reward(watch)) is not None]
        steps = sum(result.steps for result in results) + sum(watch.steps for watch in watches)
        speeds = [fps for watch in watches if (fps := watch.number("time/fps")) is not None]
        share = self._done(tasks) / len(tasks)
        row = [
            Text(f"  {experiment.key}"),
            self._marks(tasks),
            progress_bar(share),
            Text(f"{steps:,}" if steps else ""),
            Text(number(sum(scores) / len(scores)) if scores else "", "bold"),
            Text(f"{sum(speeds):,.0f}" if speeds else "", "dim"),
        ]
        return row if wide else row[:-1]

    def _marks(self, tasks: Sequence[Task]) -> Text:
        marks = Text()
        for task in tasks[:_SEEDS_SHOWN]:
            result = self._results.get(task.name)
            training = task.name in self._watches
            status = "running" if training else "waiting" if result is None else result.status
            mark, style = _MARKS.get(status, _MARKS["waiting"])
            marks.append(mark if not self._console.options.ascii_only else status[0], style)
        if len(tasks) > _SEEDS_SHOWN:
            marks.append(f" +{len(tasks) - _SEEDS_SHOWN}", "dim")
        return marks

    def _totals(self) -> Text:
        tasks = [Task(experiment, seed) for experiment in self._experiments for seed in experiment.seeds]
        ended = sum(result.ended for result in self._results.values())
        failed = sum(result.status == "failed" for result in self._results.values())
        elapsed = time.monotonic() - self._started
        parts = [f"{ended} of {self._runs} runs", f"{len(self._watches)} training"]
        if failed:
            parts.append(f"{failed} failed")
        parts.append(f"{duration(elapsed)} elapsed")
        done = self._done(tasks)
        if done > self._done_at_start + 0.05 and not self._note:
            left = elapsed / (done - self._done_at_start) * max(self._runs - failed - done, 0)
            parts.append(f"{duration(left)} left")
        text = Text("  " + "   ".join(parts))
        if self._note:
            text.append(f"   {self._note}", "yellow")
        return text

    def _done(self, tasks: Sequence[Task]) -> float:
        """Return the number of finished runs; a running one counts as a fraction."""
        done = 0.0
        for task in tasks:
            if task.name in self._watches:
                done += self._watches[task.name].fraction
            elif task.name in self._results and self._results[task.name].ended:
                done += 1.0
        return done


def _newest_reward(watch: RunWatch) -> float | None:
    evaluated = watch.number()
    return watch.number("rollout/ep_rew_mean") if evaluated is None else evaluated


def progress_bar(share: float) -> Text:
    """Return a progress bar with its percentage."""
    filled = round(share * _BAR)
    bar = Text("━" * filled, "cyan")
    bar.append("─" * (_BAR - filled), "bright_black")
    bar.append(f" {int(share * 100 + 1e-9):3d}%")
    return bar


def _log_of(task: Task, result: RunResult) -> Path:
    return result.run.parents[2] / "logs" / f"{task.experiment.key}_seed-{task.seed}.log"

"""Experiments side by side, as a table in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ludus.errors import printable
from ludus.experiments.experiment import ExperimentResult
from ludus.tracking.progress import duration, number

_LESS_NEEDED = ("mean ± std", "core time", "memory")


def print_comparison_table(
    results: Iterable[ExperimentResult] | Mapping[str, Any], console: Console | None = None
) -> None:
    """Print one line per algorithm, the best first.

    `results` are ExperimentResults, as `run_all` returns them (also by name), or a mapping of names to
    mappings of numbers, whose keys become the columns.
    """
    console = console or Console(highlight=False)
    values = list(results.values()) if isinstance(results, Mapping) else list(results)
    if values and all(isinstance(value, ExperimentResult) for value in values):
        console.print(comparison_table(values, console.width))
    elif isinstance(results, Mapping):
        console.print(_plain_numbers(results))


def comparison_table(results: Iterable[ExperimentResult], width: int = 120) -> Table:
    """The table of `print_comparison_table`; on a narrow screen it leaves out what can be missed."""
    ranked = sorted(results, key=_rank)
    several = len({result.env for result in ranked}) > 1
    table = _empty()
    table.add_column("experiment", no_wrap=True)
    if several:
        table.add_column("env", no_wrap=True)
    names = ("runs", "IQM", "95 % interval", "mean ± std", "best", "steps/s", "core time", "memory")
    shown = names if width >= 100 else tuple(name for name in names if name not in _LESS_NEEDED)
    for column in shown:
        table.add_column(column, justify="right", no_wrap=True)
    best = {env: next(one for one in ranked if one.env == env) for env in {one.env for one in ranked}}
    for result in ranked:
        iqm = result.iqm
        ended = sum(run.counts for run in result.runs)
        cells: dict[str, Text | str] = {
            "runs": Text(f"{ended}/{len(result.runs)}", "bold red" if result.error else ""),
            "IQM": Text("" if iqm is None else number(iqm.value), "bold"),
            "95 % interval": "" if iqm is None else f"{number(iqm.low)} to {number(iqm.high)}",
            "mean ± std": _mean(result),
            "best": "" if result.best_reward is None else number(result.best_reward),
            "steps/s": f"{result.fps:,.0f}" if result.training_time else "",
            "core time": duration(result.core_seconds),
            "memory": memory(result.peak_memory),
        }
        name = Text(
            printable(result.name), "bold green" if best[result.env] is result and iqm is not None else ""
        )
        table.add_row(name, *([result.env] if several else []), *(cells[column] for column in shown))
    return table


def memory(size: float) -> str:
    """`size` bytes in MB or GB; empty for nothing."""
    if not size:
        return ""
    return f"{size / 1e6:,.0f} MB" if size < 1e9 else f"{size / 1e9:.2f} GB"


def _rank(result: ExperimentResult) -> tuple[str, bool, float]:
    return (result.env, result.iqm is None, 0.0 if result.iqm is None else -result.iqm.value)


def _mean(result: ExperimentResult) -> str:
    if result.mean_reward is None:
        return ""
    spread = "" if result.std_reward is None else f" ± {number(result.std_reward)}"
    return f"{number(result.mean_reward)}{spread}"


def _plain_numbers(results: Mapping[str, Mapping[str, Any]]) -> Table:
    table = _empty()
    columns = list(dict.fromkeys(column for values in results.values() for column in values))
    table.add_column("algorithm", no_wrap=True)
    for column in columns:
        table.add_column(str(column), justify="right", no_wrap=True)
    for name, values in results.items():
        cells = [values.get(column) for column in columns]
        table.add_row(
            str(name),
            *(number(cell) if isinstance(cell, int | float) else str(cell or "") for cell in cells),
        )
    return table


def _empty() -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", show_edge=False)

"""Tables of experiments in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ludus.errors import NONE, UserError, printable, require_types, shortened
from ludus.experiments.experiment import ExperimentResult
from ludus.tracking.progress import PlainConsole, duration, mean_and_spread, number

_NAMES = ("name", "algorithm")
_SAME_BUDGET = 1.02  # tolerance for the last vector step of a run
_LESS_NEEDED = ("mean ± std", "core time", "memory")


def print_comparison_table(
    results: Iterable[Any] | Mapping[str, Any], console: Console | None = None
) -> None:
    """Print one line per algorithm, the best first.

    `results` are ExperimentResults, as `run_all` returns them (also by name), or mappings of numbers, whose keys become
    the columns: by name, or in a list, each with its `name` or `algorithm`. UserError for anything else.
    """
    require_types(
        "print_comparison_table", results=(results, (Iterable,)), console=(console, (Console, NONE))
    )
    console = console or PlainConsole()
    values = list(results.values()) if isinstance(results, Mapping) else list(results)
    if values and all(isinstance(value, ExperimentResult) for value in values):
        console.print(comparison_table(values, console.width))
    else:
        console.print(_plain_numbers(_by_name(results if isinstance(results, Mapping) else values)))


def comparison_table(results: Iterable[ExperimentResult], width: int = 120) -> Table:
    """Return the table of `print_comparison_table`; on a narrow screen with fewer columns."""
    ranked = sorted(results, key=_rank)
    several = len({result.env for result in ranked}) > 1
    table = _empty()
    table.add_column("experiment", no_wrap=True)
    if several:
        table.add_column("env", no_wrap=True)
    names = ("runs", "steps", "IQM", "95 % interval", "mean ± std", "best", "steps/s", "core time", "memory")
    shown = names if width >= 100 else tuple(name for name in names if name not in _LESS_NEEDED)
    for column in shown:
        table.add_column(column, justify="right", no_wrap=True)
    best = {env: next(one for one in ranked if one.env == env) for env in {one.env for one in ranked}}
    for result in ranked:
        iqm = result.iqm
        ended = sum(run.counts for run in result.runs)
        cells: dict[str, Text | str] = {
            "runs": Text(f"{ended}/{len(result.runs)}", "bold red" if result.error else ""),
            "steps": f"{result.steps_per_run:,}" if result.steps_per_run else "",
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


def _by_name(results: Mapping[str, Any] | list[Any]) -> dict[str, Mapping[str, Any]]:
    """Return rows of numbers by their names. UserError if there are no rows."""
    if isinstance(results, Mapping):
        rows = {str(name): row for name, row in results.items()}
    else:
        rows = {}
        for index, row in enumerate(results):
            label = (
                next((row[key] for key in _NAMES if key in row), None) if isinstance(row, Mapping) else None
            )
            rows[str(label or index + 1)] = row
    if not rows or not all(isinstance(row, Mapping) for row in rows.values()):
        raise UserError(
            f"nothing to compare in {shortened(results)}",
            where="print_comparison_table(…)",
            fix='pass the results of run_all(), or {"PPO": {"mean_reward": 12.5}}',
        )
    return {name: {key: row[key] for key in row if key not in _NAMES} for name, row in rows.items()}


def budget_note(results: Iterable[ExperimentResult]) -> str | None:
    """Return a note if the ranked experiments were trained for different numbers of steps, otherwise None."""
    steps = {one.name: one.steps_per_run for one in results if one.steps_per_run}
    if not steps or max(steps.values()) <= _SAME_BUDGET * min(steps.values()):
        return None
    shown = ", ".join(f"{printable(name)} {count:,}" for name, count in steps.items())
    return (
        f"different budgets (steps of each run: {shown}): a run ends with the update that reaches its total"
    )


def memory(size: float) -> str:
    """Format `size` bytes in MB or GB; empty for 0."""
    if not size:
        return ""
    return f"{size / 1e6:,.0f} MB" if size < 1e9 else f"{size / 1e9:.2f} GB"


def _rank(result: ExperimentResult) -> tuple[str, bool, float]:
    return (result.env, result.iqm is None, 0.0 if result.iqm is None else -result.iqm.value)


def _mean(result: ExperimentResult) -> str:
    if result.mean_reward is None:
        return ""
    if result.std_reward is None:
        return number(result.mean_reward)
    return mean_and_spread(result.mean_reward, result.std_reward)


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

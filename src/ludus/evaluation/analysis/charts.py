"""The charts of a recording as plain data, for the page and for pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from gymnasium import spaces

from ludus.evaluation.analysis.recording import RecordedEpisode, Recording
from ludus.types import Array

MAX_LINES = 6  # of one chart
MAX_POINTS = 4_000
BINS = 40
MAX_CHOICES = 15
Kind = Literal["lines", "steps", "points", "bars", "bands"]


@dataclass(frozen=True)
class ChartSeries:
    """A named series of points. For bands, `y` is 1 where the signal is on."""

    name: str
    x: Array
    y: Array


@dataclass(frozen=True)
class AnalysisChart:
    """One pair of axes. `names` are labels at 0, 1, … of the y axis; `diagonal` adds the line where x equals y."""

    title: str
    x_label: str
    y_label: str
    kind: Kind
    series: tuple[ChartSeries, ...]
    names: tuple[str, ...] = ()
    diagonal: bool = False


@dataclass(frozen=True)
class Figure:
    """A group of charts. `stacked` ones share one x axis."""

    name: str
    title: str
    note: str
    charts: tuple[AnalysisChart, ...]
    stacked: bool = False


def figures_of(recording: Recording, max_episodes: int = 5) -> list[Figure]:
    """Return all charts. Each of the first `max_episodes` episodes also has a figure."""
    shown = recording.episodes[:max_episodes]
    figures = [_over_episode(recording, number, episode) for number, episode in enumerate(shown)]
    figures += [_phases(recording, shown), _actions(recording), _value(recording), _returns(recording)]
    return [figure for figure in figures if figure.charts]


def _over_episode(recording: Recording, number: int, episode: RecordedEpisode) -> Figure:
    rows, columns = episode.rows, recording.columns
    steps = columns["step"][rows]

    def series(name: str, column: str | None = None) -> ChartSeries:
        return ChartSeries(name, steps, columns[column or name][rows].astype(float))

    charts = [AnalysisChart("reward", "step", "", "lines", (series("reward"),))]
    if recording.has_values:
        pair = (series("value"), series("actual return", "discounted_return_to_go"))
        charts.append(AnalysisChart("value and discounted return to go", "step", "", "lines", pair))
    charts.append(_action_chart(recording, rows, steps))
    groups: dict[str, list[ChartSeries]] = {}
    contacts = []
    for signal, column in zip(recording.signals.signals, recording.signal_columns, strict=True):
        line = series(column)
        if signal.contact:
            contacts.append(line)
        else:
            groups.setdefault(signal.unit, []).append(line)
    for unit, lines_of_unit in groups.items():
        for first in range(0, len(lines_of_unit), MAX_LINES):
            lines = tuple(lines_of_unit[first : first + MAX_LINES])
            title = lines[0].name if len(lines) == 1 else f"signals in {unit}" if unit else "signals"
            charts.append(AnalysisChart(title, "step", unit, "lines", lines))
    if contacts:
        charts.append(
            AnalysisChart(
                "contacts", "step", "", "bands", tuple(contacts), tuple(contact.name for contact in contacts)
            )
        )
    return Figure(
        f"episode-{number + 1}",
        f"Episode {number + 1}",
        f"Seed {episode.seed}: return {episode.reward:,.2f} in {episode.length:,} steps, "
        + ("ended by the env." if episode.ended == "terminated" else "truncated by the time limit."),
        tuple(charts),
        stacked=True,
    )


def _action_chart(recording: Recording, rows: slice, steps: Array) -> AnalysisChart:
    names = recording.action_columns
    if isinstance(recording.action_space, spaces.Discrete):
        start, n = int(recording.action_space.start), int(recording.action_space.n)
        choices = recording.columns["action"][rows].astype(float) - start
        names = recording.signals.actions if n <= 12 else ()
        return AnalysisChart("action", "step", "", "steps", (ChartSeries("action", steps, choices),), names)
    lines = tuple(
        ChartSeries(name.removeprefix("action "), steps, recording.columns[name][rows].astype(float))
        for name in names[: 2 * MAX_LINES]
    )
    return AnalysisChart("actions", "step", "", "lines", lines)


def _phases(recording: Recording, shown: Sequence[RecordedEpisode]) -> Figure:
    columns = dict(zip(recording.signals.names, recording.signal_columns, strict=True))
    charts = []
    for signal in recording.signals.signals:
        if signal.rate_of not in columns:
            continue
        of, rate = (recording.columns[columns[name]] for name in (signal.rate_of, signal.name))
        lines = tuple(
            ChartSeries(f"episode {number + 1}", of[episode.rows], rate[episode.rows])
            for number, episode in enumerate(shown)
        )
        charts.append(AnalysisChart(f"{signal.rate_of}", signal.rate_of, signal.name, "lines", lines))
    return Figure(
        "phase-portraits",
        "Phase portraits",
        "Each quantity against its rate of change. A closed loop is a periodic movement, a point is standstill.",
        tuple(charts),
    )


def _actions(recording: Recording) -> Figure:
    space = recording.action_space
    charts = []
    for name in recording.action_columns[: 4 * MAX_LINES]:
        values = recording.columns[name].astype(float)
        if isinstance(space, spaces.Box):
            counts, edges = np.histogram(values, bins=BINS)
            x, y = (edges[:-1] + edges[1:]) / 2, counts / max(1, counts.sum())
            charts.append(
                AnalysisChart(
                    name.removeprefix("action "),
                    "value",
                    "share of steps",
                    "bars",
                    (ChartSeries(name, x, y),),
                )
            )
            continue
        choices, counts = np.unique(values, return_counts=True)
        order = np.arange(len(choices))
        title = name
        if len(choices) > MAX_CHOICES:
            order = np.argsort(-counts, kind="stable")[:MAX_CHOICES]
            title = f"{name}: the {MAX_CHOICES} most frequent of {len(choices)}"
        start = int(np.min(space.start)) if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) else 0
        names = recording.signals.actions if isinstance(space, spaces.Discrete) else ()
        labels = tuple(
            names[int(choice) - start] if int(choice) - start < len(names) else f"{choice:g}"
            for choice in choices[order]
        )
        bars = ChartSeries(name, np.arange(len(order)), counts[order] / counts.sum())
        charts.append(AnalysisChart(title, "choice", "share of steps", "bars", (bars,), labels))
    return Figure(
        "actions", "Actions", "How often each action was taken, over all recorded steps.", tuple(charts)
    )


def _value(recording: Recording) -> Figure:
    if not recording.has_values:
        return Figure("value", "", "", ())
    returns, value = (recording.columns[name] for name in ("discounted_return_to_go", "value"))
    every = max(1, len(value) // MAX_POINTS)
    points = ChartSeries("steps", returns[::every], value[::every])
    explained = explained_variance(value, returns)
    note = (
        f"The value estimate against the actual discounted return (gamma {recording.gamma:g}). It explains "
        f"{explained:.0%} of the variance. The estimate includes rewards after a time limit, the return does not."
    )
    chart = AnalysisChart("value", "discounted return to go", "value", "points", (points,), diagonal=True)
    return Figure("value", "Value against return", note, (chart,))


def _returns(recording: Recording) -> Figure:
    numbers = np.arange(1, len(recording.episodes) + 1)
    returns = ChartSeries("return", numbers, np.array(recording.rewards))
    lengths = ChartSeries(
        "length", numbers, np.array([float(episode.length) for episode in recording.episodes])
    )
    charts = (
        AnalysisChart("return", "episode", "", "bars", (returns,)),
        AnalysisChart("length", "episode", "steps", "bars", (lengths,)),
    )
    return Figure("returns", "Returns", "Return and length of every recorded episode.", charts)


def explained_variance(predicted: Array, actual: Array) -> float:
    """Return 1 for a perfect prediction, 0 for the mean as prediction; NaN if the true values are constant."""
    known = np.isfinite(predicted)
    variance = float(np.var(actual[known]))
    return float("nan") if variance == 0 else 1.0 - float(np.var(actual[known] - predicted[known])) / variance

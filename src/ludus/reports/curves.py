"""Figures of a report: one run smoothed over its raw values, several seeds as a band, episodes as quantiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import plotly.graph_objects as go
from scipy import stats

from ludus.reports.arranging import EVALUATION, SPREAD, Drawing
from ludus.reports.charts import COLORS, pale, style
from ludus.reports.page import draw
from ludus.reports.statistics import band, centred_average
from ludus.tracking.following import MetricSeries, thin
from ludus.types import Array

POINTS = 600
"""Maximum of one line; a screen cannot show more."""

_GRID = 200
_RESAMPLES = 500
_HEIGHT = 270
_FEW = 20  # up to this number, points are not smoothed


@dataclass(frozen=True)
class CurveLine:
    """One line of a figure: the runs of one config, one per seed."""

    name: str
    color: str
    runs: tuple[Mapping[str, MetricSeries], ...]
    episodes: int | None = None
    """Number of episodes of an evaluation."""


def draw_chart(drawing: Drawing, lines: Sequence[CurveLine]) -> str:
    """Return one figure as HTML, with its title; empty if `lines` have no data for it."""
    figure = _Figure()
    several = len(drawing.lines) > 1
    for position, (metric, label) in enumerate(drawing.lines.items()):
        for line in lines:
            found = [run[metric] for run in line.runs if metric in run and len(run[metric])]
            if not found:
                continue
            color = COLORS[position % len(COLORS)] if len(lines) == 1 and several else line.color
            name = label if len(lines) == 1 else f"{line.name} {label}".strip()
            if len(found) > 1:
                figure.add_band(found, name, color)
            elif metric == EVALUATION:
                spread = next((run.get(SPREAD) for run in line.runs if metric in run), None)
                figure.add_evaluations(found[0], spread, line.episodes, name, color)
            else:
                figure.add_smoothed(found[0], name, color, raw=len(lines) * len(drawing.lines) <= 4)
    if not figure.clocks:
        return ""
    return f"<div><h3>{escape(drawing.title)}</h3>{figure.html(legend=any(drawing.lines.values()))}</div>"


def draw_quantiles(title: str, series: MetricSeries) -> str:
    """Draw the distribution of single episodes over the training."""
    stretches = np.array_split(np.arange(len(series)), min(60, max(1, len(series) // 5)))
    steps = np.array([series.steps[part].mean() for part in stretches])
    quantiles = np.stack(
        [np.quantile(series.values[part], (0.05, 0.25, 0.5, 0.75, 0.95)) for part in stretches]
    )
    figure, color = _Figure(), COLORS[0]
    figure.add_between(steps, quantiles[:, 0], quantiles[:, 4], None, pale(color, 0.10), "")
    figure.add_between(steps, quantiles[:, 1], quantiles[:, 3], None, pale(color, 0.22), "")
    figure.add_line(steps, quantiles[:, 2], None, "median", color, 2)
    return f"<div><h3>{escape(title)}</h3>{figure.html()}</div>"


class _Figure:
    """A Plotly figure under construction, with the seconds of the points of each line."""

    def __init__(self) -> None:
        self.figure = go.Figure()
        self.clocks: list[Array | None] = []

    def add_smoothed(self, series: MetricSeries, name: str, color: str, *, raw: bool) -> None:
        """Add the values, and their centred average if there are many."""
        keep = thin(series.values, POINTS)
        steps, seconds = series.steps[keep], series.seconds[keep]
        if len(series) < _FEW:
            self.add_line(steps, series.values[keep], seconds, name, color, 2, markers=True)
            return
        if raw:
            self.add_line(steps, series.values[keep], seconds, "", pale(color, 0.3), 1)
        smooth = centred_average(series.values, smoothing_window(len(series)))
        self.add_line(steps, smooth[keep], seconds, name, color, 2)

    def add_evaluations(
        self, series: MetricSeries, spread: MetricSeries | None, episodes: int | None, name: str, color: str
    ) -> None:
        """Add means, with their 95 % intervals if the spread and the number of episodes are known."""
        if spread is not None and len(spread) == len(series) and episodes is not None and episodes > 1:
            half = stats.t.ppf(0.975, episodes - 1) * spread.values / np.sqrt(episodes - 1)
            low, high = series.values - half, series.values + half
            self.add_between(series.steps, low, high, series.seconds, pale(color), name)
        self.add_line(series.steps, series.values, series.seconds, name, color, 2, markers=len(series) < 100)

    def add_band(self, runs: Sequence[MetricSeries], name: str, color: str) -> None:
        """Add the interquartile mean over seeds with its bootstrap interval; a shorter run keeps its last value."""
        grid = np.unique(np.concatenate([series.steps for series in runs]))
        if len(grid) > _GRID:
            grid = grid[np.unique(np.linspace(0, len(grid) - 1, _GRID).astype(int))]
        window = smoothing_window(min(len(series) for series in runs))
        values = np.stack(
            [np.interp(grid, series.steps, centred_average(series.values, window)) for series in runs]
        )
        seconds = np.mean([np.interp(grid, series.steps, series.seconds) for series in runs], axis=0)
        middle, low, high = band(values, _RESAMPLES)
        self.add_between(grid, low, high, seconds, pale(color), name)
        self.add_line(grid, middle, seconds, name, color, 2, markers=len(grid) < _FEW)

    def add_line(
        self,
        steps: Array,
        values: Array,
        seconds: Array | None,
        name: str,
        color: str,
        width: int,
        *,
        markers: bool = False,
    ) -> None:
        """Add one line; without a name it is only a background."""
        self.figure.add_scatter(
            x=_whole(steps),
            y=_single(values),
            name=escape(name),
            mode="lines+markers" if markers else "lines",
            line={"color": color, "width": width},
            marker={"color": color, "size": 5},
            showlegend=bool(name),
            hoverinfo=None if width > 1 else "skip",
            hovertemplate="%{y:.5g}" if width > 1 else None,
            legendgroup=escape(name),
        )
        self.clocks.append(seconds)

    def add_between(
        self, steps: Array, low: Array, high: Array, seconds: Array | None, color: str, name: str
    ) -> None:
        """Fill the area between two lines."""
        self.figure.add_scatter(
            x=_whole(np.concatenate([steps, steps[::-1]])),
            y=_single(np.concatenate([high, low[::-1]])),
            mode="lines",
            fill="toself",
            fillcolor=color,
            line={"width": 0},
            hoverinfo="skip",
            showlegend=False,
            legendgroup=escape(name),
        )
        self.clocks.append(None if seconds is None else np.concatenate([seconds, seconds[::-1]]))

    def html(self, *, legend: bool = False) -> str:
        """Return the figure as HTML. `legend` is for lines that only this figure has; the page names the others."""
        style(self.figure, _HEIGHT)
        self.figure.update_layout(
            margin={"l": 48, "r": 12, "t": 26 if legend else 8, "b": 40},
            font_size=11.5,
            hovermode="x unified",
            showlegend=legend,
            xaxis_title={"text": "env steps", "font": {"size": 11}},
            yaxis_exponentformat="e",
        )
        return draw(self.figure, self.clocks)


def smoothing_window(count: int) -> int:
    """Return the window to average `count` values: a fiftieth of them, at least five, an odd number."""
    return 1 if count < _FEW else max(5, count // 50) | 1


def _single(values: Array) -> Array:
    """Return float32; values that are too large for it become gaps in the line."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    return np.where(np.isfinite(single), single, np.float32(np.nan))


def _whole(steps: Array) -> Array:
    """Return the steps in the smallest exact integer type."""
    rounded = np.rint(steps)
    return rounded.astype(np.int32) if len(steps) and np.abs(steps).max() < 2**31 else rounded

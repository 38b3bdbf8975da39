"""The same charts as PNG pictures, drawn by matplotlib: Plotly would need a browser."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ludus.errors import MissingExtra
from ludus.evaluation.analysis.charts import AnalysisChart, Figure
from ludus.reports.charts import COLORS, GRID, INK, PALE
from ludus.runs import atomic

_DPI = 110


def require_pictures() -> None:
    """Raise MissingExtra if pictures cannot be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("drawing PNG pictures", "plots") from None


def write_pictures(folder: Path, figures: Sequence[Figure]) -> list[Path]:
    """Write one picture for each figure, named after it."""
    require_pictures()
    return [_write(figure, folder / f"{figure.name}.png") for figure in figures]


def _write(figure: Figure, path: Path) -> Path:
    from matplotlib.figure import Figure as Sheet

    count = len(figure.charts)
    columns = 1 if figure.stacked else min(count, 3)
    rows = -(-count // columns)
    size = (10.5, 1.5 * rows + 0.9) if figure.stacked else (4.4 * columns, 3.4 * rows + 0.5)
    sheet = Sheet(figsize=size, layout="constrained")
    sheet.suptitle(figure.title, fontsize=13, color=INK)
    ratios = [0.45 if chart.kind == "bands" else 1.0 for chart in figure.charts] if figure.stacked else None
    axes = sheet.subplots(
        rows, columns, sharex=figure.stacked, squeeze=False, height_ratios=ratios if ratios else None
    )
    for index in range(rows * columns):
        ax = axes[index // columns][index % columns]
        if index >= count:
            ax.axis("off")
            continue
        _draw(ax, figure.charts[index])
        if _wants_legend(figure, index):
            ax.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        if not figure.stacked or index == count - 1:
            ax.set_xlabel(figure.charts[index].x_label, fontsize=9, color=PALE)
    picture = io.BytesIO()
    sheet.savefig(picture, dpi=_DPI, format="png")
    atomic.write_atomic(path, picture.getvalue())
    return path


def _wants_legend(figure: Figure, index: int) -> bool:
    """Return whether a chart has its own legend: stacked charts of several lines do, others share the last one's."""
    chart = figure.charts[index]
    several = len(chart.series) > 1 and chart.kind != "bands"
    return several and (figure.stacked or index == len(figure.charts) - 1)


def _draw(ax: Any, chart: AnalysisChart) -> None:
    ax.set_title(chart.title, fontsize=10, color=INK, loc="left")
    ax.set_ylabel(chart.y_label, fontsize=9, color=PALE)
    ax.tick_params(labelsize=8, colors=PALE)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(GRID)
    if chart.kind == "bands":
        for row, series in enumerate(chart.series):
            on = np.flatnonzero(np.diff(np.concatenate([[0.0], series.y != 0, [0.0]])))
            spans = [(series.x[0] + start, stop - start) for start, stop in on.reshape(-1, 2)]
            ax.broken_barh(spans, (row - 0.38, 0.76), color=COLORS[2])
        ax.set_ylim(len(chart.series) - 0.4, -0.6)
    else:
        ax.grid(color=GRID, linewidth=0.6)
        ax.set_axisbelow(True)
    for number, series in enumerate(chart.series if chart.kind != "bands" else ()):
        color = COLORS[number % len(COLORS)]
        if chart.kind == "bars":
            width = 0.85 * (float(np.diff(series.x).min()) if len(series.x) > 1 else 1.0)
            ax.bar(series.x, series.y, width=width, color=color, label=series.name)
        elif chart.kind == "points":
            ax.plot(series.x, series.y, ".", color=color, alpha=0.35, markersize=3, label=series.name)
        else:
            style = "steps-post" if chart.kind == "steps" else "default"
            ax.plot(series.x, series.y, color=color, linewidth=1.0, drawstyle=style, label=series.name)
    if chart.diagonal:
        ax.axline((0, 0), slope=1, color=PALE, linewidth=1, linestyle="--")
    if chart.names:
        ticks = {"labels": list(chart.names), "fontsize": 8}
        places = list(range(len(chart.names)))
        if chart.kind == "bars":
            turned = {"rotation": 40, "ha": "right"} if len(places) > 3 else {}
            ax.set_xticks(places, **ticks, **turned)
        else:
            ax.set_yticks(places, **ticks)

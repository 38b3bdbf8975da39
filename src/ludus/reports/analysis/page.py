"""The analysis of a policy as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ludus.evaluation.analysis.charts import AnalysisChart, ChartSeries, Figure
from ludus.reports.charts import COLORS, FONT, INK, PALE, pale
from ludus.reports.page import draw, html_page, section
from ludus.runs import atomic


def write_page(
    path: Path, title: str, subtitle: str, facts: Mapping[str, str], figures: Sequence[Figure]
) -> Path:
    """Write the page atomically. Single episodes are shown one at a time."""
    episodes = [figure for figure in figures if figure.stacked]
    parts = [_facts(facts), _one_at_a_time(episodes)]
    parts += [
        section(figure.title, figure.note, draw(plotted(figure))) for figure in figures if not figure.stacked
    ]
    atomic.write_atomic(path, html_page(title, subtitle, parts))
    return path


def _facts(facts: Mapping[str, str]) -> str:
    tiles = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for name, value in facts.items()
    )
    return f'<div class="tiles">{tiles}</div>'


def _one_at_a_time(figures: Sequence[Figure]) -> str:
    options = "".join(f"<option value={one.name}>{escape(one.title)}</option>" for one in figures)
    choice = f'<p><select id="which-episode" aria-label="episode">{options}</select></p>'
    bodies = "".join(
        f'<div data-episode="{one.name}"{" hidden" * (index > 0)}><p class="sub">{escape(one.note)}</p>'
        f"{draw(plotted(one))}</div>"
        for index, one in enumerate(figures)
    )
    return section("Over an episode", "", choice + bodies)


def plotted(figure: Figure) -> go.Figure:
    """Return the figure for Plotly."""
    count = len(figure.charts)
    columns = 1 if figure.stacked else min(count, 3)
    rows = -(-count // columns)
    heights = [0.45 if chart.kind == "bands" else 1.0 for chart in figure.charts] if figure.stacked else None
    drawn = make_subplots(
        rows=rows,
        cols=columns,
        shared_xaxes=figure.stacked,
        subplot_titles=[chart.title for chart in figure.charts],
        row_heights=heights,
        vertical_spacing=min(0.3 / rows, 0.045) if figure.stacked else min(0.5 / rows, 0.18),
        horizontal_spacing=0.08,
    )
    for index, chart in enumerate(figure.charts):
        place = {"row": index // columns + 1, "col": index % columns + 1}
        _draw(drawn, chart, place, _legend(drawn, figure, index, place))
        last = not figure.stacked or index == count - 1
        drawn.update_xaxes(title_text=chart.x_label if last else None, **place)
        drawn.update_yaxes(title_text=chart.y_label or None, **place)
    per_row = 150 if figure.stacked else 330
    drawn.update_layout(
        template="none",
        height=per_row * rows + 90,
        margin={"l": 64, "r": 150 if figure.stacked else 24, "t": 44, "b": 48},
        font={"family": FONT, "size": 12, "color": INK},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        hovermode="x unified" if figure.stacked else "closest",
        bargap=0.12,
    )
    drawn.update_annotations(font_size=13)
    drawn.update_xaxes(zeroline=False, ticks="")
    drawn.update_yaxes(zeroline=False, ticks="", automargin=True)
    return drawn


def _legend(drawn: go.Figure, figure: Figure, index: int, place: dict[str, int]) -> str | None:
    """Return the legend of a chart's series: one next to each stacked chart, otherwise one for all; None for none."""
    chart = figure.charts[index]
    if len(chart.series) < 2 or chart.kind == "bands":
        return None
    if not figure.stacked:
        drawn.update_layout(
            legend={
                "orientation": "h",
                "x": 1,
                "xanchor": "right",
                "y": 1,
                "yanchor": "top",
                "yref": "container",
            }
        )
        return "legend" if index == 0 else None
    name = "legend" if index == 0 else f"legend{index + 1}"
    top = drawn.get_subplot(place["row"], place["col"]).yaxis.domain[1]
    drawn.update_layout(
        {name: {"x": 1.01, "xanchor": "left", "y": top, "yanchor": "top", "font": {"size": 11}}}
    )
    return name


def _draw(drawn: go.Figure, chart: AnalysisChart, place: dict[str, int], legend: str | None) -> None:
    if chart.kind == "bands":
        drawn.add_heatmap(
            x=chart.series[0].x.astype(np.float32),
            z=np.stack([one.y for one in chart.series]).astype(np.float32),
            y=[one.name for one in chart.series],
            colorscale=[[0, pale("#808080", 0.12)], [1, COLORS[2]]],
            zmin=0,
            zmax=1,
            showscale=False,
            ygap=3,
            **place,
        )
        drawn.update_yaxes(autorange="reversed", **place)
        return
    for number, series in enumerate(chart.series):
        _add_series(drawn, chart, series, COLORS[number % len(COLORS)], legend, place)
    if chart.diagonal:
        both = np.concatenate([np.concatenate([one.x, one.y]) for one in chart.series])
        ends = np.array([np.nanmin(both), np.nanmax(both)], np.float32)
        line = {"color": PALE, "dash": "dash", "width": 1}
        drawn.add_scatter(
            x=ends, y=ends, mode="lines", line=line, hoverinfo="skip", showlegend=False, **place
        )
    if chart.names:
        ticks = {"tickvals": list(range(len(chart.names))), "ticktext": list(chart.names)}
        (drawn.update_xaxes if chart.kind == "bars" else drawn.update_yaxes)(**ticks, **place)


def _add_series(
    drawn: go.Figure,
    chart: AnalysisChart,
    series: ChartSeries,
    color: str,
    legend: str | None,
    place: dict[str, int],
) -> None:
    common: dict[str, Any] = {
        "x": series.x.astype(np.float32),  # half the size, and more digits than a screen shows
        "y": series.y.astype(np.float32),
        "name": series.name,
        "legendgroup": series.name,  # a click in the shared legend hides the series in all charts
        "showlegend": legend is not None,
        **place,
    }
    if legend is not None:
        common["legend"] = legend
    if chart.kind == "bars":
        drawn.add_bar(marker={"color": color}, **common)
    elif chart.kind == "points":
        drawn.add_scatter(mode="markers", marker={"color": color, "size": 4, "opacity": 0.4}, **common)
    else:
        shape = "hv" if chart.kind == "steps" else "linear"
        drawn.add_scatter(mode="lines", line={"color": color, "width": 1.4, "shape": shape}, **common)

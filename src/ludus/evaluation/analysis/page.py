"""The analysis as one HTML page that needs nothing else, Plotly included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs
from plotly.subplots import make_subplots

from ludus.evaluation.analysis.charts import Chart, Figure, Series
from ludus.runs import atomic

COLORS = ("#2563eb", "#d9730d", "#15803d", "#b0306a", "#7b4fb8", "#0e7490", "#a16207", "#5c6670")
GRID, PALE, INK = "#e4e7eb", "#616e7c", "#1f2933"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
_STYLE = f"""
:root {{ color-scheme: light; }}
* {{ box-sizing: border-box; }}
body {{ font: 15px/1.5 {FONT}; color: {INK}; background: #f5f7fa; margin: 0; }}
main {{ max-width: 1180px; margin: 0 auto; padding: 32px 20px 64px; }}
h1 {{ font-size: 26px; margin: 0 0 4px; }}
h2 {{ font-size: 17px; margin: 0 0 2px; }}
.sub {{ color: {PALE}; margin: 0 0 20px; }}
section {{ background: white; border: 1px solid {GRID}; border-radius: 10px; padding: 18px 20px; margin: 16px 0; }}
section p {{ color: {PALE}; font-size: 13px; margin: 0 0 8px; }}
.facts {{ display: flex; flex-wrap: wrap; gap: 10px 36px; margin: 0; }}
.facts dt {{ color: {PALE}; font-size: 12.5px; }}
.facts dd {{ margin: 0; font-size: 19px; font-variant-numeric: tabular-nums; }}
select {{ font: inherit; padding: 4px 8px; border: 1px solid {GRID}; border-radius: 6px; background: white; }}
[hidden] {{ display: none; }}
"""
# a plot that was hidden while the window changed its size learns of it when it is shown
_CHOOSE = """
document.querySelectorAll("select[data-shows]").forEach(function (select) {
  select.addEventListener("change", function () {
    document.querySelectorAll("[data-shown-by='" + select.dataset.shows + "']").forEach(function (part) {
      part.hidden = part.id !== select.value;
      if (part.hidden) return;
      part.querySelectorAll(".js-plotly-plot").forEach(function (plot) { Plotly.Plots.resize(plot); });
    });
  });
});
"""


def write_page(
    path: Path, title: str, subtitle: str, facts: Mapping[str, str], figures: Sequence[Figure]
) -> Path:
    """Write the page, whole or not at all. Single episodes are shown one at a time."""
    episodes = [figure for figure in figures if figure.stacked]
    parts = [_facts(facts), _chosen(episodes)]
    parts += [_section(figure) for figure in figures if not figure.stacked]
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style><script>{get_plotlyjs()}</script></head>\n"
        f'<body><main><h1>{escape(title)}</h1><p class="sub">{escape(subtitle)}</p>\n'
        + "\n".join(parts)
        + f"\n</main><script>{_CHOOSE}</script></body></html>\n"
    )
    atomic.write_atomic(path, page)
    return path


def _facts(facts: Mapping[str, str]) -> str:
    told = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items()
    )
    return f'<section><dl class="facts">{told}</dl></section>'


def _chosen(figures: Sequence[Figure]) -> str:
    options = "".join(f'<option value="{one.name}">{escape(one.title)}</option>' for one in figures)
    bodies = "".join(
        f'<div id="{one.name}" data-shown-by="episode"{"" if index == 0 else " hidden"}>'
        f"<p>{escape(one.note)}</p>{_html(one)}</div>"
        for index, one in enumerate(figures)
    )
    choice = f'<p><select data-shows="episode" aria-label="episode">{options}</select></p>'
    return f"<section><h2>Over an episode</h2>{choice}{bodies}</section>"


def _section(figure: Figure) -> str:
    note = f"<p>{escape(figure.note)}</p>"
    return f'<section id="{figure.name}"><h2>{escape(figure.title)}</h2>{note}{_html(figure)}</section>'


def _html(figure: Figure) -> str:
    text: str = plotted(figure).to_html(
        full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True}
    )
    return text


def plotted(figure: Figure) -> go.Figure:
    """The figure for Plotly."""
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
        template="plotly_white",
        height=per_row * rows + 90,
        margin={"l": 64, "r": 150 if figure.stacked else 24, "t": 44, "b": 48},
        font={"family": FONT, "size": 12, "color": INK},
        hovermode="x unified" if figure.stacked else "closest",
        bargap=0.12,
    )
    drawn.update_annotations(font_size=13, font_color=INK)
    drawn.update_xaxes(gridcolor=GRID, zerolinecolor=GRID)
    drawn.update_yaxes(gridcolor=GRID, zerolinecolor=GRID)
    return drawn


def _legend(drawn: go.Figure, figure: Figure, index: int, place: dict[str, int]) -> str | None:
    """The legend of a chart's series: beside each stacked chart, else one for all of them; None for none."""
    chart = figure.charts[index]
    if len(chart.series) < 2 or chart.kind == "bands":
        return None
    if not figure.stacked:
        whole = {
            "orientation": "h",
            "x": 1,
            "xanchor": "right",
            "y": 1.0,
            "yanchor": "top",
            "yref": "container",
        }
        drawn.update_layout(legend=whole)
        return "legend" if index == 0 else None
    name = "legend" if index == 0 else f"legend{index + 1}"
    top = drawn.get_subplot(place["row"], place["col"]).yaxis.domain[1]
    drawn.update_layout(
        {name: {"x": 1.01, "xanchor": "left", "y": top, "yanchor": "top", "font": {"size": 11}}}
    )
    return name


def _draw(drawn: go.Figure, chart: Chart, place: dict[str, int], legend: str | None) -> None:
    if chart.kind == "bands":
        drawn.add_heatmap(
            x=chart.series[0].x,
            z=np.stack([one.y for one in chart.series]).astype(np.float32),
            y=[one.name for one in chart.series],
            colorscale=[[0, "#eef1f5"], [1, COLORS[2]]],
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
        ends = [float(np.nanmin(both)), float(np.nanmax(both))]
        line = {"color": PALE, "dash": "dash", "width": 1}
        drawn.add_scatter(
            x=ends, y=ends, mode="lines", line=line, hoverinfo="skip", showlegend=False, **place
        )
    if chart.names:
        ticks = {"tickvals": list(range(len(chart.names))), "ticktext": list(chart.names)}
        (drawn.update_xaxes if chart.kind == "bars" else drawn.update_yaxes)(**ticks, **place)


def _add_series(
    drawn: go.Figure,
    chart: Chart,
    series: Series,
    color: str,
    legend: str | None,
    place: dict[str, int],
) -> None:
    common: dict[str, Any] = {
        "x": series.x,
        "y": series.y.astype(np.float32),  # half the bytes, and more digits than a screen has
        "name": series.name,
        "legendgroup": series.name,  # a click in the one legend of several charts hides it in all
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

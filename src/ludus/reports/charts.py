"""The style of figures: colors, axes and lines, the same on every page. Pages adapt the text colors to dark mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

COLORS = ("#2563eb", "#d9480f", "#0f8a5f", "#9333ea", "#be185d", "#0e7490", "#a16207", "#475569")
INK, PALE, GRID = "#1f2933", "#616e7c", "#e4e7eb"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def color_of(names: Sequence[str]) -> dict[str, str]:
    """Return a color for each name, the same in every figure."""
    unique = list(dict.fromkeys(names))
    return {name: COLORS[index % len(COLORS)] for index, name in enumerate(unique)}


def style(figure: go.Figure, height: int) -> None:
    """Apply the common style."""
    axis = {"gridcolor": GRID, "zeroline": False, "linecolor": GRID, "ticks": "", "automargin": True}
    figure.update_layout(
        template="none",
        height=height,
        margin={"l": 64, "r": 56, "t": 40, "b": 52},
        font={"family": FONT, "size": 13, "color": INK},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        xaxis=axis,
        yaxis=axis,
    )


def plain_curves(lines: Mapping[str, tuple[Any, Any]]) -> go.Figure:
    """Draw lines by name, from their steps and values."""
    figure, colors = go.Figure(), color_of(list(lines))
    for name, (steps, values) in lines.items():
        figure.add_scatter(
            x=list(steps), y=list(values), name=name, mode="lines", line={"color": colors[name], "width": 2.5}
        )
    style(figure, 430)
    figure.update_layout(hovermode="x unified")
    return figure


def pale(color: str, share: float = 0.16) -> str:
    """Return `color` (#rrggbb) with an opacity of `share`."""
    red, green, blue = (int(color[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share:g})"

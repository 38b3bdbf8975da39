"""Line charts in a grid: an interactive page, and a small SVG for documents."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

_COLORS = ("#1f5fd0", "#7b4fb8", "#d9730d", "#2a8f5b", "#b0306a", "#5c6670")
_WIDTH, _HEIGHT = 400, 260
_LEFT, _TOP, _RIGHT, _BOTTOM = 62, 30, 24, 42
_HEAD = 34


@dataclass(frozen=True)
class PanelLine:
    """A named line; `low` and `high` are the band around it, if any."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class PanelChart:
    """One panel. A logarithmic x axis (`x` above zero) has its ticks at the points, which are few."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[PanelLine, ...]
    log_x: bool = False


def write_page(path: Path, heading: str, charts: Sequence[PanelChart], columns: int) -> None:
    """Write the charts as one Plotly page that needs no network."""
    from plotly.subplots import make_subplots

    rows = math.ceil(len(charts) / columns)
    figure = make_subplots(rows=rows, cols=columns, subplot_titles=[chart.title for chart in charts])
    colors = _colors(charts)
    named: set[str] = set()
    for index, chart in enumerate(charts):
        place = {"row": index // columns + 1, "col": index % columns + 1}
        for line in chart.lines:
            if line.low:
                figure.add_scatter(
                    x=[*line.x, *reversed(line.x)],
                    y=[*line.high, *reversed(line.low)],
                    fill="toself",
                    opacity=0.3,
                    hoverinfo="skip",
                    showlegend=False,
                    legendgroup=line.name,
                    mode="lines",
                    line={"color": colors[line.name], "width": 0},
                    **place,
                )
            figure.add_scatter(
                x=list(line.x),
                y=list(line.y),
                name=line.name,
                mode="lines+markers" if chart.log_x else "lines",
                showlegend=line.name not in named,
                legendgroup=line.name,
                line={"color": colors[line.name]},
                **place,
            )
            named.add(line.name)
        marks = sorted({value for line in chart.lines for value in line.x}) if chart.log_x else None
        axis = {"type": "log", "tickvals": marks} if chart.log_x else {}
        figure.update_xaxes(title_text=chart.x_label, **axis, **place)
        figure.update_yaxes(
            title_text=chart.y_label, rangemode="tozero" if chart.log_x else "normal", **place
        )
    figure.update_layout(title=heading, template="plotly_white", height=380 * rows + 80)
    figure.write_html(str(path), include_plotlyjs=True)


def write_svg(path: Path, heading: str, charts: Sequence[PanelChart], columns: int) -> None:
    """Write the charts as one picture, with a white background for dark pages."""
    colors = _colors(charts)
    width, height = columns * _WIDTH, math.ceil(len(charts) / columns) * _HEIGHT + _HEAD
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" font-family="sans-serif" font-size="11" fill="#333" role="img">',
        f"<title>{escape(heading)}</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    at = _LEFT
    for name, color in colors.items():
        parts.append(f'<rect x="{at}" y="14" width="18" height="3" fill="{color}"/>')
        parts.append(f'<text x="{at + 24}" y="19" font-size="12">{escape(name)}</text>')
        at += 44 + 7 * len(name)
    for index, chart in enumerate(charts):
        x, y = index % columns * _WIDTH, index // columns * _HEIGHT + _HEAD
        parts.append(f'<g transform="translate({x},{y})">{_panel(chart, colors)}</g>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


def _panel(chart: PanelChart, colors: dict[str, str]) -> str:
    xs = [value for line in chart.lines for value in line.x]
    ys = [value for line in chart.lines for part in (line.y, line.low, line.high) for value in part]
    x_ticks = sorted(set(xs)) if chart.log_x else ticks(min(0.0, *xs), max(xs))
    y_ticks = ticks(min(0.0, *ys) if chart.log_x else min(ys), max(ys))
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    to_x = _scale(x_ticks[0], x_ticks[-1], _LEFT, right, log=chart.log_x)
    to_y = _scale(y_ticks[0], y_ticks[-1], bottom, _TOP)
    parts = [f'<text x="{_LEFT}" y="18" font-size="12" font-weight="bold">{escape(chart.title)}</text>']
    for value in y_ticks:
        y = to_y(value)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{right}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(value)}</text>')
    for value in x_ticks:
        parts.append(
            f'<text x="{to_x(value):.1f}" y="{bottom + 15}" text-anchor="middle">{_number(value)}</text>'
        )
    parts.append(
        f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 10}" text-anchor="middle">{escape(chart.x_label)}</text>'
        f'<text transform="translate(12,{(_TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(chart.y_label)}</text>"
    )
    for line in chart.lines:
        color = colors[line.name]
        if line.low:
            around = [*zip(line.x, line.high, strict=True), *reversed([*zip(line.x, line.low, strict=True)])]
            corners = " ".join(f"{to_x(x):.1f},{to_y(y):.1f}" for x, y in around)
            parts.append(f'<polygon points="{corners}" fill="{color}" fill-opacity="0.15"/>')
        points = [(to_x(x), to_y(y)) for x, y in zip(line.x, line.y, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.8"/>')
        if chart.log_x:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points]
    return "".join(parts)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return evenly spaced round numbers, from at or below `low` to at or above `high`."""
    if high <= low:
        high = low + max(abs(low), 1.0) * 0.1
    raw = (high - low) / about
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def _scale(
    low: float, high: float, start: float, end: float, *, log: bool = False
) -> Callable[[float], float]:
    ease: Callable[[float], float] = math.log if log else float
    span = ease(high) - ease(low) or 1.0
    return lambda value: start + (ease(value) - ease(low)) / span * (end - start)


def _number(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:g}k"
    return f"{round(value, 6):,g}" if abs(value) < 1000 else f"{value:,.0f}"


def _colors(charts: Sequence[PanelChart]) -> dict[str, str]:
    """Return one colour per name, the same in every panel."""
    names = dict.fromkeys(line.name for chart in charts for line in chart.lines)
    return {name: _COLORS[index % len(_COLORS)] for index, name in enumerate(names)}

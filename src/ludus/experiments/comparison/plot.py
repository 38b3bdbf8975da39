"""`plot_training_curves`: any curves as a picture, on a page or in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from PIL import Image, ImageDraw, ImageFont

from ludus.errors import UserError
from ludus.experiments.comparison.results import curves_of
from ludus.experiments.experiment import ExperimentResult
from ludus.reports.charts import GRID, INK, PALE, color_of, plain_curves
from ludus.reports.page import draw, html_page, section
from ludus.reports.statistics import band, compute_moving_average
from ludus.runs import atomic
from ludus.types import Array

_WIDTH, _HEIGHT, _SCALE = 1200, 640, 2  # drawn larger and shrunk: Pillow's lines have no smooth edges
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 40, 80, 70

Line = tuple[Array, Array]


def plot_training_curves(
    metrics: Mapping[str, Any] | Iterable[ExperimentResult],
    save_path: str | Path | None = None,
    *,
    window: int = 1,
    title: str = "Training curves",
) -> go.Figure:
    """Draw learning curves and return the Plotly figure; save it too where `save_path` ends in .png or .html.

    `metrics` are ExperimentResults, as `run_all` returns them, or a mapping of names to series: numbers (such
    as `TrainResult.rewards`), or {"steps": …, "values": …}. `window` smooths by a moving average.
    """
    lines = {
        name: (steps, compute_moving_average(values, window))
        for name, (steps, values) in _lines(metrics).items()
    }
    if not lines:
        raise UserError("there is no curve to draw", where="plot_training_curves(…)")
    figure = plain_curves(lines)
    figure.update_layout(title={"text": title, "x": 0.01, "font": {"size": 17}})
    if save_path is not None:
        _save(figure, lines, Path(save_path), title)
    return figure


def _lines(metrics: Mapping[str, Any] | Iterable[ExperimentResult]) -> dict[str, Line]:
    if not isinstance(metrics, Mapping):
        metrics = {one.name: one for one in metrics}
    found: dict[str, Line] = {}
    for name, series in metrics.items():
        if isinstance(series, ExperimentResult):
            curves = curves_of(series)
            if curves is not None:
                found[name] = (curves[0], band(curves[1], resamples=1)[0])
        elif isinstance(series, Mapping):
            found[name] = (
                np.asarray(series["steps"], dtype=float),
                np.asarray(series["values"], dtype=float),
            )
        else:
            values = np.asarray(series, dtype=float)
            found[name] = (np.arange(1, len(values) + 1, dtype=float), values)
    return {name: line for name, line in found.items() if len(line[0])}


def _save(figure: go.Figure, lines: Mapping[str, Line], path: Path, title: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() in (".html", ".htm"):
        atomic.write_atomic(path, html_page(title, "", [section("", "", draw(figure))]))
    elif path.suffix.lower() == ".png":
        _picture(lines, title).save(path, optimize=True)
    else:
        raise UserError(f"cannot draw a '{path.suffix}' file", where=str(path), fix="name it .png or .html")


def _picture(lines: Mapping[str, Line], title: str) -> Image.Image:
    """The curves by Pillow alone: Plotly would need a browser for this."""
    image = Image.new("RGB", (_WIDTH * _SCALE, _HEIGHT * _SCALE), "white")
    pen = ImageDraw.Draw(image)
    xs = _ticks(
        min(float(x.min()) for x, _ in lines.values()), max(float(x.max()) for x, _ in lines.values())
    )
    values = [y[np.isfinite(y)] for _, y in lines.values()]
    ys = _ticks(min(float(y.min()) for y in values), max(float(y.max()) for y in values))

    def at(x: float, y: float) -> tuple[float, float]:
        right = _LEFT + (_WIDTH - _LEFT - _RIGHT) * (x - xs[0]) / (xs[-1] - xs[0])
        down = _TOP + (_HEIGHT - _TOP - _BOTTOM) * (ys[-1] - y) / (ys[-1] - ys[0])
        return right * _SCALE, down * _SCALE

    def write(xy: tuple[float, float], words: str, size: int, color: str, anchor: str) -> None:
        pen.text(xy, words, fill=color, font=ImageFont.load_default(size * _SCALE), anchor=anchor)

    for y in ys:
        pen.line([at(xs[0], y), at(xs[-1], y)], fill=GRID, width=_SCALE)
        write((at(xs[0], y)[0] - 10 * _SCALE, at(xs[0], y)[1]), f"{y:g}", 16, PALE, "rm")
    for x in xs:
        write((at(x, ys[0])[0], at(x, ys[0])[1] + 10 * _SCALE), f"{x:,g}", 16, PALE, "mt")
    write((_LEFT * _SCALE, 16 * _SCALE), title, 22, INK, "lt")
    colors, right = color_of(list(lines)), float(_LEFT)
    for name, (steps, scores) in lines.items():
        points = [at(x, y) for x, y in zip(steps, scores, strict=True) if np.isfinite(y)]
        pen.line(points, fill=colors[name], width=3 * _SCALE, joint="curve")
        pen.line(
            [(right * _SCALE, 58 * _SCALE), ((right + 26) * _SCALE, 58 * _SCALE)], colors[name], 3 * _SCALE
        )
        write(((right + 34) * _SCALE, 58 * _SCALE), name, 17, INK, "lm")
        right += 64 + pen.textlength(name, font=ImageFont.load_default(17 * _SCALE)) / _SCALE
    return image.resize((_WIDTH, _HEIGHT), Image.Resampling.LANCZOS)


def _ticks(low: float, high: float) -> Sequence[float]:
    """Round numbers, about six of them, that reach from below `low` to above `high`."""
    if high <= low:
        low, high = low - 1.0, low + 1.0
    rough = (high - low) / 5
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough)
    first, last = int(np.floor(low / step)), int(np.ceil(high / step))
    return [index * step for index in range(first, last + 1)]

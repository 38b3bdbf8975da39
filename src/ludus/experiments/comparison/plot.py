"""`plot_training_curves`: curves as a picture, on a page or in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import plotly.graph_objects as go
from PIL import Image, ImageDraw, ImageFont

from ludus.errors import NONE, UserError, require_types, shortened
from ludus.experiments.comparison.results import curves_of
from ludus.experiments.experiment import ExperimentResult
from ludus.reports.charts import GRID, INK, PALE, color_of, plain_curves
from ludus.reports.page import draw, html_page, section
from ludus.reports.statistics import band, compute_moving_average
from ludus.runs import atomic
from ludus.types import Array

_WIDTH, _HEIGHT, _SCALE = 1200, 640, 2  # drawn larger and scaled down: Pillow does not antialias lines
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 40, 80, 70

Line = tuple[Array, Array]
_VALUES = ("values", "rewards", "scores")


@runtime_checkable
class HasRewards(Protocol):
    """A record of episodes: the result of a training, or the metrics of a game."""

    rewards: Any


def plot_training_curves(
    metrics: Mapping[str, Any] | Iterable[Any] | HasRewards,
    save_path: str | Path | None = None,
    *,
    window: int = 1,
    title: str = "Training curves",
) -> go.Figure:
    """Draw learning curves and return the Plotly figure; also save it if `save_path` ends in .png or .html.

    `metrics` are ExperimentResults, as `run_all` returns them, or a mapping of names to series: numbers, {"steps": …,
    "values": …} ("rewards" is the same, and steps are optional), or an object with `rewards`, such as `TrainResult`.
    `window` smooths with a moving average. UserError if something is not a series.
    """
    require_types("plot_training_curves", save_path=(save_path, (str, Path, NONE)), title=(title, (str,)))
    lines = {
        name: (steps, compute_moving_average(values, window))
        for name, (steps, values) in _lines(metrics).items()
    }
    if not lines:
        raise UserError("no curves to draw", where="plot_training_curves(…)")
    figure = plain_curves(lines)
    figure.update_layout(title={"text": title, "x": 0.01, "font": {"size": 17}})
    if save_path is not None:
        _save(figure, lines, Path(save_path), title)
    return figure


def _lines(metrics: Mapping[str, Any] | Iterable[Any] | HasRewards) -> dict[str, Line]:
    if isinstance(metrics, HasRewards):
        metrics = {"rewards": metrics}
    if not isinstance(metrics, Mapping):
        metrics = dict(_named(metrics))
    found: dict[str, Line] = {}
    for name, series in metrics.items():
        if isinstance(series, ExperimentResult):
            curves = curves_of(series)
            if curves is not None:
                found[name] = (curves[0], band(curves[1], resamples=1)[0])
        else:
            found[name] = _line(name, series)
    return {name: line for name, line in found.items() if len(line[0])}


def _named(results: Any) -> Iterator[tuple[str, Any]]:
    """Yield results with their names, other series with their number."""
    try:
        series = list(results)
    except TypeError:
        yield "curve 1", results  # not a series: `_line` raises
        return
    if series and all(isinstance(one, int | float) for one in series):
        series = [series]
    for index, one in enumerate(series):
        yield (one.name if isinstance(one, ExperimentResult) else f"curve {index + 1}"), one


def _line(name: str, series: Any) -> Line:
    """Return a series as steps and values. UserError if it is not a series."""
    steps = None
    if isinstance(series, Mapping):
        steps = series.get("steps")
        series = next((series[key] for key in _VALUES if key in series), None)
    elif isinstance(series, HasRewards):
        series = series.rewards
    try:
        values = np.asarray(series, dtype=float)
        xs = np.arange(1, values.size + 1, dtype=float) if steps is None else np.asarray(steps, dtype=float)
        if values.ndim == 1 and xs.shape == values.shape:
            return xs, values
    except (TypeError, ValueError):
        pass  # not numbers
    raise UserError(
        f"the series '{name}' is not a curve: expected numbers, got {shortened(series)}",
        where="plot_training_curves(…)",
        fix='pass {"PPO": [1.0, 2.0]}, {"PPO": {"steps": […], "values": […]}} (or "rewards"), or results',
    )


def _save(figure: go.Figure, lines: Mapping[str, Line], path: Path, title: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() in (".html", ".htm"):
        atomic.write_atomic(path, html_page(title, "", [section("", "", draw(figure))]))
    elif path.suffix.lower() == ".png":
        _picture(lines, title).save(path, optimize=True)
    else:
        raise UserError(f"cannot write a '{path.suffix}' file", where=str(path), fix="use .png or .html")


def _picture(lines: Mapping[str, Line], title: str) -> Image.Image:
    """Draw the curves with Pillow: Plotly would need a browser for this."""
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
    """Return about six round numbers from below `low` to above `high`."""
    if high <= low:
        low, high = low - 1.0, low + 1.0
    rough = (high - low) / 5
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough)
    first, last = int(np.floor(low / step)), int(np.ceil(high / step))
    return [index * step for index in range(first, last + 1)]

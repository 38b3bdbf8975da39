"""The dark panel next to a picture or below it: its layout, its fixed parts and its changing parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ludus.evaluation.overlay import ink
from ludus.evaluation.overlay.data import MAX_BARS, Bar, PanelData, Reading, number, signal_number
from ludus.types import Array

RIGHT_WIDTH = 400
LEAST_HEIGHT = 400  # of a picture with a panel at its side; a smaller one is enlarged
LEAST_WIDTH = 560  # of a picture with a panel below it
BELOW_HEIGHT = 270
_PAD, _GAP = 14, 18
_TITLE, _LABEL, _BIG = 16, 12, 19
_HEADER, _STATS, _HEADING = 42, 43, 18
_BAR_ROW, _SIGNAL_ROW = 16, 16
_LEAST_PLOT, _MAX_PLOT = 34, 96
_SPARK, _NUMBER = 32, 46
_ENDS = {"terminated": "ended", "truncated": "time is up", "cut": "cut"}

Arrangement = Literal["right", "below"]


@dataclass(frozen=True)
class _Box:
    x: int
    y: int
    width: int
    height: int = 0

    @property
    def right(self) -> int:
        return self.x + self.width


class Panel:
    """Draws PanelData of one shape: the same signals in every frame.

    A step takes `stride` pixels of a plot: one for envs with a high frame rate, more for others.
    """

    def __init__(
        self, first: PanelData, width: int, height: int, arrangement: Arrangement, stride: int = 1
    ) -> None:
        self._width, self._height, self._stride = width, height, stride
        place = self._to_the_right if arrangement == "right" else self._below
        self._rows = min(MAX_BARS, max(len(first.bars), 1))
        place(first)
        widest = max((ink.width(bar.label, _LABEL) for bar in first.bars), default=0)
        self._names = int(np.clip(widest + 10, 48, self._bars.width * 0.48))
        self._ground = np.empty((height, width, 3), np.uint8)
        self._ground[...] = ink.GROUND
        self._draw_fixed(first)

    def draw(self, data: PanelData, canvas: Array | None = None) -> Array:
        """Return the panel as RGB bytes, drawn into `canvas` if given."""
        canvas = np.empty_like(self._ground) if canvas is None else canvas
        canvas[...] = self._ground
        self._draw_header(canvas, data)
        self._draw_stats(canvas, data)
        for box, plot, color in zip(self._plots, data.plots, (ink.BLUE, ink.AMBER), strict=True):
            _draw_plot(canvas, box, plot, color, self._stride)
        self._draw_bars(canvas, data.bars_title, data.bars)
        self._draw_signals(canvas, data.signals[: len(self._signals)])
        return canvas

    # Layout

    def _to_the_right(self, first: PanelData) -> None:
        inner = self._width - 2 * _PAD
        self._header = _Box(_PAD, _PAD - 4, inner)
        self._stats = self._cells(_Box(_PAD, _PAD + _HEADER, inner), 4)
        top = _PAD + _HEADER + _STATS
        half = (inner - _GAP) // 2
        for_bars = _HEADING + _BAR_ROW * self._rows + 7
        room = self._height - _PAD - top - for_bars
        rows = -(-len(first.signals) // 2)
        while rows and room - _HEADING - 8 - _SIGNAL_ROW * rows < _LEAST_PLOT + _HEADING:
            rows -= 1
        for_signals = _HEADING + _SIGNAL_ROW * rows + 8 if rows else 0
        plot_height = int(np.clip(room - for_signals - _HEADING - 8, _LEAST_PLOT, _MAX_PLOT))
        self._plots = [
            _Box(_PAD + index * (half + _GAP), top + _HEADING, half, plot_height) for index in (0, 1)
        ]
        top += _HEADING + plot_height + 8
        self._bars = _Box(_PAD, top, inner)
        top += for_bars
        self._signals_head = _Box(_PAD, top, inner)
        self._signals = self._signal_boxes(_Box(_PAD, top + _HEADING, inner), rows, 2, len(first.signals))

    def _below(self, first: PanelData) -> None:
        third = (self._width - 2 * _PAD - 2 * _GAP) // 3
        columns = [_PAD + index * (third + _GAP) for index in range(3)]
        self._header = _Box(_PAD, _PAD - 4, 2 * third + _GAP)
        top = _PAD + _HEADER
        self._stats = self._cells(_Box(_PAD, top, 2 * third + _GAP), 4)
        top += _STATS
        height = self._height - _PAD - top - _HEADING
        half = (third - 8) // 2
        self._plots = [
            _Box(columns[0] + index * (half + 8), top + _HEADING, half, height) for index in (0, 1)
        ]
        self._rows = min(self._rows, height // _BAR_ROW)
        self._bars = _Box(columns[1], top, third)
        self._signals_head = _Box(columns[2], _PAD - 2, third)
        room = (self._height - _PAD - _HEADING - _PAD + 2) // _SIGNAL_ROW
        self._signals = self._signal_boxes(
            _Box(columns[2], _PAD - 2 + _HEADING, third), min(room, len(first.signals)), 1, len(first.signals)
        )

    @staticmethod
    def _cells(box: _Box, count: int) -> list[_Box]:
        width = box.width // count
        return [_Box(box.x + index * width, box.y, width) for index in range(count)]

    @staticmethod
    def _signal_boxes(box: _Box, rows: int, columns: int, count: int) -> list[_Box]:
        width = (box.width - _GAP * (columns - 1)) // columns
        return [
            _Box(box.x + index // rows * (width + _GAP), box.y + index % rows * _SIGNAL_ROW, width)
            for index in range(min(count, rows * columns))
        ]

    # Fixed parts

    def _draw_fixed(self, first: PanelData) -> None:
        ground = self._ground
        ink.write(
            ground, ink.fitted(first.title, _TITLE, self._header.width - 76), *_at(self._header), _TITLE
        )
        for box, name in zip(self._stats, ("step", "reward", "return", "value"), strict=True):
            ink.write(ground, name, box.x, box.y, _LABEL, ink.MUTED)
        for box in self._plots:
            ground[box.y : box.y + box.height, box.x : box.right] = ink.CARD
        hidden = len(first.signals) - len(self._signals)
        if self._signals:
            ink.write(ground, "signals", *_at(self._signals_head), _LABEL, ink.MUTED)
            if hidden:
                more = f"{hidden} more"
                ink.write(
                    ground, more, self._signals_head.right, self._signals_head.y, _LABEL, ink.FAINT, "right"
                )
        for box, signal in zip(self._signals, first.signals, strict=False):
            name = ink.fitted(signal.name, _LABEL, box.width - _SPARK - _NUMBER - 4)
            ink.write(ground, name, *_at(box), _LABEL, ink.INK)

    # Changing parts

    def _draw_header(self, canvas: Array, data: PanelData) -> None:
        box = self._header
        subtitle = ink.fitted(data.subtitle, _LABEL, box.width)
        ink.write(canvas, subtitle, box.x, box.y + 22, _LABEL, ink.MUTED)
        if data.ended is not None:
            ink.write(canvas, _ENDS[data.ended], box.right, box.y + 3, _LABEL, ink.AMBER, "right")

    def _draw_stats(self, canvas: Array, data: PanelData) -> None:
        texts = (f"{data.step:,}", number(data.reward), number(data.total), number(data.value))
        for box, text in zip(self._stats, texts, strict=True):
            ink.write(canvas, text, box.x, box.y + 14, _BIG)

    def _draw_bars(self, canvas: Array, title: str, bars: tuple[Bar, ...]) -> None:
        box = self._bars
        ink.write(canvas, title, *_at(box), _LABEL, ink.MUTED)
        names = self._names
        track = box.width - names - min(66, int(box.width * 0.26))
        for index, bar in enumerate(bars[: self._rows]):
            y = box.y + _HEADING + index * _BAR_ROW
            color = ink.INK if bar.chosen else ink.MUTED
            ink.write(canvas, ink.fitted(bar.label, _LABEL, names - 6), box.x, y, _LABEL, color)
            left = box.x + names
            canvas[y + 4 : y + 12, left : left + track] = ink.TRACK
            start, end = sorted((bar.start, bar.end))
            fill = ink.GREEN if bar.chosen else ink.FAINT
            long = max((end - start) * track, 1.0)
            ink.fill(canvas, left + min(start * track, track - long), y + 4, long, 8, fill, ink.TRACK)
            ink.write(canvas, bar.text, box.right, y, _LABEL, color, "right")

    def _draw_signals(self, canvas: Array, signals: tuple[Reading, ...]) -> None:
        height = _SIGNAL_ROW - 4
        for box, signal in zip(self._signals, signals, strict=True):
            left = box.right - _SPARK - _NUMBER
            spark = canvas[box.y + 1 : box.y + 1 + height, left : left + _SPARK]
            if signal.contact:
                shown = np.nan_to_num(ink.latest(signal.trail, _SPARK, self._stride)) != 0
                on = shown.repeat(self._stride)[:_SPARK]
                spark[2:-2] = ink.TRACK
                spark[2:-2, : len(on)][:, on] = ink.GREEN
                lamp = ink.dot(4.5, ink.GREEN if signal.value else ink.TRACK)
                canvas[box.y + 2 : box.y + 2 + len(lamp), box.right - len(lamp) : box.right] = lamp
                continue
            ink.curve(
                spark,
                signal.trail,
                signal.low,
                signal.high,
                stride=self._stride,
                thickness=1.2,
                color=ink.BLUE,
            )
            text = signal_number(signal)
            ink.write(canvas, text, box.right, box.y, _LABEL, ink.INK, "right")


def _draw_plot(canvas: Array, box: _Box, plot: Reading, color: ink.Color, stride: int) -> None:
    ink.write(canvas, plot.name, box.x, box.y - 17, _LABEL, ink.MUTED)
    ink.write(canvas, number(plot.value), box.right, box.y - 17, _LABEL, color, "right")
    zero = -1
    if plot.low < 0 < plot.high:
        zero = round((box.height - 1) * plot.high / (plot.high - plot.low))
    ink.curve(
        canvas[box.y : box.y + box.height, box.x : box.right],
        plot.trail,
        plot.low,
        plot.high,
        stride=stride,
        thickness=1.8,
        color=color,
        ground=ink.CARD,
        below=0.16,
        zero=zero,
    )


def _at(box: _Box) -> tuple[int, int]:
    return box.x, box.y

"""Terminal display of a training: a progress bar with the reward curve beneath it, or plain lines.

On a terminal a background thread redraws a few times a second; `update()` only notes the newest values, so
that the training loop can call it at every iteration. Elsewhere a short line appears now and then.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeGuard

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

from ludus.errors import printable
from ludus.tracking.tracker import CLOCK, RowValue

Verbosity = Literal["quiet", "normal", "verbose"]

_REDRAWS_PER_SECOND = 6
_WIDEST = 100
_GUTTER = 9  # right of the bar and the curve: the percentage, and the curve's highest and lowest value
_CELL = 16  # least width of a label with its value, so that changing digits do not shift the line
_CURVE_SLOTS = 512
_CURVE_HEIGHT = 2
_LINE_SECONDS = 5.0
_LINE_FRACTION = 0.05
_NOTE_SECONDS = 1.0  # work that takes less is not named
_STOPPING = "stopping after this minibatch, then saving (Ctrl-C again: exit at once)"

_REWARD = "rollout/ep_rew_mean"
_EVAL = "eval/mean_reward"
_ENTROPY_LOSS = "train/entropy_loss"  # the negative entropy
_RESULTS = {
    _REWARD: "reward",
    "rollout/ep_len_mean": "length",
    "rollout/success_rate": "success",
    _EVAL: "eval",
}
# labels of the training metrics on display, most informative first
_TRAINING = {
    "train/policy_gradient_loss": "policy",
    "train/policy_loss": "policy",
    "train/actor_loss": "actor",
    "train/critic_loss": "critic",
    "train/value_loss": "value",
    "train/loss": "loss",
    _ENTROPY_LOSS: "entropy",
    "train/approx_kl": "kl",
    "train/clip_fraction": "clip",
    "train/explained_variance": "expl",
    "train/learning_rate": "lr",
}


class PlainConsole(Console):
    """Console that escapes characters with which a text could control the terminal."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(highlight=False, **arguments)

    def render(self, renderable: RenderableType, *arguments: Any, **named: Any) -> Iterable[Segment]:
        for segment in super().render(renderable, *arguments, **named):
            if segment.control or segment.text.isprintable() or segment.text == "\n":
                yield segment
            else:  # same length: the layout is done already
                yield segment._replace(text=printable(segment.text, keep="\n\t", sign="\ufffd"))


class ProgressDisplay:
    """The display of one training run on `console`, which is the only thing it ever writes to.

    Verbosity: `quiet` shows nothing at all, `normal` the bar or the plain lines, `verbose` every row as well.
    `clock` is read in seconds.
    """

    def __init__(
        self,
        console: Console,
        verbosity: Verbosity = "normal",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._verbosity = verbosity
        self._clock = clock
        self._live: Live | None = None
        self._running = False
        self._total, self._unit = 0.0, "steps"
        self._started = clock()
        self._fraction, self._step = 0.0, 0
        self._note: tuple[str, float] | None = None  # what the run is busy with, and since when
        self._stopping = False
        self._progress: Callable[[], tuple[float, int]] | None = None
        self._base: tuple[float, int, float] | None = None  # fraction, step and time that speed counts from
        self._estimate: tuple[float, float] | None = None  # seconds left, and when that was estimated
        self._newest: dict[str, RowValue] = {}
        self._curve: list[float | None] = [None] * _CURVE_SLOTS
        self._best_eval = -math.inf
        self._line_time, self._line_fraction = self._started, 0.0

    def start(
        self,
        header: Sequence[tuple[str, str]],
        total: float,
        unit: str,
        progress: Callable[[], tuple[float, int]] | None = None,
    ) -> None:
        """Print the header's (label, value) pairs and begin; `unit` says what `total` counts ("steps").

        `progress` returns fraction and step between two calls of `update`; the drawing thread calls it.
        """
        self._progress, self._estimate = progress, None
        self._total, self._unit = total, unit
        self._started = self._line_time = self._clock()
        self._line_fraction = self._fraction
        if self._base is not None:
            self._base = (self._fraction, self._step, self._started)
        if self._verbosity == "quiet":
            return
        self._running = True
        label_width = max((len(label) for label, _ in header), default=0)
        for label, value in header:
            self._print(Text.assemble("  ", (label.ljust(label_width), "dim"), "  ", value))
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            if header:
                self._print(Text())
            self._live = Live(
                _Frame(self),
                console=self._console,
                refresh_per_second=_REDRAWS_PER_SECOND,
                # a console on stderr means that stdout carries data, which must pass untouched
                redirect_stdout=not self._console.stderr,
            )
            self._live.start()

    def update(
        self,
        fraction_done: float,
        step: int,
        row: Mapping[str, RowValue] | None = None,
        note: str | None = None,
    ) -> None:
        """Note how far the run is, its newest metrics row if there is one, and what it is busy with.

        Rows given before `start()`, the past of a resumed run, only fill the curve and the best evaluation.
        """
        self._fraction, self._step = fraction_done, step
        self._note = None if note is None else (note, -math.inf)
        if row is not None:
            self._take(row)
        if self._base is None:
            self._base = (fraction_done, step, self._clock())
        elif fraction_done > self._base[0]:
            now = self._clock()
            per_fraction = (now - self._base[2]) / (fraction_done - self._base[0])
            self._estimate = ((1.0 - fraction_done) * per_fraction, now)
        if not self._running:
            return
        if row is not None and self._verbosity == "verbose":
            self._print_row(row)
        elif self._live is None and fraction_done - self._line_fraction >= _LINE_FRACTION:
            now = self._clock()
            if now - self._line_time >= _LINE_SECONDS:
                self._plain_line(now)

    def note(self, text: str | None) -> None:
        """Name what the run is busy with; shown when it takes longer than a moment."""
        self._note = None if text is None else (text, self._clock())

    def acknowledge_stop(self) -> None:
        """Show that the run was asked to stop. Safe in a signal handler: it takes no lock."""
        self._stopping = True
        if self._running and self._live is None:
            with suppress(OSError, ValueError, AttributeError):  # a console without a file descriptor
                os.write(self._console.file.fileno(), f" {_STOPPING}\n".encode())

    def message(self, text: str) -> None:
        """Print `text` above the bar."""
        if self._verbosity != "quiet":
            self._print(Text(text))

    def finish(self, text: str = "") -> None:
        """Draw the last state, let go of the terminal, and print `text`."""
        if self._running and self._live is None and self._fraction > self._line_fraction:
            self._plain_line(self._clock())
        self._note = None
        self.close()
        if text and self._verbosity != "quiet":
            self._print(Text(text))

    def close(self) -> None:
        """Release the terminal (also after an error); calling it twice is harmless."""
        self._running = False
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=not self._console.is_terminal)

    def _take(self, row: Mapping[str, RowValue]) -> None:
        # a new dict, not an update in place: the drawing thread may be reading the old one
        self._newest = {**self._newest, **row}
        reward, evaluated = row.get(_REWARD), row.get(_EVAL)
        if _is_finite(reward):
            slot = min(max(int(self._fraction * _CURVE_SLOTS), 0), _CURVE_SLOTS - 1)
            self._curve[slot] = reward
        if _is_finite(evaluated):
            self._best_eval = max(self._best_eval, evaluated)

    def _speed(self) -> float | None:
        """Env steps a second: as the run measured it, else since the base."""
        measured = self._newest.get("time/fps")
        if _is_finite(measured):
            return measured
        if self._base is None:
            return None
        seconds = self._clock() - self._base[2]
        return (self._step - self._base[1]) / seconds if seconds > 0 and self._step > self._base[1] else None

    def _seconds_left(self) -> float | None:
        """As estimated at the last update, less what has passed since; None before that, and when it is over."""
        if self._estimate is None:
            return None
        seconds, then = self._estimate
        left = seconds - (self._clock() - then)
        return left if left > 0 else None

    def _plain_line(self, now: float) -> None:
        self._line_time, self._line_fraction = now, self._fraction
        parts = [_percent(self._fraction), f"step {self._step:,}"]
        speed, left = self._speed(), self._seconds_left()
        if speed is not None:
            parts.append(f"fps {speed:,.0f}")
        reward = self._newest.get(_REWARD)
        if _is_finite(reward):
            parts.append(f"reward {number(reward)}")
        if left is not None and self._fraction < 1:
            parts.append(f"eta {duration(left)}")
        self._print(Text(" " + "  ".join(parts)))

    def _print_row(self, row: Mapping[str, RowValue]) -> None:
        values = "  ".join(f"{name}={number(value)}" for name, value in row.items() if name not in CLOCK)
        head = f" {_percent(self._fraction)}  step {self._step:,}"
        if self._console.is_terminal:
            self._console.print(Text(head), Padding(Text(values, "dim"), (0, 0, 0, 7)))
        else:
            self._print(Text(f"{head}  {values}"))

    def frame(self, width: int, ascii_only: bool = False) -> list[Text]:
        """The lines drawn on a terminal of `width` columns, each of them short enough to fit."""
        if self._progress is not None and self._running:
            self._fraction, self._step = self._progress()
        width = min(width - 1, _WIDEST)
        bar_width = max(width - 2 - _GUTTER, 4)
        lines = [self._bar(bar_width, ascii_only)]
        if not ascii_only:
            lines += self._curve_lines(bar_width)
        lines += [self._status(), self._results(width), self._losses(width)]
        if self._stopping:
            lines.append(Text(f"  {_STOPPING}", "yellow"))
        for line in lines:
            line.rstrip()
            line.truncate(width, overflow="crop" if ascii_only else "ellipsis")
        return [line for line in lines if line.plain.strip()]

    def _bar(self, width: int, ascii_only: bool) -> Text:
        done, rest = ("#", "-") if ascii_only else ("━", "─")
        filled = round(min(max(self._fraction, 0.0), 1.0) * width)
        return Text.assemble(
            "  ",
            (done * filled, "cyan"),
            (rest * (width - filled), "bright_black"),
            _percent(self._fraction).rjust(_GUTTER),
        )

    def _curve_lines(self, width: int) -> list[Text]:
        known = [value for value in self._curve if value is not None]
        if not known:
            return []
        labels = [""] * _CURVE_HEIGHT
        labels[0], labels[-1] = number(max(known)), number(min(known))
        drawn = sparkline(self._curve, width, _CURVE_HEIGHT)
        return [
            Text.assemble("  ", (line, "green"), (label.rjust(_GUTTER), "dim"))
            for line, label in zip(drawn, labels, strict=True)
        ]

    def _status(self) -> Text:
        if self._unit == "steps":
            parts = [f"{self._step:,} / {self._total:,.0f} steps"]
        else:
            parts = [
                f"{self._fraction * self._total:,.0f} / {self._total:,.0f} {self._unit}",
                f"step {self._step:,}",
            ]
        speed, left = self._speed(), self._seconds_left()
        if speed is not None:
            parts.append(f"{speed:,.0f}/s")
        parts.append(f"{duration(self._clock() - self._started)} elapsed")
        if left is not None and self._fraction < 1:
            parts.append(f"{duration(left)} left")
        text = Text("  " + "   ".join(parts))
        if self._note is not None and self._clock() - self._note[1] > _NOTE_SECONDS:
            text.append(f"   {self._note[0]}", "yellow")
        return text

    def _results(self, width: int) -> Text:
        newest = self._newest
        cells = [(label, number(newest[name])) for name, label in _RESULTS.items() if name in newest]
        if self._best_eval > -math.inf:
            cells.append(("best", number(self._best_eval)))
        return _cells(cells, width, value_style="bold")

    def _losses(self, width: int) -> Text:
        newest = self._newest
        others = sorted(name for name in newest if name.startswith("train/") and name not in _TRAINING)
        cells = [
            (label, number(_as_shown(name, newest[name])))
            for name, label in _TRAINING.items()
            if name in newest
        ]
        cells += [(name.removeprefix("train/"), number(newest[name])) for name in others]
        return _cells(cells, width)


class _Frame:
    """Asks the display for its current lines at every redraw."""

    def __init__(self, display: ProgressDisplay) -> None:
        self._display = display

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._display.frame(options.max_width, options.ascii_only)


def number(value: RowValue) -> str:
    """`value` in few characters: about four digits, thousands grouped; text as it is."""
    if isinstance(value, str):
        return value
    if value is None or not math.isfinite(value):
        return "-" if value is None else str(value)
    size = abs(value)
    if isinstance(value, int) or value == 0 or 1e3 <= size < 1e7:
        return f"{value:,.0f}"
    if size >= 1e7 or size < 1e-3:
        return f"{value:.1e}"
    decimals = 1 if size >= 100 else 2 if size >= 1 else 3 if size >= 0.1 else 4
    return f"{value:.{decimals}f}"


def mean_and_spread(mean: float, std: float) -> str:
    """`mean ± std` in few characters; a deviation that is only a rounding error of equal numbers is 0."""
    return f"{number(mean)} ± {number(0.0 if std <= 1e-9 * abs(mean) else std)}"


def _as_shown(name: str, value: RowValue) -> RowValue:
    return -value if name == _ENTROPY_LOSS and isinstance(value, int | float) else value


def duration(seconds: float) -> str:
    """`seconds` as `m:ss`, or `h:mm:ss` from an hour on."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _percent(fraction: float) -> str:
    # rounded down: 100% is for runs that are done
    return f"{math.floor(min(max(fraction, 0.0), 1.0) * 100 + 1e-9):3d}%"


def _is_finite(value: RowValue) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value)


def _cells(cells: Sequence[tuple[str, str]], width: int, value_style: str = "") -> Text:
    """Label and value side by side in steady columns, as many as fit into `width`."""
    text = Text(" ")
    for label, value in cells:
        if text.cell_len + len(label) + len(value) + 2 > width:
            break
        text.append(" ")
        text.append(label, "dim")
        text.append(" ")
        text.append(value, value_style)
        text.append(" " * max(_CELL - 2 - len(label) - len(value), 1))
    return text


_BLOCKS = " ▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], width: int, height: int = 1) -> list[str]:
    """`values`, spread over `width` columns, as `height` lines of text (top line first).

    The lowest value is one eighth of a line high, the highest fills all lines. A column without a value
    repeats the one before it; columns before the first value and after the last are blank.
    """
    columns = _columns(values, width)
    known = [value for value in columns if value is not None]
    if not known:
        return [" " * width] * height
    low, high = min(known), max(known)
    top = 8 * height
    levels = []
    for value in columns:
        if value is None:
            levels.append(0)
        elif high - low <= 1e-9 * max(
            abs(high), abs(low)
        ):  # a mean of equal values is not always equal to them
            levels.append(top // 2)
        else:
            levels.append(1 + round((value - low) / (high - low) * (top - 1)))
    return [
        "".join(_BLOCKS[min(max(level - 8 * line, 0), 8)] for level in levels)
        for line in reversed(range(height))
    ]


def _columns(values: Sequence[float | None], width: int) -> list[float | None]:
    """The mean of the finite values in each of `width` equal slices, gaps between them filled."""
    count = len(values)
    columns: list[float | None] = []
    last_filled = 0
    for column in range(width):
        start = column * count // width
        stop = max(start + 1, (column + 1) * count // width)
        inside = [value for value in values[start:stop] if value is not None and math.isfinite(value)]
        if inside:
            columns.append(sum(inside) / len(inside))
            last_filled = column + 1
        else:
            columns.append(columns[-1] if columns else None)
    return columns[:last_filled] + [None] * (width - last_filled)

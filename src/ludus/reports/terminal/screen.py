"""The dashboard on a terminal: its panes, their layout, and the keys that leave it."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.text import Text

from ludus.reports.terminal import panes
from ludus.reports.terminal.panes import Pane
from ludus.reports.terminal.watched import Watched

_REFRESH_SECONDS = 1.0
_LEAVE = ("q", "Q", "\x1b", "\x04")
_SMALLEST = (40, 12)
_WIDE = 120


def watch(watched: Watched, console: Console) -> bool:
    """Show the run until it ends (True), or until q or Ctrl-C (False). The last frame stays on the terminal."""
    ended = False
    with (
        contextlib.suppress(KeyboardInterrupt),
        Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False) as live,
        _keys() as key_within,
    ):
        while True:
            watched.refresh()
            live.update(frame(watched, console.width, console.height), refresh=True)
            if watched.is_over:
                ended = True
                break
            if key_within(_REFRESH_SECONDS) in _LEAVE:
                break
    return ended


def frame(watched: Watched, width: int, height: int, footer: bool = True) -> RenderableType:
    """Return the dashboard for a terminal of this size."""
    if width < _SMALLEST[0] or height < _SMALLEST[1]:
        return Group(*panes.header(watched, width), Text("the terminal is too small to show more", "dim"))
    layout = Layout()
    rows = [Layout(Group(*panes.header(watched, width)), size=2), Layout(name="body")]
    for line in watched.notices:
        rows.append(Layout(Text(line, "yellow", no_wrap=True, overflow="ellipsis"), size=1))
    if footer:
        rows.append(Layout(Text("press q to leave; the run continues", "dim"), size=1))
    layout.split_column(*rows)
    body = layout["body"]
    if watched.is_self_play:
        _four_panes(body, watched)
    else:
        _single_agent(body, watched, width)
    return layout


def print_frame(watched: Watched, console: Console) -> None:
    """Print the dashboard once, with space below for a last line and the shell's prompt."""
    height = min(max(console.height - 3, 20), 40)
    console.print(frame(watched, console.width, height, footer=False), height=height)


def _single_agent(body: Layout, watched: Watched, width: int) -> None:
    top, bottom = Layout(ratio=11), Layout(ratio=10)
    top.split_row(
        Layout(Pane("reward while training", watched, panes.reward_curve), ratio=3),
        Layout(Pane("evaluation", watched, panes.evaluations), ratio=2),
    )
    parts = [
        Layout(Pane("learning", watched, panes.losses), ratio=5),
        Layout(Pane("throughput", watched, panes.throughput), ratio=5 if width >= _WIDE else 4),
        Layout(Pane("checkpoints", watched, panes.checkpoints), ratio=3),
    ]
    bottom.split_row(*parts)
    body.split_column(top, bottom)


def _four_panes(body: Layout, watched: Watched) -> None:
    top, bottom = Layout(), Layout()
    top.split_row(
        Layout(Pane("games and buffer", watched, panes.games)),
        Layout(Pane("ratings", watched, panes.ratings)),
    )
    bottom.split_row(
        Layout(Pane("learning", watched, panes.learning)),
        Layout(Pane("utilisation", watched, panes.throughput)),
    )
    body.split_column(top, bottom)


class _NoKeys:
    """Replaces `_Keys` if no keys can be read: it only waits."""

    def __call__(self, seconds: float) -> str:
        time.sleep(seconds)
        return ""


class _Keys:
    """Waits for a key on the terminal, at most the given time."""

    def __call__(self, seconds: float) -> str:
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        if not ready:
            return ""
        # read all available characters: an arrow key begins with Escape
        typed = os.read(sys.stdin.fileno(), 64) or b"q"
        return "" if typed.startswith(b"\x1b") and len(typed) > 1 else chr(typed[0])


@contextlib.contextmanager
def _keys() -> Iterator[_Keys | _NoKeys]:
    """Read keys one at a time and without echo while the dashboard is shown; without a terminal only Ctrl-C works."""
    if sys.platform == "win32":
        yield _NoKeys()
    else:
        import termios
        import tty

        try:
            descriptor = sys.stdin.fileno()
            before = termios.tcgetattr(descriptor)
        except (termios.error, OSError, ValueError):  # standard input is not a terminal
            yield _NoKeys()
            return
        try:
            tty.setcbreak(descriptor)
            yield _Keys()
        finally:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

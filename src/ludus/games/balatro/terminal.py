"""Balatro in a terminal: read keys one by one and redraw the screen after each."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ludus.errors import UserError
from ludus.games.balatro.screen import HEIGHT, WIDTH, screen
from ludus.games.balatro.settings import BalatroSettings
from ludus.games.balatro.table import HumanTable
from ludus.types import EpisodeRecord

_SEQUENCES = {
    "[A": "up",
    "[B": "down",
    "[C": "right",
    "[D": "left",
    "OA": "up",
    "OB": "down",
    "OC": "right",
    "OD": "left",
}
_NAMES = {" ": "space", "\r": "enter", "\n": "enter", "\t": "tab", "\x03": "q", "\x04": "q", "": "q"}
_ESCAPE_S = 0.05  # seconds to wait for the rest of an escape sequence, which an arrow key sends at once


def play_in_terminal(settings: BalatroSettings, seeds: Sequence[int | str]) -> list[HumanTable]:
    """Play one run per seed until the player leaves; return their tables. UserError without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError(
            "playing Balatro needs a terminal, and standard input or output is not a terminal",
            where="standard input or output",
            fix="run it in a terminal, without pipes; or watch a policy: ludus play POLICY --video FILE.mp4",
        )
    size = os.get_terminal_size()
    if size.columns < WIDTH or size.lines < HEIGHT:
        raise UserError(
            f"the terminal is too small: expected {WIDTH} by {HEIGHT} characters, got {size.columns} by {size.lines}",
            where="this terminal",
            fix="enlarge the terminal window",
        )
    played: list[HumanTable] = []
    with _keys() as keys:
        for seed in seeds:
            table = HumanTable(settings, seed)
            played.append(table)
            _draw(table)
            for key in keys:
                table.press(key)
                if table.left:
                    break
                _draw(table)
            if not table.over:
                break
    return played


def play(seeds: Sequence[int | str], say: Callable[[str], None]) -> list[EpisodeRecord]:
    """Let a person play a run for each seed, and print one line on each when it has ended."""
    tables = play_in_terminal(BalatroSettings(), seeds)
    for table in tables:
        report = table.report
        end = "won" if report["won"] else (f"lost to {report['lost_to']}" if table.over else "left")
        say(f"ante {report['ante']}, round {report['round']}: {end}; best hand {report['score']:,.0f}")
    return [EpisodeRecord(table.reward, table.report["length"]) for table in tables]


def _draw(table: HumanTable) -> None:
    sys.stdout.write("\x1b[H" + screen(table).replace("\n", "\x1b[K\r\n") + "\x1b[K\x1b[J")
    sys.stdout.flush()


@contextmanager
def _keys() -> Iterator[Iterator[str]]:
    """Set up the terminal (own screen, no cursor, no echo), yield the pressed keys, and restore it afterwards."""
    if sys.platform == "win32":
        raise UserError("Balatro in a terminal needs POSIX terminals", fix="use Linux or macOS, or WSL")
    else:
        import termios
        import tty

        fd = sys.stdin.fileno()
        before = termios.tcgetattr(fd)
        try:
            tty.setcbreak(fd)
            sys.stdout.write("\x1b[?1049h\x1b[?25l\x1b[2J")
            yield _pressed(fd)
        finally:
            sys.stdout.write("\x1b[?25h\x1b[?1049l")
            sys.stdout.flush()
            termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _pressed(fd: int) -> Iterator[str]:
    while True:
        character = os.read(fd, 1).decode("latin-1")
        if character != "\x1b":
            yield _NAMES.get(character, character.lower())
            continue
        rest = ""
        while len(rest) < 2 and select.select([fd], [], [], _ESCAPE_S)[0]:
            rest += os.read(fd, 1).decode("latin-1")
        yield _SEQUENCES.get(rest, "escape" if not rest else "")

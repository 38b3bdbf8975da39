"""Runs one program and ends it when the descriptor given first closes: with the driver, however that dies.

A script by itself, without imports from Ludus, so that it starts at once: keeper.py FD PROGRAM ARGUMENT…
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

_LOOK_SECONDS = 0.1
_POLITE_SECONDS = 2.0


class _Asked(Exception):
    """SIGTERM."""


def main(descriptor: int, command: list[str]) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to act upon
    signal.signal(signal.SIGTERM, _ask)
    program = subprocess.Popen(command, start_new_session=True)
    try:
        while program.poll() is None:
            # nobody writes: it is ready when the driver's end is closed
            if select.select([descriptor], [], [], _LOOK_SECONDS)[0]:
                break
    except _Asked:
        pass
    _end(program)
    code = program.wait()
    return code if code >= 0 else 128 - code


def _ask(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Asked


def _end(program: subprocess.Popen[bytes]) -> None:
    """Ask the program and what it started to end; after a while they must."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(program.pid, number)
            program.wait(_POLITE_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))

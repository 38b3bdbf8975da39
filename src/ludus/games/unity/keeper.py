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


def main(descriptor: int, command: list[str]) -> int:
    asked = []
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to act upon
    # only taken note of: an exception could come in the middle of ending the program, and leave it behind
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    program = subprocess.Popen(command)  # in this process's own group, which the driver can end by force
    while program.poll() is None and not asked:
        # nobody writes: it is ready when the driver's end is closed
        if select.select([descriptor], [], [], _LOOK_SECONDS)[0]:
            break
    os.killpg(0, signal.SIGTERM)  # the program and what it started
    try:
        code = program.wait(_POLITE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(0, signal.SIGKILL)  # and this process with them
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))

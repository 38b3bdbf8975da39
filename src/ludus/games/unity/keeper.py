"""Run one program, and end it when the given file descriptor closes, which happens when the parent dies for any reason.

A script without imports from Ludus, so that it starts at once: keeper.py FD PROGRAM ARGUMENT…
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

assert sys.platform != "win32", "needs process groups"

_POLL_SECONDS = 0.1
_TERMINATE_SECONDS = 2.0


def main(descriptor: int, command: list[str]) -> int:
    stop_requested = []
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    # only record it: raising here could interrupt the clean-up and leave the program running
    signal.signal(signal.SIGTERM, lambda *_: stop_requested.append(True))
    program = subprocess.Popen(command)  # in this process's group, which the parent can kill
    while program.poll() is None and not stop_requested:
        # nothing is ever written to it: it becomes readable when the parent's end is closed
        if select.select([descriptor], [], [], _POLL_SECONDS)[0]:
            break
    os.killpg(0, signal.SIGTERM)  # the program and its children
    try:
        code = program.wait(_TERMINATE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(0, signal.SIGKILL)  # this process is in the group, too
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))

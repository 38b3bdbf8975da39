"""Ends what is left of a Ray cluster whose driver is gone: undertaker.py LOGS DRIVER, started by the driver.

Two of Ray's processes try for a minute to tell their dead cluster that it is dead. Whoever writes into the session's
logs belongs to it: titles and environment are overwritten by what Ray writes over them. A script by itself, without
imports from Ludus, so that it starts at once; for Linux.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

_POLITE_SECONDS = 1.0
_LOOKS, _LOOK_SECONDS = 5, 0.3  # while they die, they start others


def main(logs: str, driver: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to act upon
    while os.getppid() == driver:
        time.sleep(_LOOK_SECONDS)
    time.sleep(_POLITE_SECONDS)
    for _ in range(_LOOKS):
        for process in Path("/proc").iterdir():
            if process.name.isdecimal() and _writes_logs(process, os.path.join(logs, "")):
                try:
                    os.kill(int(process.name), signal.SIGKILL)
                except OSError:
                    continue  # it was faster
        time.sleep(_LOOK_SECONDS)


def _writes_logs(process: Path, logs: str) -> bool:
    try:
        for link in (process / "fd").iterdir():
            if os.readlink(link).startswith(logs):
                told = (process / "fdinfo" / link.name).read_text()
                flags = next((line for line in told.splitlines() if line.startswith("flags:")), "flags: 0")
                if int(flags.split()[1], 8) & (os.O_WRONLY | os.O_RDWR):
                    return True
    except OSError:
        pass  # gone meanwhile, or somebody else's
    return False


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""End the processes of a private Ray cluster whose driver is gone, and remove its folder.

`ray_cleanup.py FOLDER DRIVER` is started by the driver, before the cluster. With 0 as DRIVER it does not wait. Two of
Ray's processes try for a minute to notify their dead cluster. A process that writes into the folder
belongs to the cluster: Ray overwrites the titles and the environment of its processes. A script by itself, without
imports from Ludus, to start at once; for Linux.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

assert sys.platform != "win32", "reads /proc"

_POLITE_SECONDS = 1.0
_LOOKS, _LOOK_SECONDS = 5, 0.3  # while they die, they start others


def main(folder: str, driver: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to act upon
    while os.getppid() == driver:
        time.sleep(_LOOK_SECONDS)
    time.sleep(_POLITE_SECONDS)
    for _ in range(_LOOKS):
        for process in Path("/proc").iterdir():
            if (
                process.name.isdecimal()
                and int(process.name) != os.getppid()
                and _writes_into(process, os.path.join(os.path.realpath(folder), ""))
            ):
                try:
                    os.kill(int(process.name), signal.SIGKILL)
                except OSError:
                    continue  # it was faster
        time.sleep(_LOOK_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


def _writes_into(process: Path, folder: str) -> bool:
    try:
        for link in (process / "fd").iterdir():
            if os.readlink(link).startswith(folder):
                info = (process / "fdinfo" / link.name).read_text()
                flags = next((line for line in info.splitlines() if line.startswith("flags:")), "flags: 0")
                if int(flags.split()[1], 8) & (os.O_WRONLY | os.O_RDWR):
                    return True
    except OSError:
        pass  # gone meanwhile, or another user's
    return False


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

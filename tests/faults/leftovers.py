"""Commands started with a mark that all they start inherits, so that whatever is left of them is found."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

_MARK = "LUDUS_TEST_MARK"


class Marked:
    """`python ARGUMENTS…`, by default of this environment, in `folder`, its output in the file `said`."""

    def __init__(
        self, folder: Path, *arguments: str, python: str = sys.executable, **environment: str
    ) -> None:
        self.mark = uuid.uuid4().hex
        self.said = folder / f"said-{self.mark}.txt"
        self._memory: set[Path] = set()
        with self.said.open("wb") as out:
            self.process = subprocess.Popen(
                [python, *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1", _MARK: self.mark, **environment},
            )

    def others(self) -> list[int]:
        """Whatever it, or something of it, has started and still runs."""
        return [pid for pid in marked(self.mark) if pid != self.process.pid]

    def wait_for(self, what: Callable[[], Any], seconds: float = 120.0) -> None:
        deadline = time.monotonic() + seconds
        while not what():
            text = self.said.read_text(errors="replace")
            assert self.process.poll() is None, f"it ended by itself:\n{text}"
            assert time.monotonic() < deadline, f"it never came so far:\n{text}"
            time.sleep(0.05)

    def end(self, number: int) -> None:
        self._memory = shared_memory(marked(self.mark))
        self.process.send_signal(number)
        self.process.wait(30)

    def seconds_until_gone(self, longest: float = 5.0) -> float | None:
        """Return the seconds until no process or shared memory was left; None if it took longer than `longest`."""
        began = time.monotonic()
        while time.monotonic() - began <= longest:
            if not self.others() and not any(path.exists() for path in self._memory):
                return time.monotonic() - began
            time.sleep(0.02)
        return None

    def clear(self) -> None:
        """End what is left, whatever the test found."""
        for pid in marked(self.mark):
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        self.process.wait()


def marked(mark: str) -> list[int]:
    """The processes that carry `mark` and are not dead."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            if f"{_MARK}={mark}".encode() not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            if (folder / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                found.append(int(folder.name))
        except OSError:
            continue  # gone meanwhile, or somebody else's
    return found


def shared_memory(pids: list[int]) -> set[Path]:
    """Return the files in /dev/shm that these processes have mapped or open."""
    found = set()
    for pid in pids:
        try:
            maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
            names = [line.split(maxsplit=5)[5] for line in maps if "/dev/shm/" in line]
            names += [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        found |= {Path(name) for name in names if name.startswith("/dev/shm/") and "(deleted)" not in name}
    return found


def command_lines(pids: list[int]) -> str:
    lines = []
    for pid in pids:
        try:
            lines.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:300])
        except OSError:
            continue
    return "\n".join(lines)


def seconds_of(pid: int) -> float:
    """The processor time that a process has used; -1 where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return -1.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

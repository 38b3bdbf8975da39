"""How hard training works its machine: processor, memory, GPU. Cheap enough for every metrics row, and it never fails.

What a system does not tell is left out. Who only looks on lets training go first (`step_back`).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from ludus.types import Metrics

_SECONDS = 1.0
_NICE = 10
Result = TypeVar("Result")


def step_back() -> None:
    """From here on this thread, and what it starts, leaves the cores to whoever else wants them. On Linux."""
    if sys.platform == "linux":  # elsewhere it would be the whole process, training included
        with contextlib.suppress(OSError):  # a sandbox may not allow it
            os.setpriority(os.PRIO_PROCESS, 0, max(_NICE, os.getpriority(os.PRIO_PROCESS, 0)))


def stepped_back(start: Callable[[], Result]) -> Result:
    """What `start()` returns or raises; the threads and processes that it starts have stepped back."""
    future: Future[Result] = Future()

    def work() -> None:
        step_back()
        try:
            future.set_result(start())
        except BaseException as error:  # raised where it is waited for
            future.set_exception(error)

    threading.Thread(target=work, name="ludus-stepped-back", daemon=True).start()
    return future.result()


class MachineLoad:
    """`sample()` at most once a second: the load since the sample before, under `time/` names."""

    def __init__(self, device: str = "cpu") -> None:
        """`device`: where training computes, as torch names it."""
        self._gpu = _gpu_of(device)
        self._at = time.monotonic()
        self._own = _own_cpu_seconds()
        self._machine = _machine_jiffies()

    def sample(self) -> Metrics:
        """The load by name; empty where the last sample is less than a second old."""
        now = time.monotonic()
        if now - self._at < _SECONDS:
            return {}
        own, machine = _own_cpu_seconds(), _machine_jiffies()
        found: Metrics = {"time/cpu_cores": round((own - self._own) / (now - self._at), 3)}
        if machine is not None and self._machine is not None and machine[1] > self._machine[1]:
            busy, total = machine[0] - self._machine[0], machine[1] - self._machine[1]
            found["time/cpu_machine"] = round(busy / total, 3)
        memory = _memory()
        if memory is not None:
            found["time/memory_gb"] = round(memory / 1e9, 3)
        self._at, self._own, self._machine = now, own, machine
        return found | self._sample_gpu()

    def _sample_gpu(self) -> Metrics:
        if self._gpu is None:
            return {}
        try:
            free, total = self._gpu.mem_get_info()
            found: Metrics = {"time/gpu_memory_gb": round((total - free) / 1e9, 3)}
        except Exception:  # a driver's own errors; the load is not worth a failure
            self._gpu = None
            return {}
        with contextlib.suppress(Exception):  # without NVIDIA's library for Python nobody knows
            found["time/gpu_percent"] = float(self._gpu.utilization())
        return found


def _gpu_of(device: str) -> Any:
    # torch is there if it computes on a GPU; it is not imported for this
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and device.startswith("cuda") else None


def _own_cpu_seconds() -> float:
    """Of this process, all threads, and of worker processes that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _machine_jiffies() -> tuple[int, int] | None:
    """Busy and all processor time of the machine since it started, in the kernel's own unit."""
    try:
        with open("/proc/stat", "rb") as file:
            fields = [int(field) for field in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    idle = sum(fields[3:5])  # idle, and waiting for disks
    return sum(fields) - idle, sum(fields)


def _memory() -> int | None:
    """Bytes of this process that are in memory."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None

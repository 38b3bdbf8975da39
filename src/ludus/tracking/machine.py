"""Load of the machine during training: processor, memory, GPU. Cheap enough for every metrics row, and never fails.

Values that a system does not report are left out. Threads that only observe get a low priority (`step_back`).
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

from ludus.posix import page_size
from ludus.types import Metrics

_SECONDS = 1.0
_NICE = 10
Result = TypeVar("Result")


def step_back() -> None:
    """Lower the priority of this thread and of the threads and processes it starts from now on (Linux only)."""
    if sys.platform == "linux":  # elsewhere it would be the whole process, training included
        with contextlib.suppress(OSError):  # a sandbox may not allow it
            os.setpriority(os.PRIO_PROCESS, 0, max(_NICE, os.getpriority(os.PRIO_PROCESS, 0)))


def stepped_back(start: Callable[[], Result]) -> Result:
    """Return or raise what `start()` does; threads and processes that it starts have the lower priority."""
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
    """Measures the load since the last `sample()`, at most once a second, under `time/` names."""

    def __init__(self, device: str = "cpu") -> None:
        """`device` is the training device, as torch names it."""
        self._gpu = _gpu_of(device)
        self._at = time.monotonic()
        self._own = _own_cpu_seconds()
        self._machine = _machine_jiffies()

    def sample(self) -> Metrics:
        """Return the load by name; empty if the last sample is less than a second old."""
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
        except Exception:  # errors of the driver: a missing value must not end a training
            self._gpu = None
            return {}
        with contextlib.suppress(Exception):  # unknown without NVIDIA's Python library
            found["time/gpu_percent"] = float(self._gpu.utilization())
        return found


def _gpu_of(device: str) -> Any:
    # training on a GPU has imported torch already; it is not imported for this
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and device.startswith("cuda") else None


def _own_cpu_seconds() -> float:
    """Return the CPU time of all threads of this process and of worker processes that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _machine_jiffies() -> tuple[int, int] | None:
    """Return the busy and the total CPU time of the machine since boot, in kernel ticks."""
    try:
        with open("/proc/stat", "rb") as file:
            fields = [int(field) for field in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    idle = sum(fields[3:5])  # idle, and waiting for disks
    return sum(fields) - idle, sum(fields)


def _memory() -> int | None:
    """Return the resident memory of this process in bytes."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * page_size()
    except (OSError, ValueError, IndexError):
        return None

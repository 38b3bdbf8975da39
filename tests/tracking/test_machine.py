"""The load of the machine is told under names of the clock, at most once a second."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from ludus.tracking import machine
from ludus.tracking.machine import MachineLoad, stepped_back


def test_the_load_is_that_since_the_last_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    load = MachineLoad()
    assert load.sample() == {}
    monkeypatch.setattr(machine, "_SECONDS", 0.0)
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    found = load.sample()
    assert all(name.startswith("time/") for name in found)
    assert 0 < found["time/cpu_cores"] <= 64
    if sys.platform == "linux":
        assert 0 <= found["time/cpu_machine"] <= 1
        assert 0.001 < found["time/memory_gb"] < 1000


def test_what_the_system_does_not_tell_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_SECONDS", 0.0)
    monkeypatch.setattr(machine, "_machine_jiffies", lambda: None)
    monkeypatch.setattr(machine, "_memory", lambda: None)
    load = MachineLoad("cuda")
    time.sleep(0.01)
    assert list(load.sample()) == ["time/cpu_cores"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no priority of its own")
def test_what_steps_back_leaves_the_rest_as_it_was() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    told = stepped_back(
        lambda: subprocess.check_output(
            [sys.executable, "-c", "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"], text=True
        )
    )
    assert int(told) == max(before, 10)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_an_error_of_what_steps_back_is_raised_where_it_was_started() -> None:
    with pytest.raises(ZeroDivisionError):
        stepped_back(lambda: 1 / 0)

"""The load of the machine is reported under `time/` names, at most once a second."""

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


def test_values_that_the_system_does_not_report_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_SECONDS", 0.0)
    monkeypatch.setattr(machine, "_machine_jiffies", lambda: None)
    monkeypatch.setattr(machine, "_memory", lambda: None)
    load = MachineLoad("cuda")
    time.sleep(0.01)
    assert list(load.sample()) == ["time/cpu_cores"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no priority of its own")
def test_stepping_back_does_not_change_other_threads() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    niceness = stepped_back(
        lambda: subprocess.check_output(
            [sys.executable, "-c", "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"], text=True
        )
    )
    assert int(niceness) == max(before, 10)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_error_of_a_stepped_back_call_is_raised_in_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        stepped_back(lambda: 1 / 0)

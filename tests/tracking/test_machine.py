"""The load of the machine is told under names of the clock, at most once a second."""

from __future__ import annotations

import sys
import time

import pytest

from ludus.tracking import machine
from ludus.tracking.machine import MachineLoad


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

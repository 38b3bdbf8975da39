"""The first signal requests a stop, the second ends the process, and the old handlers are restored."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from ludus.runs.signals import StopSignals

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

LOOP = """
import signal, sys, time
from ludus.runs.signals import StopSignals
# not inherited: the tests themselves may run under nohup
signal.signal(signal.SIGHUP, signal.SIG_IGN if "nohup" in sys.argv else signal.SIG_DFL)
with StopSignals() as stop:
    print("ready", flush=True)
    while stop.received is None:
        time.sleep(0.01)
    print("stopping", stop.received, flush=True)
    if "hang" in sys.argv:
        time.sleep(60)
print("saved", flush=True)
sys.exit(stop.exit_code)
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", LOOP, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
def test_the_first_signal_lets_the_loop_finish(number: signal.Signals, code: int) -> None:
    process = start()
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (out, err) == (f"stopping {int(number)}\nsaved\n", "")
    assert process.returncode == code


@pytest.mark.parametrize(("second", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_second_signal_ends_the_process_at_once(second: signal.Signals, code: int) -> None:
    process = start("hang")
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "stopping 2\n"
    process.send_signal(second)
    out, _ = process.communicate(timeout=20)
    assert "saved" not in out
    assert process.returncode == code


def test_a_hangup_ignored_by_nohup_stays_ignored() -> None:
    process = start("nohup")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert out == "stopping 15\nsaved\n"


def test_old_handlers_are_restored() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with StopSignals() as stop:
        assert stop.exit_code == 0
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.received == signal.SIGTERM
    assert [signal.getsignal(number) for number in numbers] == before


def test_outside_the_main_thread_it_does_nothing() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def body() -> None:
        with StopSignals() as stop:
            seen.extend([signal.getsignal(signal.SIGINT), stop.received])

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert seen == [before, None]


@pytest.mark.parametrize(("number", "ended_by"), [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, 0)])
def test_a_forked_worker_dies_of_sigterm_but_leaves_ctrl_c_to_its_parent(
    number: signal.Signals, ended_by: int
) -> None:
    with StopSignals() as stop:
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), number)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == ended_by
        assert stop.received is None

"""One process locks a run. The lock is released when the process ends, in any way."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ludus.errors import UserError
from ludus.runs.lock import RunLock, is_locked
from ludus.runs.lock import holder as holder_of

HOLD = """
import sys
from ludus.runs.lock import RunLock
with RunLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""


def hold(path: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_locking_twice_raises_with_the_process_that_holds_the_lock(tmp_path: Path) -> None:
    with hold(tmp_path) as holder:
        with pytest.raises(UserError) as caught, RunLock(tmp_path):
            pass
        assert caught.value.what == f"run is in use by process {holder.pid} on {socket.gethostname()}"
        assert holder_of(tmp_path) == (holder.pid, socket.gethostname())
        holder.communicate("\n")
    assert holder_of(tmp_path) is None  # whatever run.lock still says
    with RunLock(tmp_path):
        pass


def test_a_killed_holder_leaves_no_stale_lock(tmp_path: Path) -> None:
    with hold(tmp_path) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    assert (tmp_path / "run.lock").exists()
    with RunLock(tmp_path):
        pass


def test_the_lock_also_holds_within_one_process_and_is_free_afterwards(tmp_path: Path) -> None:
    with RunLock(tmp_path), pytest.raises(UserError, match=str(os.getpid())), RunLock(tmp_path):
        pass
    with RunLock(tmp_path):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_checking_the_lock_does_not_prevent_locking(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl", reason="Windows has no shared locks")
    with RunLock(tmp_path):
        pass
    looker = os.open(tmp_path / "run.lock", os.O_RDWR)
    fcntl.flock(looker, fcntl.LOCK_SH)  # in the midst of `is_locked`
    try:
        assert not is_locked(tmp_path)  # two who look are not taken for a holder
        timer = threading.Timer(0.05, fcntl.flock, (looker, fcntl.LOCK_UN))
        timer.start()
        with RunLock(tmp_path):
            assert is_locked(tmp_path)
        timer.join()
    finally:
        os.close(looker)


def test_a_forked_worker_does_not_hold_the_run_of_its_killed_parent(tmp_path: Path) -> None:
    code = HOLD.replace("    print", "    import os\n    pid = os.fork()\n    if pid == 0: print", 1)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert (
            parent.stdout.readline() == "held\n"
        )  # said by the worker, which now waits for its stdin to end
        parent.kill()
        parent.wait()
        with RunLock(tmp_path):
            pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_leaving_the_lock_frees_the_run_while_a_worker_lives(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with RunLock(tmp_path):
        worker = os.fork()
        if worker == 0:
            os.close(writing)
            os.read(reading, 1)  # lives until the parent has tried the lock
            os._exit(0)
    try:
        with RunLock(tmp_path):
            pass
    finally:
        os.close(writing)
        os.waitpid(worker, 0)
        os.close(reading)


def test_a_lock_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.lock").symlink_to(precious)
    with pytest.raises(OSError), RunLock(run):
        pass
    assert precious.read_text() == "precious" and not is_locked(run)

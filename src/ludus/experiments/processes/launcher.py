"""The process from which every training of a comparison is forked, with torch already loaded.

Loading torch takes longer than training CartPole. This process loads it once, does not use it (so that it has no
threads, locks or GPU state that a fork could break), and forks one process per job. It ends with its driver: when the
socket closes, it asks the jobs to save and stop, kills them after a while, and exits.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import sys
import time
import traceback
from multiprocessing.connection import Connection
from typing import NoReturn

from ludus.envs.vector.wire import pack, unpack
from ludus.errors import printable
from ludus.secret_values import without_secrets

assert sys.platform != "win32", "needs fork"

_POLL_SECONDS = 0.02
_SAVING_SECONDS = (
    3.0  # for jobs to save and stop after the driver has died; everything is gone after five seconds
)
_PR_SET_PDEATHSIG = 1
# the first optimizer would import torch._dynamo anyway
TO_LOAD = ("torch._dynamo", "ludus.experiments.processes.job")


def main(arguments: list[str]) -> None:
    """Serve `Job`s from the socket to the driver, whose descriptor is the argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C
    connection: Connection = Connection(int(arguments[0]))
    os.set_inheritable(connection.fileno(), False)
    for module in TO_LOAD:
        importlib.import_module(module)
    children: set[int] = set()
    with contextlib.suppress(EOFError, OSError):  # the driver has died
        connection.send_bytes(pack("ready"))
        while True:
            if connection.poll(_POLL_SECONDS):
                pid = _fork(connection, connection.recv_bytes())
                children.add(pid)
                connection.send_bytes(pack(pid))
            for pid, code in _ended(children):
                connection.send_bytes(pack((pid, code)))
    _signal_all(children, signal.SIGTERM)
    deadline = time.monotonic() + _SAVING_SECONDS
    while children and time.monotonic() < deadline:
        _ended(children)
        time.sleep(_POLL_SECONDS)
    _signal_all(children, signal.SIGKILL)  # those that hang in an env; their last checkpoint is complete
    os._exit(0)  # nothing to clean up, and exiting torch normally is slow


def _signal_all(children: set[int], number: int) -> None:
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _fork(connection: Connection, payload: bytes) -> int:
    """Start the job in its own process; return its pid."""
    launcher = os.getpid()
    pid = os.fork()
    if pid == 0:
        _run_job_and_exit(connection, payload, launcher)
    return pid


def _run_job_and_exit(connection: Connection, payload: bytes, launcher: int) -> NoReturn:
    code = 1
    try:
        connection.close()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != launcher:
                os._exit(1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from ludus.experiments.processes.job import Job, run_job

        job: Job = unpack(payload)
        log = os.open(job.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(log, 1)
        os.dup2(log, 2)
        code = run_job(job)
    except BaseException:  # this process must not continue as a second launcher
        print(printable(without_secrets(traceback.format_exc()), keep="\n\t"), file=sys.stderr)
    finally:
        with contextlib.suppress(Exception):  # it must exit here in any case
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _ended(children: set[int]) -> list[tuple[int, int]]:
    """Return the children that have ended, with their exit codes; a negative one is a signal."""
    ended = []
    for pid in list(children):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            children.remove(pid)
            ended.append((pid, os.waitstatus_to_exitcode(status)))
    return ended

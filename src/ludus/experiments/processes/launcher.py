"""The process that every training of a comparison is forked from, with torch already loaded.

Loading torch takes longer than training CartPole. This process loads it once, does nothing with it (so that it
has no threads, locks or GPU that a fork could break), and forks one process per job. It ends with its driver:
when the socket closes, the jobs are asked to save and stop, made to after a while, and so does it.
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
from ludus.secret_values import without_secrets

_POLL_SECONDS = 0.02
_SAVING_SECONDS = 3.0  # for jobs whose driver is gone to save and stop: after five nothing is left of it
_PR_SET_PDEATHSIG = 1
TO_LOAD = (
    "torch._dynamo",
    "ludus.experiments.processes.job",
)  # the first optimizer would import the former anyway


def main(arguments: list[str]) -> None:
    """`arguments`: the descriptor of the socket to the driver, over which `Job`s come."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to act upon
    connection: Connection = Connection(int(arguments[0]))
    os.set_inheritable(connection.fileno(), False)
    for module in TO_LOAD:
        importlib.import_module(module)
    children: set[int] = set()
    with contextlib.suppress(EOFError, OSError):  # the driver is gone
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
    _signal_all(children, signal.SIGKILL)  # what hangs in an env; its last checkpoint is whole
    os._exit(0)  # there is nothing to clean up, and torch takes its time


def _signal_all(children: set[int], number: int) -> None:
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _fork(connection: Connection, payload: bytes) -> int:
    """Start the job in a process of its own; returns its id."""
    launcher = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(connection, payload, launcher)
    return pid


def _become(connection: Connection, payload: bytes, launcher: int) -> NoReturn:
    code = 1
    try:
        connection.close()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != launcher:
                os._exit(1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from ludus.experiments.processes.job import Job, do

        job: Job = unpack(payload)
        log = os.open(job.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(log, 1)
        os.dup2(log, 2)
        code = do(job)
    except BaseException:  # nothing of this process may go on as a second launcher
        print(without_secrets(traceback.format_exc()), file=sys.stderr)
    finally:
        with contextlib.suppress(Exception):  # whatever becomes of its last words, it must end here
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _ended(children: set[int]) -> list[tuple[int, int]]:
    """Those of the children that have ended, with their exit codes; a negative one is the signal that did it."""
    ended = []
    for pid in list(children):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            children.remove(pid)
            ended.append((pid, os.waitstatus_to_exitcode(status)))
    return ended

"""Several trainings in parallel, each in its own process: the driver's side."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

import cloudpickle

from ludus.config.own_modules import BOOT, exported
from ludus.envs.vector.wire import unpack
from ludus.errors import LudusError, UserError
from ludus.experiments.processes.job import Job
from ludus.posix import SIGKILL

_BOOT = BOOT + "from ludus.experiments.processes.launcher import main; main(sys.argv[2:])"
# A fork copies only one thread, so the launcher must have no others. The config of a run sets its threads.
NO_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_START_SECONDS = 120.0


@dataclass(frozen=True)
class Ended:
    """A job that has ended: `code` is the exit code of its process, negative for a signal."""

    job: Job
    code: int


class Pool:
    """Context manager that starts jobs and reports when they end. On exit, running jobs are killed.

    Needs a system with fork.
    """

    def __init__(self) -> None:
        self._launcher: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._jobs: dict[int, Job] = {}
        self._over: list[Ended] = []

    def __enter__(self) -> Pool:
        if not hasattr(os, "fork"):
            raise UserError("several runs at a time need a system with fork", fix="use Linux or macOS")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pid in self._jobs:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, SIGKILL)
        if self._connection is not None and self._launcher is not None:
            self._connection.close()
            self._launcher.wait()

    @property
    def running(self) -> list[Job]:
        return list(self._jobs.values())

    def start(self, job: Job) -> None:
        """Start `job`. UserError if its env function cannot be pickled."""
        try:
            payload = cloudpickle.dumps(job)
        except Exception as error:  # pickling runs the user's code, which may raise anything
            raise UserError(
                f"the env function cannot be sent to another process: {type(error).__name__}: {error}",
                where=job.name,
                fix="build everything the env needs inside its function",
            ) from error
        connection = self._connect()
        connection.send_bytes(payload)
        answer = self._receive(connection)
        while isinstance(answer, tuple):  # another job ended meanwhile
            self._note(*answer)
            answer = self._receive(connection)
        self._jobs[int(answer)] = job

    def wait(self, seconds: float) -> list[Ended]:
        """Return the jobs that have ended since the last call; wait up to `seconds` for one."""
        connection = self._connection
        if connection is None:
            time.sleep(seconds)
        elif not self._over:
            try:
                while connection.poll(0 if self._over else seconds):
                    self._note(*unpack(connection.recv_bytes()))
            except (EOFError, OSError):
                self._launcher_died()
        ended, self._over = self._over, []
        return ended

    def stop(self, job: Job, number: int = signal.SIGINT) -> None:
        """Ask a job to save and stop."""
        for pid, running in self._jobs.items():
            if running.name == job.name:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def _note(self, pid: int, code: int) -> None:
        self._over.append(Ended(self._jobs.pop(pid), code))

    def _launcher_died(self) -> None:
        """Mark all jobs as ended: the kernel asked them to stop, too. The caller may start them again."""
        self._over += [Ended(job, -signal.SIGTERM) for job in self._jobs.values()]
        self._jobs.clear()
        self._connection = self._launcher = None

    def _connect(self) -> Connection:
        if self._connection is not None:
            return self._connection
        ours, theirs = socket.socketpair()
        with theirs:
            self._launcher = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT, exported(), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, **NO_THREADS},
                start_new_session=True,  # Ctrl-C in the terminal reaches only the driver
            )
        self._connection = Connection(ours.detach())
        if not self._connection.poll(_START_SECONDS):
            raise LudusError("the process that starts the runs did not answer")
        self._receive(self._connection)  # "ready"
        return self._connection

    def _receive(self, connection: Connection) -> Any:
        try:
            return unpack(connection.recv_bytes())
        except (EOFError, OSError) as error:
            raise LudusError("the process that starts the runs has died; see its output above") from error

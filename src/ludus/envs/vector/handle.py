"""The driver's handle of one worker process: start it, exchange messages with a deadline, end it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

from ludus.config.own_modules import BOOT, exported
from ludus.envs.vector.wire import Channel, Garbage, Kind, unpack_answer
from ludus.posix import SIGKILL, kill_group, peak_memory_of_children
from ludus.runs.signals import stop_requested_at

_LOOK_SECONDS = 0.25  # between two looks at whether a stop signal came
_STOP_SECONDS = 3.0  # for an answer after a stop signal
_EXIT_SECONDS = 1.0  # for a process that closed its socket, or was killed, to exit

_BOOT = BOOT + "from ludus.envs.vector.worker import main; main(sys.argv[2:])"


class WorkerLost(Exception):  # an event that the driver handles
    """The worker died or did not answer in time, and was removed; the text says how."""


class WorkerHandle:
    """Start a worker and own it until `end`. It inherits `memory_fd` and `lifeline_fd`."""

    def __init__(self, memory_fd: int, lifeline_fd: int, working_directory: str) -> None:
        ours, theirs = socket.socketpair()
        # the kernel kills a child when the thread that started it exits, so the main thread starts it
        from_main_thread = threading.current_thread() is threading.main_thread()
        descriptors = (theirs.fileno(), memory_fd, lifeline_fd)
        arguments = [*descriptors, os.getpid() if from_main_thread else 0]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT, exported(), *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                pass_fds=descriptors,
                cwd=working_directory,
                process_group=0,  # so that programs started by an env can be ended with it
            )
        self._channel = Channel(ours)
        self._number = 0
        self._reachable = True
        self._ended = False
        self._forced = False
        """True if the driver killed the worker."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, kind: Kind, payload: bytes = b"", *, timeout: float) -> None:
        """Send a command. A worker that cannot receive it is reported by `answer`."""
        self._number += 1
        try:
            self._channel.send(kind, self._number, payload, timeout=timeout)
        except OSError:
            self._reachable = False

    def answer(self, deadline: float, patience: str, *, stoppable: bool = False) -> Any:
        """Return the result of the last command. Raises the error of the worker, or WorkerLost.

        `deadline` is of `time.monotonic`; `patience` says in words how long that was. With `stoppable`, a stop signal
        leaves the worker a few seconds: a container has ten in all.
        """
        try:
            while self._reachable:
                kind, number, payload = self._receive(deadline, stoppable)
                if number != self._number:
                    continue  # the answer to a call that was interrupted
                answer = unpack_answer(payload)
                if kind is Kind.ERROR:
                    raise answer
                return answer
        except Garbage:
            self.end(polite_until=0.0, reap_until=time.monotonic() + _EXIT_SECONDS)
            raise WorkerLost(
                "sent invalid data: the env or a library in it writes to file descriptors of the worker"
            ) from None
        except TimeoutError:
            self.end(polite_until=0.0, reap_until=time.monotonic() + _EXIT_SECONDS)
            raise WorkerLost(f"did not answer for {patience}") from None
        except (EOFError, OSError):
            pass
        # wait for an exit in progress: its exit code says more than our signal would
        exited_by = time.monotonic() + _EXIT_SECONDS
        raise WorkerLost(self.end(polite_until=exited_by, reap_until=exited_by + _EXIT_SECONDS)) from None

    def _receive(self, deadline: float, stoppable: bool) -> tuple[Kind, int, bytes]:
        if not stoppable:
            return self._channel.receive(deadline)
        asked = time.monotonic()
        while True:
            until = min(deadline, time.monotonic() + _LOOK_SECONDS)
            try:
                return self._channel.receive(until)
            except TimeoutError:
                if until >= deadline:
                    raise
            signalled = stop_requested_at()
            if signalled is not None:
                deadline = min(deadline, max(signalled, asked) + _STOP_SECONDS)

    def has_answer(self) -> bool:
        """Return whether `answer` would return at once: a frame has begun to arrive, or the worker has exited."""
        return not self._reachable or self._channel.readable()

    def end(self, *, polite_until: float, reap_until: float) -> str:
        """End the process and all that it started, by force if it has not exited by `polite_until`.

        Returns how it ended, at `reap_until` at the latest. May be called again.
        """
        if not self._ended:
            self._ended = True
            if self._hangs_up(polite_until):
                self._reap(polite_until)
            self._forced = self._process.poll() is None
            with contextlib.suppress(OSError):
                kill_group(self._process.pid)
            self._reap(reap_until)
            self._channel.close()
        return _in_words(self._process.returncode) + self._is_out_of_memory()

    def _is_out_of_memory(self) -> str:
        """Return a note if the worker was probably killed because memory ran out."""
        if self._process.returncode != -SIGKILL or self._forced:
            return ""
        return f", out of memory perhaps: workers held up to {peak_memory_of_children() / 1024:,.0f} MiB"

    def _hangs_up(self, deadline: float) -> bool:
        try:
            while True:
                self._channel.receive(deadline)  # answers of interrupted calls
        except TimeoutError:
            return False
        except (EOFError, OSError):
            return True

    def _reap(self, deadline: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(deadline - time.monotonic(), 0.0))


def _in_words(code: int | None) -> str:
    if code is None:
        return "could not be killed"
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"

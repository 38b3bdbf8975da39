"""The driver's handle of one worker process: start it, exchange messages with a deadline, end it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

from ludus.envs.vector.wire import Channel, Garbage, Kind, unpack_answer, unpack_error

_EXIT_SECONDS = 1.0  # for a process that closed its socket, or was killed, to exit

# the driver's own import path, without the working directory unless it is on it
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from ludus.envs.vector.worker import main; main(sys.argv[2:])"
)


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
        import_path = json.dumps([str(entry) for entry in sys.path])
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT, import_path, *map(str, arguments)],
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
        """Whether the driver killed it."""

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

    def answer(self, deadline: float, patience: str) -> Any:
        """Return the result of the last command. Raises the error of the worker, or WorkerLost.

        `deadline` is of `time.monotonic`; `patience` says in words how long that was.
        """
        try:
            while self._reachable:
                kind, number, payload = self._channel.receive(deadline)
                if number != self._number:
                    continue  # the answer to a call that was interrupted
                if kind is Kind.ERROR:
                    raise unpack_error(payload)
                return unpack_answer(payload)
        except Garbage:
            self.end(polite_until=0.0, reap_until=time.monotonic() + _EXIT_SECONDS)
            raise WorkerLost(
                "sent garbage: something in it writes to descriptors that are not its own"
            ) from None
        except TimeoutError:
            self.end(polite_until=0.0, reap_until=time.monotonic() + _EXIT_SECONDS)
            raise WorkerLost(f"gave no answer for {patience}") from None
        except (EOFError, OSError):
            pass
        # wait for an exit in progress: its exit code says more than our signal would
        exited_by = time.monotonic() + _EXIT_SECONDS
        raise WorkerLost(self.end(polite_until=exited_by, reap_until=exited_by + _EXIT_SECONDS)) from None

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
                os.killpg(self._process.pid, signal.SIGKILL)
            self._reap(reap_until)
            self._channel.close()
        return _in_words(self._process.returncode) + self._want_of_memory()

    def _want_of_memory(self) -> str:
        """Return a note if the worker was probably killed because memory ran out."""
        if self._process.returncode != -signal.SIGKILL or self._forced:
            return ""
        return f", out of memory perhaps: workers held up to {_most_memory() / 1024:,.0f} MiB"

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


def _most_memory() -> float:
    """Return the peak memory, in KiB, of any child that has exited."""
    import resource

    held = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return held / 1024 if sys.platform == "darwin" else held


def _in_words(code: int | None) -> str:
    if code is None:
        return "could not be killed"
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"

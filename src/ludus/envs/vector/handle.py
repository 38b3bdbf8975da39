"""The driver's hold on one worker process: start it, talk to it with a deadline, end it whatever it does."""

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

_EXIT_SECONDS = 1.0  # for a process that hung up, or was killed, to be gone

# the driver's own import path, and nothing of the working directory that is not on it
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from ludus.envs.vector.worker import main; main(sys.argv[2:])"
)


class WorkerLost(Exception):  # an event the driver handles, not an error of its own
    """The worker died or gave no answer in time, and has been removed; the text says how."""


class WorkerHandle:
    """Starts a worker and owns it until `end`. It inherits `memory_fd` and `lifeline_fd`."""

    def __init__(self, memory_fd: int, lifeline_fd: int, working_directory: str) -> None:
        ours, theirs = socket.socketpair()
        # the kernel ties a child's death to the thread that started it, and only the main thread outlives all
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
        """Whether it was us who killed it."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, kind: Kind, payload: bytes = b"", *, timeout: float) -> None:
        """Sends a command; a worker that cannot take it is reported by `answer`."""
        self._number += 1
        try:
            self._channel.send(kind, self._number, payload, timeout=timeout)
        except OSError:
            self._reachable = False

    def answer(self, deadline: float, patience: str) -> Any:
        """The result of the last command sent. Raises what the worker raised, or WorkerLost.

        `deadline` is of `time.monotonic`; `patience` says in words how long that was.
        """
        try:
            while self._reachable:
                kind, number, payload = self._channel.receive(deadline)
                if number != self._number:
                    continue  # an answer nobody waited for: an interrupt ended the call
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
        # an exit on its way is let through: its code tells more than our signal would
        exited_by = time.monotonic() + _EXIT_SECONDS
        raise WorkerLost(self.end(polite_until=exited_by, reap_until=exited_by + _EXIT_SECONDS)) from None

    def has_answer(self) -> bool:
        """Whether `answer` would return at once: a frame has begun to arrive, or the worker is gone."""
        return not self._reachable or self._channel.readable()

    def end(self, *, polite_until: float, reap_until: float) -> str:
        """Removes the process and all that it started: by force, if it has not exited by `polite_until`.

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
        """What the kernel does not say of a process that it ended for want of memory."""
        if self._process.returncode != -signal.SIGKILL or self._forced:
            return ""
        return f", out of memory perhaps: workers held up to {_most_memory() / 1024:,.0f} MiB"

    def _hangs_up(self, deadline: float) -> bool:
        try:
            while True:
                self._channel.receive(deadline)  # answers nobody waits for any more
        except TimeoutError:
            return False
        except (EOFError, OSError):
            return True

    def _reap(self, deadline: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(deadline - time.monotonic(), 0.0))


def _most_memory() -> float:
    """The most, in KiB, that any child which has ended ever held."""
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

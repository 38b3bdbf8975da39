"""Stopping on request: the first signal asks the loop to finish cleanly, the second ends the process."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from ludus.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_TERMINATED

_SHOW_CURSOR = b"\x1b[?25h"


_active: list[StopSignals] = []


class StopRequested(Exception):
    """Raised where a stop signal ends a wait."""


def stop_requested_at() -> float | None:
    """Return when a stop signal came, on the clock of `time.monotonic`; None if none came to a training in progress."""
    times = [signals.received_at for signals in _active if signals.received_at is not None]
    return min(times, default=None)


class StopSignals:
    """Context manager that turns SIGINT, SIGTERM and SIGHUP into a request to stop.

    `received` is the number of the first signal, None before one came. The loop polls it; nothing is raised.
    `acknowledge` is called in the signal handler, once: it must take no lock.
    A second signal ends the process without cleanup. Outside the main thread, where Python allows no
    handlers, it does nothing. A SIGHUP that is ignored on entry (nohup) stays ignored.
    """

    def __init__(self, acknowledge: Callable[[], None] = lambda: None) -> None:
        self.received: int | None = None
        self.received_at: float | None = None
        self._acknowledge = acknowledge
        self._old_handlers: dict[int, Any] = {}
        self._pid = os.getpid()

    @property
    def exit_code(self) -> int:
        """130 after SIGINT, 143 after SIGTERM or SIGHUP, 0 when no signal came."""
        return EXIT_OK if self.received is None else _exit_code(self.received)

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._pid = os.getpid()
        numbers = [signal.SIGINT, signal.SIGTERM]
        hangup = getattr(signal, "SIGHUP", None)  # Windows has none
        if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
            numbers.append(hangup)
        for number in numbers:
            self._old_handlers[number] = signal.signal(number, self._handle)
        _active.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._old_handlers.items():
            # None: the old handler was not set from Python and cannot be put back
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._old_handlers.clear()
        if self in _active:
            _active.remove(self)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            _handle_in_forked_child(number)
        elif self.received is None:
            self.received, self.received_at = number, time.monotonic()
            self._acknowledge()
        else:
            _show_cursor()
            os._exit(_exit_code(number))


def _handle_in_forked_child(number: int) -> None:
    """Ignore Ctrl-C in the child: it reaches the whole process group, and the parent decides. Others end the child."""
    if number != signal.SIGINT:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _exit_code(number: int) -> int:
    return EXIT_INTERRUPTED if number == signal.SIGINT else EXIT_TERMINATED


def _show_cursor() -> None:
    """Show the cursor that a live display has hidden: no other cleanup will run."""
    for descriptor in (1, 2):
        try:
            if os.isatty(descriptor):
                os.write(descriptor, _SHOW_CURSOR)
        except OSError:
            pass  # the terminal is closed

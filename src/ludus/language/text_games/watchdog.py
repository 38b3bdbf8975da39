"""A deadline for third-party code in any thread: after it, `TooSlow` is raised inside that code.

It interrupts Python code; a call that blocks outside Python is interrupted when it returns.
"""

from __future__ import annotations

import ctypes
import threading
import time

_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_POLL_S = 0.5


class TooSlow(BaseException):
    """Raised after the deadline. It is not an Exception, because games catch those."""


class Watchdog:
    """Watches one call at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._due: float | None = None
        self._watched = 0
        self._fired = False

    def arm(self, seconds: float) -> None:
        """Give the calling thread `seconds` until `disarm`."""
        if self._thread is None or not self._thread.is_alive():  # also after a fork
            self._thread = threading.Thread(target=self._watch, name="text-game watchdog", daemon=True)
            self._thread.start()
        self._watched, self._due = threading.get_ident(), time.monotonic() + seconds

    def disarm(self) -> None:
        """End the deadline; nothing is raised afterwards."""
        while True:
            try:
                with self._lock:
                    self._due = None
                    if self._fired:
                        _raise_in(ctypes.c_ulong(self._watched), None)  # takes back what was not raised yet
                        self._fired = False
                return
            except TooSlow:  # raised at the last moment, here
                continue

    def _watch(self) -> None:
        while True:
            time.sleep(_POLL_S)
            with self._lock:
                if self._due is not None and time.monotonic() > self._due:
                    self._due, self._fired = None, True
                    _raise_in(ctypes.c_ulong(self._watched), ctypes.py_object(TooSlow))

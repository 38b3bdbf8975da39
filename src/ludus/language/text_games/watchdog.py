"""A deadline on code that is not ours, in whichever thread it runs: past it, `TooSlow` is raised inside it.

It reaches code that runs Python; a call that waits outside of Python is stopped when it comes back.
"""

from __future__ import annotations

import ctypes
import threading
import time

_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_POLL_S = 0.5


class TooSlow(BaseException):
    """Not an Exception: games catch those."""


class Watchdog:
    """Watches one call at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._due: float | None = None
        self._watched = 0
        self._fired = False

    def arm(self, seconds: float) -> None:
        """From now on, the calling thread has `seconds` until `disarm`."""
        if self._thread is None or not self._thread.is_alive():  # also after a fork
            self._thread = threading.Thread(target=self._watch, name="text-game watchdog", daemon=True)
            self._thread.start()
        self._watched, self._due = threading.get_ident(), time.monotonic() + seconds

    def disarm(self) -> None:
        """Ends the watch; afterwards nothing is raised any more."""
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

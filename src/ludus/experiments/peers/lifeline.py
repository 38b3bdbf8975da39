"""Ends a benchmark script together with its parent process. The scripts in this folder import it."""

from __future__ import annotations

import _thread
import os
import threading
import time


def exit_with_parent() -> None:
    """Exit when stdin, which the parent holds open, is closed: first by an interrupt, after two seconds by force."""

    def watch() -> None:
        os.read(0, 1)  # not sys.stdin: this thread would hold its lock when Python exits
        _thread.interrupt_main()
        time.sleep(2.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

"""The mirror of a running training: a separate thread, whose delays, failures and hangs do not affect the training.

A remote that is full, offline, read-only or rejects its credentials is reported once, recorded in the state of the
mirror, and retried with growing pauses. At the end the run waits for a limited time for the rest, and reports what is
missing.
"""

from __future__ import annotations

import logging
import shlex
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from ludus.config.sections import bytes_per_second
from ludus.errors import UserError
from ludus.runs.directory import RunDirectory
from ludus.runs.lock import RunLock
from ludus.runs.mirror.remote import Abandoned, Pace, in_words, require_packages
from ludus.runs.mirror.state import FOLDER, MirrorState, Stat
from ludus.runs.mirror.sync import Sync, SyncOutcome, scan

_log = logging.getLogger("ludus.runs")

_ATTEMPTS_AT_THE_END = 4
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0
_GROWING = ("metrics.jsonl", "episodes.jsonl", "run.json")  # changes of these alone do not start a pass


class Mirror:
    """Copies `run` below `url` from construction until `close`. The constructor raises only MissingExtra.

    It checks for changes every `look` seconds and sends them at most once in `every` seconds. `bandwidth` limits it
    ("5 MB/s"). `close` waits up to `patience` seconds.
    """

    def __init__(
        self,
        run: RunDirectory,
        url: str,
        *,
        bandwidth: str | None = None,
        patience: float = 60.0,
        every: float = 30.0,
        look: float = 5.0,
    ) -> None:
        require_packages(url)
        self._run, self._url = run, url
        self._patience, self._every, self._look = patience, every, look
        self._rate = None if bandwidth is None else bytes_per_second(bandwidth)
        self._changed = threading.Condition()
        self._ending = self._abandoned = self._reported = False
        self._sync: Sync | None = None
        self._trouble: str | None = None
        self._thread = threading.Thread(target=self._work, name="ludus-mirror", daemon=True)
        self._thread.start()

    def close(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Wait for the last pass, at most `patience` seconds and not after `stopping` returns True. Never raises."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        end = time.monotonic() + self._patience
        reported = False
        while self._thread.is_alive() and time.monotonic() < end and not stopping():
            self._thread.join(0.1)
            if not reported and end - time.monotonic() < self._patience - 2.0:
                _log.info("waiting up to %.0f s for the mirror at %s", self._patience, self._url)
                reported = True
        self._abandoned = True
        self._thread.join(0.5)
        if self._thread.is_alive() and self._trouble is None:
            self._trouble = "not finished in time"
        self._report_end()

    def _report_end(self) -> None:
        state = self._sync.state if self._sync is not None else MirrorState(self._url)
        if self._trouble is None:
            _log.debug("mirrored to %s", state.at)
            return
        missing = self._sync.missing() if self._sync is not None else list(scan(self._run.path))
        state.trouble, state.missing = self._trouble, len(missing)
        state.save(self._run.path)
        _log.warning(
            "%d files are missing in the mirror at %s (%s). They are still here; to send them: ludus mirror %s",
            len(missing),
            state.at,
            self._trouble,
            shlex.quote(str(self._run.path)),
        )

    # The thread

    def _work(self) -> None:
        pace = Pace(self._rate, lambda: self._abandoned)
        sent: dict[str, Stat] | None = None
        pause, failures, not_before = _FIRST_PAUSE, 0, 0.0
        with ExitStack() as stack:
            while True:
                last = self._wait_until(not_before)
                if self._abandoned:
                    return
                now = _watched_files(self._run)
                if not last and now == sent:
                    continue
                try:
                    if self._sync is None:
                        stack.enter_context(_lock(self._run))
                        self._sync = Sync(self._run, self._url, pace)
                    self._sync.once(last=last)
                except Abandoned:
                    return
                except Exception as error:  # an external service may raise anything
                    failures = failures + 1 if last else 0
                    self._report(error)
                    if failures >= _ATTEMPTS_AT_THE_END:
                        return
                    if last:  # the run waits: do not use the grown pauses
                        not_before = time.monotonic() + _FIRST_PAUSE * 2 ** (failures - 1)
                    else:
                        not_before, pause = time.monotonic() + pause, min(2 * pause, _LONGEST_PAUSE)
                else:
                    if self._trouble is not None:
                        _log.info("the mirror at %s is working again", self._url)
                    self._trouble = None
                    sent, pause, not_before = now, _FIRST_PAUSE, time.monotonic() + self._every
                    if last:
                        return

    def _wait_until(self, moment: float) -> bool:
        """Wait for the next check and until `moment`. Return True immediately if the run has ended.

        Even then, a pause after a failure is kept, while the run waits.
        """
        with self._changed:
            if not self._ending:
                self._changed.wait(max(self._look, moment - time.monotonic()))
                return self._ending
        if self._trouble is not None:
            while time.monotonic() < moment and not self._abandoned:
                time.sleep(0.05)
        return True

    def _report(self, error: Exception) -> None:
        self._trouble = in_words(error)
        _log.debug("the mirror failed", exc_info=error)
        state = self._sync.state if self._sync is not None else None
        if state is not None:
            state.trouble, state.missing = self._trouble, len(self._sync.missing()) if self._sync else 0
            state.save(self._run.path)
        if not self._reported:
            self._reported = True
            _log.warning(
                "the mirror at %s failed: %s. Training continues, and the mirror is retried",
                self._url,
                self._trouble,
            )


def mirror_now(
    run: RunDirectory,
    url: str,
    *,
    bandwidth: str | None = None,
    note: Callable[[str], None] = lambda path: None,
    attempts: int = 4,
    may_ask: bool = False,
) -> tuple[MirrorState, SyncOutcome]:
    """Bring the mirror of `run` up to date. UserError if this fails, after several attempts."""
    require_packages(url)
    pace = Pace(None if bandwidth is None else bytes_per_second(bandwidth))
    pause = _FIRST_PAUSE
    with _lock(run):
        sync = Sync(run, url, pace, may_ask=may_ask)
        for attempt in range(attempts):
            try:
                return sync.state, sync.once(note=note)
            except UserError:
                raise
            except Exception as error:  # an external service may raise anything
                _log.debug("the mirror failed", exc_info=error)
                trouble = in_words(error)
                sync.state.trouble, sync.state.missing = trouble, len(sync.missing())
                sync.state.save(run.path)
                if attempt == attempts - 1:
                    raise UserError(
                        f"{sync.state.missing} files are missing in the mirror: {trouble}",
                        where=sync.state.at,
                        fix="fix the problem and repeat the command: it resumes where it stopped",
                    ) from error
                time.sleep(pause)
                pause *= 2
    raise AssertionError("unreachable")


def _watched_files(run: RunDirectory) -> dict[str, Stat]:
    """Return the files whose changes start a pass: all but those that grow with every row."""
    return {path: stat for path, stat in scan(run.path, last=False).items() if path not in _GROWING}


def _lock(run: RunDirectory) -> RunLock:
    """Return the lock that lets only one process mirror a run."""
    folder = run.path / FOLDER
    folder.mkdir(exist_ok=True)
    return RunLock(folder)

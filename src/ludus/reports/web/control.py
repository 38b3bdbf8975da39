"""The two buttons: ask a run's process to save and stop, and start `ludus resume` in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from typing import Any

from ludus.config.when import When
from ludus.errors import UserError
from ludus.posix import O_DIRECTORY, O_NOFOLLOW
from ludus.reports.web.details import has_resumable_checkpoint, read_log
from ludus.reports.web.entry import RunEntry
from ludus.reports.web.security import RunsFolder
from ludus.runs.atomic import is_alive
from ludus.runs.directory import RunDirectory
from ludus.runs.lock import holder, is_locked

RESUME_LOG = "resume.log"
_CAN_SIGNAL = sys.platform != "win32"


class RunControl:
    """Stops and resumes runs. Remembers the signalled ones: a second signal would end a run without saving."""

    def __init__(self, folder: RunsFolder) -> None:
        self._folder = folder
        self._asked: dict[str, int] = {}
        self._resumed: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def stop(self, entry: RunEntry) -> int:
        """Ask the run's process to save and stop; returns its id. UserError if no process here trains the run."""
        with self._lock:
            pid = self._process_of(entry)
            if self._asked.get(entry.id) == pid:
                raise UserError(
                    "the run was already asked to stop",
                    where=f"process {pid}",
                    fix="wait: it saves after the step it is at",
                )
            _signal(pid, entry)
            self._asked[entry.id] = pid
            return pid

    def resume(self, entry: RunEntry, steps: str | None = None) -> int:
        """Start `ludus resume` on the run, its output going to the run's logs; returns the process id.

        UserError if the run is in use, has no checkpoint to resume from, or `steps` is not a valid total.
        """
        with self._lock:
            running = self._resumed.get(entry.id)
            if entry.status == "running" or is_locked(entry.path) or (running and running.poll() is None):
                raise UserError("the run is in use", where=entry.path.name, fix="stop it first")
            if not has_resumable_checkpoint(self._folder, entry):
                raise UserError(
                    "the run has no checkpoint to resume from", where=entry.path.name, fix="start a new run"
                )
            command = [sys.executable, "-P", "-m", "ludus", "resume", _reference(entry)]
            if steps:
                command += ["--steps", _total(steps)]
            process = self._start(entry, command)
            self._resumed[entry.id] = process
            self._asked.pop(entry.id, None)
            return process.pid

    def state(self, entry: RunEntry) -> dict[str, Any]:
        """Return the state of a run for the buttons: `stopping`, `resuming`, and why a resume `failed`."""
        with self._lock:
            process = self._resumed.get(entry.id)
            code = None if process is None else process.poll()
            asked = self._asked.get(entry.id)
        starting = process is not None and code is None and entry.info.get("pid") != process.pid
        failed = None
        if code not in (None, 0) and entry.info.get("pid") != getattr(process, "pid", None):
            try:  # it ended before it had taken over the run
                lines = [
                    line for line in read_log(self._folder, entry, RESUME_LOG).splitlines() if line.strip()
                ]
                failed = "\n".join(lines[-4:])
            except OSError:
                failed = f"it ended with code {code}"
        stopping = asked is not None and entry.status == "running" and entry.info.get("pid") == asked
        return {"stopping": stopping and is_alive(asked or 0), "resuming": starting, "failed": failed}

    def _process_of(self, entry: RunEntry) -> int:
        """The process that trains the run, here; UserError if there is none, or it is on another machine."""
        if not _CAN_SIGNAL:
            raise UserError("runs cannot be stopped from here on Windows", fix="press Ctrl-C where it trains")
        found = holder(entry.path) if stat.S_ISREG(_mode(entry)) else None
        if found is None:
            raise UserError("no process trains this run", where=entry.path.name, fix="it can be resumed")
        pid, host = found
        if host != socket.gethostname() or not _has_open(pid, entry):
            raise UserError(
                "the process that trains the run is not visible from here",
                where=f"process {pid} on {host}",
                fix="stop it there, with Ctrl-C or kill",
            )
        return pid

    def _start(self, entry: RunEntry, command: list[str]) -> subprocess.Popen[bytes]:
        logs = RunDirectory(entry.path).logs_dir
        logs.mkdir(exist_ok=True)
        # neither the folder nor the file may be a link that leads elsewhere
        folder = os.open(logs, os.O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | O_NOFOLLOW
            log = os.open(RESUME_LOG, flags, 0o666, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            # a session of its own: it lives on when the dashboard or its terminal ends
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        finally:
            os.close(log)
        # waited for at once when it ends: a dead process that nobody waited for still looks alive
        threading.Thread(target=process.wait, name="ludus-ui-resume", daemon=True).start()
        return process


def _mode(entry: RunEntry) -> int:
    """Return the file mode of the run's lock; 0 if it does not exist."""
    try:
        return os.lstat(entry.path / "run.lock").st_mode
    except OSError:
        return 0


def _reference(entry: RunEntry) -> str:
    """The path with a slash behind it: a folder called `run@best` must not be taken for a checkpoint of `run`."""
    return str(entry.path) + os.sep


def _total(steps: str) -> str:
    try:
        return str(When.parse(steps).plain())
    except (ValueError, OverflowError) as error:
        raise UserError(str(error), where="new total", fix="as in 200_000 or 30 min") from None


def _has_open(pid: int, entry: RunEntry) -> bool:
    """Return True if that process has the run's lock file open, or if the system does not show it."""
    own = os.lstat(entry.path / "run.lock")  # a link to another run's lock is not this run's
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except FileNotFoundError:
        return not os.path.isdir("/proc/self/fd")
    except PermissionError:
        return False  # another user's: not ours to stop
    for descriptor in descriptors:
        try:
            if os.path.samestat(os.stat(f"/proc/{pid}/fd/{descriptor}"), own):
                return True
        except OSError:
            continue  # closed meanwhile
    return False


def _signal(pid: int, entry: RunEntry) -> None:
    """Send SIGTERM to the run's process, never to another one that got its id meanwhile."""
    try:
        if sys.platform == "linux" and hasattr(os, "pidfd_open"):
            process = os.pidfd_open(pid)
            try:
                if (holder(entry.path) or (0, ""))[0] != pid:
                    raise ProcessLookupError
                signal.pidfd_send_signal(process, signal.SIGTERM)
            finally:
                os.close(process)
        else:
            os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        raise UserError("the run has just ended", where=entry.path.name) from None
    except PermissionError:
        raise UserError("the run belongs to another user", where=f"process {pid}", fix="ask them") from None

"""Logging of the `ludus` logger: plain lines on stderr, timestamped lines in the run's log file.

The console shows what the user asked for; a log file always gets INFO and up, so that a quiet run still
leaves a full `train.log`.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from pathlib import Path

from ludus.secret_values import without_secrets

_log = logging.getLogger("ludus")
_configured: list[logging.Handler] = []


class _Discreet(logging.Formatter):
    """A formatter that hides the secrets of the environment."""

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


class _StderrHandler(logging.Handler):
    """Writes to whatever `sys.stderr` is now, so that the live display can put lines above its bar."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # logging's own custom: a failing handler reports itself and never raises
            self.handleError(record)


class LogFile(logging.FileHandler):
    """A log file of a run. A disk that takes no more is told once; lines are lost, training goes on."""

    def __init__(self, path: Path, layout: str) -> None:
        super().__init__(path, encoding="utf-8")
        self.setFormatter(_Discreet(layout))
        self._failing = False

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError | ValueError):  # ValueError: closed by an earlier trouble
            super().handleError(record)
        elif not self._failing:
            self._failing = True
            _tell(f"ALARM: {self.baseFilename} could not be written: {error}. Training goes on without it")

    def close(self) -> None:
        try:
            super().close()
        except OSError as error:
            _tell(f"ALARM: the end of {self.baseFilename} could not be written: {error}")


def _tell(text: str) -> None:
    """For trouble with the log itself, past the log."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"error: {text}\n")
        sys.stderr.flush()


class _ConsoleFormatter(_Discreet):
    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if record.levelno == logging.INFO else f"{record.levelname.lower()}: {text}"


def setup_logging(
    level: str | int = "INFO", log_file: str | Path | None = None, console: bool = True
) -> logging.Logger:
    """Configure and return the `ludus` logger. Calling again replaces what the last call set up.

    `level` is what the console shows; `log_file` gets at least INFO. Raises ValueError on an unknown level.
    """
    threshold = logging.getLevelNamesMapping().get(level.upper()) if isinstance(level, str) else level
    if threshold is None:
        raise ValueError(f"unknown log level '{level}': DEBUG, INFO, WARNING, ERROR or CRITICAL")
    while _configured:
        detach(_configured.pop())
    _log.setLevel(min(threshold, logging.INFO))
    if console:
        handler = _StderrHandler(threshold)
        handler.setFormatter(_ConsoleFormatter("%(message)s"))
        _log.addHandler(handler)
        _configured.append(handler)
    if log_file is not None:
        _configured.append(attach_log_file(log_file))
    return _log


def attach_log_file(path: str | Path) -> logging.Handler:
    """Also write the log to `path` (appending, folders created); hand the result to `detach` at the end.

    A file that is attached already is not attached twice. Where logging is not set up, warnings keep going to
    stderr as well.
    """
    path = Path(path).absolute()
    for handler in _log.handlers:
        if isinstance(handler, logging.FileHandler) and handler.baseFilename == str(path):
            return handler
    if not _configured and not _log.hasHandlers():
        setup_logging("WARNING")
    elif _log.level == logging.NOTSET:
        _log.setLevel(logging.INFO)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = LogFile(path, "%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    _log.addHandler(file)
    return file


def detach(handler: logging.Handler) -> None:
    """Take `handler` off the `ludus` logger and close it."""
    _log.removeHandler(handler)
    handler.close()

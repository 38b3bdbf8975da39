"""Logging of the `ludus` logger: plain lines on stderr, timestamped lines in the run's log file.

The console shows what the user asked for; a log file always gets INFO and up, so that a quiet run still
leaves a full `train.log`.

Terminal output may get lost, on a full disk or a closed pipe, but must not end a training: `lossy_output`.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from numbers import Integral
from pathlib import Path
from typing import Any, TextIO, TypeVar, cast

from ludus.errors import NONE, UnknownName, UserError, printable, require_types
from ludus.secret_values import without_secrets

_log = logging.getLogger("ludus")
run_log = logging.getLogger("ludus.run")
"""Logger of run events, for the log file only: on the terminal the progress display shows them."""
_configured: list[logging.Handler] = []
Command = TypeVar("Command", bound=Callable[..., Any])


class _Discreet(logging.Formatter):
    """Formatter that hides secrets from environment variables, and escapes terminal control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(without_secrets(super().format(record)), keep="\n\t")


class _StderrHandler(logging.Handler):
    """Writes to the current `sys.stderr`, which the live display replaces to print lines above its bar."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # as in the logging module: a failing handler reports itself and never raises
            self.handleError(record)


class LogFile(logging.FileHandler):
    """Log file of a run. A write error (disk full) is reported once; lines are lost, training continues."""

    def __init__(self, path: Path, layout: str) -> None:
        super().__init__(path, encoding="utf-8")
        self.setFormatter(_Discreet(layout))
        self._failing = False

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError | ValueError):  # ValueError: closed after an earlier error
            super().handleError(record)
        elif not self._failing:
            self._failing = True
            _print_error(
                f"ALARM: {self.baseFilename} could not be written: {error}. Training continues without it"
            )

    def close(self) -> None:
        try:
            super().close()
        except OSError as error:
            _print_error(f"ALARM: the end of {self.baseFilename} could not be written: {error}")


def _print_error(text: str) -> None:
    """Print an error of the log itself to stderr, without the logger."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"error: {printable(text)}\n")
        sys.stderr.flush()


class _ConsoleFormatter(_Discreet):
    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if record.levelno == logging.INFO else f"{record.levelname.lower()}: {text}"


def setup_logging(
    level: str | int = "INFO", log_file: str | Path | None = None, console: bool = True
) -> logging.Logger:
    """Configure and return the `ludus` logger. Calling again replaces what the last call set up.

    `level` is what the console shows; `log_file` gets at least INFO. Raises UserError on an unknown level.
    """
    require_types("setup_logging", level=(level, (str, Integral)), log_file=(log_file, (str, Path, NONE)))
    threshold = logging.getLevelNamesMapping().get(level.upper()) if isinstance(level, str) else level
    if threshold is None:
        known = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
        raise UnknownName(
            "log level", str(level), known, where="setup_logging", fix=f"one of {', '.join(known)}"
        )
    if log_file is not None and Path(log_file).is_dir():
        raise UserError(f"log_file is a folder: {log_file}", where="setup_logging", fix="name a file")
    while _configured:
        detach(_configured.pop())
    _log.setLevel(min(threshold, logging.INFO))
    if console:
        handler = _StderrHandler(threshold)
        handler.setFormatter(_ConsoleFormatter("%(message)s"))
        handler.addFilter(lambda record: record.name != run_log.name)
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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, LossyStream) and stream.failed:  # it failed before this log file was attached
            file.handle(_log.makeRecord(_log.name, logging.ERROR, __file__, 0, stream.failed, (), None))
    return file


def detach(handler: logging.Handler) -> None:
    """Remove `handler` from the `ludus` logger and close it."""
    _log.removeHandler(handler)
    handler.close()


class LossyStream:
    """Passes text on to `stream` and drops what it refuses. The first failure is logged as an alarm."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self.failed = ""
        """Warning to log, set after the first lost text."""

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as error:
            self._drop(error)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._drop(error)

    def settle(self) -> None:
        """Redirect unwritten text to the null device: the interpreter flushes the stream again at exit."""
        if not self.failed:
            return
        try:
            self._stream.flush()
        except OSError:
            with suppress(OSError, ValueError, AttributeError):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, self._stream.fileno())
                os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _drop(self, error: OSError) -> None:
        if not self.failed:
            # set first: the log itself may write to this stream
            self.failed = (
                f"ALARM: {self._name} could not be written: {error.strerror or error}. "
                "Its output is lost; the command continues"
            )
            _log.error("%s", self.failed)


@contextmanager
def lossy_output() -> Iterator[None]:
    """Replace `sys.stdout` and `sys.stderr` by streams that drop text that cannot be written."""
    before = sys.stdout, sys.stderr
    streams = [
        None if stream is None else LossyStream(stream, name)
        for stream, name in zip(before, ("stdout", "stderr"), strict=True)
    ]
    sys.stdout, sys.stderr = cast(Any, streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in streams:
            if stream is not None:
                stream.settle()


def works_without_output(command: Command) -> Command:
    """Decorate a command that must finish even if its output cannot be written."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        with lossy_output():
            return command(*args, **kwargs)

    return run  # type: ignore[return-value]  # the same signature

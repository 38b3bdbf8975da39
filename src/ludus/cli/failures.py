"""Map an exception to a message and an exit code: three lines for errors that the user can fix."""

from __future__ import annotations

import errno
import os
import shlex
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from ludus.errors import (
    DISTRIBUTION,
    EXIT_FAULT,
    EXIT_INTERRUPTED,
    EnvFault,
    LudusError,
    UserError,
    describe_error,
    nearest,
    printable,
)
from ludus.secret_values import without_secrets

_TORCH_HAS_NONE = "can't allocate memory"
# What other tools call hyperparameters on their command lines.
_SHORT_NAMES = {"lr": "learning_rate", "epochs": "n_epochs", "batch": "batch_size", "num_envs": "n_envs"}
_TYPER = os.path.dirname(typer.__file__)
# Errors of the operating system that the user can fix: a read-only folder, a full disk.
_REFUSALS = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.ENOENT,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EMFILE,
    errno.ENFILE,
}
_FIXES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EMFILE: "raise the limit of open files: ulimit -n 1024",
    errno.ENFILE: "end processes that have many open files",
}


def report(error: BaseException, arguments: Sequence[str]) -> int:
    """Print `error` for a user who typed `ludus ARGUMENTS…`; return the exit code."""
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":  # typer's own word for Ctrl-C
        return EXIT_INTERRUPTED
    notes = list(getattr(error, "__notes__", []))
    if notes:
        error.__notes__.clear()  # printed last, not inside the traceback
    problem = _user_error(error)
    if problem is not None:
        what, where, fix = _three_parts(problem, arguments)
        _print_lines([f"error: {what}", f"  where: {where}", f"  fix:   {fix}"])
        code = problem.exit_code
    elif isinstance(error, LudusError):
        what, where, fix = _first_line(str(error)), "", ""
        if isinstance(error, EnvFault):
            where = f"env {error.worker} ({error.env_id}), seeded with {error.seed}"
            fix = f"fix the env; `ludus validate {error.env_id}` lists what else is wrong with it"
        _print_lines(f"error: {error}".splitlines())
        code = error.exit_code
    else:
        what, where, fix = describe_error(error), _innermost(error), ""
        _print_lines(_traceback(error).splitlines())
        place = _issues_page()
        _print_lines(
            [
                "This was not expected. If it is Ludus's fault, please report it with the lines above"
                + (f": {place}" if place else ".")
            ]
        )
        code = EXIT_FAULT
    _print_lines(notes)
    if asks_for_json(arguments):
        from ludus.cli.output import emit_json

        parts = {"what": what, "where": where, "fix": fix}
        emit_json({"error": {name: without_secrets(text) for name, text in parts.items()}})
    return code


def asks_for_json(arguments: Sequence[str]) -> bool:
    return "--json" in arguments


@contextmanager
def typed_as(option: str, value: str) -> Iterator[None]:
    """Set the `where` of a UserError to this option, unless the error has a more exact place."""
    try:
        yield
    except UserError as error:
        if error.where in ("", "env.id", "algorithm"):
            error.where = f"command line: {option} {shlex.quote(value)}".replace("  ", " ")
        raise


def _user_error(error: BaseException) -> UserError | None:
    """Return `error` as a UserError if the user can fix it, else None."""
    if isinstance(error, UserError):
        return error
    if hasattr(error, "format_message"):  # typer's, whichever click it carries
        return _usage_error(error)
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _TORCH_HAS_NONE in str(error)):
        return UserError(
            f"out of memory: {_first_line(str(error)) or 'for what was asked for'}",
            where="this machine",
            fix="reduce n_envs, hyperparams.n_steps, buffer_size, policy_net_arch",
        )
    if isinstance(error, OSError) and error.errno in _REFUSALS:
        return UserError(
            error.strerror or str(error),
            where=str(error.filename or "this machine"),
            fix=_FIXES.get(error.errno, "check path and rights"),
        )
    return None


def _usage_error(error: Any) -> UserError:
    context = getattr(error, "ctx", None)
    see_help = "" if context is None else f"see `{context.command_path} --help`"
    option = str(getattr(error, "option_name", ""))
    if type(error).__name__ == "NoSuchOption" and context is not None:
        parameters = context.command.params
        known = {name.lstrip("-"): name for parameter in parameters for name in parameter.opts}
        key = _config_key(option) if any(one.name == "overrides" for one in parameters) else None
        suggestion = nearest(option.lstrip("-"), known)
        fix = f"did you mean '{known[suggestion]}'?" if suggestion else see_help
        return UserError(f"unknown option '{option}'", fix=fix if key is None else f"write it as {key}=VALUE")
    message = error.format_message().rstrip(".")
    if type(error).__name__ == "MissingParameter" and context is not None:
        see_help = context.command.get_usage(context).replace("Usage:", "usage:").strip()
    return UserError(message[:1].lower() + message[1:], fix=see_help)


def _config_key(option: str) -> str | None:
    """The config key that an option of another tool means: `--lr`, `--learning-rate`, `--batch-size`."""
    from ludus.config.explain import known_keys
    from ludus.config.registry import find_algorithm

    name = option.lstrip("-").replace("-", "_")
    name = _SHORT_NAMES.get(name, name)
    models = [find_algorithm(algorithm).hyperparameters for algorithm in ("PPO", "DQN", "SAC", "A2C")]
    found = next((keys[name] for model in models if model and name in (keys := known_keys(model))), [])
    return found[0] if len(found) == 1 or (found and found[0].startswith("hyperparams.")) else None


def _three_parts(error: UserError, arguments: Sequence[str]) -> tuple[str, str, str]:
    """Return the what, where and fix lines of `error`. None of them is empty."""
    command = next((word for word in arguments if not word.startswith("-")), "")
    where = error.where or f"command line: {shlex.join(['ludus', *arguments])}"
    fix = error.fix or f"see `{' '.join(['ludus', command, '--help']).replace('  ', ' ')}`"
    return _one_line(error.what), _one_line(where), _one_line(fix)


def _print_lines(lines: Sequence[str]) -> None:
    """Plain lines on stderr, the word "error:" in red on a terminal."""
    for line in lines:
        line = printable(without_secrets(line), keep="\t")
        if line.startswith("error:") and sys.stderr.isatty():
            line = f"\x1b[1;31merror:\x1b[0m{line.removeprefix('error:')}"
        print(line, file=sys.stderr, flush=True)


def _one_line(text: str) -> str:
    return printable(" ".join(line.strip() for line in text.splitlines() if line.strip()))


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""


def _traceback(error: BaseException) -> str:
    """Return the traceback without the frames of Typer and Click."""
    report = traceback.TracebackException.from_exception(error)
    frames = [frame for frame in report.stack if not frame.filename.startswith((_TYPER, __file__))]
    report.stack = traceback.StackSummary.from_list(frames)
    return "".join(report.format())


def _issues_page() -> str:
    """Return where to report a fault, as the installed package says; empty in a source tree that is not installed."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        pages = metadata(DISTRIBUTION).get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    return next((page.partition(", ")[2] for page in pages if page.startswith("Issues, ")), "")


def _innermost(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else ""

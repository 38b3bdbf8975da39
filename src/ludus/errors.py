"""Errors that Ludus raises, with the exit code of each.

The user can fix a `UserError`: it says what was wrong, where, and what to do, and is printed as three
lines without a traceback. An `EnvFault` comes out of the user's env or model: its own traceback is printed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

DISTRIBUTION = "ludus-rl"  # the name on the package index; the package is imported as `ludus`

EXIT_OK = 0
EXIT_FAULT = 1
EXIT_USER_ERROR = 2
EXIT_ENV_FAULT = 3
EXIT_STORAGE = 4
EXIT_INTERRUPTED = 130  # SIGINT
EXIT_TERMINATED = 143  # SIGTERM


def printable(text: str, *, keep: str = "", sign: str | None = None) -> str:
    """Return `text` with every character written out that is not visible, apart from spaces and those in `keep`.

    Untrusted text must not control the terminal or reorder the rest of a line. Escaped are control characters,
    formats (those of writing direction among them), line separators, private and unassigned characters, surrogates.
    With `sign`, each of them is replaced by `sign`, which keeps the length.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else sign or c.encode("unicode_escape").decode() for c in text
    )


def shortened(value: object, limit: int = 80) -> str:
    """Return `value` as text of at most `limit` characters. Python refuses to print integers with very many digits."""
    try:
        text = repr(value)
    except ValueError:
        text = "a number with thousands of digits"
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def describe_error(error: BaseException) -> str:
    """Return the class and message of `error`, also of one whose own `__str__` raises."""
    try:
        text = str(error)
    except Exception as failure:  # the user's exception class may raise anything
        text = f"(no message: its __str__ raised {type(failure).__name__})"
    return f"{type(error).__name__}: {text}"


class LudusError(Exception):
    """Base of every error that Ludus raises itself."""

    exit_code = EXIT_FAULT
    evidence: Mapping[str, Any] | None = None
    """Arrays by name that show what was wrong. A run keeps them in its directory."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the parts: the constructor does not accept the arguments that pickle would pass."""
        return _restore, (type(self), self.args, self.__dict__)


class NotFinite(LudusError):
    """A loss, a gradient or a weight became NaN or infinite. Nothing has learnt from it, and it is not saved."""


class UserError(LudusError):
    """An error that the user can fix: `what` was wrong, `where`, and what to do (`fix`)."""

    exit_code = EXIT_USER_ERROR

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.fix:
            lines.append(f"  fix:   {self.fix}")
        return "\n".join(lines)


class ConfigError(UserError):
    """A config that cannot be used: unknown key, wrong type, values that do not fit together.

    `key` is the dotted key at fault (`hyperparams.batch_size`); the config loader adds its line.
    """

    def __init__(self, what: str, *, key: str = "", where: str = "", fix: str = "") -> None:
        super().__init__(what, where=where or key, fix=fix)
        self.key = key


class UnknownName(UserError):
    """A name (env, algorithm, preset, run, …) that is not known; suggests the nearest known one."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, where: str = "", fix: str = "") -> None:
        name = name if isinstance(name, str) else shortened(name)
        suggestion = nearest(name, known)
        if suggestion:
            fix = f"did you mean '{suggestion}'?"
        super().__init__(f"unknown {kind} '{name}'", where=where, fix=fix)


_TYPE_NAMES: dict[type, str] = {Integral: "int", Real: "float", Path: "Path"}


def require_types(where: str, **arguments: tuple[object, tuple[type, ...]]) -> None:
    """Raise UserError for the first of the `arguments` of `where`, each (value, types), that has another type.

    A bool is not a number, unless bool is among the types.
    """
    for name, (value, types) in arguments.items():
        is_number = isinstance(value, bool) and bool not in types and object not in types
        if isinstance(value, types) and not is_number:
            continue
        words = [_TYPE_NAMES.get(kind, "None" if kind is type(None) else kind.__name__) for kind in types]
        raise UserError(
            f"{name}: expected {' or '.join(words)}, got {type(value).__name__} {shortened(value)}",
            where=f"{where}({name}=…)",
            fix=f"give {name} as {' or '.join(words)}",
        )


NONE = type(None)


def install_command(extra: str) -> str:
    """Return the pip command that installs an optional extra of Ludus."""
    return f'pip install "{DISTRIBUTION}[{extra}]"'


class MissingExtra(UserError):
    """An optional dependency is not installed; names the pip command that installs it."""

    def __init__(self, what: str, extra: str, *, own_environment: bool = False) -> None:
        fix = f'{install_command(extra)}   (from a clone: pip install -e ".[{extra}]")'
        if own_environment:  # its packages do not fit those of the other extras
            fix = (
                f"in an environment of its own, see docs/how-to/{extra}.md: "
                f"pip install -c constraints-{extra}.txt -e '.[{extra}]'"
            )
        super().__init__(
            f"{what} needs the optional extra '{extra}', which is not installed",
            where="this Python environment",
            fix=fix,
        )
        self.extra = extra


class CheckpointError(UserError):
    """A checkpoint that is damaged, foreign, or of a format this version cannot read."""


class StorageError(LudusError):
    """The run can no longer be written to its disk. What was saved before is intact."""

    exit_code = EXIT_STORAGE


class EnvFault(LudusError):
    """The user's env raised, died or hung; carries the user's own traceback as text.

    `worker` is the worker or env index, `env_id` the env's id and `seed` the seed of its last seeded reset.
    """

    exit_code = EXIT_ENV_FAULT
    raised: type[Exception] | None = None
    """Second base class of the fault, see `fault_class`."""

    def __init__(
        self, what: str, *, worker: int, env_id: str, seed: int | str | None, user_traceback: str = ""
    ) -> None:
        message = f"{what}\n  where: env {worker} ({env_id}), seeded with {seed}"
        if user_traceback:
            message += f"\n\n{user_traceback.rstrip()}"
        super().__init__(message)
        self.worker = worker
        self.env_id = env_id
        self.seed = seed
        self.user_traceback = user_traceback

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would quote it

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_fault, (self.raised, self.args, self.__dict__)


# not OSError, EOFError and the like: they would be taken for faults of Ludus's own files and pipes
_RAISED: tuple[type[Exception], ...] = (
    *(NotImplementedError, RecursionError, RuntimeError, KeyError, IndexError, LookupError),
    *(ZeroDivisionError, OverflowError, ArithmeticError, AssertionError, AttributeError, NameError),
    *(TypeError, ValueError),
)


_FAULTS = {
    raised: type("EnvFault", (EnvFault, raised), {"__module__": __name__, "raised": raised})
    for raised in _RAISED
}


def fault_class(error: BaseException | None) -> type[EnvFault]:
    """Return the EnvFault class for `error` of an env. `except ValueError` also catches the fault of a ValueError.

    Gymnasium's vector envs raise the env's own error; code written for them continues to work.
    """
    return next((_FAULTS[raised] for raised in _RAISED if isinstance(error, raised)), EnvFault)


def _restore_fault(
    raised: type[Exception] | None, args: tuple[Any, ...], fields: dict[str, Any]
) -> LudusError:
    return _restore(EnvFault if raised is None else _FAULTS[raised], args, fields)


def _restore(kind: type[LudusError], args: tuple[Any, ...], fields: dict[str, Any]) -> LudusError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


class SimulatorLost(UserError):
    """A simulator outside this process that died, hung, refused the connection or answered nonsense.

    `where` names its address, `fix` what to check. A caller that steps several simulators may continue with the others.
    """

    exit_code = EXIT_ENV_FAULT


class CollectorsLost(SimulatorLost):
    """More collectors in other processes or machines were lost than the run tolerates; `what` is the last cause."""


class SimulatorsTaken(UserError):
    """All simulators are in use: no further env can be made."""


def similarity(name: str, other: str) -> float:
    """Return the similarity of two names, from 0 to 1, ignoring case."""
    return difflib.SequenceMatcher(None, other.lower(), name.lower()).ratio()


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to `name` (ignoring case), or None when nothing is close."""
    by_lower = {k.lower(): k for k in known}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.55)
    return by_lower[matches[0]] if matches else None

"""The errors Ludus raises, and the exit code each one ends a command with.

A `UserError` is the user's to mend: it says what was wrong, where, and what to do, and is printed as three
lines without a traceback. An `EnvFault` comes out of the user's env or model: its own traceback is printed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

DISTRIBUTION = "ludus-rl"  # the name on the package index; the package is imported as `ludus`

EXIT_OK = 0
EXIT_FAULT = 1
EXIT_USER_ERROR = 2
EXIT_ENV_FAULT = 3
EXIT_STORAGE = 4
EXIT_INTERRUPTED = 130  # SIGINT
EXIT_TERMINATED = 143  # SIGTERM


def printable(text: str) -> str:
    """`text` on one line, with whatever would steer a terminal written out: names come from files of strangers."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class LudusError(Exception):
    """Base of every error that Ludus raises itself."""

    exit_code = EXIT_FAULT
    evidence: Mapping[str, Any] | None = None
    """Arrays by name that show what was wrong. A run keeps them in its directory."""


class NotFinite(LudusError):
    """A loss, a gradient or a weight became NaN or infinite. Nothing has learnt from it, and it is not saved."""


class UserError(LudusError):
    """Something the user can mend: `what` was wrong, `where`, and what to do (`fix`)."""

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

    `key` is the dotted key at fault (`hyperparams.batch_size`); whoever read the config turns it into a line.
    """

    def __init__(self, what: str, *, key: str = "", where: str = "", fix: str = "") -> None:
        super().__init__(what, where=where or key, fix=fix)
        self.key = key


class UnknownName(UserError):
    """A name (env, algorithm, preset, run, …) that is not known; suggests the nearest known one."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, where: str = "", fix: str = "") -> None:
        suggestion = nearest(name, known)
        if suggestion:
            fix = f"did you mean '{suggestion}'?"
        super().__init__(f"unknown {kind} '{name}'", where=where, fix=fix)


def install_command(extra: str) -> str:
    """Return the pip command that installs an optional extra of Ludus."""
    return f'pip install "{DISTRIBUTION}[{extra}]"'


class MissingExtra(UserError):
    """An optional dependency is not installed; names the pip command that brings it."""

    def __init__(self, what: str, extra: str, *, own_environment: bool = False) -> None:
        fix = f'{install_command(extra)}   (from a clone: pip install -e ".[{extra}]")'
        if own_environment:  # its packages do not fit those of the other extras
            fix = (
                f"in an environment of its own, see docs/{extra}.md: "
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

    def __init__(
        self, what: str, *, worker: int, env_id: str, seed: int | None, user_traceback: str = ""
    ) -> None:
        message = f"{what}\n  where: env {worker} ({env_id}), seeded with {seed}"
        if user_traceback:
            message += f"\n\n{user_traceback.rstrip()}"
        super().__init__(message)
        self.worker = worker
        self.env_id = env_id
        self.seed = seed
        self.user_traceback = user_traceback


class SimulatorLost(UserError):
    """A simulator outside this process that died, hung, refused the connection or answered nonsense.

    `where` names its address, `fix` what to check. Whoever steps several of them may go on with the others.
    """

    exit_code = EXIT_ENV_FAULT


class CollectorsLost(SimulatorLost):
    """More collectors on other processes or machines were lost than the run bears; `what` tells the last cause."""


class SimulatorsTaken(UserError):
    """Every simulator there is is in use already: no further env can be made."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to `name` (ignoring case), or None when nothing is close."""
    by_lower = {k.lower(): k for k in known}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.55)
    return by_lower[matches[0]] if matches else None

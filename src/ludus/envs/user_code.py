"""Calls the code of an env. Whatever it raises becomes an EnvFault with the env's own traceback, SystemExit too.

An env that calls `sys.exit(0)` must not end the process as if all was well.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ludus.envs.episode_reports import REPORT
from ludus.errors import EnvFault, LudusError, describe_error
from ludus.runs import strict_json

_log = logging.getLogger("ludus.envs")
_OWN_FILES = (str(Path(__file__).parent / "vector"), __file__)


def name_of(env: Any) -> str:
    """Return the id of an env, or its class where it has none."""
    spec = getattr(env, "spec", None)
    return spec.id if spec is not None else type(getattr(env, "unwrapped", env)).__name__


@contextmanager
def faults_of(env_id: str, seed: int | str | None, doing: str) -> Iterator[None]:
    """Raise an EnvFault for what the code inside raises; errors of Ludus and Ctrl-C pass."""
    try:
        yield
    except (LudusError, KeyboardInterrupt):
        raise
    except BaseException as error:  # the user's env may raise anything
        raise EnvFault(
            f"{doing} raised {describe_error(error)}",
            worker=0,
            env_id=env_id,
            seed=seed,
            user_traceback=user_traceback(error),
        ) from error


def guarded(env: Any, seed: int | str | None, method: str, /, *args: Any, **kwargs: Any) -> Any:
    """Call a method of the env."""
    with faults_of(name_of(env), seed, f"{method}()"):
        return getattr(env, method)(*args, **kwargs)


def build(make_env: Callable[[], Any]) -> Any:
    """Build an env."""
    env_id = str(getattr(make_env, "id", None) or getattr(make_env, "__name__", "env"))
    with faults_of(env_id, None, "the constructor"):
        return make_env()


def close_env(env: Any, name: str = "") -> None:
    """Close an env. What it raises is logged: everything of use has come out of it before."""
    try:
        env.close()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's close may raise anything
        _log.warning("%s failed to close:\n%s", name or name_of(env), user_traceback(error).rstrip())


def user_traceback(error: BaseException) -> str:
    """Return the traceback of `error` without the leading frames of the code that calls envs."""
    report = traceback.TracebackException.from_exception(error)
    while report.stack and report.stack[0].filename.startswith(_OWN_FILES):
        del report.stack[0]
    return "".join(report.format())


def flag_problem(terminated: Any, truncated: Any) -> str:
    """Return what is wrong with the flags of a step; empty if each is a bool, or a number that is 0 or 1."""
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if type(flag) is bool or type(flag) is np.bool_:
            continue
        is_number = isinstance(flag, int | float | np.number | np.ndarray)
        if not is_number or np.size(flag) != 1 or np.asarray(flag).item() not in (0, 1):
            return f"{name} is the {type(flag).__name__} {flag!r:.50}, not a bool"
    return ""


def report_problem(episode: Any, report: Any) -> str:
    """Return what is wrong with `info["episode"]` and the episode report of an ended episode; None is fine."""
    if episode is not None:
        try:
            numbers = float(np.squeeze(episode["r"])), float(np.squeeze(episode["l"]))
        except Exception as error:  # the user's env may put anything there
            return f'info["episode"] has no numbers "r" (return) and "l" (length): {describe_error(error)}'
        if not np.isfinite(numbers).all():
            return f'info["episode"] is not finite: r = {numbers[0]}, l = {numbers[1]}'
    if report is None:
        return ""
    if not isinstance(report, Mapping):
        return f'info["{REPORT}"] is a {type(report).__name__}, not a dict'
    try:
        strict_json.dumps(report)  # checkpoints hold the latest reports
    except (TypeError, ValueError, RecursionError) as error:
        return f'info["{REPORT}"] cannot be saved as JSON: {describe_error(error)}'
    return ""

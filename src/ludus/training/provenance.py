"""The command that started a run and the versions of its packages."""

from __future__ import annotations

import platform
import shlex
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import ludus
from ludus.secret_values import without_secrets

_PACKAGES = ("torch", "numpy", "gymnasium", "numba", "pydantic")


def command_line() -> str:
    """Return the command that started this process, without the secrets of the environment."""
    program = "ludus" if Path(sys.argv[0]).name in {"ludus", "__main__.py"} else Path(sys.argv[0]).name
    return without_secrets(shlex.join([program, *sys.argv[1:]]))


def versions() -> dict[str, str]:
    """Return the versions of Ludus, Python, and the packages that results depend on."""
    found = {"ludus": ludus.__version__, "python": platform.python_version(), "platform": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

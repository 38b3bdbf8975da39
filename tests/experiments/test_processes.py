"""The process that trainings are forked from."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ludus.experiments.processes.launcher import TO_LOAD
from ludus.experiments.processes.pool import NO_THREADS


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_is_forked_from_has_one_thread() -> None:
    # with others, a lock that one of them holds at the fork would stay locked in the child for ever
    code = (
        f"import importlib, os; [importlib.import_module(name) for name in {TO_LOAD!r}]; "
        "print(len(os.listdir('/proc/self/task')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **NO_THREADS},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "1"

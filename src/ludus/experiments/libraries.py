"""The libraries that can be measured, each by a script in `peers/` that runs in its own process.

Other libraries run with the Python of their own environment, and their script does not import Ludus.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ludus.errors import UnknownName, UserError
from ludus.experiments.workloads import Workload

_SCRIPTS = Path(__file__).parent / "peers"
PEERS = {"sb3": ("stable_baselines3", "stable-baselines3"), "sbx": ("sbx", "sbx-rl")}
"""Module and package of each library."""
_PEER_PYTHON = "LUDUS_PEER_PYTHON_{}"
_LACKS = {"sbx": ("A2C",)}


@dataclass(frozen=True)
class Library:
    """A library: its `name` for tables, and the command, to which the mode and the task are appended."""

    name: str
    command: tuple[str, ...]
    settings: Mapping[str, Any]

    def has(self, workload: Workload) -> bool:
        """Return whether it has the workload's algorithm."""
        return workload.algorithm not in _LACKS.get(self.name, ())

    def run(self, mode: str, workload: Workload, **more: Any) -> dict[str, Any]:
        """Run the script and return its answer. UserError with the last line of its output if it fails."""
        task = asdict(workload) | dict(self.settings) | more
        with _lifeline() as theirs:
            done = subprocess.run(
                [*self.command, mode, json.dumps(task)],
                stdin=theirs,
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            raise UserError(
                f"{self.name} failed on {workload.name}",
                where=self.command[0],
                fix=(done.stderr.strip().splitlines() or ["it printed no error"])[-1],
            )
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer


@contextmanager
def _lifeline() -> Iterator[int]:
    """Yield the stdin for a script. It closes when this process dies for any reason, and then the script exits."""
    theirs, ours = os.pipe()
    try:
        yield theirs
    finally:
        os.close(ours)
        os.close(theirs)


def own_library(*, kernels: bool = True) -> Library:
    """Return Ludus itself, with its kernels or, as `ludus-torch`, with the torch learners as a reference."""
    name = "ludus" if kernels else "ludus-torch"
    return Library(name, (sys.executable, str(_SCRIPTS / "native.py")), {"kernels": kernels})


def peer_libraries(names: Sequence[str]) -> list[Library]:
    """Return the libraries called `names`. UnknownName for others, UserError for one that is not installed."""
    return [Library(name, (_python_with(name), str(_SCRIPTS / "baselines.py"), name), {}) for name in names]


def _python_with(peer: str) -> str:
    """Return the Python that has `peer`: from the environment variable, otherwise this one if it is installed."""
    if peer not in PEERS:
        raise UnknownName("peer", peer, PEERS, where="--peers", fix=f"known: {', '.join(PEERS)}")
    variable = _PEER_PYTHON.format(peer.upper())
    python = os.environ.get(variable, sys.executable)
    module, package = PEERS[peer]
    try:
        found = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False)
    except OSError as error:
        raise UserError(
            f"cannot run Python: {error.strerror or error}",
            where=f"{variable}={python}",
            fix=f"set it to the Python of an environment that has {package}",
        ) from None
    if found.returncode:
        raise UserError(
            f"{package} is not installed in this Python",
            where=python,
            fix=f"set {variable} to a Python that has it, or: pip install {package}",
        )
    return python

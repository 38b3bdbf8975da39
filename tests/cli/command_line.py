"""Shared by the tests of the command line: the outcome of a command, and a config that trains quickly."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TINY = [
    "n_envs=2",
    "hyperparams.n_steps=64",
    "hyperparams.batch_size=32",
    "hyperparams.n_epochs=1",
    "hyperparams.policy_net_arch=[16]",
    "hyperparams.value_net_arch=[16]",
    "tracking.tensorboard=false",
    "evaluation.episodes=2",
]
"""Overrides with which PPO on CartPole-v1 takes a fraction of a second."""


@dataclass(frozen=True)
class Outcome:
    """Result of a command: exit code and output."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object that must be the last line of stdout."""
        found: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return found

    @property
    def error_lines(self) -> list[str]:
        return self.err.splitlines()


Command = Callable[..., Outcome]


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything below `folder`: path to content, None for directories."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if "__pycache__" not in path.parts
    }

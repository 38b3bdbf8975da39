"""The command `ludus gridwalk`."""

from __future__ import annotations

from typing import Annotated

import typer

from ludus import make_env
from ludus_gridwalk.env import SIZE


def gridwalk(seed: Annotated[int, typer.Option(help="Which grid.")] = 0) -> None:
    """Print the start of a game."""
    env = make_env("gridwalk/GridWalk-v0").unwrapped
    env.reset(seed=seed)
    marks = {tuple(env.walker): "W", tuple(env.goal): "G"}
    for row in range(SIZE):
        print(" ".join(marks.get((row, column), ".") for column in range(SIZE)))

"""Optional abilities of vector envs, each a class to inherit from.

Ludus steps any `gymnasium.vector.VectorEnv`. A vector env with one of these abilities inherits from its class;
the stepper and the collectors ask `isinstance` once, when they are built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from ludus.types import Array, BoolArray, Metrics, Observation

StepResult = tuple[Observation, Array, Array, Array, dict[str, Any]]
WrapperStates = list[list[dict[str, Any]]]


class VectorBackend(VectorEnv[Any, Any, Any]):
    """A vector env that knows its env id and takes part in checkpoints. The defaults fit an env without state."""

    env_id: str = ""
    seeded: bool = True
    """False if the same seed can start different episodes, as with a simulator that takes no seed."""

    def rebuild(self) -> None:
        """Make the next seeded reset depend on the seed alone; wrapper states are kept."""

    def wrapper_states(self) -> WrapperStates:
        """Return, for each env, the state of every wrapper that has one, outermost first."""
        return []

    def load_wrapper_states(self, states: Sequence[Sequence[dict[str, Any]]]) -> None:
        """Restore the result of `wrapper_states`."""

    def take_metrics(self) -> Metrics:
        """Return metrics about time since the last call; their names start with `time/`."""
        return {}


class AsyncStepping(ABC):
    """Steps in two halves, so that the caller can work while the envs step."""

    @abstractmethod
    def step_async(self, actions: Any) -> None:
        """Start a step in every env."""

    @abstractmethod
    def step_wait(self) -> StepResult:
        """Wait for the step and return its result."""


class LazyFinalInfos(AsyncStepping):
    """`step_wait` leaves out `final_obs` and `final_info`; they are built on request, for the ended episodes only."""

    @abstractmethod
    def final_infos(self, indices: Array) -> dict[str, Any]:
        """Return `final_obs` and `final_info`, as Gymnasium's SAME_STEP has them, of the envs `indices`.

        Their episodes ended in the step that `step_wait` returned last. The next step may be running.
        """


class ChecksFinite:
    """Checks its own observations and rewards for NaN and infinity."""

    finite: bool = True
    """False if the last step returned a number that is not finite."""


class WritesInPlace(ABC):
    """Writes observations and action masks into memory of the caller."""

    @abstractmethod
    def write_into(self, obs: Array, mask: BoolArray) -> None:
        """Make the next step, or reset, write into these arrays and return them."""


class Snapshotting(ABC):
    """Saves open episodes, so that a resumed run continues in the middle of them."""

    @abstractmethod
    def save_games(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the open episodes as arrays and JSON data."""

    @abstractmethod
    def load_games(
        self, arrays: Mapping[str, Array], values: Mapping[str, Any]
    ) -> tuple[Observation, dict[str, Any]]:
        """Continue the episodes that `save_games` returned. Returns observations and infos, like `reset`."""


def seed_per_env(seed: int | Sequence[int | None] | None, n_envs: int) -> list[int | None]:
    """Return the seed of each env: s + i for a seed s, the element for a list. ValueError for a wrong length."""
    if seed is None:
        return [None] * n_envs
    if isinstance(seed, int | np.integer):
        return [int(seed) + i for i in range(n_envs)]
    if len(seed) != n_envs:
        raise ValueError(f"{len(seed)} seeds for {n_envs} envs")
    return [None if s is None else int(s) for s in seed]

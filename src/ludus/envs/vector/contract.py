"""Optional abilities of vector envs, each a class to inherit from.

Ludus steps any `gymnasium.vector.VectorEnv`. A vector env with one of these abilities inherits from its class;
the stepper and the collectors ask `isinstance` once, when they are built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ClosedEnvironmentError
from gymnasium.utils.seeding import np_random
from gymnasium.vector import VectorEnv

from ludus.types import Array, BoolArray, Metrics, Observation

StepResult = tuple[Observation, Array, Array, Array, dict[str, Any]]
WrapperStates = list[list[dict[str, Any]]]


class VectorBackend(VectorEnv[Any, Any, Any]):
    """A vector env that knows its env id and takes part in checkpoints. The defaults fit an env without state."""

    env_id: str = ""
    seeded: bool = True
    """False if the same seed can start different episodes, as with a simulator that takes no seed."""

    def render(self) -> tuple[Any, ...] | None:
        """Return None with a warning, as Gymnasium's own envs without a render mode do."""
        gym.logger.warn(f"{type(self).__name__} has no render mode; build one env with it to see frames")
        return None

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

    def _require_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError(f"{type(self).__name__} was used after close()")


class OwnGenerators(VectorBackend):
    """A vector env that draws the random numbers of its envs itself: one generator each, made when first needed."""

    _rngs: list[np.random.Generator | None]
    _rng_seeds: list[int]

    def _make_generators(self, n_envs: int) -> None:
        self._rngs = [None] * n_envs
        self._rng_seeds = [-1] * n_envs

    def _rng(self, index: int, seed: int | None = None) -> np.random.Generator:
        """Return the generator of an env; with a seed, a new one."""
        rng = self._rngs[index]
        if seed is not None or rng is None:
            rng, self._rng_seeds[index] = np_random(seed)
            self._rngs[index] = rng
        return rng

    @property  # type: ignore[misc]  # as Gymnasium's own
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """The random generator of each env."""
        return tuple(self._rng(index) for index in range(self.num_envs))

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of each env's generator, -1 where its state was loaded."""
        _ = self.np_random
        return tuple(self._rng_seeds)


class AsyncStepping(ABC):
    """Steps in two halves, so that the caller can work while the envs step."""

    @abstractmethod
    def step_async(self, actions: Any) -> None:
        """Start a step in every env."""

    @abstractmethod
    def step_wait(self) -> StepResult:
        """Wait for the step and return its result."""


class CallsSomeEnvs(ABC):
    """Calls a method of some of its envs."""

    @abstractmethod
    def call_some(self, indices: Sequence[int], name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Return the results of the method `name`, or its values if it is an attribute, in the order of `indices`."""


class MakesSingleEnv(ABC):
    """Can make one more env like its own, for evaluations."""

    @abstractmethod
    def single_factory(self) -> Callable[[], gym.Env[Any, Any]] | None:
        """Return a function that makes such an env; None if it cannot be made after all."""


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


def check_shape(actions: Array, expected: tuple[int, ...] | None) -> None:
    """Raise ValueError for actions of another shape, TypeError for a single number, as Gymnasium does."""
    if actions.shape != expected:
        kind = ValueError if actions.ndim else TypeError
        raise kind(f"actions have shape {actions.shape}, the action space says {expected}")


def split_reset_mask(
    options: dict[str, Any] | None, n_envs: int
) -> tuple[BoolArray | None, dict[str, Any] | None]:
    """Return `options["reset_mask"]`, the envs to reset, and the other options, which are the envs' own.

    The mask is None if every env is to be reset. Raises TypeError or ValueError, as Gymnasium does, for a mask that is
    not a bool array with one element per env and at least one True.
    """
    if options is None or "reset_mask" not in options:
        return None, options
    mask, name = options["reset_mask"], "`options['reset_mask']`"
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"{name} must be a numpy array, got {type(mask)}")
    if mask.shape != (n_envs,):
        raise ValueError(f"{name} must have shape `({n_envs},)`, got {mask.shape}")
    if mask.dtype != np.bool_:
        raise TypeError(f"{name} must have `dtype=np.bool_`, got {mask.dtype}")
    if not mask.any():
        raise ValueError(
            f"{name} must contain a boolean array with at least one True value, got reset_mask={mask}"
        )
    return mask, {key: value for key, value in options.items() if key != "reset_mask"} or None

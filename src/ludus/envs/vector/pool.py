"""The envpool backend: envs written in C++ that step on their own threads.

EnvPool resets an env in the step after its episode ended (NEXT_STEP). It takes seeds only when it is built, so a
seeded reset builds a new pool. Steps call its compiled `_send` and `_recv` directly: the Python code of `send` and
`recv` takes 30 to 60 us, a fifth of a step of eight LunarLanders.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from ludus.envs.user_code import close_env
from ludus.envs.vector.contract import (
    AsyncStepping,
    StepResult,
    VectorBackend,
    check_shape,
    seed_per_env,
    split_reset_mask,
)
from ludus.errors import ConfigError, MissingExtra, install_command
from ludus.runs.limits import usable_cores
from ludus.types import Array

if TYPE_CHECKING:
    from ludus.envs.make import EnvSpec

# Compared with Gymnasium's own by tests/extras: same spaces, time limits, episode ends and rewards.
VERIFIED = frozenset(
    {
        "Acrobot-v1",
        "BipedalWalker-v3",
        "CartPole-v1",
        "LunarLander-v3",
        "MountainCar-v0",
        "Pendulum-v1",
    }
)
_ACTION, _STATE = ("env_id", "players.env_id", "action"), ("obs", "reward", "done", "trunc")


def unsupported_reason(spec: EnvSpec) -> str | None:
    """Return why EnvPool cannot replace the envs of `spec`, or None if it can."""
    if spec.id not in VERIFIED:
        return f"{spec.id} is not among the envs verified against Gymnasium"
    if not spec.is_plain:
        return "the env has arguments or wrappers"
    if spec.max_episode_steps is not None:
        return "the env has a time limit of its own"
    return None


def is_installed() -> bool:
    return importlib.util.find_spec("envpool") is not None


class EnvPoolVectorEnv(VectorBackend, AsyncStepping):
    """`n_envs` envs of `spec` in one pool with `threads` threads (default: the cores, at most one per env).

    Raises MissingExtra without EnvPool, and ConfigError for an env that is not supported.
    """

    def __init__(self, spec: EnvSpec, n_envs: int, *, threads: int | None = None) -> None:
        if not is_installed():
            raise MissingExtra("vector: envpool", "envpool")
        reason = unsupported_reason(spec)
        if reason is not None:
            raise ConfigError(
                f"vector: envpool cannot be used: {reason}", key="vector", fix="use vector: auto"
            )
        self.env_id = spec.id
        self.num_envs = n_envs
        self._threads = min(n_envs, threads or usable_cores())
        single = spec()
        self.single_observation_space = single.observation_space
        self.single_action_space = single.action_space
        self.metadata = {**single.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
        close_env(single)
        self.observation_space = batch_space(self.single_observation_space, n_envs)
        self.action_space = batch_space(self.single_action_space, n_envs)
        self.render_mode = None
        discrete = isinstance(self.single_action_space, gym.spaces.Discrete)
        self._action_dtype = np.int32 if discrete else np.float32
        self._pool: Any = None
        self._stepping = False
        self._ids = np.arange(n_envs, dtype=np.int32)
        self._state_indices: list[int] = []
        self._seeds = [-1] * n_envs
        self._obs: Array = np.zeros(0)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]  # as Gymnasium's own
        """The seed of each env, -1 before the first reset. The generators are in compiled code."""
        return tuple(self._seeds)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start an episode in every env. A seed s gives env i the seed s + i, a list its element.

        `options["reset_mask"]`, a bool array, names the envs to reset; the others continue. With a seed, or in the
        first reset, it must name all: ValueError.
        """
        self._require_open()
        chosen, _ = split_reset_mask(options, self.num_envs)
        if chosen is not None and not chosen.all():
            if seed is not None or self._pool is None:
                raise ValueError("EnvPool takes seeds, and starts, only when all envs are reset")
            self._finish_running_step()
            self._obs[chosen] = self._pool.reset(self._ids[chosen])[0]
            return self._obs.copy(), {}
        if seed is not None or self._pool is None:
            self._build(seed)
        self._finish_running_step()
        obs, _ = self._pool.reset()
        self._obs = obs.copy()
        return obs, {}

    def step(self, actions: Any) -> StepResult:
        """Step every env; an env whose episode ended is reset instead, and its action is ignored."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: Any) -> None:
        """Start a step on the pool's threads."""
        self._require_open()
        if self._pool is None:
            raise ResetNeeded("EnvPoolVectorEnv must be reset before it is stepped")
        self._finish_running_step()
        actions = np.asarray(actions).astype(self._action_dtype, casting="same_kind", order="C")
        check_shape(actions, self.action_space.shape)
        self._stepping = True  # set first: an interrupt may come right after the call
        self._pool._send((self._ids, self._ids, actions))

    def step_wait(self) -> StepResult:
        assert self._stepping, "step_wait() without step_async()"
        state = self._pool._recv()
        self._stepping = False
        obs, rewards, done, truncated = (state[index] for index in self._state_indices)
        self._obs = obs.copy()  # the caller may write into its own
        return obs, rewards.astype(np.float64), done & ~truncated, truncated, {}

    def _finish_running_step(self) -> None:
        """Finish a step that is still running because the caller was interrupted."""
        if self._stepping:
            self.step_wait()

    def close_extras(self, **kwargs: Any) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None
            self._stepping = False

    def _build(self, seed: int | Sequence[int | None] | None) -> None:
        import envpool

        if self._pool is not None:
            self._pool.close()
        self._stepping = False
        seeds = self._seeds = [s or 0 for s in seed_per_env(0 if seed is None else seed, self.num_envs)]
        with warnings.catch_warnings():  # it warns about the precision of bounds, which are not used
            warnings.simplefilter("ignore")
            self._pool = envpool.make_gymnasium(
                self.env_id, num_envs=self.num_envs, num_threads=self._threads, seed=seeds
            )
        if tuple(self._pool._spec._action_keys) != _ACTION or not {*_STATE} <= {*self._pool._state_keys}:
            raise ConfigError(
                f"EnvPool {envpool.__version__} is not supported: its step interface differs",
                key="vector",
                fix=f"{install_command('envpool')} --upgrade, or use vector: serial",
            )
        self._state_indices = [self._pool._state_keys.index(key) for key in _STATE]

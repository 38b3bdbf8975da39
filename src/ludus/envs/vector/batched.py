"""Vector envs that step all games in one compiled call: classic control, and those that plugins register.

The formulas, constants, seeding and time limits of classic control are Gymnasium's; a test compares each env with
Gymnasium's own, step by step. Stepping eight CartPoles takes a few microseconds instead of sixty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numba import njit

from ludus.envs.user_code import close_env
from ludus.envs.vector.contract import (
    OwnGenerators,
    StepResult,
    check_shape,
    seed_per_env,
    split_reset_mask,
)
from ludus.errors import ConfigError
from ludus.plugins import load, plugins
from ludus.types import Array

if TYPE_CHECKING:
    from ludus.envs.make import EnvSpec

f32 = np.float32


@njit(cache=True, error_model="numpy")
def _cartpole(states: Any, actions: Any, obs: Any, rewards: Any, terminated: Any) -> None:
    total_mass, pole_mass, length, tau = 1.1, 0.1, 0.5, 0.02
    pole_mass_length = pole_mass * length
    limit = 12 * 2 * np.pi / 360
    for i in range(len(states)):
        x, x_dot, theta, theta_dot = states[i]
        force = 10.0 if actions[i] == 1 else -10.0
        cos, sin = np.cos(theta), np.sin(theta)
        temp = (force + pole_mass_length * theta_dot * theta_dot * sin) / total_mass
        theta_acc = (9.8 * sin - cos * temp) / (length * (4.0 / 3.0 - pole_mass * cos * cos / total_mass))
        x_acc = temp - pole_mass_length * theta_acc * cos / total_mass
        states[i, 0] = x + tau * x_dot
        states[i, 1] = x_dot + tau * x_acc
        states[i, 2] = theta + tau * theta_dot
        states[i, 3] = theta_dot + tau * theta_acc
        terminated[i] = abs(states[i, 0]) > 2.4 or abs(states[i, 2]) > limit
        rewards[i] = 1.0
        obs[i] = states[i]


@njit(cache=True, error_model="numpy")
def _mountain_car(states: Any, actions: Any, obs: Any, rewards: Any, terminated: Any) -> None:
    for i in range(len(states)):
        position, velocity = states[i]
        velocity += (actions[i] - 1) * 0.001 + np.cos(3 * position) * -0.0025
        velocity = min(max(velocity, -0.07), 0.07)
        position = min(max(position + velocity, -1.2), 0.6)
        if position == -1.2 and velocity < 0.0:
            velocity = 0.0
        states[i, 0], states[i, 1] = position, velocity
        terminated[i] = position >= 0.5 and velocity >= 0.0
        rewards[i] = -1.0
        obs[i] = states[i]


@njit(cache=True, error_model="numpy")
def _pendulum(states: Any, actions: Any, obs: Any, rewards: Any, terminated: Any) -> None:
    for i in range(len(states)):
        theta, speed = states[i]
        # the action is float32, and Gymnasium computes terms of the action alone in float32
        torque = min(max(actions[i, 0], f32(-2.0)), f32(2.0))
        angle = ((theta + np.pi) % (2 * np.pi)) - np.pi
        rewards[i] = -(angle * angle + 0.1 * (speed * speed) + np.float64(f32(0.001) * (torque * torque)))
        push = np.float64(f32(3.0) * torque)
        speed = min(max(speed + (15.0 * np.sin(theta) + push) * 0.05, -8.0), 8.0)
        theta += speed * 0.05
        states[i, 0], states[i, 1] = theta, speed
        terminated[i] = False
        obs[i, 0], obs[i, 1], obs[i, 2] = np.cos(theta), np.sin(theta), speed


@dataclass(frozen=True)
class BatchedGame:
    """The kernel of one env. `start` draws the first state; `observe` returns the observation of a state."""

    step: Callable[..., None]
    state_size: int
    start: Callable[[np.random.Generator], Any]
    observe: Callable[[Array], Any]


GAMES = {
    "CartPole-v1": BatchedGame(
        _cartpole, 4, lambda rng: rng.uniform(-0.05, 0.05, size=(4,)), lambda state: state
    ),
    "MountainCar-v0": BatchedGame(
        _mountain_car, 2, lambda rng: [rng.uniform(-0.6, -0.4), 0], lambda state: state
    ),
    "Pendulum-v1": BatchedGame(
        _pendulum,
        2,
        lambda rng: rng.uniform([-np.pi, -1.0], [np.pi, 1.0]),
        lambda state: [np.cos(state[0]), np.sin(state[0]), state[1]],
    ),
}


class BatchedVectorEnv(OwnGenerators):
    """`n_envs` games of `spec`, stepped together; by default an ended episode is reset in the same step (SAME_STEP)."""

    def __init__(
        self,
        spec: EnvSpec,
        n_envs: int,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
    ) -> None:
        single = spec()
        limit = spec.max_episode_steps or (single.spec.max_episode_steps if single.spec is not None else None)
        self._limit = limit or np.iinfo(np.int64).max
        self.env_id = spec.id
        self.num_envs = n_envs
        self.single_observation_space = single.observation_space
        self.single_action_space = single.action_space
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**single.metadata, "autoreset_mode": self.autoreset_mode}
        close_env(single)
        self.observation_space = batch_space(self.single_observation_space, n_envs)
        self.action_space = batch_space(self.single_action_space, n_envs)
        self.render_mode = None
        self._shape = (n_envs, *(self.single_observation_space.shape or ()))
        self._game = GAMES[spec.id]
        self._states = np.zeros((n_envs, self._game.state_size))
        self._elapsed = np.zeros(n_envs, dtype=np.int64)
        self._make_generators(n_envs)
        self._playing = False  # whether there was a reset
        self._ended: Array = np.zeros(n_envs, dtype=bool)  # episodes that ended and were not reset yet

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start an episode in every env. A seed s gives env i the seed s + i, a list its element.

        `options["reset_mask"]`, a bool array, names the envs to reset; the others continue.
        """
        self._require_open()
        chosen, _ = split_reset_mask(options, self.num_envs)
        if chosen is not None and not (self._playing or chosen.all()):
            raise ResetNeeded("the first reset must include every env")
        obs: Array = np.empty(self._shape, dtype=np.float32)
        for i, one in enumerate(seed_per_env(seed, self.num_envs)):
            if chosen is None or chosen[i]:
                self._rng(i, one)
                obs[i] = self._start(i)
                self._ended[i] = False
            else:
                obs[i] = self._game.observe(self._states[i])
        self._playing = True
        return obs, {}

    def step(self, actions: Any) -> StepResult:
        """Step every env; an episode that ends is reset in this step, in the next, or by the caller."""
        n = self.num_envs
        self._require_open()
        if not self._playing:
            raise ResetNeeded(f"{type(self).__name__} must be reset before it is stepped")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            envs = np.flatnonzero(self._ended).tolist()
            raise ResetNeeded(f"the episodes of envs {envs} have ended: reset them first")
        actions = np.asarray(actions, dtype=self.single_action_space.dtype)
        check_shape(actions, self.action_space.shape)
        obs: Array = np.empty(self._shape, dtype=np.float32)
        rewards: Array = np.empty(n)
        terminated: Array = np.empty(n, dtype=bool)
        self._game.step(self._states, actions, obs, rewards, terminated)
        self._elapsed += 1
        truncated = self._elapsed >= self._limit
        infos: dict[str, Any] = {}
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            for i in np.flatnonzero(self._ended):
                obs[i] = self._start(int(i))
                rewards[i], terminated[i], truncated[i] = 0.0, False, False
            self._ended = terminated | truncated
            return obs, rewards, terminated, truncated, infos
        ended = terminated | truncated
        if ended.any():
            final = np.full(n, None, dtype=object)
            for i in np.flatnonzero(ended):
                final[i] = obs[i].copy()
                obs[i] = self._start(int(i))
            infos = {"final_obs": final, "_final_obs": ended, "final_info": {}, "_final_info": ended}
        return obs, rewards, terminated, truncated, infos

    def _start(self, index: int) -> Any:
        self._states[index] = self._game.start(self._rng(index))
        self._elapsed[index] = 0
        return self._game.observe(self._states[index])


@cache
def _entry_points() -> dict[str, str]:
    entries = (entry for plugin in plugins() for entry in plugin.envs)
    return {entry.id: entry.vector_entry_point for entry in entries if entry.vector_entry_point is not None}


def unsupported_reason(spec: EnvSpec) -> str | None:
    """Return why no batched vector env can replace the envs of `spec`; None if one can."""
    if spec.id not in _entry_points():
        if spec.id not in GAMES:
            return f"{spec.id} is not written as a batched game"
        return None if spec.is_plain else "the env has arguments or wrappers"
    return spec.support.batched_unsupported_reason(spec)


def make_batched(spec: EnvSpec, n_envs: int, **options: Any) -> VectorEnv[Any, Any, Any]:
    """Return the vector env of `spec`; `options` are those of its class. Raises ConfigError if `spec` has none."""
    reason = unsupported_reason(spec)
    if reason is not None:
        raise ConfigError(f"vector: batched cannot be used: {reason}", key="vector", fix="use vector: auto")
    entry_point = _entry_points().get(spec.id)
    if entry_point is None:
        return BatchedVectorEnv(spec, n_envs, **options)
    options = {**spec.kwargs, **options}
    if spec.max_episode_steps is not None:
        options["max_episode_steps"] = spec.max_episode_steps
    if spec.curriculum is not None:
        options["curriculum"] = spec.curriculum
    envs: VectorEnv[Any, Any, Any] = load(entry_point)(num_envs=n_envs, **options)
    return envs

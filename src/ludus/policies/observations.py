"""Converts env observations to network inputs: tensors, and running normalisation.

The statistics are float64 buffers of the policy, so a saved policy normalises as it did in training.
They stay on the CPU, where observations arrive, whatever device the networks are on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from ludus.envs.finite import first_bad
from ludus.errors import UserError
from ludus.types import Array, BoolArray, Observation

INITIAL_COUNT = 1e-4  # the weight of the prior (mean 0, variance 1), as in Stable-Baselines3


def to_tensor(obs: Observation, device: torch.device | str) -> Tensor | dict[str, Tensor]:
    """Return the batch on `device`: floats as float32, uint8 and bool as they are, other integers as int64.

    On the CPU a tensor may share its memory with the array it came from.
    """
    if isinstance(obs, dict):
        return {key: _array_to_tensor(value, device) for key, value in obs.items()}
    return _array_to_tensor(obs, device)


def _array_to_tensor(array: Array, device: torch.device | str) -> Tensor:
    kind = array.dtype
    if np.issubdtype(kind, np.floating):
        array = np.ascontiguousarray(array, dtype=np.float32)
    elif kind == np.uint8 or kind == np.bool_:
        array = np.ascontiguousarray(array)
    else:
        array = np.ascontiguousarray(array, dtype=np.int64)
    if not array.flags.writeable:  # torch cannot represent a read-only tensor
        array = array.copy()
    return torch.from_numpy(array).to(device)


def check_observation(space: gym.Space[Any], obs: Any) -> bool:
    """Return whether `obs` is one observation of `space`; False for a batch. Raises UserError unless it is either.

    numpy would broadcast wrong shapes, and a network returns an action for NaN too.
    """
    if isinstance(space, gym.spaces.Dict):
        missing = [key for key in space.spaces if not (isinstance(obs, dict) and key in obs)]
        if missing:
            raise _bad_observation(
                f"the observation has no {missing[0]!r}; expected the keys {list(space.spaces)}"
            )
        single = {
            key: _check_part(f"observation[{key!r}]", part, obs[key]) for key, part in space.spaces.items()
        }
        if len(set(single.values())) > 1:
            batched = [key for key, is_single in single.items() if not is_single]
            raise _bad_observation(
                f"some parts are one observation, others a batch: {batched} have a batch axis"
            )
        return all(single.values())
    return _check_part("the observation", space, obs)


def _check_part(name: str, space: gym.Space[Any], value: Any) -> bool:
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of unequal lengths
        raise _bad_observation(f"{name} is not an array: {error}") from None
    shape = space.shape or ()
    single = array.shape == shape
    if not (single or array.shape[1:] == shape):
        raise _bad_observation(f"{name} has shape {array.shape}; expected {shape}, or (n, …) for a batch")
    if array.dtype.kind not in "biuf":
        raise _bad_observation(f"{name} is of type {array.dtype}; expected numbers")
    bad = first_bad(array)  # uses numpy: the first prediction does not wait for compilation
    if bad is not None:
        raise _bad_observation(f"{name} has {bad[2]} at {list(bad[1])}")
    return single


def _bad_observation(what: str) -> UserError:
    return UserError(
        what,
        where="predict(obs)",
        fix="give an observation as the env returns it, or a batch of them with one more axis in front",
    )


def is_image_space(space: gym.Space[Any]) -> bool:
    """Return True if `space` is an image: a three-dimensional uint8 Box over 0..255."""
    return isinstance(space, gym.spaces.Box) and len(space.shape) == 3 and is_byte_space(space)


def is_byte_space(space: gym.Space[Any]) -> bool:
    """Return True if `space` is a Box of full-range bytes, of any shape (images, Atari RAM)."""
    return (
        isinstance(space, gym.spaces.Box)
        and space.dtype == np.uint8
        and bool(np.all(space.low == 0) and np.all(space.high == 255))
    )


def normalizable(space: gym.Space[Any]) -> list[str]:
    """Return the keys of a Dict space whose values can be normalised (float Boxes); [""] for such a Box itself."""
    if isinstance(space, gym.spaces.Dict):
        return [key for key, part in space.spaces.items() if _is_float_box(part)]
    return [""] if _is_float_box(space) else []


def _is_float_box(space: gym.Space[Any]) -> bool:
    return isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating)


@dataclass(frozen=True)
class Moments:
    """Mean and variance of `count` samples, element by element, in float64."""

    mean: Array
    var: Array
    count: float

    def since(self, before: Moments) -> Moments:
        """Return the moments of the samples after `before`, a prefix of these samples."""
        count = self.count - before.count
        if count <= 0:
            return Moments(np.zeros_like(self.mean), np.zeros_like(self.var), 0.0)
        mean = before.mean + (self.mean - before.mean) * (self.count / count)
        m2 = self.var * self.count - before.var * before.count
        m2 = m2 - (mean - before.mean) ** 2 * (before.count * count / self.count)
        return Moments(mean, np.maximum(m2, 0.0) / count, count)


class RunningMoments(nn.Module):
    """Mean and variance of everything seen so far, element by element, merged batch by batch (Chan et al.).

    The buffers never leave the CPU or change dtype. They are only written through numpy, in place.
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("var", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.tensor(INITIAL_COUNT, dtype=torch.float64))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> RunningMoments:
        return self  # `.to(device)` and `.float()` of the policy do not change these buffers

    def update(self, batch: Array) -> None:
        """Merge `batch` [B, *shape]."""
        n = len(batch)
        batch_mean = np.add.reduce(batch, axis=0, dtype=np.float64) / n
        deviation = batch - batch_mean
        self._merge(batch_mean, np.add.reduce(deviation * deviation, axis=0), n)

    def merge(self, moments: Moments) -> None:
        """Merge the moments of other samples."""
        if moments.count > 0:
            self._merge(moments.mean, moments.var * moments.count, moments.count)

    def moments(self) -> Moments:
        """Return a copy of the statistics."""
        return Moments(self.mean.numpy().copy(), self.var.numpy().copy(), float(self.count))

    def set_to(self, moments: Moments) -> None:
        """Set the statistics to `moments`."""
        self.mean.numpy()[...] = moments.mean
        self.var.numpy()[...] = moments.var
        self.count.numpy()[...] = moments.count

    def _merge(self, batch_mean: Array, batch_m2: Array, n: float) -> None:
        mean, var, count = self.mean.numpy(), self.var.numpy(), self.count.numpy()
        before = float(count)
        total = before + n
        delta = batch_mean - mean
        mean += delta * (n / total)
        var *= before
        var += batch_m2
        var += delta * delta * (before * n / total)
        var /= total
        count[...] = total


class ObservationNormalizer(nn.Module):
    """Float observations scaled to mean 0 and variance 1, clipped to ±`clip`; other keys are unchanged."""

    def __init__(self, space: gym.Space[Any], clip: float = 10.0, epsilon: float = 1e-8) -> None:
        super().__init__()
        self.clip = clip
        self.epsilon = epsilon
        self.keys = normalizable(space)
        self.kernel: Any = None  # a compiled `update_and_normalize` for arrays, set by the learner
        # A prefix, because a module's name may be neither empty nor that of a ModuleDict method.
        self.moments = nn.ModuleDict(
            {_buffer_name(key): RunningMoments(_shape(space, key)) for key in self.keys}
        )

    def update(self, obs: Observation) -> None:
        """Add a batch of observations (first axis: env) to the running statistics."""
        for key in self.keys:
            self.moments_of(key).update(obs[key] if isinstance(obs, dict) else obs)

    def update_and_normalize(self, obs: Observation) -> Observation:
        """Update the statistics with a batch, then normalise it."""
        if self.kernel is not None and isinstance(obs, np.ndarray) and self.keys:
            moments = self.moments_of("")
            rows = obs.reshape(len(obs), -1)
            seen = np.empty(rows.shape, dtype=np.float32)
            statistics = (moments.mean.numpy().reshape(-1), moments.var.numpy().reshape(-1))
            self.kernel(rows, *statistics, moments.count.numpy().reshape(1), self.clip, self.epsilon, seen)
            return seen.reshape(obs.shape)
        self.update(obs)
        return self.normalize(obs)

    def normalize(self, obs: Observation) -> Observation:
        """Return the normalised batch, or single observation, as float32. Statistics and input do not change."""
        if isinstance(obs, dict):
            return {key: self._scaled(key, obs[key]) if key in self.keys else obs[key] for key in obs}
        return self._scaled("", obs) if self.keys else obs

    def moments_of(self, key: str) -> RunningMoments:
        """Return the statistics of one of `keys`."""
        return cast(RunningMoments, self.moments[_buffer_name(key)])

    def _scaled(self, key: str, array: Array) -> Array:
        moments = self.moments_of(key)
        scaled: Array = array - moments.mean.numpy()
        scaled /= np.sqrt(moments.var.numpy() + self.epsilon)
        np.maximum(scaled, -self.clip, out=scaled)
        np.minimum(scaled, self.clip, out=scaled)
        return scaled.astype(np.float32)


def _buffer_name(key: str) -> str:
    return "obs_" + key.replace(".", "_") if key else "obs"


def _shape(space: gym.Space[Any], key: str) -> tuple[int, ...]:
    return (space[key] if isinstance(space, gym.spaces.Dict) else space).shape or ()


class RewardNormalizer:
    """Rewards over the standard deviation of the discounted return, as VecNormalize of Stable-Baselines3."""

    def __init__(self, n_envs: int, gamma: float = 0.99, clip: float = 10.0, epsilon: float = 1e-8) -> None:
        self.gamma = gamma
        self.clip = clip
        self.epsilon = epsilon
        self.returns = np.zeros(n_envs)
        self.moments = RunningMoments(())
        self.kernel: Any = None  # a compiled `update_and_scale`, set by the learner

    def update_and_scale(self, rewards: Array, dones: BoolArray, valid: BoolArray) -> Array:
        """Update the statistics with a step, then scale its rewards."""
        if self.kernel is None:
            self.update(rewards, dones, valid)
            return self.scale(rewards)
        scaled = np.empty(len(rewards), dtype=np.float32)
        moments = (
            buffer.numpy().reshape(1) for buffer in (self.moments.mean, self.moments.var, self.moments.count)
        )
        self.kernel(
            rewards, dones, valid, self.returns, *moments, self.gamma, self.clip, self.epsilon, scaled
        )
        return scaled

    def update(self, rewards: Array, dones: BoolArray, valid: BoolArray | None = None) -> None:
        """Add one step of all envs to the statistics. The return of a done env starts again from zero.

        A step that is not `valid` (it crossed a reset) is not added, and its return starts from zero too.
        """
        self.returns *= self.gamma
        self.returns += rewards
        if valid is None or valid.all():
            self.moments.update(self.returns)
        else:
            if valid.any():
                self.moments.update(self.returns[valid])
            self.returns[~valid] = 0.0
        self.returns[dones] = 0.0

    def scale(self, rewards: Array) -> Array:
        """Return the rewards, scaled and clipped, as float32."""
        scaled: Array = rewards / np.sqrt(float(self.moments.var) + self.epsilon)
        return scaled.clip(-self.clip, self.clip).astype(np.float32)

    @property
    def unit(self) -> float:
        """Return the env reward that corresponds to a scaled reward of 1."""
        return float(np.sqrt(float(self.moments.var) + self.epsilon))

    def reset_returns(self) -> None:
        """Set all running returns to zero, after every env was reset."""
        self.returns[:] = 0.0

    def state_dict(self) -> dict[str, Array]:
        """Return the state for a checkpoint, as float64 arrays."""
        moments = {name: buffer.numpy().copy() for name, buffer in self.moments.named_buffers()}
        return {**moments, "returns": self.returns.copy()}

    def load_state_dict(self, state: dict[str, Array]) -> None:
        """Restore the result of `state_dict`."""
        for name, buffer in self.moments.named_buffers():
            buffer.numpy()[...] = state[name]
        self.returns[:] = state["returns"]

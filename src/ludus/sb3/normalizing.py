"""SB3's VecNormalize with statistics that Ludus saves: in the policy, and in the reward normaliser."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from ludus.policies.observations import ObservationNormalizer, RewardNormalizer, RunningMoments
from ludus.types import Array


class SharedMoments(RunningMeanStd):
    """SB3's running mean and variance, with its arithmetic, stored in the buffers of a RunningMoments."""

    def __init__(self, moments: RunningMoments) -> None:  # not SB3's: the values are there already
        self._moments = moments

    @property
    def mean(self) -> Array:
        return self._moments.mean.numpy()

    @mean.setter
    def mean(self, value: Array) -> None:
        self._moments.mean.numpy()[...] = value

    @property
    def var(self) -> Array:
        return self._moments.var.numpy()

    @var.setter
    def var(self, value: Array) -> None:
        self._moments.var.numpy()[...] = value

    @property
    def count(self) -> float:
        return float(self._moments.count)

    @count.setter
    def count(self, value: float) -> None:
        self._moments.count.numpy()[...] = value


def normalized(
    envs: VecEnv,
    observations: ObservationNormalizer | None,
    rewards: RewardNormalizer | None,
    gamma: float,
) -> VecEnv:
    """Return `envs` in a VecNormalize with these statistics; `envs` itself if nothing is normalised."""
    keys = [] if observations is None else observations.keys
    if not keys and rewards is None:
        return envs
    wrapped = VecNormalize(
        envs,
        norm_obs=bool(keys),
        norm_reward=rewards is not None,
        gamma=gamma,
        norm_obs_keys=keys if keys and keys != [""] else None,
    )
    if observations is not None and keys:
        shared: dict[str, Any] = {key: SharedMoments(observations.moments_of(key)) for key in keys}
        wrapped.obs_rms = shared[""] if keys == [""] else shared
        wrapped.clip_obs, wrapped.epsilon = observations.clip, observations.epsilon
    if rewards is not None:
        wrapped.ret_rms = SharedMoments(rewards.moments)
        wrapped.clip_reward = rewards.clip
    return wrapped

"""Puts SAC's networks and optimizers on flat arrays, and runs the SAC kernel over them."""

from __future__ import annotations

import time
from typing import Any

import numba
import numpy as np
import torch

from ludus.algorithms.kernels import soft_actor_critic as sac
from ludus.algorithms.kernels.cores import CoreChoice
from ludus.algorithms.kernels.memory import (
    FlatMemory,
    activation_kind,
    linear_layers,
    reward_scale,
    running_scale,
    uncovered_input,
    uncovered_layer,
)
from ludus.algorithms.replay import ReplayArrays
from ludus.policies.observations import RewardNormalizer
from ludus.policies.soft_actor import SACPolicy, TwinCritic
from ludus.types import Array, Metrics


def why_not(policy: SACPolicy) -> str | None:
    """None when the kernels cover `policy`, else what they do not cover."""
    return (
        uncovered_input(policy, policy.critic.features_extractor, policy.actor_features_extractor)
        or uncovered_layer(policy.actor_net)
        or uncovered_layer(policy.critic.q1)
    )


class SACKernels:
    """Learns with `policy`, whose parameters, moments and target critics it keeps in flat arrays."""

    def __init__(
        self,
        policy: SACPolicy,
        target: TwinCritic,
        actor_optimizer: torch.optim.Optimizer,
        critic_optimizer: torch.optim.Optimizer,
        rng: np.random.Generator,
        threads: int,
    ) -> None:
        self.policy = policy
        self._rng = rng
        layers = linear_layers(policy.actor_net)
        mean, log_std = policy.mean_head, policy.log_std_head
        ordered: list[torch.Tensor] = [p for layer in layers for p in (layer.weight, layer.bias)]
        ordered += [mean.weight, log_std.weight, mean.bias, log_std.bias]  # both heads as one layer
        self.actor = FlatMemory(ordered, actor_optimizer)
        self.critics = FlatMemory(_critic_parameters(policy.critic), critic_optimizer)
        self.target = FlatMemory(_critic_parameters(target), None)
        self._size = mean.out_features
        hidden = [layer.out_features for layer in layers]
        actor_dims = np.array(
            [mean.in_features if not layers else layers[0].in_features, *hidden, 2 * self._size]
        )
        q_layers = linear_layers(policy.critic.q1)
        critic_dims = np.array([q_layers[0].in_features, *(layer.out_features for layer in q_layers)])
        self._plan = (
            actor_dims.astype(np.int64),
            critic_dims.astype(np.int64),
            activation_kind(policy.critic.q1),
        )
        self._cores = CoreChoice(2 if threads > 1 else 1)
        self._buffers: Any = None
        self._rows = 0

    def bind(self) -> None:
        """See `FlatMemory.bind`."""
        self.actor.bind()
        self.critics.bind()
        self.target.bind()

    def learn(
        self,
        replay: ReplayArrays,
        indices: Array,
        reward_normalizer: RewardNormalizer | None,
        *,
        rate: float,
        max_norm: float | None,
        gamma: float,
        tau: float,
        temperature: float,
        update_targets: bool,
    ) -> tuple[Metrics, float]:
        """One gradient step on the replay's rows `indices`. Returns metrics and the mean log-probability."""
        rows = len(indices)
        if rows != self._rows:
            self._allocate(rows)
        settings = np.zeros(sac.N_SETTINGS)
        settings[sac.RATE] = rate
        settings[sac.EPS] = 1e-8
        settings[sac.MAX_NORM] = -1.0 if max_norm is None else max_norm
        settings[sac.GAMMA] = gamma
        settings[sac.TAU] = tau
        settings[sac.TEMPERATURE] = temperature
        settings[sac.REWARD_SCALE], settings[sac.REWARD_CLIP] = reward_scale(reward_normalizer)
        normalizer = self.policy.obs_normalizer
        settings[sac.OBS_CLIP] = 0.0 if normalizer is None else normalizer.clip
        stats = np.zeros(sac.N_STATS)
        noise = self._rng.standard_normal((2, rows, self._size), dtype=np.float32)
        capacity = len(replay.obs)
        with self._cores.choose() as cores:
            numba.set_num_threads(cores)
            sac.learn(
                self.actor.arrays,
                self.critics.arrays,
                self.target.parameters,
                self._plan,
                (
                    replay.obs.reshape(capacity, -1),
                    replay.next_obs.reshape(capacity, -1),
                    replay.actions.reshape(capacity, -1),
                    replay.rewards,
                    replay.terminated,
                ),
                running_scale(normalizer),
                indices,
                noise,
                self.critics.step + 1,
                settings,
                update_targets,
                stats,
                self._buffers,
            )
        taken = int(stats[sac.FINITE])
        self.critics.advance(taken, stats[sac.GRAD_NORM])
        self.actor.advance(taken, stats[sac.GRAD_NORM])
        metrics = {
            "train/actor_loss": stats[sac.ACTOR_LOSS],
            "train/critic_loss": stats[sac.CRITIC_LOSS],
            "train/grad_norm": stats[sac.GRAD_NORM],
        }
        return metrics, float(stats[sac.LOG_PROB])

    def compile(self) -> float:
        """Compile what will be called, or load it from the disk cache; returns the seconds it took."""
        started = time.monotonic()
        state = self._rng.bit_generator.state
        n_obs = int(self._plan[0][0])
        obs, numbers = np.zeros((2, n_obs), dtype=np.float32), np.zeros(2, dtype=np.float32)
        replay = ReplayArrays(
            obs, obs, np.zeros((2, self._size), dtype=np.float32), numbers, np.zeros(2, dtype=bool), None
        )
        kept = [
            (array, array.copy())
            for memory in (self.actor, self.critics, self.target)
            for array in memory.arrays
        ]
        nothing = {"rate": 0.0, "max_norm": None, "gamma": 0.0, "tau": 0.0, "temperature": 0.0}
        self.learn(replay, np.zeros(2, dtype=np.int64), None, update_targets=False, **nothing)  # type: ignore[arg-type]
        for array, before in kept:
            array[:] = before
        for memory in (self.actor, self.critics):
            memory.step = 0
            memory.advance(0, 0.0)
        self._cores = CoreChoice(self._cores.most)
        self._rng.bit_generator.state = state
        return time.monotonic() - started

    def _allocate(self, rows: int) -> None:
        self._rows = rows
        actor_dims, critic_dims, _ = self._plan
        n_obs, n_in = int(actor_dims[0]), int(critic_dims[0])
        shapes = (n_in, n_in, n_in, n_obs, n_obs)
        widest = int(max(actor_dims[1:].sum(), critic_dims[1:].sum()))
        inputs = tuple(np.zeros((rows, width), dtype=np.float32) for width in shapes)
        self._buffers = (
            inputs,
            np.zeros((4, rows * widest), dtype=np.float32),
            np.zeros((4, rows * widest), dtype=np.float32),
            np.zeros((2, rows), dtype=np.float32),
            np.zeros(rows),
            (np.zeros((rows, n_in), dtype=np.float32), np.zeros((rows, n_in), dtype=np.float32)),
        )


def _critic_parameters(critic: TwinCritic) -> list[torch.Tensor]:
    layers = [*linear_layers(critic.q1), *linear_layers(critic.q2)]
    return [p for layer in layers for p in (layer.weight, layer.bias)]

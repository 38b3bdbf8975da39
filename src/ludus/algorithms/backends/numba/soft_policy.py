"""The update backend of SAC in fused CPU kernels: networks and optimizers in flat arrays; it acts as well."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import torch

from ludus.algorithms.backends import ReplayBackend
from ludus.algorithms.backends.numba import CoreChoice, soft_acting
from ludus.algorithms.backends.numba import soft_actor_critic as sac
from ludus.algorithms.backends.numba.inputs import InputRows, normalized
from ludus.algorithms.backends.numba.memory import (
    FlatMemory,
    activation_kind,
    linear_layers,
    reward_scale,
    running_scale,
    uncovered_input,
    uncovered_layer,
)
from ludus.algorithms.backends.numba.panels import panels_of, turned_size
from ludus.algorithms.backends.numba.tiles import PANEL
from ludus.algorithms.replay import ReplayArrays
from ludus.policies.base import FastPolicy
from ludus.policies.distributions import refuse_mask
from ludus.policies.extractors import zeros
from ludus.policies.observations import RewardNormalizer
from ludus.policies.soft_actor import SACPolicy, TwinCritic
from ludus.types import Array, BoolArray, Metrics, Observation

if TYPE_CHECKING:
    from ludus.algorithms.sac import SAC


def unsupported_reason(policy: SACPolicy) -> str | None:
    """None when the kernels cover `policy`, else what they do not cover."""
    return (
        uncovered_input(policy, policy.critic.features_extractor, policy.actor_features_extractor)
        or uncovered_layer(policy.actor_net)
        or uncovered_layer(policy.critic.q1)
    )


class SACKernels(ReplayBackend, FastPolicy):
    """Acts and learns for `learner`, whose parameters, moments and target critics it keeps in flat arrays."""

    def __init__(self, learner: SAC) -> None:
        self.learner = learner
        policy = self.policy = learner.policy
        self._rng = learner.context.streams.numpy("learner")
        layers = linear_layers(policy.actor_net)
        mean, log_std = policy.mean_head, policy.log_std_head
        ordered: list[torch.Tensor] = [p for layer in layers for p in (layer.weight, layer.bias)]
        ordered += [mean.weight, log_std.weight, mean.bias, log_std.bias]  # both heads as one layer
        self.actor = FlatMemory(ordered, learner.actor_optimizer)
        self.critics = FlatMemory(_critic_parameters(policy.critic), learner.critic_optimizer)
        self.target = FlatMemory(_critic_parameters(learner.target), None)
        learnt = learner.h.ent_coef == "auto"
        self.temperature = FlatMemory(
            [learner.log_temperature], learner.temperature_optimizer if learnt else None
        )
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
        self._inputs = InputRows(policy.observation_space)
        self._cores = CoreChoice(2 if learner.context.threads > 1 else 1)
        self._act_work = np.empty(0, dtype=np.float32)
        self._buffers: Any = None
        self._rows = 0

    def take_steps(self, n: int, fraction: float) -> Metrics:
        learner, h = self.learner, self.learner.h
        metrics: Metrics = {}
        for _ in range(n):
            learner.gradient_steps += 1
            chosen = learner.draw()
            if self._inputs.plain:
                replay = learner.replay.arrays()
            else:
                replay = learner.replay.encoded(chosen, self._encode)
                chosen = np.arange(len(chosen))
            metrics = self.learn(
                replay,
                chosen,
                learner.context.reward_normalizer,
                rate=h.learning_rate(fraction),
                max_norm=None if h.max_grad_norm is None else h.max_grad_norm(fraction),
                gamma=h.gamma(fraction),
                tau=h.tau(fraction),
                temperature=None if h.ent_coef == "auto" else h.ent_coef(fraction),
                target_entropy=learner.target_entropy,
                update_targets=learner.gradient_steps % h.target_update_interval == 0,
            )
        return metrics

    def _encode(self, obs: Observation) -> Array:
        return self._inputs.rows(normalized(obs, self.policy.obs_normalizer))

    def rebind(self) -> None:
        self.actor.bind()
        self.critics.bind()
        self.target.bind()
        self.temperature.bind()

    def act(self, obs: Observation, masks: BoolArray | None) -> Array:
        """Return actions from -1 to 1."""
        if masks is not None:
            refuse_mask(torch.from_numpy(masks), self.policy.action_space)
        rows, dims = self._inputs.rows(obs), self._plan[0]
        n = len(rows)
        if len(self._act_work) < n * int(dims[1:].sum()):
            self._act_work = np.empty(n * int(dims[1:].sum()), dtype=np.float32)
        actions = np.empty((n, self._size), dtype=np.float32)
        noise = self._rng.standard_normal((n, self._size), dtype=np.float32)
        soft_acting.act(self.actor.parameters, dims, self._plan[2], rows, noise, self._act_work, actions)
        return actions

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
        temperature: float | None,
        target_entropy: float,
        update_targets: bool,
    ) -> Metrics:
        """Take one gradient step on the replay's rows `indices`. A `temperature` of None is learnt.

        Observations that are not plain floats are encoded (`InputRows.rows`).
        """
        rows = len(indices)
        if rows != self._rows:
            self._allocate(rows)
        settings = np.zeros(sac.N_SETTINGS)
        settings[sac.RATE] = rate
        settings[sac.EPS] = 1e-8
        settings[sac.MAX_NORM] = -1.0 if max_norm is None else max_norm
        settings[sac.GAMMA] = gamma
        settings[sac.TAU] = tau
        learnt = temperature is None
        settings[sac.TEMPERATURE] = (
            math.exp(self.temperature.parameters[0]) if temperature is None else temperature
        )
        settings[sac.LEARN_TEMPERATURE] = float(learnt)
        settings[sac.TARGET_ENTROPY] = target_entropy
        settings[sac.FOLLOW] = float(update_targets)
        settings[sac.REWARD_SCALE], settings[sac.REWARD_CLIP] = reward_scale(reward_normalizer)
        normalizer = self.policy.obs_normalizer if self._inputs.plain else None
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
                self.temperature.arrays,
                (*self._plan, rows),
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
                stats,
                self._buffers,
            )
        found = stats.tolist()
        taken, norm = int(found[sac.FINITE]), found[sac.GRAD_NORM]
        self.critics.advance(taken, norm)
        self.actor.advance(taken, norm)
        metrics = {
            "train/actor_loss": found[sac.ACTOR_LOSS],
            "train/critic_loss": found[sac.CRITIC_LOSS],
            "train/grad_norm": norm,
            "train/ent_coef": float(settings[sac.TEMPERATURE]),
        }
        if learnt:
            self.temperature.advance(taken, 0.0)
            metrics["train/ent_coef_loss"] = found[sac.TEMPERATURE_LOSS]
        return metrics

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
            for memory in (self.actor, self.critics, self.target, self.temperature)
            for array in memory.arrays
        ]
        self.act(zeros(self.policy.observation_space, 2), None)
        self.learn(
            replay,
            np.zeros(2, dtype=np.int64),
            None,
            rate=0.0,
            max_norm=None,
            gamma=0.0,
            tau=0.0,
            temperature=0.0,
            target_entropy=0.0,
            update_targets=False,
        )
        for array, before in kept:
            array[:] = before
        for memory in (self.actor, self.critics):
            memory.step = 0
            memory.advance(0, 0.0)
        self._cores = CoreChoice(self._cores.max_cores)
        self._rng.bit_generator.state = state
        return time.monotonic() - started

    def _allocate(self, rows: int) -> None:
        self._rows = rows
        actor_dims, critic_dims, _ = self._plan
        panels = panels_of(rows)
        samples = panels * PANEL

        def floats(*shape: int) -> Array:
            return np.zeros(shape, dtype=np.float32)

        actor_widths, critic_widths = int(actor_dims[1:].sum()), int(critic_dims[1:].sum())
        turned = max(turned_size(dims, len(dims) - 1, panels) for dims in (actor_dims, critic_dims))
        self._buffers = (
            tuple(floats(samples * int(critic_dims[0])) for _ in range(3)),
            (floats(rows), floats(rows)),
            np.zeros(rows),
            floats(2, rows),
            floats(samples * actor_widths),
            floats(2, samples * critic_widths),
            floats(2, PANEL * critic_widths),
            floats(2, samples * max(actor_widths, critic_widths)),
            floats(2, turned),
            np.zeros(samples + PANEL, dtype=np.int64),
            floats(rows, self._size),
        )


def _critic_parameters(critic: TwinCritic) -> list[torch.Tensor]:
    layers = [*linear_layers(critic.q1), *linear_layers(critic.q2)]
    return [p for layer in layers for p in (layer.weight, layer.bias)]

"""The update backend of DQN in fused CPU kernels: networks, target and optimizer in flat arrays; it acts as well."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ludus.algorithms.backends import ReplayBackend
from ludus.algorithms.backends.numba import memory, q_learning
from ludus.algorithms.backends.numba.inputs import InputRows, normalized
from ludus.algorithms.replay import ReplayArrays
from ludus.policies.base import FastPolicy
from ludus.policies.extractors import zeros
from ludus.policies.observations import RewardNormalizer
from ludus.policies.q_network import QPolicy
from ludus.types import Array, BoolArray, Metrics, Observation

if TYPE_CHECKING:
    from ludus.algorithms.dqn import DQN


def unsupported_reason(policy: QPolicy) -> str | None:
    """None when the kernels cover `policy`, else what they do not cover."""
    if policy.value_net is not None:
        return "dueling networks"
    return memory.uncovered_input(policy, policy.features_extractor) or memory.uncovered_layer(policy.q_net)


class QKernels(ReplayBackend, FastPolicy):
    """Acts and learns for `learner`, whose parameters, moments and target it keeps in flat arrays."""

    def __init__(self, learner: DQN) -> None:
        self.learner = learner
        policy = self.policy = learner.policy
        self._rng = learner.context.streams.numpy("actions")
        layers = memory.linear_layers(policy.q_net)
        self.memory = memory.FlatMemory(
            [p for layer in layers for p in (layer.weight, layer.bias)], learner.optimizer
        )
        target_layers = memory.linear_layers(learner.target.q_net)
        self.target = memory.FlatMemory(
            [p for layer in target_layers for p in (layer.weight, layer.bias)], None
        )
        self._dims = np.array(
            [layers[0].in_features, *(layer.out_features for layer in layers)], dtype=np.int64
        )
        self._kind = memory.activation_kind(policy.q_net)
        self._inputs = InputRows(policy.observation_space)
        self._widest = int(self._dims[1:].sum())
        self._no_masks = np.ones((0, 0), dtype=bool)
        self._act_work = np.empty(0, dtype=np.float32)
        self._buffers: Any = None
        self._rows = 0

    def act(self, obs: Observation, masks: BoolArray | None) -> Array:
        """Return epsilon-greedy actions."""
        rows = self._inputs.rows(obs)
        n = len(rows)
        if len(self._act_work) < n * self._widest:
            self._act_work = np.empty(n * self._widest, dtype=np.float32)
        actions = np.empty(n, dtype=np.int64)
        q_learning.act(
            self.memory.parameters,
            self._dims,
            self._kind,
            rows,
            self._no_masks if masks is None else masks,
            masks is not None,
            self.policy.epsilon,
            self._rng.random((n, 2)),
            self._act_work,
            actions,
        )
        return actions

    def take_steps(self, n: int, fraction: float) -> Metrics:
        if n == 0:
            return {}
        learner, h = self.learner, self.learner.h
        chosen = learner.draw(n)
        if self._inputs.plain:
            replay = learner.replay.arrays()
        else:
            replay = learner.replay.encoded(chosen.reshape(-1), self._encode)
            chosen = np.arange(chosen.size).reshape(chosen.shape)
        return self.learn(
            replay,
            chosen,
            learner.context.reward_normalizer,
            rate=h.learning_rate(fraction),
            eps=1e-8,
            max_norm=None if h.max_grad_norm is None else h.max_grad_norm(fraction),
            gamma=h.gamma(fraction),
            double=h.double,
        )

    def _encode(self, obs: Observation) -> Array:
        return self._inputs.numbers(normalized(obs, self.policy.obs_normalizer))

    def rebind(self) -> None:
        self.memory.bind()

    def learn(
        self,
        replay: ReplayArrays,
        chosen: Array,
        reward_normalizer: RewardNormalizer | None,
        *,
        rate: float,
        eps: float,
        max_norm: float | None,
        gamma: float,
        double: bool,
    ) -> Metrics:
        """Take one gradient step per row of `chosen`, [steps, batch] indices into the replay.

        Observations that are not plain floats are encoded (`InputRows.numbers`).
        """
        rows = chosen.shape[1]
        if rows > self._rows:
            self._allocate(rows)
        settings = np.zeros(q_learning.N_SETTINGS)
        settings[q_learning.RATE] = rate
        settings[q_learning.EPS] = eps
        settings[q_learning.MAX_NORM] = -1.0 if max_norm is None else max_norm
        settings[q_learning.GAMMA] = gamma
        settings[q_learning.DOUBLE] = float(double)
        scale, clip = memory.reward_scale(reward_normalizer)
        settings[q_learning.REWARD_SCALE], settings[q_learning.REWARD_CLIP] = scale, clip
        normalizer = self.policy.obs_normalizer if self._inputs.plain else None
        settings[q_learning.OBS_CLIP] = 0.0 if normalizer is None else normalizer.clip
        stats = np.zeros(q_learning.N_STATS)
        taken = q_learning.learn(
            self.memory.arrays,
            self.target.parameters,
            self._dims,
            self._kind,
            (
                replay.obs.reshape(len(replay.obs), -1),
                replay.next_obs.reshape(len(replay.next_obs), -1),
                self._inputs.layout,
                replay.actions,
                replay.rewards,
                replay.terminated,
                self._no_masks if replay.next_masks is None else replay.next_masks,
                replay.next_masks is not None,
            ),
            memory.running_scale(normalizer),
            chosen,
            self.memory.step,
            settings,
            stats,
            self._buffers,
        )
        self.memory.advance(taken, stats[q_learning.GRAD_NORM])
        return {
            "train/loss": stats[q_learning.LOSS],
            "train/q_mean": stats[q_learning.Q_MEAN],
            "train/grad_norm": stats[q_learning.GRAD_NORM],
        }

    def compile(self) -> float:
        """Compile what will be called, or load it from the disk cache; returns the seconds it took."""
        started = time.monotonic()
        state = self._rng.bit_generator.state
        seen = zeros(self.policy.observation_space, 2)
        actions = self.act(seen, None)
        obs = self._inputs.numbers(seen)
        self._rng.bit_generator.state = state
        numbers = np.zeros(2, dtype=np.float32)
        replay = ReplayArrays(obs, obs, actions, numbers, np.zeros(2, dtype=bool), None)
        none = np.zeros((0, 2), dtype=np.int64)
        self.learn(replay, none, None, rate=0.0, eps=1e-8, max_norm=None, gamma=0.0, double=False)
        return time.monotonic() - started

    def _allocate(self, rows: int) -> None:
        self._rows = rows
        inputs = (np.empty((rows, int(self._dims[0])), dtype=np.float32) for _ in range(2))
        values = (np.empty(rows * self._widest, dtype=np.float32) for _ in range(3))
        self._buffers = (*inputs, *values)

"""The update backend of PPO and A2C in fused CPU kernels; the same kernels act.

The networks and their optimizer are moved into flat arrays that the kernels and torch share.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from gymnasium import spaces

from ludus.algorithms.backends import Minibatches, OnPolicyBackend, RolloutSamples, UpdateSettings
from ludus.algorithms.backends.numba import CoreChoice, acting, policy_gradient
from ludus.algorithms.backends.numba.inputs import InputRows, as_arrays, batch_size
from ludus.algorithms.backends.numba.memory import (
    FlatMemory,
    activation_kind,
    linear_layers,
    uncovered_input,
    uncovered_layer,
)
from ludus.policies.actor_critic import ActorCritic
from ludus.policies.base import FastActorCritic
from ludus.policies.extractors import zeros
from ludus.policies.observations import to_tensor
from ludus.runs.streams import Streams
from ludus.types import Array, BoolArray, Metrics, Observation

WIDE = 256  # inputs from which on kernels that skip zeros are faster
_NAMES = {
    policy_gradient.POLICY_LOSS: "policy_gradient_loss",
    policy_gradient.VALUE_LOSS: "value_loss",
    policy_gradient.ENTROPY_LOSS: "entropy_loss",
    policy_gradient.APPROX_KL: "approx_kl",
    policy_gradient.CLIP_FRACTION: "clip_fraction",
    policy_gradient.GRAD_NORM: "grad_norm",
}


def unsupported_reason(policy: ActorCritic) -> str | None:
    """None when the kernels cover `policy`, else what they do not cover."""
    uncovered = uncovered_input(policy, policy.features_extractor, policy.value_features_extractor)
    if uncovered is not None:
        return uncovered
    if not isinstance(policy.action_space, spaces.Discrete | spaces.MultiDiscrete | spaces.Box):
        return f"{type(policy.action_space).__name__} actions"
    if policy.own_layers is not None:
        return f"the network {type(policy.own_layers).__name__}"
    return uncovered_layer(policy.policy_net) or uncovered_layer(policy.value_net)


OnePass = Callable[[Array, int, Array, Array, int], tuple[int, bool]]
"""(order, batch size, settings, statistics, cores) to steps taken and whether the update ends there."""


class ActorCriticKernels(OnPolicyBackend, FastActorCritic):
    """Acts and learns with `policy`, whose parameters (and whose optimizer's moments) it moves into one array."""

    def __init__(
        self, policy: ActorCritic, optimizer: torch.optim.Optimizer, streams: Streams, threads: int
    ) -> None:
        self.policy = policy
        self._streams = streams
        self._rng = streams.numpy("actions")
        self._eps = float(optimizer.defaults["eps"])
        self._rmsprop = isinstance(optimizer, torch.optim.RMSprop)
        shared = policy.value_net is None
        space = policy.action_space
        self._box = isinstance(space, spaces.Box)
        if isinstance(space, spaces.Box):
            parts, n_box = [], int(np.prod(space.shape))
        else:
            parts = [int(space.n)] if isinstance(space, spaces.Discrete) else [int(n) for n in space.nvec]  # type: ignore[attr-defined]
            n_box = 0
        policy_layers, value_layers = linear_layers(policy.policy_net), linear_layers(policy.value_net)
        head, value_head = policy.action_head.linear, policy.value_head

        # the order of parameters in the flat array; see core.py
        ordered: list[torch.Tensor] = []
        for layer in policy_layers:
            ordered += [layer.weight, layer.bias]
        if shared:  # both heads as one layer whose last output is the value
            ordered += [head.weight, value_head.weight, head.bias, value_head.bias]
        else:
            ordered += [head.weight, head.bias]
        if self._box:
            ordered.append(policy.action_head.log_std)
        for layer in value_layers:
            ordered += [layer.weight, layer.bias]
        if not shared:
            ordered += [value_head.weight, value_head.bias]
        assert {id(p) for p in ordered} == {id(p) for p in policy.parameters()}
        self.memory = FlatMemory(ordered, optimizer)

        self._inputs = InputRows(policy.observation_space)
        n_in = self._inputs.width
        hidden = [layer.out_features for layer in policy_layers]
        dims_pi = np.array([n_in, *hidden, head.out_features + shared], dtype=np.int64)
        value_hidden = [layer.out_features for layer in value_layers]
        dims_v = np.array([n_in, *value_hidden, 1], dtype=np.int64)
        kinds = np.array([activation_kind(policy.policy_net), int(shared), n_box], dtype=np.int64)
        self._plan = (dims_pi, dims_v, np.array(parts, dtype=np.int64), kinds)
        self._cores = CoreChoice(2 if threads > 1 and not shared else 1)
        self._cores_to_act = CoreChoice(self._cores.max_cores)
        self._widest = int(max(dims_pi[1:].sum(), dims_v[1:].sum()))
        self._buffers: Any = None
        self._buffer_rows = 0
        self._act_rows = 0
        self._no_masks = np.ones((0, 0), dtype=bool)
        self._may_skip_zeros = (
            isinstance(space, spaces.Discrete)
            and not shared
            and n_in >= WIDE
            and min(len(hidden), len(value_hidden)) > 0
        )
        self._list_buffers: Any = None
        self._list_rows = 0
        self._expected = 0
        if self._may_skip_zeros:
            from ludus.algorithms.backends.numba import first_layer, listing, sparse

            self._list_numbers, self._list_actions = listing.nonzero_lists, listing.legal_lists
            self._sparse_turn, self._sparse_act, self._sparse_update = (
                first_layer.turn,
                sparse.act,
                sparse.update,
            )
            self._turned, self._turned_for_acting = (
                tuple(np.empty((n_in, widths[0]), dtype=np.float32) for widths in (hidden, value_hidden))
                for _ in range(2)
            )

    def begin_rollout(self, n_steps: int) -> None:
        if self._may_skip_zeros:
            self._sparse_turn(self.memory.parameters, self._plan, *self._turned_for_acting)
            self._expected = n_steps

    def act(self, obs: Observation, masks: BoolArray | None) -> tuple[Array, Array, Array]:
        n = batch_size(obs)
        if n != self._act_rows:
            self._allocate_acting(n)
        parts = self._plan[2]
        if self._box:
            noise = self._rng.standard_normal((n, int(self._plan[3][2])), dtype=np.float32)
        else:
            noise = self._rng.random((n, len(parts)), dtype=np.float32)
        actions_int = np.empty((n, len(parts)), dtype=np.int64)
        actions_float = np.empty((n, int(self._plan[3][2])), dtype=np.float32)
        log_probs = np.empty(n, dtype=np.float32)
        values = np.empty(n, dtype=np.float32)
        listed = self._listed(obs, masks)
        if listed is not None:
            entries, legal = listed
            if self._expected == 0:
                self.begin_rollout(1)
            self._expected -= 1
            with self._cores_to_act.choose() as cores:
                numba.set_num_threads(cores)
                self._sparse_act(
                    self.memory.parameters,
                    self._plan,
                    entries,
                    legal,
                    noise,
                    self._turned_for_acting,
                    (self._act_work, self._value_work),
                    (actions_int, log_probs),
                    values,
                )
            return actions_int[:, 0], log_probs, values
        acting.act(
            self.memory.parameters,
            self._plan,
            self._inputs.rows(obs),
            noise,
            self._no_masks if masks is None else masks,
            masks is not None,
            self._act_work,
            actions_int,
            actions_float,
            log_probs,
            values,
        )
        if self._box:
            return actions_float.reshape(n, *self.policy.action_head.action_shape), log_probs, values
        return (
            (actions_int[:, 0] if isinstance(self.policy.action_space, spaces.Discrete) else actions_int),
            log_probs,
            values,
        )

    def values(self, obs: Observation) -> Array:
        values = np.empty(batch_size(obs), dtype=np.float32)
        for part, rows in self._inputs.blocks(obs):
            work = np.empty(len(rows) * self._widest, dtype=np.float32)
            acting.state_values(self.memory.parameters, self._plan, rows, work, values[part])
        return values

    def evaluate(self, obs: Observation, actions: Array, masks: BoolArray | None) -> tuple[Array, Array]:
        """The log-probabilities of a batch of actions, and the values of the observations they were taken at.

        `compile` leaves it out: few runs need it.
        """
        log_probs, values = (np.empty(len(actions), dtype=np.float32) for _ in range(2))
        for part, rows in self._inputs.blocks(obs):
            acting.evaluate(
                self.memory.parameters,
                self._plan,
                rows,
                *self._split_actions(actions[part]),
                self._no_masks if masks is None else masks[part],
                masks is not None,
                np.empty(len(rows) * self._widest, dtype=np.float32),
                log_probs[part],
                values[part],
            )
        return log_probs, values

    def _split_actions(self, actions: Array) -> tuple[Array, Array]:
        """Actions as int64 [n, parts] and as float32 [n, d]: one of the two is empty."""
        flat = actions.reshape(len(actions), -1)
        if self._box:
            return np.zeros((0, 0), dtype=np.int64), flat
        return flat.astype(np.int64, copy=False), np.zeros((0, 0), dtype=np.float32)

    def begin(self, samples: RolloutSamples, settings: UpdateSettings) -> None:
        self._n, self._settings = len(samples), settings
        self._numbers = self._as_array(settings)
        self._stats = np.zeros(policy_gradient.N_STATS)
        self._steps, self._stopped = 0, False
        self._expected = 0
        obs, masks = as_arrays(samples.obs), None if samples.masks is None else samples.masks.numpy()
        listed = self._listed(obs, masks)
        self._pass = (
            self._dense_pass(obs, samples, masks) if listed is None else self._sparse_pass(listed, samples)
        )

    def shuffle(self, batch_size: int) -> Minibatches:
        return Minibatches(self._streams.numpy("minibatches").permutation(self._n), batch_size)

    def take_steps(self, minibatches: Minibatches) -> None:
        order = np.arange(self._n) if minibatches.order is None else minibatches.order
        with self._cores.choose() as cores:
            steps, self._stopped = self._pass(order, minibatches.size, self._numbers, self._stats, cores)
        self._steps += steps
        self.memory.advance(steps, self._stats[policy_gradient.GRAD_NORM])

    @property
    def stopped(self) -> bool:
        return self._stopped

    def finish(self) -> Metrics:
        steps, stats, settings = self._steps, self._stats, self._settings
        if steps == 0:
            return {"train/approx_kl": stats[policy_gradient.APPROX_KL]} if self._stopped else {}
        means: Metrics = {name: stats[index] / steps for index, name in _NAMES.items()}
        means["loss"] = (
            means["policy_gradient_loss"]
            + settings.ent_coef * means["entropy_loss"]
            + settings.vf_coef * means["value_loss"]
        )
        means["approx_kl"] *= steps / (steps + self._stopped)
        if settings.clip_range is None:
            del means["approx_kl"], means["clip_fraction"]
            means["policy_loss"] = means.pop("policy_gradient_loss")
        return {f"train/{name}": value for name, value in means.items()}

    def rebind(self) -> None:
        self.memory.bind()

    def _as_array(self, settings: UpdateSettings) -> Array:
        """Return the settings as an array for the kernels; a limit below zero means no limit."""
        clip_range_vf, target_kl = settings.clip_range_vf, settings.target_kl
        values = np.zeros(policy_gradient.N_SETTINGS)
        values[policy_gradient.RATE] = settings.learning_rate
        values[policy_gradient.EPS] = self._eps
        values[policy_gradient.MAX_NORM] = -1.0 if settings.max_grad_norm is None else settings.max_grad_norm
        values[policy_gradient.CLIP_RANGE] = settings.clip_range or 0.0
        values[policy_gradient.CLIP_VALUE] = -1.0 if clip_range_vf is None else clip_range_vf
        values[policy_gradient.ENT_COEF] = settings.ent_coef
        values[policy_gradient.VF_COEF] = settings.vf_coef
        values[policy_gradient.TARGET_KL] = -1.0 if target_kl is None else target_kl
        values[policy_gradient.NORMALIZE] = float(settings.normalize_advantage)
        values[policy_gradient.UNCLIPPED] = float(settings.clip_range is None)
        values[policy_gradient.RMSPROP] = float(self._rmsprop)
        return values

    def _dense_pass(self, obs: Observation, samples: RolloutSamples, masks: BoolArray | None) -> OnePass:
        """Return one pass over `samples` that reads whole observations."""
        rows = self._inputs.numbers(obs), *self._inputs.layout
        whole = (
            *self._split_actions(samples.actions.numpy()),
            samples.log_probs.numpy(),
            samples.advantages.numpy(),
            self._no_masks if masks is None else masks,
            masks is not None,
        )
        values_of = samples.returns.numpy(), samples.values.numpy()

        def one_pass(order: Array, size: int, numbers: Array, stats: Array, cores: int) -> tuple[int, bool]:
            if self._buffers is None or min(size, self._n) > self._buffer_rows:
                self._allocate_learning(min(size, self._n))
            run = policy_gradient.update_on_two_cores if cores == 2 else policy_gradient.update
            return run(
                self.memory.arrays,
                self._plan,
                rows,
                whole,
                values_of,
                order,
                size,
                self.memory.step,
                numbers,
                stats,
                self._buffers,
            )

        return one_pass

    def _sparse_pass(self, listed: Any, samples: RolloutSamples) -> OnePass:
        """Return one pass over `samples` that reads only numbers that are not zero and legal actions."""
        entries, legal = listed
        actions = samples.actions.numpy().astype(np.int64, copy=False)
        whole = actions, samples.log_probs.numpy(), samples.advantages.numpy()
        values_of = samples.returns.numpy(), samples.values.numpy()

        def one_pass(order: Array, size: int, numbers: Array, stats: Array, cores: int) -> tuple[int, bool]:
            rows = min(size, self._n)
            if self._list_buffers is None or rows > self._list_rows:
                self._list_rows = rows
                work = [np.empty(rows * self._widest, dtype=np.float32) for _ in range(4)]
                self._list_buffers = (work[0], work[1], self._turned[0], work[2], work[3], self._turned[1])
            numba.set_num_threads(cores)
            passed: tuple[int, bool] = self._sparse_update(
                self.memory.arrays,
                self._plan,
                entries,
                legal,
                whole,
                values_of,
                order,
                size,
                self.memory.step,
                numbers,
                stats,
                self._list_buffers,
            )
            return passed

        return one_pass

    def _listed(self, obs: Observation, masks: BoolArray | None) -> Any:
        """Return the listed inputs and legal actions (`listing`); None where networks or inputs are dense."""
        if not self._may_skip_zeros:
            return None
        entries: tuple[Array, Array, Array] | None
        if self._inputs.sparse:
            entries = self._inputs.nonzero_entries(obs)
            if masks is None:
                masks = np.ones((len(entries[0]) - 1, int(self._plan[0][-1])), dtype=bool)
        elif masks is None:
            return None
        else:
            entries = self._list_numbers(self._inputs.rows(obs))
        return None if entries is None else (entries, self._list_actions(masks))

    def compile(self) -> float:
        """Compile what will be called, or load it from the disk cache; returns the seconds it took."""
        started = time.monotonic()
        state = self._rng.bit_generator.state
        obs = zeros(self.policy.observation_space, 2)
        if self._may_skip_zeros:
            self._compile_for(obs, np.ones((2, int(self._plan[0][-1])), dtype=bool))
        self._compile_for(obs, None)
        self._rng.bit_generator.state = state
        self._cores, self._cores_to_act = CoreChoice(self._cores.max_cores), CoreChoice(self._cores.max_cores)
        return time.monotonic() - started

    def _compile_for(self, obs: Observation, masks: BoolArray | None) -> None:
        actions, log_probs, values = self.act(obs, masks)
        self.values(obs)
        numbers = torch.from_numpy(values)
        samples = RolloutSamples(
            obs=to_tensor(obs, "cpu"),
            actions=torch.from_numpy(actions),
            log_probs=torch.from_numpy(log_probs),
            values=numbers,
            advantages=numbers,
            returns=numbers,
            masks=None if masks is None else torch.from_numpy(masks),
        )
        for cores in {1, self._cores.max_cores}:
            self._cores.cores = cores
            self.begin(samples, UpdateSettings(0.0, 0.0, 0.0, None, clip_range=0.0))
            self.take_steps(Minibatches(np.zeros(0, dtype=np.int64), 2))

    def _allocate_acting(self, rows: int) -> None:
        self._act_rows = rows
        self._act_work = np.empty(rows * self._widest, dtype=np.float32)
        self._value_work = np.empty(rows * self._widest, dtype=np.float32)

    def _allocate_learning(self, rows: int) -> None:
        n_in = int(self._plan[0][0])
        self._buffer_rows = rows

        def network() -> tuple[Array, Array, Array]:
            return (
                np.empty((rows, n_in), dtype=np.float32),
                np.empty(rows * self._widest, dtype=np.float32),
                np.empty(rows * self._widest, dtype=np.float32),
            )

        self._buffers = (*network(), *network())

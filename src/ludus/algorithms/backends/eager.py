"""Gradient steps with torch, one operation after the other; ranks share each minibatch.

Nothing here waits for the device before the end of an epoch, so that a GPU can run behind the host.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ludus.algorithms.backends import (
    Minibatches,
    OnPolicyBackend,
    ReplayBackend,
    RolloutSamples,
    UpdateSettings,
)
from ludus.algorithms.gradient_step import descend, set_learning_rate
from ludus.types import Metrics

if TYPE_CHECKING:
    from ludus.algorithms.off_policy import OffPolicyLearner
    from ludus.algorithms.on_policy import OnPolicyLearner
    from ludus.algorithms.replay import ReplayBatch

COEFFICIENTS = ("lowest_ratio", "highest_ratio", "clip_range_vf", "ent_coef", "vf_coef", "max_grad_norm")


class EagerOnPolicy(OnPolicyBackend):
    """Takes the steps of PPO and A2C: `learner` states the terms of its loss, this is everything around them."""

    def __init__(self, learner: OnPolicyLearner[Any]) -> None:
        self.learner = learner
        device = learner.context.device
        self.coefficients = {name: torch.zeros((), device=device) for name in COEFFICIENTS}
        self.names = (*learner.Terms._fields, "loss", "grad_norm", "steps", "measured")
        # what is summed over minibatches; a minibatch that was measured but not stepped counts for the KL only
        self.sums = torch.zeros(len(self.names), device=device)
        self._of_measuring = torch.tensor(
            [name in ("approx_kl", "measured") for name in self.names], device=device
        )
        self._counts, self._nothing = torch.ones(2, device=device), torch.zeros((), device=device)

    def begin(self, samples: RolloutSamples, settings: UpdateSettings) -> None:
        self.samples, self.settings = samples, settings
        clip_range = settings.clip_range or 0.0
        numbers = {
            "lowest_ratio": 1 - clip_range,
            "highest_ratio": 1 + clip_range,
            "clip_range_vf": settings.clip_range_vf or 0.0,
            "ent_coef": settings.ent_coef,
            "vf_coef": settings.vf_coef,
            "max_grad_norm": settings.max_grad_norm or 0.0,
        }
        for name, tensor in self.coefficients.items():
            tensor.fill_(numbers[name])
        learner = self.learner
        set_learning_rate(learner.optimizer, settings.learning_rate)
        learner.trained.train()
        learner.step_gate.release()
        self.sums.zero_()

    def shuffle(self, batch_size: int) -> Minibatches:
        order = self.learner.context.streams.numpy("minibatches").permutation(len(self.samples))
        return Minibatches(torch.as_tensor(order, device=self.sums.device), batch_size)

    def take_steps(self, minibatches: Minibatches) -> None:
        order, size = minibatches
        if order is None:
            if len(self.samples):
                self.minibatch(None)
            return
        for start in range(0, len(order), size):
            indices = order[start : start + size]
            if self.settings.normalize_advantage and len(indices) < 2:  # one advantage cannot be normalised
                continue
            self.learner.before_step()
            self.minibatch(indices)

    @property
    def stopped(self) -> bool:
        return bool(self.learner.step_gate.pulled.item())

    def finish(self) -> Metrics:
        self.learner.step_gate.check()
        sums = dict(zip(self.names, self.sums.tolist(), strict=True))
        steps, measured = sums.pop("steps"), sums.pop("measured")
        counts = {name: measured if name == "approx_kl" else steps for name in sums}
        return {f"train/{name}": sums[name] / n for name, n in counts.items() if n}

    def minibatch(self, indices: Tensor | None) -> None:
        """Take one gradient step on the samples at `indices`; None: on all of them."""
        self.step(self.samples if indices is None else self.samples.at(indices))

    def step(self, batch: RolloutSamples) -> None:
        """Take one gradient step; none, here and after, when the policy has already moved too far."""
        learner, settings, coefs = self.learner, self.settings, self.coefficients
        gate, peers, n = learner.step_gate, learner.peers, len(batch)
        if settings.normalize_advantage:
            with learner.policy.on_value_stream():
                deviation, mean = torch.std_mean(batch.advantages)
                batch = replace(batch, advantages=(batch.advantages - mean) / (deviation + 1e-8))
        if peers.size > 1:
            batch = batch.map(lambda tensor: tensor[peers.rank :: peers.size])
        # one mean over all terms costs a GPU no more than over one
        means = peers.mean(torch.stack(list(learner.loss_terms(batch, coefs))), n)
        terms = learner.Terms(*means.unbind())
        loss = learner.loss(terms, coefs)
        seen = peers.add_up(torch.cat([means.detach(), loss.detach()[None]]))
        measured = gate.pulled == 0
        if settings.target_kl is not None:
            gate.pull_if(seen[self.names.index("approx_kl")] > 1.5 * settings.target_kl)
        max_norm = None if settings.max_grad_norm is None else coefs["max_grad_norm"]
        norm = descend(learner.optimizer, learner.parameters, loss, max_norm, gate, peers)
        with torch.no_grad():
            row = torch.cat([seen, norm[None], self._counts])
            counted = torch.where(self._of_measuring, measured, gate.pulled == 0)
            # a step that was not taken counts for nothing, and its losses may be anything
            self.sums += torch.where(counted, row, self._nothing)


class EagerReplay(ReplayBackend):
    """Takes the steps of DQN and SAC as `learner.gradient_step` states them."""

    def __init__(self, learner: OffPolicyLearner[Any]) -> None:
        self.learner = learner

    def take_steps(self, n: int, fraction: float) -> Metrics:
        return self.learn_from((self.learner.sample() for _ in range(n)), fraction)

    def learn_from(self, batches: Iterable[ReplayBatch], fraction: float) -> Metrics:
        """Take a gradient step on each batch; the metrics of the last one."""
        learner = self.learner
        learner.apply_schedules(fraction)
        learner.step_gate.release()
        statistics = None
        for batch in batches:
            statistics = self.step(batch)
            if learner.context.device.type == "cpu":  # elsewhere it would wait for the device
                learner.step_gate.check()
            learner.after_step(fraction)
        if statistics is None:
            return {}
        learner.step_gate.check()
        names = (f"train/{name}" for name in learner.statistics)
        return dict(zip(names, statistics.tolist(), strict=True))

    def step(self, batch: ReplayBatch) -> Tensor:
        """Take one gradient step; returns the learner's `statistics`."""
        return self.learner.gradient_step(batch)

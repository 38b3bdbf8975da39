"""Advantage actor-critic (Mnih et al., 2016), synchronous: one gradient step per rollout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field

from ludus.algorithms.backends.cuda_graph import Captured
from ludus.algorithms.backends.numba.actor_critic import UpdateSettings
from ludus.algorithms.gradient_step import descend, make_adam, make_rmsprop, set_learning_rate
from ludus.algorithms.learner import LearnerContext
from ludus.algorithms.on_policy import (
    OnPolicyHyperparameters,
    OnPolicyLearner,
    RolloutBatch,
    RolloutSamples,
    SampleStore,
)
from ludus.algorithms.peers import on_all_ranks
from ludus.config.hyperparameters import constant
from ludus.config.registry import Algorithm, register_algorithm
from ludus.config.schedule import Fraction, NonNegative
from ludus.types import Metrics


class A2CHyperparameters(OnPolicyHyperparameters):
    search_space: ClassVar[dict[str, Any]] = {
        "learning_rate": {"log": [1e-5, 1e-2]},
        "gamma": {"choice": [0.9, 0.95, 0.98, 0.99, 0.995, 0.999]},
        "gae_lambda": {"choice": [0.8, 0.9, 0.95, 0.98, 1.0]},
        "n_steps": {"choice": [5, 8, 16, 32, 64, 128]},
        "ent_coef": {"log": [1e-8, 0.1]},
        "vf_coef": {"uniform": [0.1, 1.0]},
        "max_grad_norm": {"choice": [0.3, 0.5, 1.0, 5.0]},
        "use_rms_prop": {"choice": [True, False]},
        "normalize_advantage": {"choice": [True, False]},
    }

    learning_rate: NonNegative = constant(7e-4)
    n_steps: int = Field(default=5, ge=1, description="steps of every env per update")
    gae_lambda: Fraction = constant(1.0)
    normalize_advantage: bool = False
    use_rms_prop: bool = Field(default=True, description="RMSprop, as in the paper; false: Adam")
    rms_prop_eps: float = Field(default=1e-5, gt=0)


COEFFICIENTS = ("ent_coef", "vf_coef", "max_grad_norm")
STATISTICS = ("loss", "policy_loss", "value_loss", "entropy_loss", "grad_norm")


class A2C(OnPolicyLearner[A2CHyperparameters]):
    def __init__(self, place: LearnerContext, hyperparams: A2CHyperparameters) -> None:
        super().__init__(place, hyperparams)
        h = hyperparams
        self.optimizer: torch.optim.Optimizer
        if h.use_rms_prop:
            self.optimizer = make_rmsprop(self.parameters, h.learning_rate(0.0), h.rms_prop_eps)
        else:
            self.optimizer = make_adam(self.parameters, h.learning_rate(0.0), eps=1e-5)
        self._coefficients = {name: torch.zeros((), device=place.device) for name in COEFFICIENTS}
        self._store: SampleStore | None = None
        self.use_actor_critic_kernels(self.optimizer)

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"optimizer": self.optimizer}

    @on_all_ranks
    def learn(self, batch: RolloutBatch, fraction: float) -> Metrics:
        h = self.h
        samples = self.receive(batch)
        learning_rate = h.learning_rate(fraction)
        set_learning_rate(self.optimizer, learning_rate)
        metrics = batch.metrics | {"train/learning_rate": learning_rate}
        if len(samples) == 0:  # every step crossed a reset or was dropped
            return metrics
        if self.kernels is None:
            self.trained.train()
        return metrics | (self._learn if self.kernels is None else self._learn_fused)(samples, fraction)

    def _learn(self, samples: RolloutSamples, fraction: float) -> Metrics:
        """One gradient step on all samples."""
        for name, value in self._coefficients.items():
            schedule = getattr(self.h, name)
            value.fill_(0.0 if schedule is None else schedule(fraction))
        self.step_gate.release()
        if self.captured and len(samples) == self.h.n_steps * self.place.n_envs:
            read = self._capture(samples)()
        else:
            read = self._gradient_step(samples)
        self.step_gate.check()
        return {f"train/{name}": value for name, value in zip(STATISTICS, read.tolist(), strict=True)}

    def _capture(self, samples: RolloutSamples) -> Captured:
        """The captured gradient step, with the samples put where it reads them."""
        if self._store is None or not self._store.fits(samples):
            store = self._store = SampleStore(samples, len(samples))

            def step() -> torch.Tensor:
                return self._gradient_step(store.samples)

            self._captured_step = Captured(step, self.place.device, self.lasting_tensors)
        self._store.put(samples)
        return self._captured_step

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        super().load(tensors, values)
        self._store = None  # what was captured works on memory that was just replaced

    def _gradient_step(self, samples: RolloutSamples) -> torch.Tensor:
        """One gradient step; returns the STATISTICS."""
        h, c = self.h, self._coefficients
        n = len(samples)
        if h.normalize_advantage and n > 1:
            advantages = samples.advantages
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
            samples = replace(samples, advantages=advantages)
        samples = self.local_shard(samples)
        log_probs, entropy, values = self.trained.evaluate(samples.obs, samples.actions, samples.masks)
        mean = self.peers.mean
        policy_loss = -mean(samples.advantages * log_probs, n)
        value_loss = mean((values - samples.returns).square(), n)
        entropy_loss = -mean(entropy, n)
        loss = policy_loss + c["ent_coef"] * entropy_loss + c["vf_coef"] * value_loss
        max_norm = None if h.max_grad_norm is None else c["max_grad_norm"]
        norm = descend(self.optimizer, self.parameters, loss, max_norm, self.step_gate, self.peers)
        seen = self.peers.add_up(torch.stack([loss, policy_loss, value_loss, entropy_loss]).detach())
        return torch.cat([seen, norm.detach()[None]])

    def _learn_fused(self, samples: RolloutSamples, fraction: float) -> Metrics:
        """`_learn` as one compiled call on the same memory."""
        h = self.h
        assert self.kernels is not None
        metrics, _ = self.kernels.learn(
            samples.flat(),
            [np.arange(len(samples))],
            len(samples),
            UpdateSettings(
                rate=h.learning_rate(fraction),
                eps=h.rms_prop_eps if h.use_rms_prop else 1e-5,
                max_norm=None if h.max_grad_norm is None else h.max_grad_norm(fraction),
                ent_coef=h.ent_coef(fraction),
                vf_coef=h.vf_coef(fraction),
                normalize=h.normalize_advantage and len(samples) > 1,
                plain=True,
                rmsprop=h.use_rms_prop,
            ),
        )
        metrics["train/policy_loss"] = metrics.pop("train/policy_gradient_loss")
        return {name: value for name, value in metrics.items() if name not in _PPO_ONLY}


_PPO_ONLY = {"train/approx_kl", "train/clip_fraction"}


register_algorithm("A2C", Algorithm("A2C", A2CHyperparameters, learner=A2C))

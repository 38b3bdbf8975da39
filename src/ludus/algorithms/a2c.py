"""Advantage actor-critic (Mnih et al., 2016), synchronous: one gradient step per rollout."""

from __future__ import annotations

import numpy as np
import torch
from pydantic import Field

from ludus.algorithms.kernels.actor_critic import Settings
from ludus.algorithms.learner import Workplace, clip_and_step, set_learning_rate
from ludus.algorithms.on_policy import OnPolicyHyperparameters, OnPolicyLearner, Samples
from ludus.config.hyperparameters import constant
from ludus.config.registry import Algorithm, register_algorithm
from ludus.config.schedule import Fraction, NonNegative
from ludus.rollout.experience import Rollout
from ludus.types import Metrics


class A2CHyperparameters(OnPolicyHyperparameters):
    learning_rate: NonNegative = constant(7e-4)
    n_steps: int = Field(default=5, ge=1, description="steps of every env per update")
    gae_lambda: Fraction = constant(1.0)
    normalize_advantage: bool = False
    use_rms_prop: bool = Field(default=True, description="RMSprop, as in the paper; false: Adam")
    rms_prop_eps: float = Field(default=1e-5, gt=0)


class A2C(OnPolicyLearner[A2CHyperparameters]):
    def __init__(self, place: Workplace, hyperparams: A2CHyperparameters) -> None:
        super().__init__(place, hyperparams)
        h = hyperparams
        self.optimizer: torch.optim.Optimizer
        if h.use_rms_prop:
            self.optimizer = torch.optim.RMSprop(
                self.parameters, lr=h.learning_rate(0.0), alpha=0.99, eps=h.rms_prop_eps
            )
        else:
            self.optimizer = torch.optim.Adam(self.parameters, lr=h.learning_rate(0.0), eps=1e-5)
        self.use_actor_critic_kernels(self.optimizer)

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"optimizer": self.optimizer}

    def update(self, experience: Rollout, fraction: float) -> Metrics:
        h = self.h
        learning_rate = h.learning_rate(fraction)
        set_learning_rate(self.optimizer, learning_rate)
        samples, metrics = self.credit(experience, fraction)
        metrics["train/learning_rate"] = learning_rate
        if len(samples) == 0:  # every step crossed a reset or was dropped
            return metrics
        if self.kernels is None:
            self.policy.train()
        return metrics | (self._learn if self.kernels is None else self._learn_fused)(samples, fraction)

    def _learn(self, samples: Samples, fraction: float) -> Metrics:
        """One gradient step on all samples."""
        h = self.h
        log_probs, entropy, values = self.policy.evaluate(samples.obs, samples.actions, samples.masks)
        advantages = samples.advantages
        if h.normalize_advantage and len(samples) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        policy_loss = -(advantages * log_probs).mean()
        value_loss = torch.nn.functional.mse_loss(values, samples.returns)
        entropy_loss = -entropy.mean()

        loss = policy_loss + h.ent_coef(fraction) * entropy_loss + h.vf_coef(fraction) * value_loss
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        max_norm = None if h.max_grad_norm is None else h.max_grad_norm(fraction)
        norm = clip_and_step(self.optimizer, self.parameters, max_norm)

        with torch.no_grad():
            read = torch.stack([loss, policy_loss, value_loss, entropy_loss]).tolist()
        names = ("loss", "policy_loss", "value_loss", "entropy_loss")
        return {f"train/{name}": value for name, value in zip(names, read, strict=True)} | {
            "train/grad_norm": norm
        }

    def _learn_fused(self, samples: Samples, fraction: float) -> Metrics:
        """`_learn` as one compiled call on the same memory."""
        h = self.h
        assert self.kernels is not None
        metrics, _ = self.kernels.learn(
            samples.flat(),
            [np.arange(len(samples))],
            len(samples),
            Settings(
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

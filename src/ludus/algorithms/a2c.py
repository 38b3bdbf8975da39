"""Advantage actor-critic (Mnih et al., 2016), synchronous: one gradient step per rollout."""

from __future__ import annotations

import torch
from pydantic import Field

from ludus.algorithms.learner import Workplace, clip_and_step, set_learning_rate
from ludus.algorithms.on_policy import OnPolicyHyperparameters, OnPolicyLearner
from ludus.config.hyperparameters import constant
from ludus.config.registry import Algorithm, register_algorithm
from ludus.config.schedule import Schedule
from ludus.rollout.experience import Rollout
from ludus.types import Metrics


class A2CHyperparameters(OnPolicyHyperparameters):
    learning_rate: Schedule = constant(7e-4)
    n_steps: int = Field(default=5, ge=1, description="steps of every env per update")
    gae_lambda: Schedule = constant(1.0)
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

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"optimizer": self.optimizer}

    def update(self, experience: Rollout, fraction: float) -> Metrics:
        h = self.h
        learning_rate = h.learning_rate(fraction)
        set_learning_rate(self.optimizer, learning_rate)
        samples, metrics = self.credit(experience, fraction)
        self.policy.train()

        log_probs, entropy, values = self.policy.evaluate(samples.obs, samples.actions, samples.masks)
        advantages = samples.advantages
        if h.normalize_advantage:
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
        metrics |= {f"train/{name}": value for name, value in zip(names, read, strict=True)}
        metrics |= {"train/grad_norm": norm, "train/learning_rate": learning_rate}
        return metrics


register_algorithm("A2C", Algorithm("A2C", A2CHyperparameters, learner=A2C))

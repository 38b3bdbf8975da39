"""Advantage actor-critic (Mnih et al., 2016), synchronous: one gradient step per rollout."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from ludus.algorithms.backends import Minibatches, RolloutBatch, RolloutSamples, UpdateSettings
from ludus.algorithms.gradient_step import make_adam, make_rmsprop
from ludus.algorithms.learner import LearnerContext
from ludus.algorithms.on_policy import OnPolicyHyperparameters, OnPolicyLearner
from ludus.algorithms.peers import on_all_ranks
from ludus.config.hyperparameters import constant
from ludus.config.registry import Algorithm
from ludus.config.schedule import Fraction, LearningRate
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

    learning_rate: LearningRate = constant(7e-4)
    n_steps: int = Field(default=5, ge=1, le=10**8, description="steps of every env per update")
    gae_lambda: Fraction = constant(1.0)
    normalize_advantage: bool = False
    use_rms_prop: bool = Field(default=True, description="RMSprop, as in the paper; false: Adam")
    rms_prop_eps: float = Field(default=1e-5, ge=1e-12, le=1)


class A2CTerms(NamedTuple):
    """The terms of the loss, per sample or as means over the rollout."""

    policy_loss: Tensor
    value_loss: Tensor
    entropy_loss: Tensor


class A2C(OnPolicyLearner[A2CHyperparameters]):
    """`credit`, in the base class, computes advantages; `learn` takes one gradient step on the whole rollout."""

    Terms = A2CTerms
    fused_kernels = True

    def __init__(self, context: LearnerContext, hyperparams: A2CHyperparameters) -> None:
        super().__init__(context, hyperparams)
        h = hyperparams
        optimizer: torch.optim.Optimizer
        if h.use_rms_prop:
            optimizer = make_rmsprop(self.parameters, h.learning_rate(0.0), h.rms_prop_eps)
        else:
            optimizer = make_adam(self.parameters, h.learning_rate(0.0), eps=1e-5)
        self.train_with(optimizer, minibatch_size=h.n_steps * context.n_envs)

    @on_all_ranks
    def learn(self, batch: RolloutBatch, fraction: float) -> Metrics:
        """Take one gradient step on all samples."""
        h, update, n = self.h, self.backend, len(batch.samples)
        settings = UpdateSettings(
            learning_rate=h.learning_rate(fraction),
            ent_coef=h.ent_coef(fraction),
            vf_coef=h.vf_coef(fraction),
            max_grad_norm=None if h.max_grad_norm is None else h.max_grad_norm(fraction),
            normalize_advantage=h.normalize_advantage and n > 1,
        )
        update.begin(self.receive(batch), settings)
        update.take_steps(Minibatches(order=None, size=n))
        return batch.metrics | {"train/learning_rate": settings.learning_rate} | update.finish()

    def loss_terms(self, batch: RolloutSamples, coefs: dict[str, Tensor]) -> A2CTerms:
        """Return the terms of the loss of every sample."""
        log_probs, entropy, values = self.trained.evaluate(batch.obs, batch.actions, batch.masks)
        return A2CTerms(
            policy_loss=-(batch.advantages * log_probs),
            value_loss=(values - batch.returns).square(),
            entropy_loss=-entropy,
        )

    def loss(self, terms: A2CTerms, coefs: dict[str, Tensor]) -> Tensor:
        """Return the loss of the rollout from the means of its terms."""
        return (
            terms.policy_loss + coefs["ent_coef"] * terms.entropy_loss + coefs["vf_coef"] * terms.value_loss
        )


ALGORITHM = Algorithm("A2C", A2CHyperparameters, learner=A2C)

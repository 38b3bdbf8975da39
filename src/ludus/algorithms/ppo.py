"""Proximal policy optimisation (Schulman et al., 2017), clipped objective.

`OnPolicyLearner.credit` turns a rollout into samples with advantages (GAE) and value targets. `PPO.learn` optimises the
clipped objective on them for several epochs of minibatches. An update backend (`backends/`) takes the gradient steps:
with torch, eagerly or as a CUDA graph, it averages `loss_terms` over a minibatch, computes `loss`, clips the gradient
and steps Adam. The fused numba kernels compute the same update; tests hold them to the functions below.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from ludus.algorithms.backends import RolloutBatch, RolloutSamples, UpdateSettings
from ludus.algorithms.gradient_step import make_adam
from ludus.algorithms.learner import LearnerContext
from ludus.algorithms.on_policy import OnPolicyHyperparameters, OnPolicyLearner
from ludus.algorithms.peers import on_all_ranks
from ludus.config.hyperparameters import constant
from ludus.config.registry import Algorithm
from ludus.config.schedule import NonNegative
from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError
from ludus.types import Metrics


class PPOHyperparameters(OnPolicyHyperparameters):
    search_space: ClassVar[dict[str, Any]] = {
        "learning_rate": {"log": [1e-5, 3e-3]},
        "gamma": {"choice": [0.9, 0.95, 0.98, 0.99, 0.995, 0.999]},
        "gae_lambda": {"choice": [0.8, 0.9, 0.95, 0.98, 1.0]},
        "n_steps": {"choice": [32, 64, 128, 256, 512, 1024, 2048]},
        "batch_size": {"choice": [32, 64, 128, 256, 512]},
        "n_epochs": {"choice": [1, 3, 5, 10, 20]},
        "clip_range": {"choice": [0.1, 0.2, 0.3]},
        "ent_coef": {"log": [1e-8, 0.1]},
        "vf_coef": {"uniform": [0.1, 1.0]},
        "max_grad_norm": {"choice": [0.3, 0.5, 1.0, 5.0]},
    }

    batch_size: int = Field(
        default=64, ge=2, le=10**8, description="samples per gradient step; divides n_steps * n_envs"
    )
    n_epochs: int = Field(default=10, ge=1, le=10_000, description="passes over each rollout")
    clip_range: NonNegative = constant(0.2)
    clip_range_vf: NonNegative | None = Field(default=None, description="clip value changes too; null: no")
    normalize_advantage: bool = True
    target_kl: float | None = Field(
        default=None, gt=0, le=1e6, description="end the epochs early beyond 1.5 times this"
    )

    def samples_per_step(self, n_envs: int) -> int:
        return self.batch_size


class PPOTerms(NamedTuple):
    """The terms of the loss and two diagnostics, per sample or as means over a minibatch."""

    policy_gradient_loss: Tensor
    value_loss: Tensor
    entropy_loss: Tensor
    approx_kl: Tensor
    clip_fraction: Tensor


class PPO(OnPolicyLearner[PPOHyperparameters]):
    Terms = PPOTerms
    fused_kernels = True

    def __init__(self, context: LearnerContext, hyperparams: PPOHyperparameters) -> None:
        super().__init__(context, hyperparams)
        optimizer = make_adam(self.parameters, hyperparams.learning_rate(0.0), eps=1e-5)
        self.train_with(optimizer, minibatch_size=hyperparams.batch_size)

    @on_all_ranks
    def learn(self, batch: RolloutBatch, fraction: float) -> Metrics:
        """Optimise the clipped objective for several epochs of minibatches (algorithm 1 of the paper)."""
        h, update, settings = self.h, self.backend, self.settings(fraction)
        update.begin(self.receive(batch), settings)
        epochs = 0
        for _ in range(h.n_epochs):
            self.before_step()
            epochs += 1
            minibatches = update.shuffle(h.batch_size)
            update.take_steps(minibatches)
            if update.stopped:  # approx_kl of a minibatch exceeded 1.5 * target_kl; its step was not taken
                break
        return {
            **batch.metrics,
            **update.finish(),
            "train/learning_rate": settings.learning_rate,
            "train/clip_range": h.clip_range(fraction),
            "train/n_epochs": float(epochs),
        }

    def settings(self, fraction: float) -> UpdateSettings:
        """Return the hyperparameters of this update; `fraction` of the run is done."""
        h = self.h
        return UpdateSettings(
            learning_rate=h.learning_rate(fraction),
            ent_coef=h.ent_coef(fraction),
            vf_coef=h.vf_coef(fraction),
            max_grad_norm=None if h.max_grad_norm is None else h.max_grad_norm(fraction),
            clip_range=h.clip_range(fraction),
            clip_range_vf=None if h.clip_range_vf is None else h.clip_range_vf(fraction),
            target_kl=h.target_kl,
            normalize_advantage=h.normalize_advantage,
        )

    def loss_terms(self, minibatch: RolloutSamples, coefs: dict[str, Tensor]) -> PPOTerms:
        """Return the terms of the loss of every sample.

        With `normalize_advantage` the advantages are already normalised over the minibatch. `coefs` are the settings as
        tensors; `lowest_ratio` and `highest_ratio` are 1 - epsilon and 1 + epsilon.
        """
        advantages, returns = minibatch.advantages, minibatch.returns
        log_probs, entropy, values = self.trained.evaluate(minibatch.obs, minibatch.actions, minibatch.masks)

        log_ratio = log_probs - minibatch.log_probs
        ratio = log_ratio.exp()
        detached_ratio = ratio.detach()
        clipped_ratio = detached_ratio.clamp(coefs["lowest_ratio"], coefs["highest_ratio"])
        # min(ratio * A, clipped_ratio * A), written out: on a GPU the gradients of `min` and `clamp` are slow
        clip_binds = advantages * clipped_ratio < advantages * detached_ratio
        surrogate = advantages * torch.where(clip_binds, clipped_ratio, ratio)

        if self.h.clip_range_vf is not None:  # as in Stable-Baselines3: no maximum with the unclipped loss
            limit = coefs["clip_range_vf"]
            values = minibatch.values + (values - minibatch.values).clamp(-limit, limit)

        return PPOTerms(
            policy_gradient_loss=-surrogate,
            value_loss=(values - returns).square(),
            entropy_loss=-entropy,
            approx_kl=(detached_ratio - 1) - log_ratio.detach(),  # http://joschu.net/blog/kl-approx.html
            clip_fraction=(clipped_ratio != detached_ratio).to(
                ratio.dtype
            ),  # also where the clip does not bind
        )

    def loss(self, terms: PPOTerms, coefs: dict[str, Tensor]) -> Tensor:
        """Return the loss of a minibatch from the means of its terms: minus equation 9 of the paper."""
        return (
            terms.policy_gradient_loss
            + coefs["ent_coef"] * terms.entropy_loss
            + coefs["vf_coef"] * terms.value_loss
        )


def _check(config: TrainerConfig, h: PPOHyperparameters) -> None:
    size = h.n_steps * config.n_envs
    if size % h.batch_size:
        divisors = [d for d in range(2, size + 1) if size % d == 0]
        nearest = min(divisors, key=lambda d: abs(d - h.batch_size), default=None)
        advice = f"batch_size: {nearest}, or change n_steps or n_envs" if nearest else "raise n_steps"
        raise ConfigError(
            f"batch_size {h.batch_size} does not divide n_steps * n_envs = {h.n_steps} * {config.n_envs} = {size}",
            key="hyperparams.batch_size",
            fix=advice,
        )


ALGORITHM = Algorithm("PPO", PPOHyperparameters, learner=PPO, check=_check)

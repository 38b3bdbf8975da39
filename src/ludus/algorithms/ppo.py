"""Proximal policy optimisation (Schulman et al., 2017), clipped objective."""

from __future__ import annotations

import torch
from pydantic import Field

from ludus.algorithms.kernels.actor_critic import Settings
from ludus.algorithms.learner import Workplace, clip_and_step, set_learning_rate
from ludus.algorithms.on_policy import OnPolicyHyperparameters, OnPolicyLearner, Samples
from ludus.config.hyperparameters import constant
from ludus.config.registry import Algorithm, register_algorithm
from ludus.config.schedule import NonNegative
from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError
from ludus.rollout.experience import Rollout
from ludus.types import Metrics


class PPOHyperparameters(OnPolicyHyperparameters):
    batch_size: int = Field(
        default=64, ge=2, description="samples per gradient step; divides n_steps * n_envs"
    )
    n_epochs: int = Field(default=10, ge=1, description="passes over each rollout")
    clip_range: NonNegative = constant(0.2)
    clip_range_vf: NonNegative | None = Field(default=None, description="clip value changes too; null: no")
    normalize_advantage: bool = True
    target_kl: float | None = Field(
        default=None, gt=0, description="end the epochs early beyond 1.5 times this"
    )


class PPO(OnPolicyLearner[PPOHyperparameters]):
    def __init__(self, place: Workplace, hyperparams: PPOHyperparameters) -> None:
        super().__init__(place, hyperparams)
        self.optimizer = torch.optim.Adam(self.parameters, lr=hyperparams.learning_rate(0.0), eps=1e-5)
        self._shuffle = place.streams.numpy("minibatches")
        self.use_actor_critic_kernels(self.optimizer)

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"optimizer": self.optimizer}

    def update(self, experience: Rollout, fraction: float) -> Metrics:
        h = self.h
        learning_rate = h.learning_rate(fraction)
        set_learning_rate(self.optimizer, learning_rate)
        samples, metrics = self.credit(experience, fraction)
        if self.kernels is None:
            self.policy.train()
        learnt, epochs = (self._learn if self.kernels is None else self._learn_fused)(samples, fraction)
        metrics |= learnt
        metrics["train/learning_rate"] = learning_rate
        metrics["train/clip_range"] = h.clip_range(fraction)
        metrics["train/n_epochs"] = float(epochs)
        return metrics

    def _learn(self, samples: Samples, fraction: float) -> tuple[Metrics, int]:
        """The epochs over minibatches: mean metrics of their gradient steps, and how many epochs were begun."""
        h = self.h
        seen: dict[str, list[float]] = {}
        epochs, too_far = 0, False
        while epochs < h.n_epochs and not too_far:
            epochs += 1
            order = torch.as_tensor(self._shuffle.permutation(len(samples)), device=self.place.device)
            for start in range(0, len(order), h.batch_size):
                indices = order[start : start + h.batch_size]
                if h.normalize_advantage and len(indices) < 2:  # an advantage cannot be normalised alone
                    continue
                parts = self._minibatch(samples.at(indices), fraction)
                for key, value in parts.items():
                    seen.setdefault(key, []).append(value)
                too_far = self._too_far(parts["train/approx_kl"])
                if too_far:
                    break
        return {key: sum(values) / len(values) for key, values in seen.items()}, epochs

    def _learn_fused(self, samples: Samples, fraction: float) -> tuple[Metrics, int]:
        """`_learn` in compiled calls on the same memory, drawing the same minibatches."""
        h = self.h
        assert self.kernels is not None
        return self.kernels.learn(
            samples.flat(),
            (self._shuffle.permutation(len(samples)) for _ in range(h.n_epochs)),
            h.batch_size,
            Settings(
                rate=h.learning_rate(fraction),
                eps=1e-5,
                max_norm=None if h.max_grad_norm is None else h.max_grad_norm(fraction),
                ent_coef=h.ent_coef(fraction),
                vf_coef=h.vf_coef(fraction),
                clip=h.clip_range(fraction),
                clip_value=None if h.clip_range_vf is None else h.clip_range_vf(fraction),
                target_kl=h.target_kl,
                normalize=h.normalize_advantage,
            ),
        )

    def _too_far(self, approx_kl: float) -> bool:
        return self.h.target_kl is not None and approx_kl > 1.5 * self.h.target_kl

    def _minibatch(self, batch: Samples, fraction: float) -> Metrics:
        """One gradient step; none, and nothing but `approx_kl`, when the policy has already moved too far."""
        h = self.h
        clip = h.clip_range(fraction)
        log_probs, entropy, values = self.policy.evaluate(batch.obs, batch.actions, batch.masks)

        advantages = batch.advantages
        if h.normalize_advantage:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        log_ratio = log_probs - batch.log_probs
        ratio = log_ratio.exp()
        with torch.no_grad():
            approx_kl = ((ratio - 1) - log_ratio).mean()  # http://joschu.net/blog/kl-approx.html
        if h.target_kl is not None and self._too_far(approx_kl.item()):
            return {"train/approx_kl": approx_kl.item()}
        policy_loss = -torch.min(advantages * ratio, advantages * ratio.clamp(1 - clip, 1 + clip)).mean()

        if h.clip_range_vf is not None:
            limit = h.clip_range_vf(fraction)
            values = batch.values + (values - batch.values).clamp(-limit, limit)
        value_loss = torch.nn.functional.mse_loss(values, batch.returns)
        entropy_loss = -entropy.mean()

        loss = policy_loss + h.ent_coef(fraction) * entropy_loss + h.vf_coef(fraction) * value_loss
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        max_norm = None if h.max_grad_norm is None else h.max_grad_norm(fraction)
        norm = clip_and_step(self.optimizer, self.parameters, max_norm)

        with torch.no_grad():
            clip_fraction = ((ratio - 1).abs() > clip).float().mean()
            read = torch.stack(
                [loss, policy_loss, value_loss, entropy_loss, approx_kl, clip_fraction]
            ).tolist()
        names = ("loss", "policy_gradient_loss", "value_loss", "entropy_loss", "approx_kl", "clip_fraction")
        return {f"train/{name}": value for name, value in zip(names, read, strict=True)} | {
            "train/grad_norm": norm
        }


def _check(config: TrainerConfig, h: PPOHyperparameters) -> None:
    size = h.n_steps * config.n_envs
    if size % h.batch_size:
        divisors = [d for d in range(2, size + 1) if size % d == 0]
        nearest = min(divisors, key=lambda d: abs(d - h.batch_size), default=None)
        advice = f"batch_size: {nearest} would; or change n_steps or n_envs" if nearest else "raise n_steps"
        raise ConfigError(
            f"batch_size {h.batch_size} does not divide n_steps * n_envs = {h.n_steps} * {config.n_envs} = {size}",
            key="hyperparams.batch_size",
            fix=advice,
        )


register_algorithm("PPO", Algorithm("PPO", PPOHyperparameters, learner=PPO, check=_check))

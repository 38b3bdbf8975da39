"""Proximal policy optimisation (Schulman et al., 2017), clipped objective."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import torch
from pydantic import Field

from ludus.algorithms.backends.cuda_graph import Captured
from ludus.algorithms.backends.numba.actor_critic import UpdateSettings
from ludus.algorithms.gradient_step import descend, make_adam, set_learning_rate
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
        default=64, ge=2, description="samples per gradient step; divides n_steps * n_envs"
    )
    n_epochs: int = Field(default=10, ge=1, description="passes over each rollout")
    clip_range: NonNegative = constant(0.2)
    clip_range_vf: NonNegative | None = Field(default=None, description="clip value changes too; null: no")
    normalize_advantage: bool = True
    target_kl: float | None = Field(
        default=None, gt=0, description="end the epochs early beyond 1.5 times this"
    )


COEFFICIENTS = ("lowest_ratio", "highest_ratio", "clip_range_vf", "ent_coef", "vf_coef", "max_grad_norm")
STATISTICS = (
    "policy_gradient_loss",
    "value_loss",
    "entropy_loss",
    "approx_kl",
    "clip_fraction",
    "loss",
    "grad_norm",
    "steps",
    "looks",
)
"""What is summed over minibatches: means of each, steps taken, and looks at how far the policy has moved."""


class PPO(OnPolicyLearner[PPOHyperparameters]):
    def __init__(self, place: LearnerContext, hyperparams: PPOHyperparameters) -> None:
        super().__init__(place, hyperparams)
        self.optimizer = make_adam(self.parameters, hyperparams.learning_rate(0.0), eps=1e-5)
        self._shuffle = place.streams.numpy("minibatches")
        self._coefficients = {name: torch.zeros((), device=place.device) for name in COEFFICIENTS}
        self._sums = torch.zeros(len(STATISTICS), device=place.device)
        self._of_looking = torch.tensor(
            [name in ("approx_kl", "looks") for name in STATISTICS], device=place.device
        )
        self._counts, self._nothing = torch.ones(2, device=place.device), torch.zeros((), device=place.device)
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
        if self.kernels is None:
            self.trained.train()
        learnt, epochs = (self._learn if self.kernels is None else self._learn_fused)(samples, fraction)
        metrics = batch.metrics | learnt
        metrics["train/learning_rate"] = learning_rate
        metrics["train/clip_range"] = h.clip_range(fraction)
        metrics["train/n_epochs"] = float(epochs)
        return metrics

    def _learn(self, samples: RolloutSamples, fraction: float) -> tuple[Metrics, int]:
        """The epochs over minibatches: mean metrics of their gradient steps, and how many epochs were begun."""
        h = self.h
        clip = h.clip_range(fraction)
        given = {"lowest_ratio": 1 - clip, "highest_ratio": 1 + clip}
        for name, value in self._coefficients.items():
            schedule = getattr(h, name, None)
            value.fill_(given.get(name, 0.0) if schedule is None else schedule(fraction))
        self.step_gate.release()
        self._sums.zero_()
        if self.captured:
            self._capture(samples)
        epochs = 0
        while epochs < h.n_epochs and not (epochs and self.step_gate.pulled.item()):
            epochs += 1
            order = self._permutation(len(samples))
            for start in range(0, len(order), h.batch_size):
                indices = order[start : start + h.batch_size]
                if h.normalize_advantage and len(indices) < 2:  # an advantage cannot be normalised alone
                    continue
                if self.captured and len(indices) == h.batch_size:
                    self._indices.copy_(indices)
                    self._captured_minibatch()
                else:
                    self._minibatch(samples.at(indices))
        self.step_gate.check()
        sums = dict(zip(STATISTICS, self._sums.tolist(), strict=True))
        steps, looks = sums.pop("steps"), sums.pop("looks")
        counts = dict.fromkeys(sums, steps) | {"approx_kl": looks}
        return {f"train/{name}": sums[name] / n for name, n in counts.items() if n}, epochs

    def _permutation(self, n: int) -> torch.Tensor:
        device = self.place.device
        if self.captured:
            return torch.randperm(
                n, generator=self.place.streams.torch("minibatches", str(device)), device=device
            )
        return torch.as_tensor(self._shuffle.permutation(n), device=device)

    def _capture(self, samples: RolloutSamples) -> None:
        """Put the samples where the captured minibatch reads them; a new shape of sample needs a new one."""
        if self._store is None or not self._store.fits(samples):
            capacity = max(len(samples), self.h.n_steps * self.place.n_envs)
            store = self._store = SampleStore(samples, capacity)
            indices = torch.zeros(self.h.batch_size, dtype=torch.int64, device=self.place.device)

            def minibatch() -> None:
                self._minibatch(store.at(indices))

            self._indices = indices
            self._captured_minibatch = Captured(minibatch, self.place.device, self.lasting_tensors)
        self._store.put(samples)

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        super().load(tensors, values)
        self._store = None  # what was captured works on memory that was just replaced

    def lasting_tensors(self) -> Iterator[torch.Tensor]:
        yield from super().lasting_tensors()
        yield self._sums

    def _learn_fused(self, samples: RolloutSamples, fraction: float) -> tuple[Metrics, int]:
        """`_learn` in compiled calls on the same memory, drawing the same minibatches."""
        h = self.h
        assert self.kernels is not None
        return self.kernels.learn(
            samples.flat(),
            (self._shuffle.permutation(len(samples)) for _ in range(h.n_epochs)),
            h.batch_size,
            UpdateSettings(
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

    def _minibatch(self, batch: RolloutSamples) -> None:
        """One gradient step; none, here and after, when the policy has already moved too far."""
        h, c = self.h, self._coefficients
        advantages = batch.advantages
        if h.normalize_advantage:
            with self.policy.beside():
                deviation, mean = torch.std_mean(advantages)
                advantages = (advantages - mean) / (deviation + 1e-8)
        n = len(batch)
        batch = self.local_shard(replace(batch, advantages=advantages))
        advantages = batch.advantages
        log_probs, entropy, values = self.trained.evaluate(batch.obs, batch.actions, batch.masks)
        log_ratio = log_probs - batch.log_probs
        ratio = log_ratio.exp()
        # by hand what `min` and `clamp` would do, whose gradients take a GPU a dozen launches
        plain = ratio.detach()
        near = plain.clamp(c["lowest_ratio"], c["highest_ratio"])
        nearer = torch.where(advantages * near < advantages * plain, near, ratio)
        if h.clip_range_vf is not None:
            limit = c["clip_range_vf"]
            values = batch.values + (values - batch.values).clamp(-limit, limit)
        # one mean over all of them costs a GPU no more than over one
        means = self.peers.mean(
            torch.stack(
                [
                    -(advantages * nearer),
                    (values - batch.returns).square(),
                    -entropy,
                    (plain - 1) - log_ratio.detach(),  # http://joschu.net/blog/kl-approx.html
                    (near != plain).to(plain.dtype),
                ]
            ),
            n,
        )
        policy_loss, value_loss, entropy_loss, _, _ = means.unbind()
        loss = policy_loss + c["ent_coef"] * entropy_loss + c["vf_coef"] * value_loss
        seen = self.peers.add_up(torch.cat([means.detach(), loss.detach()[None]]))
        approx_kl = seen[3]
        looking = self.step_gate.pulled == 0
        if h.target_kl is not None:
            self.step_gate.pull_if(approx_kl > 1.5 * h.target_kl)
        max_norm = None if h.max_grad_norm is None else c["max_grad_norm"]
        norm = descend(self.optimizer, self.parameters, loss, max_norm, self.step_gate, self.peers)

        with torch.no_grad():
            row = torch.cat([seen, norm[None], self._counts])
            counted = torch.where(self._of_looking, looking, self.step_gate.pulled == 0)
            # a step that was not taken counts for nothing, and its losses may be anything
            self._sums += torch.where(counted, row, self._nothing)


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

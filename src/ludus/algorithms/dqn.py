"""Deep Q-learning (Mnih et al., 2015), with double and dueling options and masks in policy and target."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from gymnasium import spaces
from pydantic import Field

from ludus.algorithms.backends.numba.q_network import QKernels, unsupported_reason
from ludus.algorithms.gradient_step import descend, make_adam, set_learning_rate
from ludus.algorithms.learner import (
    LearnerContext,
    require_action_space,
    with_prefix,
)
from ludus.algorithms.off_policy import OffPolicyHyperparameters, OffPolicyLearner, check_replay, follow
from ludus.algorithms.replay import ReplayBatch
from ludus.config.hyperparameters import constant
from ludus.config.registry import Algorithm, register_algorithm
from ludus.config.schedule import NonNegative, Positive, PositiveFraction
from ludus.policies.q_network import QPolicy
from ludus.types import Metrics


class DQNHyperparameters(OffPolicyHyperparameters):
    search_space: ClassVar[dict[str, Any]] = {
        "learning_rate": {"log": [1e-5, 3e-3]},
        "gamma": {"choice": [0.9, 0.95, 0.98, 0.99, 0.995, 0.999]},
        "batch_size": {"choice": [32, 64, 128, 256]},
        "buffer_size": {"choice": [10_000, 50_000, 100_000]},
        "learning_starts": {"choice": [100, 1_000, 5_000]},
        "train_freq": {"choice": [1, 4, 8, 16]},
        "target_update_interval": {"int_log": [100, 10_000]},
        "exploration_fraction": {"uniform": [0.05, 0.5]},
        "exploration_final_eps": {"uniform": [0.01, 0.2]},
        "double": {"choice": [True, False]},
    }

    learning_rate: NonNegative = constant(1e-4)
    buffer_size: int = Field(default=100_000, ge=1, description="transitions kept")
    learning_starts: int = Field(default=10_000, ge=0, description="env steps of random actions first")
    batch_size: int = Field(default=32, ge=1)
    train_freq: int = Field(default=4, ge=1, description="vector steps between two rounds of learning")
    target_update_interval: int = Field(default=10_000, ge=1, description="env steps between target updates")
    tau: PositiveFraction = constant(1.0)
    exploration_fraction: float = Field(
        default=0.1, gt=0, le=1, description="of the run, to reach the final rate"
    )
    exploration_initial_eps: float = Field(default=1.0, ge=0, le=1)
    exploration_final_eps: float = Field(default=0.05, ge=0, le=1)
    max_grad_norm: Positive | None = constant(10.0)
    double: bool = Field(default=False, description="choose the next action by the online network")
    dueling: bool = Field(default=False, description="separate streams for value and advantage")


class DQN(OffPolicyLearner[DQNHyperparameters]):
    policy: QPolicy
    STATISTICS = ("loss", "q_mean", "grad_norm")

    def __init__(self, place: LearnerContext, hyperparams: DQNHyperparameters) -> None:
        require_action_space(
            "DQN", place.action_space, (spaces.Discrete,), "PPO, A2C or, for Box actions, SAC"
        )
        super().__init__(place, hyperparams)
        self.policy = QPolicy(
            place.observation_space,
            place.action_space,
            place.network("ReLU", False),
            dueling=hyperparams.dueling,
        ).to(place.device)
        self.policy.half_features = place.half_features
        self.target = copy.deepcopy(self.policy).requires_grad_(False).eval()
        self.parameters = list(self.policy.parameters())
        self.optimizer = make_adam(self.parameters, hyperparams.learning_rate(0.0))
        self._gamma, self._max_norm = torch.zeros(2, device=place.device).unbind()
        self.policy.epsilon = hyperparams.exploration_initial_eps
        self.kernels: QKernels | None = None
        rng = place.streams.numpy("actions")
        self.use_kernels(
            unsupported_reason(self.policy), lambda: QKernels(self.policy, self.target, self.optimizer, rng)
        )
        self.policy.fast = self.kernels

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"optimizer": self.optimizer}

    def learn(self, batch: int, fraction: float) -> Metrics:
        h, before = self.h, self.steps - batch
        metrics = super().learn(batch, fraction)
        if self.steps // h.target_update_interval > before // h.target_update_interval:
            follow(self.target, self.policy, h.tau(fraction))
        done = min(1.0, fraction / h.exploration_fraction)
        self.policy.epsilon = h.exploration_initial_eps + done * (
            h.exploration_final_eps - h.exploration_initial_eps
        )
        return metrics | {"rollout/exploration_rate": self.policy.epsilon}

    def learn_rounds(self, rounds: int, fraction: float) -> Metrics:
        if self.kernels is None:
            return super().learn_rounds(rounds, fraction)
        h = self.h
        learning_rate = h.learning_rate(fraction)
        metrics = self.kernels.learn(
            self.replay.arrays(),
            self.replay.draw((rounds, h.batch_size), self._rng),
            self.place.reward_normalizer,
            rate=learning_rate,
            eps=1e-8,
            max_norm=None if h.max_grad_norm is None else h.max_grad_norm(fraction),
            gamma=h.gamma(fraction),
            double=h.double,
        )
        return metrics | {"train/learning_rate": learning_rate}

    def begin(self, fraction: float) -> None:
        h = self.h
        set_learning_rate(self.optimizer, h.learning_rate(fraction))
        self._gamma.fill_(h.gamma(fraction))
        if h.max_grad_norm is not None:
            self._max_norm.fill_(h.max_grad_norm(fraction))
        self.step_gate.release()

    def gradient_step(self, batch: ReplayBatch) -> torch.Tensor:
        h = self.h
        with torch.no_grad():
            next_q = _legal(self.target.q_values(batch.next_obs), batch.next_masks)
            if h.double:
                chosen = _legal(self.policy.q_values(batch.next_obs), batch.next_masks).argmax(
                    1, keepdim=True
                )
                best = next_q.gather(1, chosen).squeeze(1)
            else:
                best = next_q.amax(1)
            targets = batch.rewards + self._gamma * best.masked_fill(batch.terminated, 0.0)

        q = self.policy.q_values(batch.obs).gather(1, batch.actions.long().unsqueeze(1)).squeeze(1)
        loss = torch.nn.functional.smooth_l1_loss(q, targets)
        max_norm = None if h.max_grad_norm is None else self._max_norm
        norm = descend(self.optimizer, self.parameters, loss, max_norm, self.step_gate)
        return torch.stack([loss, q.mean(), norm]).detach()

    def warm_start(self, policy: dict[str, torch.Tensor]) -> None:
        super().warm_start(policy)
        follow(self.target, self.policy, 1.0)

    def lasting_tensors(self) -> Iterator[torch.Tensor]:
        yield from super().lasting_tensors()
        yield from self.target.buffers()

    def tensors(self) -> dict[str, torch.Tensor]:
        return super().tensors() | {f"target.{key}": value for key, value in self.target.state_dict().items()}

    def values(self) -> dict[str, Any]:
        return super().values() | {"epsilon": self.policy.epsilon}

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        super().load(tensors, values)
        self.target.load_state_dict(with_prefix(tensors, "target"))
        self.policy.epsilon = float(values["epsilon"])
        if self.kernels is not None:
            self.kernels.memory.bind()


def _legal(q: torch.Tensor, masks: torch.Tensor | None) -> torch.Tensor:
    """`q` with illegal actions out of reach; a row without any legal one, as at some episodes' end, is left as is."""
    return q if masks is None else q.masked_fill(~masks & masks.any(1, keepdim=True), -torch.inf)


register_algorithm("DQN", Algorithm("DQN", DQNHyperparameters, learner=DQN, check=check_replay))

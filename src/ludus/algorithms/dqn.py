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
from ludus.algorithms.learner import LearnerContext, require_action_space, with_prefix
from ludus.algorithms.off_policy import OffPolicyHyperparameters, OffPolicyLearner, check_replay, follow
from ludus.algorithms.replay import ReplayBatch
from ludus.config.hyperparameters import constant
from ludus.config.registry import Algorithm
from ludus.config.schedule import LearningRate, Positive, PositiveFraction
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

    learning_rate: LearningRate = constant(1e-4)
    buffer_size: int = Field(default=100_000, ge=1, le=10**9, description="transitions kept")
    learning_starts: int = Field(
        default=10_000, ge=0, le=10**12, description="env steps of random actions first"
    )
    batch_size: int = Field(default=32, ge=1, le=10**7)
    train_freq: int = Field(
        default=4, ge=1, le=10**9, description="vector steps between two rounds of learning"
    )
    target_update_interval: int = Field(
        default=10_000, ge=1, le=10**12, description="env steps between target updates"
    )
    tau: PositiveFraction = constant(1.0)
    exploration_fraction: float = Field(
        default=0.1, gt=0, le=1, description="fraction of the run over which epsilon falls"
    )
    exploration_initial_eps: float = Field(default=1.0, ge=0, le=1)
    exploration_final_eps: float = Field(default=0.05, ge=0, le=1)
    max_grad_norm: Positive | None = constant(10.0)
    double: bool = Field(default=False, description="choose the next action by the online network")
    dueling: bool = Field(default=False, description="separate streams for value and advantage")


class DQN(OffPolicyLearner[DQNHyperparameters]):
    fused_kernels = True
    policy: QPolicy
    statistics = ("loss", "q_mean", "grad_norm")

    def __init__(self, context: LearnerContext, hyperparams: DQNHyperparameters) -> None:
        require_action_space(
            "DQN", context.action_space, (spaces.Discrete,), "PPO, A2C or, for Box actions, SAC"
        )
        super().__init__(context, hyperparams)
        self.policy = QPolicy(
            context.observation_space,
            context.action_space,
            context.network("ReLU", False),
            dueling=hyperparams.dueling,
        ).to(context.device)
        self.policy.half_features = context.half_features
        self.target = copy.deepcopy(self.policy).requires_grad_(False).eval()
        self.parameters = list(self.policy.parameters())
        self.optimizer = make_adam(self.parameters, hyperparams.learning_rate(0.0))
        self._gamma, self._max_norm = torch.zeros(2, device=context.device).unbind()
        self.policy.epsilon = hyperparams.exploration_initial_eps
        self.use_kernels(unsupported_reason(self.policy), lambda: QKernels(self))
        self.choose_backend()

    def unused_keys(self) -> dict[str, str]:
        one = "DQN has one network"
        unused = {"policy.share_net": one, "policy.share_features_extractor": one}
        unused["policy.log_std_init"] = "Discrete actions have no standard deviation"
        if not self.h.dueling:
            unused["hyperparams.value_net_arch"] = f"{one}, unless dueling is true"
        return unused

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"optimizer": self.optimizer}

    def learn(self, batch: int, fraction: float) -> Metrics:
        """Take the gradient steps that are due, then copy the weights to the target and anneal epsilon."""
        h, steps_before = self.h, self.steps - batch
        metrics = super().learn(batch, fraction)
        if self.steps // h.target_update_interval > steps_before // h.target_update_interval:
            follow(self.target, self.policy, h.tau(fraction))
        annealed = min(1.0, fraction / h.exploration_fraction)
        self.policy.epsilon = h.exploration_initial_eps + annealed * (
            h.exploration_final_eps - h.exploration_initial_eps
        )
        return metrics | {"rollout/exploration_rate": self.policy.epsilon}

    def gradient_step(self, batch: ReplayBatch) -> torch.Tensor:
        """Take one gradient step on the Huber loss between Q-values and their one-step targets."""
        targets = self.targets(batch)
        q = self.policy.q_values(batch.obs).gather(1, batch.actions.long().unsqueeze(1)).squeeze(1)
        loss = torch.nn.functional.smooth_l1_loss(q, targets)
        max_norm = None if self.h.max_grad_norm is None else self._max_norm
        norm = descend(self.optimizer, self.parameters, loss, max_norm, self.step_gate)
        return torch.stack([loss, q.mean(), norm]).detach()

    @torch.no_grad()
    def targets(self, batch: ReplayBatch) -> torch.Tensor:
        """Return r + gamma * max_a Q_target(s', a); double DQN lets the online network choose a."""
        next_q = _legal(self.target.q_values(batch.next_obs), batch.next_masks)
        if self.h.double:
            online_q = _legal(self.policy.q_values(batch.next_obs), batch.next_masks)
            next_value = next_q.gather(1, online_q.argmax(1, keepdim=True)).squeeze(1)
        else:
            next_value = next_q.amax(1)
        return batch.rewards + self._gamma * next_value.masked_fill(batch.terminated, 0.0)

    def apply_schedules(self, fraction: float) -> None:
        h = self.h
        set_learning_rate(self.optimizer, h.learning_rate(fraction))
        self._gamma.fill_(h.gamma(fraction))
        if h.max_grad_norm is not None:
            self._max_norm.fill_(h.max_grad_norm(fraction))

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
        self.backend.rebind()


def _legal(q: torch.Tensor, masks: torch.Tensor | None) -> torch.Tensor:
    """Return `q` with illegal actions at minus infinity; a row without a legal action is left as it is."""
    return q if masks is None else q.masked_fill(~masks & masks.any(1, keepdim=True), -torch.inf)


ALGORITHM = Algorithm("DQN", DQNHyperparameters, learner=DQN, check=check_replay)

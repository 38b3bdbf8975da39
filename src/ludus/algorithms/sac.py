"""Soft actor-critic (Haarnoja et al., 2018) with twin critics and automatic temperature."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

import torch
from gymnasium import spaces
from pydantic import BeforeValidator, Field

from ludus.algorithms.backends.cuda_graph import CapturedActor
from ludus.algorithms.backends.numba.soft_policy import SACKernels, unsupported_reason
from ludus.algorithms.gradient_step import descend, make_adam, set_learning_rate
from ludus.algorithms.learner import LearnerContext, require_action_space, with_prefix
from ludus.algorithms.off_policy import OffPolicyHyperparameters, OffPolicyLearner, check_replay, follow
from ludus.algorithms.replay import ReplayBatch
from ludus.config.hyperparameters import constant
from ludus.config.registry import Algorithm
from ludus.config.schedule import NonNegative, Positive, PositiveFraction, Schedule
from ludus.policies.soft_actor import SACPolicy


def _auto_or_schedule(value: Any) -> Any:
    return value if value == "auto" else Schedule.parse(value)


class SACHyperparameters(OffPolicyHyperparameters):
    search_space: ClassVar[dict[str, Any]] = {
        "learning_rate": {"log": [1e-5, 3e-3]},
        "gamma": {"choice": [0.9, 0.95, 0.98, 0.99, 0.995, 0.999]},
        "batch_size": {"choice": [64, 128, 256, 512]},
        "buffer_size": {"choice": [50_000, 100_000, 1_000_000]},
        "learning_starts": {"choice": [100, 1_000, 5_000]},
        "train_freq": {"choice": [1, 4, 8, 16]},
        "tau": {"choice": [0.001, 0.005, 0.01, 0.02, 0.05]},
    }

    ent_coef: Annotated[Literal["auto"] | NonNegative, BeforeValidator(_auto_or_schedule)] = Field(
        default="auto",
        description="entropy temperature; auto: learnt so that entropy stays at target_entropy",
    )
    initial_temperature: float = Field(default=1.0, ge=1e-12, le=1e6, description="where auto starts")
    target_entropy: Annotated[float, Field(ge=-1e6, le=1e6)] | Literal["auto"] = Field(
        default="auto", description="auto: minus the action's size"
    )
    tau: PositiveFraction = constant(0.005)
    target_update_interval: int = Field(
        default=1, ge=1, le=10**12, description="gradient steps between target updates"
    )
    max_grad_norm: Positive | None = Field(default=None, description="null: no clipping")


class SAC(OffPolicyLearner[SACHyperparameters]):
    fused_kernels = True

    policy: SACPolicy

    def __init__(self, context: LearnerContext, hyperparams: SACHyperparameters) -> None:
        require_action_space("SAC", context.action_space, (spaces.Box,), "PPO, A2C or DQN")
        super().__init__(context, hyperparams)
        h, device = hyperparams, context.device
        self.policy = SACPolicy(
            context.observation_space, context.action_space, context.network("ReLU", False)
        ).to(device)
        self.target = copy.deepcopy(self.policy.critic).requires_grad_(False).eval()
        rate = h.learning_rate(0.0)
        self.actor_parameters = list(self.policy.actor_parameters())
        self.critic_parameters = list(self.policy.critic_parameters())
        self.actor_optimizer = make_adam(self.actor_parameters, rate)
        self.critic_optimizer = make_adam(self.critic_parameters, rate)
        self.log_temperature = torch.nn.Parameter(
            torch.full((1,), math.log(h.initial_temperature), device=device)
        )
        self.temperature_optimizer = make_adam([self.log_temperature], rate)
        size = math.prod(context.action_space.shape or ())
        self.target_entropy = -float(size) if h.target_entropy == "auto" else float(h.target_entropy)
        self._gamma, self._max_norm, self._temperature = torch.zeros(3, device=device).unbind()
        self.statistics = ("actor_loss", "critic_loss", "grad_norm", "ent_coef")
        if h.ent_coef == "auto":
            self.statistics += ("ent_coef_loss",)
        self.gradient_steps = 0
        self._generator = context.streams.torch("learner", str(device))
        self.use_kernels(unsupported_reason(self.policy), lambda: SACKernels(self))
        self.choose_backend()
        if self.captured:
            generator = context.streams.torch("actions", str(device))
            self.policy.fast = CapturedActor(self.policy, context.n_envs, generator)

    def unused_keys(self) -> dict[str, str]:
        return {"policy.share_net": "actor and critics of SAC share no hidden layers"}

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {
            "actor_optimizer": self.actor_optimizer,
            "critic_optimizer": self.critic_optimizer,
            "temperature_optimizer": self.temperature_optimizer,
        }

    def gradient_step(self, batch: ReplayBatch) -> torch.Tensor:
        """Take one gradient step on the temperature, the critics and the actor (algorithm 1 of the paper)."""
        actions, log_probs = self.policy.distribution(batch.obs).rsample_with_log_prob(self._generator)
        temperature, temperature_loss = self._learn_temperature(log_probs)

        critic_loss, norm = self._learn_critics(batch, temperature)

        for parameter in self.critic_parameters:  # they only pass the actor's gradient on
            parameter.requires_grad_(False)
        q = torch.min(*self.policy.critics(batch.obs, actions))
        actor_loss = (temperature * log_probs - q).mean()
        descend(self.actor_optimizer, self.actor_parameters, actor_loss, self._limit, self.step_gate)
        for parameter in self.critic_parameters:
            parameter.requires_grad_(True)
        return torch.stack([actor_loss, critic_loss, norm, temperature, *temperature_loss]).detach()

    def _learn_temperature(self, log_probs: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Return the temperature and, where it is learnt, its loss: entropy is drawn towards the target entropy."""
        if self.h.ent_coef != "auto":
            return self._temperature, []
        temperature = self.log_temperature.detach().exp().squeeze(0)
        gap = (log_probs + self.target_entropy).detach()
        loss = -(self.log_temperature * gap).mean()
        descend(self.temperature_optimizer, [self.log_temperature], loss, None, self.step_gate)
        return temperature, [loss]

    def _learn_critics(
        self, batch: ReplayBatch, temperature: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Move both critics towards r + gamma * (min Q_target(s', a') - temperature * log pi(a' | s'))."""
        with torch.no_grad():
            next_policy = self.policy.distribution(batch.next_obs)
            next_actions, next_log_probs = next_policy.rsample_with_log_prob(self._generator)
            next_q = torch.min(*self.target(batch.next_obs, next_actions)) - temperature * next_log_probs
            targets = batch.rewards + self._gamma * next_q.masked_fill(batch.terminated, 0.0)
        q1, q2 = self.policy.critics(batch.obs, batch.actions)
        mse_loss = torch.nn.functional.mse_loss
        loss = 0.5 * (mse_loss(q1, targets) + mse_loss(q2, targets))
        return loss, descend(self.critic_optimizer, self.critic_parameters, loss, self._limit, self.step_gate)

    @property
    def _limit(self) -> torch.Tensor | None:
        return None if self.h.max_grad_norm is None else self._max_norm

    def after_step(self, fraction: float) -> None:
        self.gradient_steps += 1
        if self.gradient_steps % self.h.target_update_interval == 0:
            follow(self.target, self.policy.critic, self.h.tau(fraction))

    def apply_schedules(self, fraction: float) -> None:
        h = self.h
        for optimizer in self.optimizers().values():
            set_learning_rate(optimizer, h.learning_rate(fraction))
        self._gamma.fill_(h.gamma(fraction))
        if h.max_grad_norm is not None:
            self._max_norm.fill_(h.max_grad_norm(fraction))
        if h.ent_coef != "auto":
            self._temperature.fill_(h.ent_coef(fraction))

    def generators(self) -> tuple[torch.Generator, ...]:
        return (self._generator,)

    def lasting_tensors(self) -> Iterator[torch.Tensor]:
        yield from super().lasting_tensors()
        yield self.log_temperature
        yield from self.target.buffers()

    def warm_start(self, policy: dict[str, torch.Tensor]) -> None:
        super().warm_start(policy)
        follow(self.target, self.policy.critic, 1.0)

    def tensors(self) -> dict[str, torch.Tensor]:
        target = {f"target.{key}": value for key, value in self.target.state_dict().items()}
        return super().tensors() | target | {"log_temperature": self.log_temperature.detach()}

    def values(self) -> dict[str, Any]:
        return super().values() | {"gradient_steps": self.gradient_steps}

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        super().load(tensors, values)
        self.target.load_state_dict(with_prefix(tensors, "target"))
        with torch.no_grad():
            self.log_temperature.copy_(tensors["log_temperature"])
        self.gradient_steps = int(values["gradient_steps"])
        self.backend.rebind()


ALGORITHM = Algorithm("SAC", SACHyperparameters, learner=SAC, check=check_replay)

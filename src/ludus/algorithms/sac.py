"""Soft actor-critic (Haarnoja et al., 2018) with twin critics and automatic temperature."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

import torch
from gymnasium import spaces
from pydantic import BeforeValidator, Field

from ludus.algorithms.backends.cuda_graph import CapturedPlay
from ludus.algorithms.backends.numba.soft_policy import SACKernels, unsupported_reason
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
from ludus.config.schedule import NonNegative, Positive, PositiveFraction, Schedule
from ludus.policies.soft_actor import SACPolicy
from ludus.types import Array, BoolArray, Metrics, Observation


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
    initial_temperature: float = Field(default=1.0, gt=0, description="where auto starts")
    target_entropy: float | Literal["auto"] = Field(
        default="auto", description="auto: minus the action's size"
    )
    tau: PositiveFraction = constant(0.005)
    target_update_interval: int = Field(default=1, ge=1, description="gradient steps between target updates")
    max_grad_norm: Positive | None = Field(default=None, description="null: no clipping")


class CapturedActor:
    """Acts with `policy`, `n` envs at a time, as a CUDA graph."""

    def __init__(self, policy: SACPolicy, n: int, generator: torch.Generator) -> None:
        def act(obs: Any, mask: torch.Tensor | None) -> tuple[torch.Tensor]:
            return (policy.act(obs, mask, generator=generator),)

        self._act = CapturedPlay(act, policy.device, n, [generator])

    def act(self, obs: Observation, masks: BoolArray | None) -> Array:
        """Actions from -1 to 1 for observations as the network takes them."""
        return self._act(obs, masks)[0]


class SAC(OffPolicyLearner[SACHyperparameters]):
    policy: SACPolicy
    STATISTICS = ("actor_loss", "critic_loss", "grad_norm", "ent_coef", "ent_coef_loss")

    def __init__(self, place: LearnerContext, hyperparams: SACHyperparameters) -> None:
        require_action_space("SAC", place.action_space, (spaces.Box,), "PPO, A2C or DQN")
        super().__init__(place, hyperparams)
        h = hyperparams
        self.policy = SACPolicy(place.observation_space, place.action_space, place.network("ReLU", False)).to(
            place.device
        )
        self.target = copy.deepcopy(self.policy.critic).requires_grad_(False).eval()
        rate = h.learning_rate(0.0)
        self.actor_parameters = list(self.policy.actor_parameters())
        self.critic_parameters = list(self.policy.critic_parameters())
        self.actor_optimizer = make_adam(self.actor_parameters, rate)
        self.critic_optimizer = make_adam(self.critic_parameters, rate)
        self.log_temperature = torch.nn.Parameter(
            torch.full((1,), math.log(h.initial_temperature), device=place.device)
        )
        self.temperature_optimizer = make_adam([self.log_temperature], rate)
        size = math.prod(place.action_space.shape or ())
        self.target_entropy = -float(size) if h.target_entropy == "auto" else float(h.target_entropy)
        self._gamma, self._max_norm, self._temperature = torch.zeros(3, device=place.device).unbind()
        self.gradient_steps = 0
        self._generator = place.streams.torch("learner", str(place.device))
        self.kernels: SACKernels | None = None
        self.use_kernels(
            unsupported_reason(self.policy),
            lambda: SACKernels(
                self.policy,
                self.target,
                self.actor_optimizer,
                self.critic_optimizer,
                self.log_temperature,
                self.temperature_optimizer if h.ent_coef == "auto" else None,
                place.streams.numpy("learner"),
                place.threads,
            ),
        )
        self.policy.fast = self.kernels
        if self.captured:
            actions = place.streams.torch("actions", str(place.device))
            self.policy.fast = CapturedActor(self.policy, place.n_envs, actions)

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {
            "actor_optimizer": self.actor_optimizer,
            "critic_optimizer": self.critic_optimizer,
            "temperature_optimizer": self.temperature_optimizer,
        }

    def learn_rounds(self, rounds: int, fraction: float) -> Metrics:
        if self.kernels is None:
            return super().learn_rounds(rounds, fraction)
        h = self.h
        metrics: Metrics = {}
        for _ in range(rounds):
            self.gradient_steps += 1
            metrics = self.kernels.learn(
                self.replay.arrays(),
                self.replay.draw(h.batch_size, self._rng),
                self.place.reward_normalizer,
                rate=h.learning_rate(fraction),
                max_norm=None if h.max_grad_norm is None else h.max_grad_norm(fraction),
                gamma=h.gamma(fraction),
                tau=h.tau(fraction),
                temperature=None if h.ent_coef == "auto" else h.ent_coef(fraction),
                target_entropy=self.target_entropy,
                update_targets=self.gradient_steps % h.target_update_interval == 0,
            )
            metrics["train/learning_rate"] = h.learning_rate(fraction)
        return metrics

    def begin(self, fraction: float) -> None:
        h = self.h
        for optimizer in self.optimizers().values():
            set_learning_rate(optimizer, h.learning_rate(fraction))
        self._gamma.fill_(h.gamma(fraction))
        if h.max_grad_norm is not None:
            self._max_norm.fill_(h.max_grad_norm(fraction))
        if h.ent_coef != "auto":
            self._temperature.fill_(h.ent_coef(fraction))
        self.step_gate.release()

    def gradient_step(self, batch: ReplayBatch) -> torch.Tensor:
        h = self.h
        max_norm = None if h.max_grad_norm is None else self._max_norm
        actions, log_probs = self.policy.distribution(batch.obs).rsample_with_log_prob(self._generator)

        # temperature
        temperature, temperature_loss = self._temperature, torch.zeros_like(self._temperature)
        if h.ent_coef == "auto":
            temperature = self.log_temperature.detach().exp().squeeze(0)
            gap = (log_probs + self.target_entropy).detach()
            temperature_loss = -(self.log_temperature * gap).mean()
            descend(
                self.temperature_optimizer, [self.log_temperature], temperature_loss, None, self.step_gate
            )

        # critics
        with torch.no_grad():
            ahead = self.policy.distribution(batch.next_obs)
            next_actions, next_log_probs = ahead.rsample_with_log_prob(self._generator)
            next_q = torch.min(*self.target(batch.next_obs, next_actions)) - temperature * next_log_probs
            targets = batch.rewards + self._gamma * next_q.masked_fill(batch.terminated, 0.0)
        q1, q2 = self.policy.critics(batch.obs, batch.actions)
        critic_loss = 0.5 * (
            torch.nn.functional.mse_loss(q1, targets) + torch.nn.functional.mse_loss(q2, targets)
        )
        norm = descend(self.critic_optimizer, self.critic_parameters, critic_loss, max_norm, self.step_gate)

        # actor: the critics only pass the gradient on
        for parameter in self.critic_parameters:
            parameter.requires_grad_(False)
        actor_loss = (temperature * log_probs - torch.min(*self.policy.critics(batch.obs, actions))).mean()
        descend(self.actor_optimizer, self.actor_parameters, actor_loss, max_norm, self.step_gate)
        for parameter in self.critic_parameters:
            parameter.requires_grad_(True)
        return torch.stack([actor_loss, critic_loss, norm, temperature, temperature_loss]).detach()

    def after_step(self, fraction: float) -> None:
        self.gradient_steps += 1
        if self.gradient_steps % self.h.target_update_interval == 0:
            follow(self.target, self.policy.critic, self.h.tau(fraction))

    def read(self, statistics: torch.Tensor) -> Metrics:
        metrics = super().read(statistics)
        if self.h.ent_coef != "auto":
            del metrics["train/ent_coef_loss"]
        return metrics

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
        if self.kernels is not None:
            self.kernels.bind()


register_algorithm("SAC", Algorithm("SAC", SACHyperparameters, learner=SAC, check=check_replay))

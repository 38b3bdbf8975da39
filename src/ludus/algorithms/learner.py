"""What every learner shares: how it is built, how it updates, and what of it a checkpoint holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from gymnasium import spaces

from ludus.algorithms.backends.numba.normalising import see_observations, see_rewards
from ludus.algorithms.gradient_step import StepGate
from ludus.algorithms.peers import ALONE, Peers
from ludus.config.hyperparameters import Hyperparameters
from ludus.config.schema import PolicyConfig
from ludus.errors import ConfigError
from ludus.policies.base import NetworkSpec, Policy
from ludus.policies.observations import RewardNormalizer
from ludus.policies.sharding import sharded_like, whole
from ludus.rollout.collector import EnvCollector
from ludus.rollout.experience import Experience
from ludus.rollout.stepper import Stepper
from ludus.runs.streams import Streams
from ludus.types import Metrics

E = TypeVar("E", bound=Experience)
H = TypeVar("H", bound=Hyperparameters)


@dataclass(frozen=True)
class LearnerContext:
    """What a learner is built from."""

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    n_envs: int
    hyperparams: Hyperparameters
    policy: PolicyConfig
    normalize_obs: bool
    device: torch.device
    streams: Streams
    reward_normalizer: RewardNormalizer | None
    kernels: bool = False
    threads: int = 1
    half_features: bool = False
    """Extract features in bfloat16."""
    to_play: bool = False
    """Only the policy is wanted: nothing will be trained, and no memory for it is needed."""
    peers: Peers = ALONE

    def network(self, activation: str, ortho_init: bool) -> NetworkSpec:
        """The shape of the networks; the arguments are what `auto` means for this algorithm."""
        given = self.policy.model_dump()
        if given["activation"] == "auto":
            given["activation"] = activation
        if given["ortho_init"] == "auto":
            given["ortho_init"] = ortho_init
        return NetworkSpec(
            policy_net_arch=self.hyperparams.policy_net_arch,
            value_net_arch=self.hyperparams.value_net_arch,
            normalize_obs=self.normalize_obs,
            **given,
        )


class AnyLearner(Protocol):
    """What the loop and a run ask of a learner, whatever it trains."""

    policy: Any

    def credit(self, experience: Any, fraction: float) -> Any: ...

    def learn(self, batch: Any, fraction: float) -> Metrics: ...

    def publish(self) -> None: ...

    def optimizers(self) -> dict[str, torch.optim.Optimizer]: ...

    def tensors(self) -> dict[str, torch.Tensor]: ...

    def values(self) -> dict[str, Any]: ...

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None: ...


class Learner(ABC, Generic[E, H]):
    """Owns the policy and its optimizers. `credit` and `learn` are the whole algorithm."""

    policy: Policy
    kernels: Any = None
    """The fused kernels that do the learning, where they cover the policy."""
    captured = False
    """Whether updates are captured as CUDA graphs."""
    engine_note = "torch"
    """What does the arithmetic, for the run's header."""

    def __init__(self, place: LearnerContext, hyperparams: H) -> None:
        self.place = place
        self.peers = place.peers
        self.h = hyperparams
        self.step_gate = StepGate(place.device)

    @abstractmethod
    def credit(self, experience: E, fraction: float) -> Any:
        """Return the batch that `learn` takes: experience with rewards turned into what the gradient steps need.

        `fraction` of the run is done; schedules depend on it. Runs on the first rank only.
        """

    @abstractmethod
    def learn(self, batch: Any, fraction: float) -> Metrics:
        """Take the gradient steps of one update on what `credit` returned. Runs on all ranks."""

    def publish(self) -> None:
        """Give the learnt weights to the policy that plays. Does nothing where both are the same."""

    def update(self, experience: E, fraction: float) -> Metrics:
        """Run `credit`, `learn` and `publish` on one experience."""
        metrics = self.learn(self.credit(experience, fraction), fraction)
        self.publish()
        return metrics

    @abstractmethod
    def make_collector(self, stepper: Stepper) -> EnvCollector:
        """The collector that gathers this learner's kind of experience."""

    @abstractmethod
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """The optimizers by the name they have in a checkpoint."""

    def use_kernels(self, uncovered: str | None, build: Callable[[], Any]) -> None:
        """Hand the learning over to the kernels that `build` makes, where wanted and nothing is uncovered."""
        if self.place.kernels:
            self._use_normalising_kernels()
        reason = uncovered if self.place.kernels else "kernels: false"
        if reason is not None:
            self.captured = self.place.kernels and self.place.device.type == "cuda"
            self.engine_note = "torch, captured as CUDA graphs" if self.captured else f"torch ({reason})"
            return
        self.kernels = build()
        self.engine_note = f"fused CPU kernels (ready in {self.kernels.compile():.1f} s)"

    def _use_normalising_kernels(self) -> None:
        if self.policy.obs_normalizer is not None:
            self.policy.obs_normalizer.kernel = see_observations
        if self.place.reward_normalizer is not None:
            self.place.reward_normalizer.kernel = see_rewards

    def lasting_tensors(self) -> Iterator[torch.Tensor]:
        """What a captured update changes for good: the policy, the optimizers' memory, the step_gate."""
        yield from self.policy.state_dict(keep_vars=True).values()
        for optimizer in self.optimizers().values():
            for state in optimizer.state.values():
                yield from (value for value in state.values() if isinstance(value, torch.Tensor))
        yield from (self.step_gate.pulled, self.step_gate.fault)

    def warm_start(self, policy: dict[str, torch.Tensor]) -> None:
        """Start from the weights of another policy of the same shape; optimizers stay new."""
        self.policy.load_state_dict(policy)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Everything but the policy, for `learner.safetensors`."""
        return {
            f"{name}.{key}": value
            for name, optimizer in self.optimizers().items()
            for key, value in optimizer_tensors(optimizer)
        }

    def values(self) -> dict[str, Any]:
        """Counters and the like, for `state.json`."""
        return {}

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        """Take up what `tensors` and `values` gave."""
        for name, optimizer in self.optimizers().items():
            load_optimizer_tensors(optimizer, with_prefix(tensors, name))


def with_prefix(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """The entries under `prefix.`, without it."""
    return {key[len(prefix) + 1 :]: value for key, value in tensors.items() if key.startswith(prefix + ".")}


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
    """The optimizer's state as named tensors: `3.exp_avg` is that of its fourth parameter."""
    for index, state in optimizer.state_dict()["state"].items():
        for key, value in state.items():
            if value is not None:
                yield f"{index}.{key}", whole(torch.as_tensor(value))


def load_optimizer_tensors(optimizer: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]) -> None:
    """Inverse of `optimizer_tensors`, for an optimizer over the same parameters."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in tensors.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for place, own in state.items():
        for name, value in own.items():
            if value.dim():  # as long as the parameter it belongs to, and sharded as that is
                own[name] = sharded_like(parameters[place], value)
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def require_action_space(
    name: str, space: spaces.Space[Any], allowed: tuple[type, ...], instead: str
) -> None:
    """Raise ConfigError when algorithm `name` cannot act in `space`."""
    if not isinstance(space, allowed):
        kinds = " or ".join(kind.__name__ for kind in allowed)
        raise ConfigError(
            f"{name} needs {kinds} actions, but this env has {type(space).__name__} actions ({space})",
            key="algorithm",
            fix=f"use {instead}",
        )


def explained_variance(predicted: np.ndarray[Any, Any], actual: np.ndarray[Any, Any]) -> float:
    """1 - Var[actual - predicted] / Var[actual]: 1 is perfect, 0 no better than the mean, NaN without spread."""
    variance = float(np.var(actual)) if len(actual) else 0.0
    return float("nan") if variance == 0 else 1.0 - float(np.var(actual - predicted)) / variance

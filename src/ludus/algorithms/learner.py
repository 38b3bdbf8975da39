"""The base of every learner: how it is built, how it updates, and which of its state a checkpoint holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from gymnasium import spaces

from ludus.algorithms.backends.numba.rollouts import normalize_observations, normalize_rewards
from ludus.algorithms.gradient_step import StepGate
from ludus.algorithms.peers import ALONE, Peers, sharded_like, whole
from ludus.config.hyperparameters import Hyperparameters
from ludus.config.schema import PolicyConfig
from ludus.errors import ConfigError
from ludus.policies.base import NetworkSpec, Policy
from ludus.policies.observations import RewardNormalizer
from ludus.rollout.collector import EnvCollector
from ludus.rollout.experience import Experience
from ludus.rollout.stepper import Stepper
from ludus.runs.streams import Streams
from ludus.types import Metrics

E = TypeVar("E", bound=Experience)
H = TypeVar("H", bound=Hyperparameters)


class UpdateStopped(Exception):
    """Raised by `Learner.before_step` to end an update. The caller drops what it has learned."""


@dataclass(frozen=True)
class LearnerContext:
    """Everything a learner is built from."""

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
    """Only the policy is needed: nothing is trained, and no memory for training is allocated."""
    peers: Peers = ALONE

    def network(self, activation: str, ortho_init: bool) -> NetworkSpec:
        """Return the shape of the networks; the arguments are what `auto` means for this algorithm."""
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
    """The contract of a learner with the training loop and the session, for any kind of policy."""

    policy: Any

    def credit(self, experience: Any, fraction: float) -> Any: ...

    def learn(self, batch: Any, fraction: float) -> Metrics: ...

    def publish(self) -> None: ...

    def optimizers(self) -> dict[str, torch.optim.Optimizer]: ...

    def tensors(self) -> dict[str, torch.Tensor]: ...

    def values(self) -> dict[str, Any]: ...

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None: ...


@runtime_checkable
class StoppableLearner(Protocol):
    """A learner whose updates can be ended between two of their gradient computations."""

    stops_between_steps: bool
    """True if `before_step` is called in the middle of an update."""
    before_step: Callable[[], None]
    """May raise UpdateStopped. The session sets it."""


class Learner(ABC, Generic[E, H]):
    """Owns the policy and its optimizers. `credit` and `learn` are the whole algorithm."""

    policy: Policy
    kernels: Any = None
    """The fused kernels that do the learning, where they cover the policy."""
    fused_kernels = False
    """Set to True by a class whose update the fused CPU kernels compute. A subclass does not inherit it."""
    captured = False
    """True if updates are captured as CUDA graphs."""
    stops_between_steps = False
    """True if `before_step` is called between the gradient steps of an update."""
    engine_note = "torch"
    """The update backend in words, for the run's header."""

    def __init__(self, context: LearnerContext, hyperparams: H) -> None:
        self.context = context
        self.peers = context.peers
        self.h = hyperparams
        self.step_gate = StepGate(context.device)
        self.before_step: Callable[[], None] = lambda: None
        """Called before a gradient step. It may raise UpdateStopped."""

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
        """Return the collector that gathers this learner's kind of experience."""

    @abstractmethod
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Return the optimizers by the name they have in a checkpoint."""

    def use_kernels(self, uncovered: str | None, build: Callable[[], Any]) -> None:
        """Choose what computes: kernels that `build` makes, unless something is `uncovered`; CUDA graphs; or torch."""
        if self.context.kernels:
            self._use_normalising_kernels()
        if "fused_kernels" not in type(self).__dict__:  # of this very class: a subclass may have another loss
            uncovered = f"no kernels for {type(self).__name__}"
        reason = uncovered if self.context.kernels else "kernels: false"
        if reason is not None:
            self.captured = self.context.kernels and self.context.device.type == "cuda"
            self.engine_note = "torch, captured as CUDA graphs" if self.captured else f"torch ({reason})"
            return
        self.kernels = build()
        self.engine_note = f"fused CPU kernels (ready in {self.kernels.compile():.1f} s)"

    def _use_normalising_kernels(self) -> None:
        if self.policy.obs_normalizer is not None:
            self.policy.obs_normalizer.kernel = normalize_observations
        if self.context.reward_normalizer is not None:
            self.context.reward_normalizer.kernel = normalize_rewards

    def lasting_tensors(self) -> Iterator[torch.Tensor]:
        """Yield what a captured update changes: the policy, the optimizers' state, the step gate."""
        yield from self.policy.state_dict(keep_vars=True).values()
        for optimizer in self.optimizers().values():
            for state in optimizer.state.values():
                yield from (value for value in state.values() if isinstance(value, torch.Tensor))
        yield from (self.step_gate.pulled, self.step_gate.fault)

    def unused_keys(self) -> dict[str, str]:
        """Return the config keys that this learner does not use, each with the reason."""
        return {}

    def warm_start(self, policy: dict[str, torch.Tensor]) -> None:
        """Start from the weights of another policy of the same shape; optimizers stay new."""
        self.policy.load_state_dict(policy)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return all state but the policy, for `learner.safetensors`."""
        return {
            f"{name}.{key}": value
            for name, optimizer in self.optimizers().items()
            for key, value in optimizer_tensors(optimizer)
        }

    def values(self) -> dict[str, Any]:
        """Return counters and the like, for `state.json`."""
        return {}

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        """Restore what `tensors` and `values` returned."""
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
    for position, own in state.items():
        for name, value in own.items():
            if value.dim():  # as long as the parameter it belongs to, and sharded as that is
                own[name] = sharded_like(parameters[position], value)
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

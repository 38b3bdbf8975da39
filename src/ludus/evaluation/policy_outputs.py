"""The outputs of a policy for one observation: its value estimate and the probability or Q-value of each action."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Literal

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from ludus.evaluation.evaluate import EpisodeState
from ludus.evaluation.load import LoadedPolicy
from ludus.policies.actor_critic import ActorCritic
from ludus.policies.base import Policy
from ludus.policies.distributions import Bernoulli, Categorical, Distribution, MultiCategorical
from ludus.policies.extractors import ObservationTensor
from ludus.policies.q_network import QPolicy
from ludus.policies.soft_actor import SACPolicy
from ludus.rollout.stepper import stack

Weighing = Literal["probability", "value"]


@dataclass(frozen=True)
class PolicyOutput:
    """The outputs of a policy for one observation; None for outputs that the policy does not have.

    `value` is the expected discounted return. `weights` holds one number per choice: its probability, or its Q-value
    if `weighing` is "value". The choices of a MultiDiscrete space are concatenated; those of a MultiBinary space are
    the probabilities of a one.
    """

    value: float | None = None
    weights: tuple[float, ...] | None = None
    weighing: Weighing = "probability"


@dataclass(frozen=True)
class ProbeInput:
    """One observation as a batch of one, with its action mask and the memory of a recurrent policy."""

    obs: ObservationTensor
    mask: Tensor | None
    memory: Any


class PolicyProbe:
    """Reads the outputs of an actor without changing it or drawing a random number.

    `reward_scale` is the env reward that equals a normalised reward of 1; None if it is not known.
    """

    def __init__(self, actor: Any, reward_scale: float | None = 1.0) -> None:
        self._policy = actor.actor if isinstance(actor, LoadedPolicy) else actor
        self._scale = reward_scale

    def inspect(self, game: EpisodeState) -> PolicyOutput:
        """Return the actor's output for the current observation of `game`. Call it before the actor acts."""
        policy = self._policy
        if not isinstance(policy, Policy):
            return PolicyOutput()
        mask = None
        if game.mask is not None:
            mask = torch.as_tensor(game.mask[None], device=policy.device)
        with torch.inference_mode(), _evaluation_mode(policy):
            prepared = policy.prepare(stack([game.obs]))
            output = inspect_policy(policy, ProbeInput(prepared, mask, game.memory))
        if self._scale in (None, 1.0):
            return output
        value = None if output.value is None else output.value * self._scale
        weights = output.weights
        if weights is not None and output.weighing == "value":
            weights = tuple(weight * self._scale for weight in weights)
        return PolicyOutput(value, weights, output.weighing)


@contextmanager
def _evaluation_mode(policy: nn.Module) -> Iterator[None]:
    """Put the policy into evaluation mode temporarily, so that no layer updates its statistics."""
    if not policy.training:
        yield
        return
    was_training = [module for module in policy.modules() if module.training]
    policy.eval()
    try:
        yield
    finally:
        for module in was_training:
            module.training = True


@singledispatch
def inspect_policy(policy: nn.Module, situation: ProbeInput) -> PolicyOutput:
    """Return the output of `policy`. Register a function for your own policy class."""
    return PolicyOutput()


@inspect_policy.register
def _(policy: ActorCritic, situation: ProbeInput) -> PolicyOutput:
    if isinstance(policy.action_space, Box):  # no discrete choices
        return PolicyOutput(float(policy.value(situation.obs)[0]))
    distribution, values = policy(situation.obs, situation.mask)
    return PolicyOutput(float(values[0]), probabilities(distribution))


@inspect_policy.register
def _(policy: QPolicy, situation: ProbeInput) -> PolicyOutput:
    return of_q_values(policy.q_values(situation.obs), situation.mask)


@inspect_policy.register
def _(policy: SACPolicy, situation: ProbeInput) -> PolicyOutput:
    action = policy.distribution(situation.obs).mode()
    return PolicyOutput(float(torch.minimum(*policy.critics(situation.obs, action))[0]))


def of_q_values(q_values: Tensor, mask: Tensor | None) -> PolicyOutput:
    """Return the output for the Q-values [1, n] of all actions; illegal ones become NaN."""
    if mask is not None:
        q_values = q_values.masked_fill(~mask, torch.nan)
    weights = q_values[0].tolist()
    return PolicyOutput(float(np.nanmax(weights)), tuple(weights), "value")


def probabilities(distribution: Distribution) -> tuple[float, ...] | None:
    """Return the probability of every choice; None for continuous actions."""
    match distribution:
        case Categorical():
            return tuple(distribution.log_probs[0].exp().tolist())
        case MultiCategorical():
            return tuple(chance for part in distribution.parts for chance in part.log_probs[0].exp().tolist())
        case Bernoulli():
            return tuple(torch.sigmoid(distribution.logits[0]).tolist())
    return None

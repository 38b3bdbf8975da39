"""What a policy makes of an observation before it acts: the value it expects, and how it weighs the actions."""

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
from ludus.policies.actor_critic import ActorCritic
from ludus.policies.distributions import Bernoulli, Categorical, Distribution, MultiCategorical
from ludus.policies.extractors import ObservationTensor
from ludus.policies.q_network import QPolicy
from ludus.policies.soft_actor import SACPolicy
from ludus.rollout.stepper import stack

Weighing = Literal["probability", "value"]


@dataclass(frozen=True)
class PolicyOutput:
    """What a policy makes of one observation; None where it does not say.

    `value` is the discounted reward it expects from here on. `weights` holds a number for every choice: its
    probability, or what `weighing` calls a value (Q). The choices of a MultiDiscrete space follow each other, those
    of a MultiBinary space are the chances of a one.
    """

    value: float | None = None
    weights: tuple[float, ...] | None = None
    weighing: Weighing = "probability"


@dataclass(frozen=True)
class ProbeInput:
    """One observation as the policy takes it: a batch of one, with what is legal and what is remembered."""

    obs: ObservationTensor
    mask: Tensor | None
    memory: Any


class PolicyProbe:
    """Asks an actor what it thinks, without changing it or drawing a random number.

    `reward_scale` is what a normalised reward of 1 is worth in the env's own reward; None where values cannot be
    told in it.
    """

    def __init__(self, actor: Any, reward_scale: float | None = 1.0) -> None:
        self._policy = getattr(actor, "actor", actor)
        self._scale = reward_scale

    def inspect(self, game: EpisodeState) -> PolicyOutput:
        """What the actor thinks where `game` stands; to be asked before it acts there."""
        policy = self._policy
        if not isinstance(policy, nn.Module):
            return PolicyOutput()
        mask = None
        if game.mask is not None:
            mask = torch.as_tensor(game.mask[None], device=getattr(policy, "device", "cpu"))
        with torch.inference_mode(), _at_rest(policy):
            prepared = policy.prepare(stack([game.obs]))  # type: ignore[operator]
            output = inspect_policy(policy, ProbeInput(prepared, mask, game.memory))
        if self._scale in (None, 1.0):
            return output
        value = None if output.value is None else output.value * self._scale
        weights = output.weights
        if weights is not None and output.weighing == "value":
            weights = tuple(weight * self._scale for weight in weights)
        return PolicyOutput(value, weights, output.weighing)


@contextmanager
def _at_rest(policy: nn.Module) -> Iterator[None]:
    """In evaluation mode meanwhile: a layer that gathers statistics must not gather these."""
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
    """What `policy` thinks. Register a function for a class of your own to have its thoughts shown."""
    if type(policy).__name__ == "SB3Policy":  # by name: its library is optional
        from ludus.sb3.policy_outputs import inspect_sb3_policy

        return inspect_sb3_policy(policy, situation)
    return PolicyOutput()


@inspect_policy.register
def _(policy: ActorCritic, situation: ProbeInput) -> PolicyOutput:
    if isinstance(policy.action_space, Box):  # there are no choices to weigh
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
    """The output behind the values [1, n] of all actions; an illegal one has no value."""
    if mask is not None:
        q_values = q_values.masked_fill(~mask, torch.nan)
    weights = q_values[0].tolist()
    return PolicyOutput(float(np.nanmax(weights)), tuple(weights), "value")


def probabilities(distribution: Distribution) -> tuple[float, ...] | None:
    """Of every choice; None for actions that are no choices."""
    match distribution:
        case Categorical():
            return tuple(distribution.log_probs[0].exp().tolist())
        case MultiCategorical():
            return tuple(chance for part in distribution.parts for chance in part.log_probs[0].exp().tolist())
        case Bernoulli():
            return tuple(torch.sigmoid(distribution.logits[0]).tolist())
    return None

"""The outputs of Stable-Baselines3 policies, for inspection and for exported graphs. Importing it registers them."""

from __future__ import annotations

from typing import Any

import torch
from sb3_contrib.common.maskable.distributions import MaskableBernoulliDistribution
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor

from ludus.evaluation.graph import ACTIONS, Outputs, graph_outputs
from ludus.evaluation.policy_outputs import PolicyOutput, ProbeInput, inspect_policy, of_q_values
from ludus.policies.extractors import ObservationTensor
from ludus.sb3.policy import SB3Policy


@inspect_policy.register
def inspect_sb3_policy(policy: SB3Policy, situation: ProbeInput) -> PolicyOutput:
    """Return the output of `policy`; an empty one if its algorithm has no estimates (ARS)."""
    net: Any = policy.net
    obs = situation.obs
    if isinstance(net, RecurrentActorCriticPolicy):  # without a value: the critic's memory is not kept
        return PolicyOutput(None, _probabilities(_distribution_with_memory(net, situation)))
    if isinstance(net, MaskableActorCriticPolicy):
        legal = None if situation.mask is None else situation.mask.cpu().numpy()
        masked: Any = net.get_distribution(obs, action_masks=legal)
        return PolicyOutput(float(net.predict_values(obs)), _probabilities(masked))
    if isinstance(net, ActorCriticPolicy):
        return PolicyOutput(float(net.predict_values(obs)), _probabilities(net.get_distribution(obs)))
    if hasattr(net, "q_net"):
        return of_q_values(net.q_net(obs), None)
    if hasattr(net, "quantile_net"):
        return of_q_values(net.quantile_net(obs).mean(dim=1), None)
    if hasattr(net, "critic"):
        actions = net.actor(obs, deterministic=True) if _samples(net.actor) else net.actor(obs)
        return PolicyOutput(_critics(net.critic(obs, actions)))
    return PolicyOutput()


def _distribution_with_memory(net: Any, situation: ProbeInput) -> Any:
    layers, _, size = net.lstm_hidden_state_shape
    memory = situation.memory
    hidden, cell = (
        torch.zeros(layers, 1, size, device=net.device)
        if memory is None
        else torch.as_tensor(memory[part][:, None], device=net.device)
        for part in (0, 1)
    )
    starts = torch.tensor([float(memory is None)], device=net.device)
    return net.get_distribution(situation.obs, (hidden, cell), starts)[0]


@graph_outputs.register
def sb3_graph_outputs(policy: SB3Policy, obs: ObservationTensor, mask: Tensor | None) -> Outputs:
    """Return the actions and other outputs of `policy` as tensors of a graph."""
    obs = policy.channels_first(obs)
    net: Any = policy.net
    if isinstance(net, ActorCriticPolicy | MaskableActorCriticPolicy):
        masks: dict[str, Any] = {} if mask is None else {"action_masks": mask}
        distribution = net.get_distribution(obs, **masks)
        probs = _choice_probs(distribution)
        return {
            ACTIONS: distribution.get_actions(deterministic=True),
            **({} if probs is None else {"probabilities": torch.cat(probs, dim=-1)}),
            "value": net.predict_values(obs).squeeze(-1),
        }
    if hasattr(net, "q_net"):
        q_values = net.q_net(obs)
        return {ACTIONS: q_values.argmax(dim=1), "q_values": q_values}
    return {ACTIONS: net._predict(obs, deterministic=True)}


def _probabilities(distribution: Any) -> tuple[float, ...] | None:
    """Return the probability of every choice in a batch of one; None for continuous actions."""
    probs = _choice_probs(distribution)
    if probs is None:
        return None
    if isinstance(distribution, MaskableBernoulliDistribution):  # its parts choose between zero and one
        return tuple(float(part[0, 1]) for part in probs)
    return tuple(chance for part in probs for chance in part[0].tolist())


def _choice_probs(distribution: Any) -> list[Tensor] | None:
    """Return the probabilities of each part of SB3's discrete distributions; None for a Gaussian."""
    inner: Any = getattr(distribution, "distribution", None)
    if inner is None:  # masked distributions of several choices have another attribute
        inner = getattr(distribution, "distributions", None)
    parts: list[Any] = inner if isinstance(inner, list) else [inner]
    return [part.probs for part in parts] if all(hasattr(part, "probs") for part in parts) else None


def _samples(actor: Any) -> bool:
    return hasattr(actor, "get_action_dist_params")


def _critics(values: tuple[Tensor, ...] | Tensor) -> float:
    """Return the lowest of several critics, or the mean of TQC's quantiles [1, critics, quantiles]."""
    if isinstance(values, Tensor):
        return float(values.mean())
    return float(torch.cat(values, dim=1).min())

"""What the policies of Stable-Baselines3 think; imported only where its library is."""

from __future__ import annotations

from typing import Any

import torch
from sb3_contrib.common.maskable.distributions import MaskableBernoulliDistribution
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor

from ludus.evaluation.policy_outputs import PolicyOutput, ProbeInput, of_q_values


def inspect_sb3_policy(policy: Any, situation: ProbeInput) -> PolicyOutput:
    """What an `SB3Policy` thinks; nothing where its algorithm has no such estimate (ARS)."""
    net, obs = policy.net, situation.obs
    if isinstance(net, RecurrentActorCriticPolicy):
        return PolicyOutput(
            None, _probabilities(_remembered(net, situation))
        )  # its critic's memory is not kept
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


def _remembered(net: Any, situation: ProbeInput) -> Any:
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


def _probabilities(distribution: Any) -> tuple[float, ...] | None:
    """Of every choice, in SB3's three kinds of choices; None for Gaussians."""
    inner: Any = getattr(distribution, "distribution", None)
    if inner is None:  # a masked distribution of several choices has a list of its own
        inner = getattr(distribution, "distributions", None)
    if isinstance(distribution, MaskableBernoulliDistribution):  # which are choices between zero and one
        return tuple(float(part.probs[0, 1]) for part in inner)
    if isinstance(inner, list):
        return tuple(chance for part in inner for chance in part.probs[0].tolist())
    return tuple(inner.probs[0].tolist()) if hasattr(inner, "probs") else None


def _samples(actor: Any) -> bool:
    return hasattr(actor, "get_action_dist_params")


def _critics(values: tuple[Tensor, ...] | Tensor) -> float:
    """The lowest of several critics; of TQC's quantiles [1, critics, quantiles] the mean."""
    if isinstance(values, Tensor):
        return float(values.mean())
    return float(torch.cat(values, dim=1).min())

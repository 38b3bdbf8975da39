"""Names of a Ludus policy's weights in the policy of the same algorithm in Stable-Baselines3.

Does not need Stable-Baselines3: its files can be read without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from torch import Tensor

Pairs = list[tuple[str, tuple[str, ...]]]
"""Prefix of a name in Ludus, and its prefixes in SB3: target networks and aliases repeat the weights."""


def actor_critic_pairs(*, shares_extractor: bool, shares_net: bool) -> Pairs:
    """PPO and A2C."""
    pairs: Pairs = [
        ("policy_net.", ("mlp_extractor.policy_net.",)),
        ("own_layers.", ("mlp_extractor.network.",)),
        ("action_head.linear.", ("action_net.",)),
        ("action_head.log_std", ("log_std",)),
        ("value_head.", ("value_net.",)),
    ]
    if shares_net:  # SB3 has no shared net: it gets the same one twice
        pairs[0] = ("policy_net.", ("mlp_extractor.policy_net.", "mlp_extractor.value_net."))
    else:
        pairs.append(("value_net.", ("mlp_extractor.value_net.",)))
    if shares_extractor:
        everywhere = ("features_extractor.", "pi_features_extractor.", "vf_features_extractor.")
        return [*pairs, ("features_extractor.", everywhere)]
    return [
        *pairs,
        ("features_extractor.", ("features_extractor.", "pi_features_extractor.")),
        ("value_features_extractor.", ("vf_features_extractor.",)),
    ]


def q_pairs() -> Pairs:
    """DQN, without a value stream of its own."""
    return [
        ("features_extractor.", ("q_net.features_extractor.", "q_net_target.features_extractor.")),
        ("q_net.", ("q_net.q_net.", "q_net_target.q_net.")),
    ]


def soft_pairs(*, shares_extractor: bool) -> Pairs:
    """SAC."""
    critics = ("critic.features_extractor.", "critic_target.features_extractor.")
    actor = ("actor.features_extractor.",)
    pairs: Pairs = [
        ("actor_net.", ("actor.latent_pi.",)),
        ("mean_head.", ("actor.mu.",)),
        ("log_std_head.", ("actor.log_std.",)),
        ("critic.q1.", ("critic.qf0.", "critic_target.qf0.")),
        ("critic.q2.", ("critic.qf1.", "critic_target.qf1.")),
        ("critic.features_extractor.", (*critics, *actor) if shares_extractor else critics),
    ]
    return pairs if shares_extractor else [*pairs, ("actor_features_extractor.", actor)]


def to_sb3(weights: Mapping[str, Tensor], pairs: Pairs, inner: str = "") -> dict[str, Tensor]:
    """Return a Ludus policy's weights under SB3's names; `inner` is the prefix of a nested extractor."""
    renamed: dict[str, Tensor] = {}
    for name, value in weights.items():
        for ours, theirs in _matching(name, pairs):
            rest = name.removeprefix(ours)
            within = inner if ours.endswith("features_extractor.") else ""
            renamed |= {f"{beginning}{within}{rest}": value for beginning in theirs}
    return renamed


def from_sb3(weights: Mapping[str, Tensor], pairs: Pairs, inner: str = "") -> dict[str, Tensor]:
    """Return SB3's weights under Ludus's names, without target networks and aliases."""
    renamed: dict[str, Tensor] = {}
    for ours, theirs in pairs:
        beginning = theirs[0] + (inner if ours.endswith("features_extractor.") else "")
        for name, value in weights.items():
            if name.startswith(beginning):
                renamed[ours + name.removeprefix(beginning)] = value
    return renamed


def statistics_path(model: Path, suffix: str) -> Path:
    """Return the path of the statistics of `model`, which SB3's zip cannot hold: `model_vecnormalize.json`."""
    return model.with_name(f"{model.stem}_vecnormalize{suffix}")


def layers(weights: Mapping[str, Tensor], beginning: str) -> list[int]:
    """Return the output widths of the linear layers under `beginning`, in order."""
    numbers = sorted(_layer_numbers(weights, beginning))
    return [int(weights[f"{beginning}{number}.weight"].shape[0]) for number in numbers]


def _layer_numbers(weights: Iterable[str], beginning: str) -> set[int]:
    rests = (name.removeprefix(beginning) for name in weights if name.startswith(beginning))
    return {int(rest.split(".")[0]) for rest in rests if rest.endswith(".weight")}


def _matching(name: str, pairs: Pairs) -> Pairs:
    """Return the pairs for `name`; of several prefixes the longest counts."""
    found = [pair for pair in pairs if name.startswith(pair[0])]
    longest = max((len(ours) for ours, _ in found), default=0)
    return [pair for pair in found if len(pair[0]) == longest]

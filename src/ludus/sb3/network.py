"""From Ludus's `policy` section and hidden layers to the policy class of SB3 and its arguments."""

from __future__ import annotations

import inspect
from typing import Any, cast

import torch
from gymnasium import spaces
from sb3_contrib import CrossQ
from stable_baselines3 import TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

from ludus.algorithms.learner import LearnerContext
from ludus.config.schema import PolicyConfig
from ludus.errors import ConfigError, UnknownName, nearest
from ludus.policies.extractors import ObservationTensor, auto_extractor, make_extractor
from ludus.policies.networks import activation_class
from ludus.policies.own_layers import REPLACED_KEYS, latent_dim, make_layers
from ludus.sb3.hyperparameters import SB3Hyperparameters

# Policy arguments that have a key of their own in Ludus.
_SAID_BY_LUDUS = {
    "activation_fn": "set policy.activation",
    "features_extractor_class": "set policy.features_extractor",
    "features_extractor_kwargs": "set policy.features_extractor_kwargs",
    "share_features_extractor": "set policy.share_features_extractor",
    "use_sde": "set use_sde next to policy_kwargs",
    "normalize_images": "leave it out",
    "optimizer_class": "a config cannot name a class here: leave it out",
}
_OF_SB3 = ("FlattenExtractor", "NatureCNN", "CombinedExtractor")
_GIVEN_BY_SB3 = {"self", "observation_space", "action_space", "lr_schedule"}


class LudusExtractor(BaseFeaturesExtractor):
    """A feature extractor of Ludus, or the user's own, where SB3 expects one of its kind."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        name: str,
        features_dim: int,
        arguments: dict[str, Any],
    ) -> None:
        inner = make_extractor(name, observation_space, features_dim, arguments)
        super().__init__(observation_space, inner.features_dim)
        self.inner = inner

    def forward(self, observations: ObservationTensor) -> Tensor:
        features: Tensor = self.inner(_as_ludus_has_it(observations, self._observation_space))
        return features


def policy_class(
    cls: type[BaseAlgorithm], h: SB3Hyperparameters, policy: PolicyConfig, space: spaces.Space[Any]
) -> str:
    """The name of the policy class, among those that the algorithm has; UnknownName for another one."""
    known = cls.policy_aliases
    if h.policy != "auto":
        if h.policy not in known:
            raise UnknownName(
                "policy", h.policy, known, where="hyperparams.policy", fix=f"one of {', '.join(known)}"
            )
        return h.policy
    kind = "MultiInput" if isinstance(space, spaces.Dict) else "Mlp"
    if auto_extractor(space) == "NatureCNN" and not _is_own(policy.features_extractor, space):
        kind = "Cnn"
    recurrent = "Lstm" if "MlpLstmPolicy" in known else ""
    name = f"{kind}{recurrent}Policy"
    if name not in known:
        raise ConfigError(
            f"{cls.__name__} of Stable-Baselines3 cannot read observations of {space}",
            key="algorithm",
            fix="use another algorithm, or wrap the env to observe a flat Box",
        )
    return name


class OwnLayers(nn.Module):
    """The user's `policy.network` where SB3 expects its `mlp_extractor`."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.latent_dim_pi = latent_dim(network, "forward_actor")
        self.latent_dim_vf = latent_dim(network, "forward_critic")

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: Tensor) -> Tensor:
        return cast(Tensor, cast(Any, self.network).forward_actor(features))

    def forward_critic(self, features: Tensor) -> Tensor:
        return cast(Tensor, cast(Any, self.network).forward_critic(features))


def with_own_layers(cls: type[BaseAlgorithm], name: str, policy: PolicyConfig) -> str | type[BasePolicy]:
    """Return the policy to make: the one called `name`, or a subclass of it with the layers of `policy.network`.

    Raises ConfigError if the algorithm has no such layers.
    """
    if policy.network is None:
        return name
    network, arguments = policy.network, dict(policy.network_kwargs)
    base: Any = cls.policy_aliases[name]
    if not hasattr(base, "_build_mlp_extractor"):
        raise ConfigError(
            f"policy.network is for algorithms with a policy and a value; {cls.__name__} has other parts",
            key="policy.network",
            fix="use PPO, A2C, TRPO, MaskablePPO or RecurrentPPO, or set hyperparams.policy_net_arch",
        )

    class OwnLayersPolicy(base):  # type: ignore[misc]
        def _build_mlp_extractor(self) -> None:
            width = self.lstm_output_dim if hasattr(self, "lstm_output_dim") else self.features_dim
            self.mlp_extractor = OwnLayers(make_layers(network, width, arguments)).to(self.device)

    return OwnLayersPolicy


def policy_arguments(cls: type[BaseAlgorithm], name: str, place: LearnerContext) -> dict[str, Any]:
    """`policy_kwargs` for the policy called `name`: only what was chosen, the rest is SB3's default."""
    h = place.hyperparams
    assert isinstance(h, SB3Hyperparameters)
    policy, space = place.policy, place.observation_space
    accepted = set(inspect.signature(cls.policy_aliases[name]).parameters) - _GIVEN_BY_SB3
    arguments: dict[str, Any] = {}
    chosen: dict[str, tuple[str, Any]] = {}  # argument -> the key that gave it, and its value
    if h.policy_net_arch is not None or h.value_net_arch is not None:
        chosen["net_arch"] = ("hyperparams.policy_net_arch", _net_arch(cls, h))
    if policy.activation != "auto":
        chosen["activation_fn"] = ("policy.activation", activation_class(policy.activation))
    if policy.ortho_init != "auto" and (policy.ortho_init or "ortho_init" in accepted):
        chosen["ortho_init"] = ("policy.ortho_init", policy.ortho_init)
    if policy.log_std_init:
        chosen["log_std_init"] = ("policy.log_std_init", policy.log_std_init)
    if _is_own(policy.features_extractor, space):
        own = {
            "name": policy.features_extractor,
            "features_dim": policy.features_dim,
            "arguments": dict(policy.features_extractor_kwargs),
        }
        chosen["features_extractor_class"] = ("policy.features_extractor", LudusExtractor)
        arguments |= {"features_extractor_kwargs": own, "normalize_images": False}
    elif "Cnn" in name or policy.features_extractor_kwargs:
        dim = {"features_dim": policy.features_dim} if "Cnn" in name else {}
        arguments["features_extractor_kwargs"] = dim | policy.features_extractor_kwargs
    if "share_features_extractor" in accepted:
        arguments["share_features_extractor"] = policy.share_features_extractor
    for argument, (key, value) in chosen.items():
        if argument not in accepted:
            raise ConfigError(
                f"the {name} of {cls.__name__} in Stable-Baselines3 has no argument {argument}",
                key=key,
                fix="leave it out",
            )
        arguments[argument] = value
    return arguments | _checked(h.policy_kwargs, accepted, name)


def unused_policy_keys(cls: type[BaseAlgorithm], place: LearnerContext) -> dict[str, str]:
    """Return the keys of the network that this algorithm does not use, each with the reason."""
    h = place.hyperparams
    assert isinstance(h, SB3Hyperparameters)
    name = policy_class(cls, h, place.policy, place.observation_space)
    unused = {}
    if "share_features_extractor" not in inspect.signature(cls.policy_aliases[name]).parameters:
        unused["policy.share_features_extractor"] = (
            f"{cls.__name__} of Stable-Baselines3 takes no such argument"
        )
    if not (issubclass(cls, OnPolicyAlgorithm) or _has_actor(cls)):
        unused["hyperparams.value_net_arch"] = f"{cls.__name__} of Stable-Baselines3 has one network"
    if place.policy.network is not None:
        unused |= REPLACED_KEYS
    return unused


def _checked(given: dict[str, Any], accepted: set[str], name: str) -> dict[str, Any]:
    """The config's own `policy_kwargs`; ConfigError for one that the policy lacks or that Ludus sets."""
    for argument in given:
        where = f"hyperparams.policy_kwargs.{argument}"
        if argument in _SAID_BY_LUDUS:
            raise ConfigError(f"'{argument}' is set by Ludus", key=where, fix=_SAID_BY_LUDUS[argument])
        if argument not in accepted:
            suggestion = nearest(argument, accepted)
            known = f"known: {', '.join(sorted(accepted - _SAID_BY_LUDUS.keys()))}"
            raise ConfigError(
                f"{name} has no argument '{argument}'",
                key=where,
                fix=f"did you mean '{suggestion}'?" if suggestion else known,
            )
    return given


def _is_own(extractor: str, space: spaces.Space[Any]) -> bool:
    """Return True if Ludus must make the extractor: SB3 has its own for flattening, images and most Dicts."""
    meant = auto_extractor(space)
    if extractor in ("auto", meant):
        return meant not in _OF_SB3
    return extractor != "FlattenExtractor" or isinstance(space, spaces.Dict)


def _net_arch(cls: type[BaseAlgorithm], h: SB3Hyperparameters) -> Any:
    """`net_arch` in the form this algorithm takes; a part that is not given has SB3's own layers."""
    policy, value = _default_layers(cls)
    if h.policy_net_arch is not None:
        policy = list(h.policy_net_arch)
    if h.value_net_arch is not None:
        value = list(h.value_net_arch)
    if issubclass(cls, OnPolicyAlgorithm):
        return {"pi": policy, "vf": value}
    if _has_actor(cls):
        return {"pi": policy, "qf": value}
    return policy


def _has_actor(cls: type[BaseAlgorithm]) -> bool:
    return "action_noise" in inspect.signature(cls).parameters


def _default_layers(cls: type[BaseAlgorithm]) -> tuple[list[int], list[int]]:
    if issubclass(cls, TD3):  # and DDPG
        return [400, 300], [400, 300]
    if issubclass(cls, CrossQ):
        return [256, 256], [1024, 1024]
    return ([256, 256], [256, 256]) if _has_actor(cls) else ([64, 64], [64, 64])


def _as_ludus_has_it(observations: ObservationTensor, space: spaces.Space[Any]) -> ObservationTensor:
    """Undo what SB3 does to observations before they reach an extractor: bytes to floats, choices to one-hot."""
    if isinstance(space, spaces.Dict):
        assert isinstance(observations, dict)
        return {
            key: cast(Tensor, _as_ludus_has_it(observations[key], part)) for key, part in space.spaces.items()
        }
    assert isinstance(observations, Tensor)
    if isinstance(space, spaces.Discrete):
        # SB3's rollouts keep a choice as [B, 1], which its one-hot makes [B, 1, n]
        return observations.flatten(1).argmax(dim=-1) + int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        columns = torch.split(observations, [int(n) for n in space.nvec.reshape(-1)], dim=1)
        chosen = torch.stack([column.argmax(dim=1) for column in columns], dim=1)
        return chosen + torch.as_tensor(space.start.reshape(-1), device=chosen.device)
    if space.dtype == "uint8":
        return observations.to(torch.uint8)
    return observations

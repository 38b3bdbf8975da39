"""Hidden layers of the user's own: `policy.network`, a module with the contract of SB3's `mlp_extractor`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from ludus.errors import ConfigError
from ludus.policies.networks import WrongInput, try_out
from ludus.policies.own_models import find_network

WHERE = "policy.network"
REPLACED_KEYS = {
    key: "policy.network takes the place of these layers"
    for key in ("hyperparams.policy_net_arch", "hyperparams.value_net_arch")
}
"""Config keys without an effect next to `policy.network`, with the reason."""
_CONTRACT = "latent_dim_pi, latent_dim_vf, forward_actor(features) and forward_critic(features)"


class LatentPart(nn.Module):
    """One of the two outputs of the user's network, which is registered elsewhere."""

    def __init__(self, network: nn.Module, method: str) -> None:
        super().__init__()
        self._network = [network]  # a list: its parameters are not this module's
        self._method = method

    def forward(self, features: Tensor) -> Tensor:
        return cast(Tensor, getattr(self._network[0], self._method)(features))


def make_layers(name: str, features_dim: int, kwargs: Mapping[str, Any]) -> nn.Module:
    """Return the network called `name`, made as `Class(features_dim, **kwargs)` and tried on a batch of two.

    Raises ConfigError for a class that cannot be found, does not take the arguments or does not keep the contract.
    """
    cls = find_network(
        name, "network", [], where=WHERE, fix="write 'module:Class', or put its file into models/"
    )
    try:
        inspect.signature(cls).bind(features_dim, **kwargs)
    except TypeError as error:
        raise ConfigError(
            f"the network {name} cannot be made: {error}",
            where="policy.network_kwargs",
            fix=f"it is called as {cls.__name__}{inspect.signature(cls)}",
        ) from error
    network = cls(features_dim, **kwargs)
    for method, width in (("forward_actor", "latent_dim_pi"), ("forward_critic", "latent_dim_vf")):
        if not callable(getattr(network, method, None)) or not isinstance(getattr(network, width, None), int):
            raise ConfigError(
                f"the network {name} has no {method}() or no whole number {width}",
                where=WHERE,
                fix=f"it needs {_CONTRACT}",
            )
        _check_output(name, network, method, features_dim)
    return network


def _check_output(name: str, network: nn.Module, method: str, features_dim: int) -> None:
    trial = LatentPart(network, method)
    trial.add_module("network", network)  # so that a layer can be named
    where = f"{type(network).__name__}.{method}"
    try:
        features = try_out(trial, torch.zeros(2, features_dim)).output
    except WrongInput as error:
        raise ConfigError(
            f"the network {name} does not take {features_dim} features: {error}",
            where=where,
            fix="change that layer, or what goes into it",
        ) from error
    expected = (2, latent_dim(network, method))
    found = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
    if found != expected:
        raise ConfigError(
            f"the network {name} returned {found} for a batch of 2; expected {expected}",
            where=where,
            fix="return one row of latent_dim_pi (or latent_dim_vf) numbers per observation",
        )


def latent_dim(network: nn.Module, method: str) -> int:
    """Return the width of what `method` of the network puts out."""
    return cast(int, getattr(network, "latent_dim_pi" if method == "forward_actor" else "latent_dim_vf"))

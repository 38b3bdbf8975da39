"""Networks have the layers their spec names, and the weights their initialisation promises."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ludus.errors import UnknownName
from ludus.policies.networks import activation_class, init_mlp, mlp, mlp_out_dim, orthogonal_init


def test_an_mlp_has_an_activation_after_every_hidden_layer_and_none_after_its_output() -> None:
    net = mlp(3, (5, 4), 2, "ReLU")
    assert [type(layer) for layer in net] == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]
    assert [(layer.in_features, layer.out_features) for layer in net if isinstance(layer, nn.Linear)] == [
        (3, 5),
        (5, 4),
        (4, 2),
    ]


def test_an_mlp_without_layers_is_the_identity() -> None:
    x = torch.randn(2, 3)
    assert torch.equal(mlp(3, (), None, "Tanh")(x), x)
    assert mlp_out_dim(3, ()) == 3
    assert mlp_out_dim(3, (8, 6)) == 6


def test_activations_are_found_in_any_case() -> None:
    assert activation_class("tanh") is nn.Tanh
    assert activation_class("LEAKYRELU") is nn.LeakyReLU


def test_an_unknown_activation_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="unknown activation 'Rellu'") as error:
        mlp(3, (4,), 1, "Rellu")
    assert "did you mean 'ReLU'" in str(error.value)


def test_orthogonal_weights_have_their_gain_and_zero_biases() -> None:
    layer = nn.Linear(6, 4)
    orthogonal_init(layer, gain=3.0)
    torch.testing.assert_close(layer.weight @ layer.weight.T, 9.0 * torch.eye(4))
    assert not layer.bias.any()


def test_the_last_layer_gets_the_head_gain() -> None:
    net = mlp(4, (4,), 2, "Tanh")
    init_mlp(net, head_gain=0.01)
    torch.testing.assert_close(net[0].weight @ net[0].weight.T, 2.0 * torch.eye(4))
    torch.testing.assert_close(net[2].weight @ net[2].weight.T, 1e-4 * torch.eye(2))

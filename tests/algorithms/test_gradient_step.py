"""Gradient steps: their effects other than the new weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ludus.algorithms.gradient_step import StepGate, take_step


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_counts_as_a_change_of_its_parameters(fused: bool) -> None:
    """Samplers keep copies of weights and compute with keys and values of old ones until the count goes up."""
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight], lr=0.1, fused=fused)
    weight.grad = torch.ones(3)
    before = weight._version
    take_step([(optimizer, [weight])], 1.0, StepGate(torch.device("cpu")))
    assert not torch.equal(weight.detach(), torch.ones(3))
    assert weight._version > before

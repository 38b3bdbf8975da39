"""Norms of parameters and moments, against values worked out by hand."""

from __future__ import annotations

import pytest
import torch

from ludus.algorithms.gradient_step import optimizer_norms


def test_norms_are_taken_over_all_optimizers_together() -> None:
    one, two = (torch.nn.Parameter(torch.tensor(values)) for values in ([3.0, 4.0], [12.0]))
    adam, sgd = torch.optim.Adam([one], lr=0.0, betas=(0.9, 0.99)), torch.optim.SGD([two], lr=0.0)
    assert optimizer_norms([adam, sgd]) == {"train/param_norm": 13.0}  # 5 and 12; no step, no moments
    one.grad, two.grad = torch.tensor([10.0, 0.0]), torch.tensor([1.0])
    adam.step()
    sgd.step()
    assert optimizer_norms([adam, sgd]) == {
        "train/param_norm": 13.0,
        "train/moment_norm": pytest.approx(1.0),  # a tenth of the gradient
        "train/second_moment_norm": pytest.approx(1.0),  # the root of a hundredth of its square
    }
    assert optimizer_norms([]) == {}

"""The contract of FastPolicy, which acts for a policy while experience is collected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from ludus.algorithms.backends.cuda_graph import CapturedActor, CapturedActorCritic, CapturedPlay
from ludus.algorithms.backends.numba.actor_critic import ActorCriticKernels
from ludus.algorithms.backends.numba.q_network import QKernels
from ludus.algorithms.backends.numba.soft_policy import SACKernels
from ludus.policies.actor_critic import ActorCritic
from ludus.policies.base import FastActorCritic, FastPolicy, NetworkSpec


@pytest.mark.parametrize(
    "kind", [CapturedActor, QKernels, SACKernels, ActorCriticKernels, CapturedActorCritic]
)
def test_every_fast_policy_keeps_the_contract(kind: type) -> None:
    assert issubclass(kind, FastPolicy)
    assert not kind.__abstractmethods__


def test_a_fast_policy_needs_no_preparation_by_default() -> None:
    class Doubling(FastActorCritic):
        def act(self, obs: Any, masks: Any) -> Any:
            return obs, obs, obs

        def values(self, obs: Any) -> Any:
            return 2 * obs

    doubling = Doubling()
    doubling.begin_rollout(8)
    assert doubling.rollout_inputs() is None


class PlainPlay(CapturedPlay):
    """Acts without a graph, and keeps its inputs as the graph does."""

    def __call__(self, obs: Any, masks: Any = None) -> Any:
        self.inputs = {"obs/": torch.as_tensor(obs).clone()}
        if masks is not None:
            self.inputs["mask"] = torch.as_tensor(masks).clone()
        return tuple(out.numpy() for out in self._function(torch.as_tensor(obs), None))


def test_captured_acting_returns_the_inputs_of_a_whole_rollout_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ludus.algorithms.backends.cuda_graph.CapturedPlay", PlainPlay)
    space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    policy = ActorCritic(space, spaces.Discrete(2), NetworkSpec((4,), (4,)))
    fast = CapturedActorCritic(policy, 2, torch.Generator())
    seen = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    fast.begin_rollout(2)
    fast.act(seen[0], None)
    assert fast.rollout_inputs() is None
    fast.act(seen[1], None)
    inputs = fast.rollout_inputs()
    assert inputs is not None and inputs[1] is None
    np.testing.assert_array_equal(inputs[0], seen.reshape(4, 3))
    fast.act(seen[1], None)
    assert fast.rollout_inputs() is None

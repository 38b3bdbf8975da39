"""Integers, bits, bytes and Dicts of them train on the fused kernels as they do on torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from learning_setup import learner, observations, rollout, transitions

from ludus.algorithms.backends.numba import sparse
from ludus.algorithms.backends.numba.inputs import InputRows
from ludus.errors import UserError
from ludus.policies.extractors import flatten
from ludus.policies.observations import to_tensor
from ludus.rollout.experience import Cuts

PLAIN = spaces.Box(-5.0, 5.0, (2, 2), np.float32)
SPACES: dict[str, spaces.Space[Any]] = {
    "discrete": spaces.Discrete(5, start=-2),
    "wide": spaces.Discrete(300),
    "multi": spaces.MultiDiscrete([[3, 2], [4, 1]], start=[[0, 1], [-1, 5]]),
    "bits": spaces.MultiBinary((2, 3)),
    "bytes": spaces.Box(0, 255, (6,), np.uint8),
    "integers": spaces.Box(-3, 3, (4,), np.int64),
    "dict": spaces.Dict(
        place=spaces.Discrete(7), cards=spaces.MultiDiscrete([3, 5]), flags=spaces.MultiBinary(2), speed=PLAIN
    ),
    "wide dict": spaces.Dict(place=spaces.Discrete(300, start=1), speed=PLAIN),
}
every_space = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
DISCRETE = spaces.Discrete(4)
SMALL = {"policy_net_arch": (8, 6), "value_net_arch": (5,)}


def pair(algorithm: str, space: spaces.Space[Any], action: Any = DISCRETE, **options: Any) -> tuple[Any, Any]:
    """The same learner twice: on torch and on the kernels."""
    torch_one, fused = (
        learner(algorithm, space, action, kernels=kernels, **SMALL, **options) for kernels in (False, True)
    )
    assert fused.kernels is not None and torch_one.kernels is None
    return torch_one, fused


def assert_same(torch_one: Any, fused: Any, rtol: float = 2e-4, atol: float = 2e-5) -> None:
    for found, expected in (
        (dict(fused.policy.state_dict()), dict(torch_one.policy.state_dict())),
        (fused.tensors(), torch_one.tensors()),
    ):
        torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)


def masks_with(actions: Any, n: int) -> Any:
    """Random masks in which what was played is legal."""
    masks = np.random.default_rng(7).random((*actions.shape, n)) < 0.5
    np.put_along_axis(masks, actions[..., None], True, axis=-1)
    return masks


@every_space
def test_rows_are_what_the_extractor_makes(space: spaces.Space[Any]) -> None:
    obs = observations(space, (9,), np.random.default_rng(0))
    expected = flatten(to_tensor(obs, "cpu"), space).numpy()
    inputs = InputRows(space)
    np.testing.assert_array_equal(inputs.rows(obs), expected)
    starts, columns, values = inputs.nonzero_entries(obs)
    for i, row in enumerate(expected):
        found = np.zeros_like(row)
        found[columns[starts[i] : starts[i + 1]]] = values[starts[i] : starts[i + 1]]
        np.testing.assert_array_equal(found, row)


@every_space
@pytest.mark.parametrize("masked", [False, True])
def test_ppo_update_agrees_with_torch(space: spaces.Space[Any], masked: bool) -> None:
    torch_one, fused = pair("PPO", space, batch_size=24, n_epochs=2, ent_coef=0.05, learning_rate=1e-3)
    experience = rollout(torch_one, steps=16, envs=4, drift=0.3)
    if masked:
        masks = masks_with(experience.actions, 4)
        experience = rollout(torch_one, steps=16, envs=4, drift=0.3, masks=masks)
    expected, found = torch_one.update(experience, 0.25), fused.update(experience, 0.25)
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert_same(torch_one, fused)


@pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])
@pytest.mark.parametrize(
    "action",
    [spaces.MultiDiscrete([3, 2]), spaces.Box(-1.0, 1.0, (2,), np.float32)],
    ids=["multi", "box"],
)
def test_wide_integers_with_other_actions_agree_with_torch(action: Any, shared: bool) -> None:
    policy = {"share_net": shared}
    torch_one, fused = pair("PPO", SPACES["wide dict"], action, batch_size=24, n_epochs=2, policy=policy)
    experience = rollout(torch_one, steps=16, envs=4, drift=0.3)
    expected, found = torch_one.update(experience, 0.0), fused.update(experience, 0.0)
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert_same(torch_one, fused)


@pytest.mark.parametrize("batch_size", [64, 4096], ids=["few numbers", "many numbers"])
def test_one_hot_inputs_are_looked_up(batch_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    update = sparse.update
    monkeypatch.setattr(sparse, "update", lambda *given: used.append(1) or update(*given))
    torch_one, fused = pair("PPO", SPACES["wide"], batch_size=batch_size, n_epochs=1)
    used.clear()  # compiling calls it too
    experience = rollout(torch_one, steps=128, envs=4)
    torch_one.update(experience, 0.0)
    fused.update(experience, 0.0)
    assert used
    assert_same(torch_one, fused)


@pytest.mark.parametrize("name", ["discrete", "wide", "dict"])
def test_a2c_update_agrees_with_torch(name: str) -> None:
    torch_one, fused = pair("A2C", SPACES[name], ent_coef=0.02)
    for seed in range(3):
        experience = rollout(torch_one, seed, steps=5, envs=4)
        expected, found = torch_one.update(experience, 0.1), fused.update(experience, 0.1)
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert_same(torch_one, fused, rtol=2e-3, atol=1e-4)


@every_space
def test_acting_and_valuing_agree_with_torch(space: spaces.Space[Any]) -> None:
    fused = learner("PPO", space, DISCRETE, kernels=True, **SMALL)
    experience = rollout(fused, steps=1, envs=12)
    cuts = Cuts(
        np.zeros(12, dtype=np.int64), np.arange(12), observations(space, (12,), np.random.default_rng(3))
    )
    obs = (
        {k: v[0] for k, v in experience.obs.items()}
        if isinstance(experience.obs, dict)
        else experience.obs[0]
    )
    masks = masks_with(experience.actions[0], 4)
    actions, log_probs, values = fused.kernels.act(obs, masks)
    assert masks[np.arange(12), actions].all()
    with torch.no_grad():
        expected, _, expected_values = fused.policy.evaluate(
            to_tensor(obs, "cpu"), torch.as_tensor(actions), torch.as_tensor(masks)
        )
    np.testing.assert_allclose(log_probs, expected, rtol=1e-4, atol=1e-5)
    for found in (values, fused.kernels.values(obs), fused.kernels.evaluate(obs, actions, masks)[1]):
        np.testing.assert_allclose(found, expected_values, rtol=1e-4, atol=1e-5)
    samples = fused.credit(replace(experience, cuts=cuts), 0.0).samples  # what an older policy played
    np.testing.assert_allclose(samples.values, expected_values, rtol=1e-4, atol=1e-5)


@every_space
@pytest.mark.parametrize("normalized", [False, True])
def test_dqn_gradient_steps_agree_with_torch(space: spaces.Space[Any], normalized: bool) -> None:
    both = pair("DQN", space, batch_size=16, learning_rate=1e-3, normalize_obs=normalized)
    for made in both:
        with torch.no_grad():  # a target unlike the online network
            for parameter in made.target.parameters():
                parameter.mul_(0.5)
        added = transitions(made, count=64)
        if made.policy.obs_normalizer is not None:
            made.policy.obs_normalizer.update(added.obs)
        made.replay.add(replace(added, next_masks=masks_with(added.actions, 4)))
        made._rng = np.random.default_rng(5)
        for _ in range(3):
            made.metrics = made.backend.take_steps(1, 0.2)
    assert both[1].metrics == pytest.approx(both[0].metrics, rel=1e-3, abs=1e-5)
    assert_same(*both)
    obs = added.obs if not normalized else both[1].policy.obs_normalizer.normalize(added.obs)
    both[1].policy.epsilon = 0.0
    expected = both[1].policy.act(to_tensor(obs, "cpu"), deterministic=True)
    np.testing.assert_array_equal(both[1].kernels.act(obs, None), expected)


@pytest.mark.parametrize("name", ["discrete", "dict"])
def test_sac_gradient_steps_agree_with_torch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    action = spaces.Box(-1.0, 1.0, (2,), np.float32)
    both = pair("SAC", SPACES[name], action, batch_size=32, normalize_obs=name == "dict")
    noise = np.random.default_rng(11).normal(size=(2, 32, 2)).astype(np.float32)
    draws = iter([*noise] * 3)
    fixed = type("Fixed", (), {"standard_normal": staticmethod(lambda *a, **k: noise)})()
    monkeypatch.setattr(both[1].kernels, "_rng", fixed)
    for made in both:
        added = transitions(made, count=64)
        if made.policy.obs_normalizer is not None:
            made.policy.obs_normalizer.update(added.obs)
        made.replay.add(added)
        made._rng = np.random.default_rng(5)
        with monkeypatch.context() as patch:
            if made is both[0]:  # the same noise on both sides
                patch.setattr(torch, "randn", lambda *args, **kwargs: torch.from_numpy(next(draws)))
            for _ in range(3):
                made.metrics = made.backend.take_steps(1, 0.2)
    assert both[1].metrics == pytest.approx(both[0].metrics, rel=2e-3, abs=2e-5)
    assert_same(*both)


def test_an_integer_outside_the_space_is_a_user_error() -> None:
    fused = learner("PPO", SPACES["discrete"], DISCRETE, kernels=True)
    with pytest.raises(UserError, match="outside its space"):
        fused.kernels.act(np.array([0, 3]), None)

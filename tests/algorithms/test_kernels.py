"""The fused kernels compute what the torch learners compute, and work on the same memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest
import torch
from gymnasium import spaces
from learning_setup import OBS, learner, rollout, transitions

from ludus.algorithms.advantages import gae, vtrace
from ludus.algorithms.backends.numba.rollouts import gae as fast_gae
from ludus.algorithms.backends.numba.rollouts import vtrace as fast_vtrace
from ludus.envs import finite
from ludus.kernel_cache import announce_compiling
from ludus.policies.observations import RewardNormalizer
from ludus.rollout.experience import Cuts

DISCRETE = spaces.Discrete(4)
MULTI = spaces.MultiDiscrete([3, 2, 4])
BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)


def legal(space: spaces.Space[Any], shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Random masks that leave every action of the rollout legal with the first of each part always allowed."""
    size = int(space.n) if isinstance(space, spaces.Discrete) else int(np.sum(space.nvec))
    masks = rng.random((*shape, size)) < 0.7
    starts = [0] if isinstance(space, spaces.Discrete) else np.cumsum([0, *space.nvec[:-1]])
    masks[..., starts] = True
    return masks


def pair(algorithm: str, space: spaces.Space[Any], threads: int = 1, **options: Any) -> tuple[Any, Any]:
    """The same learner twice: on torch and on the kernels."""
    torch_one = learner(algorithm, OBS, space, **options)
    fused = learner(algorithm, OBS, space, kernels=True, threads=threads, **options)
    assert fused.kernels is not None and torch_one.kernels is None
    for a, b in zip(torch_one.policy.parameters(), fused.policy.parameters(), strict=True):
        assert torch.equal(a, b)
    return torch_one, fused


def masked_rollout(made: Any, space: spaces.Space[Any], masked: bool, **options: Any) -> Any:
    experience = rollout(made, steps=16, envs=4, drift=0.3, **options)
    if masked:
        rng = np.random.default_rng(7)
        masks = legal(space, (16, 4), rng)
        parts = np.atleast_1d(experience.actions.T).T.reshape(16, 4, -1)
        offset = 0
        for part, size in enumerate([int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec):
            for t in range(16):
                for i in range(4):
                    masks[t, i, offset + parts[t, i, part]] = True  # what was played was legal
            offset += size
        experience = rollout(made, steps=16, envs=4, drift=0.3, masks=masks, **options)
    return experience


def assert_same(torch_one: Any, fused: Any, rtol: float = 2e-4, atol: float = 2e-5) -> None:
    torch.testing.assert_close(
        dict(fused.policy.state_dict()), dict(torch_one.policy.state_dict()), rtol=rtol, atol=atol
    )
    torch.testing.assert_close(fused.tensors(), torch_one.tensors(), rtol=rtol, atol=atol)


@pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])
@pytest.mark.parametrize("activation", ["Tanh", "ReLU", "ELU"])
@pytest.mark.parametrize(
    ("space", "masked"),
    [(DISCRETE, False), (DISCRETE, True), (MULTI, False), (MULTI, True), (BOX, False)],
    ids=["discrete", "discrete-masked", "multi", "multi-masked", "box"],
)
def test_ppo_update_agrees_with_torch(
    space: spaces.Space[Any], masked: bool, activation: str, shared: bool
) -> None:
    torch_one, fused = pair(
        "PPO",
        space,
        policy={"activation": activation, "share_net": shared},
        policy_net_arch=(8, 6),
        value_net_arch=(8, 6) if shared else (5,),
        batch_size=24,  # the last minibatch is smaller
        n_epochs=2,
        ent_coef=0.05,
        learning_rate=1e-3,
    )
    experience = masked_rollout(torch_one, space, masked)
    expected, found = torch_one.update(experience, 0.25), fused.update(experience, 0.25)
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert_same(torch_one, fused)


@pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])
@pytest.mark.parametrize(
    ("space", "masked"),
    [(DISCRETE, False), (DISCRETE, True), (MULTI, False), (MULTI, True), (BOX, False)],
    ids=["discrete", "discrete-masked", "multi", "multi-masked", "box"],
)
def test_experience_of_an_older_policy_is_revalued_as_torch_does(
    space: spaces.Space[Any], masked: bool, shared: bool
) -> None:
    torch_one, fused = pair("PPO", space, policy={"share_net": shared})
    last = np.random.default_rng(3).normal(size=(4, 3)).astype(np.float32)
    cuts = Cuts(np.full(4, 15), np.arange(4), last)
    experience = replace(masked_rollout(torch_one, space, masked), cuts=cuts)
    expected, found = (one.credit(experience, 0.0).samples for one in (torch_one, fused))
    assert not np.allclose(found.log_probs, experience.log_probs.reshape(-1), atol=1e-2)
    for name in ("log_probs", "values", "advantages", "returns"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("arch", [(), (7,), (16, 8, 4)], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {"clip_range_vf": 0.1},
        {"normalize_advantage": False},
        {"max_grad_norm": None},
        {"max_grad_norm": 0.05},
        {"target_kl": 0.01, "n_epochs": 20, "learning_rate": 0.02},
        {"vf_coef": {"linear": [1.0, 0.0]}, "clip_range": {"linear": [0.3, 0.1]}},
    ],
    ids=str,
)
def test_ppo_options_agree_with_torch(arch: tuple[int, ...], options: dict[str, Any]) -> None:
    base = {"policy_net_arch": arch, "value_net_arch": arch, "batch_size": 32, "n_epochs": 2}
    torch_one, fused = pair("PPO", DISCRETE, **(base | options))
    stops_early = "target_kl" in options
    experience = rollout(torch_one, steps=16, envs=4, drift=0.0 if stops_early else 0.3)
    expected, found = torch_one.update(experience, 0.5), fused.update(experience, 0.5)
    if stops_early:
        assert 1 < found["train/n_epochs"] == expected["train/n_epochs"] < 20
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert_same(torch_one, fused)


@pytest.mark.parametrize("space", [DISCRETE, MULTI, BOX], ids=["discrete", "multi", "box"])
@pytest.mark.parametrize("options", [{}, {"use_rms_prop": False}, {"normalize_advantage": True}], ids=str)
def test_a2c_update_agrees_with_torch(space: spaces.Space[Any], options: dict[str, Any]) -> None:
    torch_one, fused = pair("A2C", space, ent_coef=0.02, **options)
    for seed in range(3):
        experience = rollout(torch_one, seed, steps=5, envs=4)
        expected, found = torch_one.update(experience, 0.1), fused.update(experience, 0.1)
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-5)
    # RMSprop divides by the root of a few squares: what rounds differently in a tiny gradient shows
    assert_same(torch_one, fused, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("normalized", [False, True])
def test_dqn_gradient_steps_agree_with_torch(double: bool, masked: bool, normalized: bool) -> None:
    def normalizer() -> RewardNormalizer | None:
        if not normalized:
            return None
        made = RewardNormalizer(2)
        made.update(np.array([3.0, -4.0]), np.array([False, False]))
        return made

    options = {"double": double, "batch_size": 16, "learning_rate": 1e-3, "normalize_obs": normalized}
    torch_one = learner("DQN", OBS, DISCRETE, reward_normalizer=normalizer(), **options)
    fused = learner("DQN", OBS, DISCRETE, reward_normalizer=normalizer(), kernels=True, **options)
    masks = {}
    if masked:
        masks = {"next_masks": legal(DISCRETE, (64,), np.random.default_rng(3))}
    for made in (torch_one, fused):
        with torch.no_grad():  # a target unlike the online network
            for parameter in made.target.parameters():
                parameter.mul_(0.5)
        if made.policy.obs_normalizer is not None:
            made.policy.obs_normalizer.update(np.random.default_rng(1).normal(2.0, 3.0, (50, 3)))
        made.replay.add(transitions(made, count=64, **masks))
        for _ in range(4):  # the same indices on both sides, whatever they draw otherwise
            made._rng = np.random.default_rng(5)
            metrics = made.backend.take_steps(1, 0.2)
        made.metrics = metrics
    assert fused.metrics == pytest.approx(torch_one.metrics, rel=1e-3, abs=1e-5)
    assert_same(torch_one, fused)


@pytest.mark.parametrize("options", [{}, {"ent_coef": 0.2}, {"max_grad_norm": 0.01}], ids=str)
@pytest.mark.parametrize("normalized", [False, True])
def test_sac_gradient_steps_agree_with_torch(options: dict[str, Any], normalized: bool) -> None:
    given = {
        "batch_size": 32,
        "policy_net_arch": (8, 6),
        "value_net_arch": (10,),
        "normalize_obs": normalized,
    }
    torch_one = learner("SAC", OBS, BOX, **given, **options)
    fused = learner("SAC", OBS, BOX, kernels=True, threads=2, **given, **options)
    assert fused.kernels is not None
    noise = np.random.default_rng(11).normal(size=(2, 32, 2)).astype(np.float32)
    for made in (torch_one, fused):
        with torch.no_grad():  # targets unlike the critics
            for parameter in made.target.parameters():
                parameter.mul_(0.5)
        if made.policy.obs_normalizer is not None:
            made.policy.obs_normalizer.update(np.random.default_rng(1).normal(2.0, 3.0, (50, 3)))
        made.replay.add(transitions(made, count=64))
        draws = iter([*noise, *noise, *noise])
        if made is torch_one:  # the same noise on both sides
            real = torch.randn
            torch.randn = lambda *args, draws=draws, **kwargs: torch.from_numpy(next(draws))  # type: ignore[assignment]
        else:
            made.kernels._rng = type("Fixed", (), {"standard_normal": staticmethod(lambda *a, **k: noise)})()
        try:
            for _ in range(3):
                made._rng = np.random.default_rng(5)
                made.metrics = made.backend.take_steps(1, 0.2)
        finally:
            if made is torch_one:
                torch.randn = real
    assert fused.metrics == pytest.approx(torch_one.metrics, rel=2e-3, abs=2e-5)
    assert_same(torch_one, fused)


def test_two_cores_give_the_bytes_that_one_gives() -> None:
    one = learner("PPO", OBS, DISCRETE, kernels=True, batch_size=32, n_epochs=6)
    two = learner("PPO", OBS, DISCRETE, kernels=True, threads=2, batch_size=32, n_epochs=6)
    for seed in range(3):
        experience = rollout(one, seed, steps=32, envs=4, drift=0.1)
        one.update(experience, 0.0)
        two.update(experience, 0.0)
    for a, b in zip(one.policy.parameters(), two.policy.parameters(), strict=True):
        assert torch.equal(a, b)
    for name, tensor in one.tensors().items():
        assert torch.equal(tensor, two.tensors()[name]), name


def test_credit_agrees_with_the_reference() -> None:
    rng = np.random.default_rng(0)
    shape = (50, 6)
    rewards, values, next_values = (rng.normal(size=shape).astype(np.float32) for _ in range(3))
    terminated = rng.random(shape) < 0.1
    ends = terminated | (rng.random(shape) < 0.1)
    next_values[terminated] = np.nan  # what does not count may be anything
    ratios = np.exp(rng.normal(size=shape)).astype(np.float32)
    ratios[20, 3] = np.nan  # what counts and is not finite is seen
    played = rewards, values, next_values, terminated, ends
    expected = *gae(*played, 0.97, 0.9), *vtrace(*played, ratios, 0.97, 0.9)
    found = *fast_gae(*played, 0.97, 0.9), *fast_vtrace(*played, ratios, 0.97, 0.9)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    assert np.isnan(found[2][20, 3])


@pytest.mark.parametrize("space", [DISCRETE, MULTI, BOX], ids=["discrete", "multi", "box"])
def test_acting_reports_the_log_probabilities_and_values_of_the_policy(space: spaces.Space[Any]) -> None:
    fused = learner("PPO", OBS, space, kernels=True)
    obs = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    actions, log_probs, values = fused.kernels.act(obs, None)
    expected, _, expected_values = fused.policy.evaluate(torch.as_tensor(obs), torch.as_tensor(actions))
    np.testing.assert_allclose(log_probs, expected.detach(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(values, expected_values.detach(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fused.kernels.values(obs), expected_values.detach(), rtol=1e-4, atol=1e-5)


def test_actions_are_drawn_with_the_probabilities_of_the_policy() -> None:
    fused = learner("PPO", OBS, DISCRETE, kernels=True)
    with torch.no_grad():
        fused.policy.action_head.linear.bias.copy_(torch.tensor([0.0, 1.0, 2.0, -1.0]))
    obs = np.zeros((20_000, 3), dtype=np.float32)
    masks = np.ones((len(obs), 4), dtype=bool)
    masks[:, 1] = False
    logits = fused.policy.distribution(torch.zeros(1, 3), torch.as_tensor(masks[:1]))
    expected = np.exp([logits.log_prob(torch.tensor([k])).item() for k in range(4)])
    actions, _, _ = fused.kernels.act(obs, masks)
    np.testing.assert_allclose(np.bincount(actions, minlength=4) / len(obs), expected, atol=0.015)
    assert not (actions == 1).any()


def test_epsilon_greedy_plays_the_best_legal_action_and_explores_legally() -> None:
    fused = learner("DQN", OBS, DISCRETE, kernels=True)
    obs = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
    masks = legal(DISCRETE, (500,), np.random.default_rng(1))
    fused.policy.epsilon = 0.0
    expected = fused.policy.act(torch.as_tensor(obs), torch.as_tensor(masks), deterministic=True)
    np.testing.assert_array_equal(fused.kernels.act(obs, masks), expected)
    fused.policy.epsilon = 1.0
    explored = fused.kernels.act(obs, masks)
    assert masks[np.arange(500), explored].all()
    nothing = np.zeros((500, 4), dtype=bool)
    assert set(fused.kernels.act(obs, nothing)) == {0, 1, 2, 3}  # as if there were no mask
    free = np.bincount(fused.kernels.act(np.repeat(obs, 20, axis=0), None), minlength=4) / 10_000
    np.testing.assert_allclose(free, 0.25, atol=0.02)


@pytest.mark.parametrize("algorithm", ["PPO", "A2C", "DQN", "SAC"])
def test_a_restored_learner_continues_with_the_same_bytes(algorithm: str) -> None:
    def play(made: Any, seeds: range) -> None:
        for seed in seeds:
            if algorithm in {"DQN", "SAC"}:
                made.update(transitions(made, seed, count=16), 0.1)
            else:
                made.update(rollout(made, seed, steps=16, envs=2), 0.1)

    replay = {"learning_starts": 0, "batch_size": 8}
    options = {"DQN": replay, "SAC": replay, "PPO": {"batch_size": 16}}.get(algorithm, {})
    original = learner(algorithm, kernels=True, **options)
    play(original, range(3))
    saved = {k: v.clone() for k, v in original.tensors().items()}
    weights = {k: v.clone() for k, v in original.policy.state_dict().items()}
    plain, tensors = original.context.streams.state_dict()
    restored = learner(algorithm, kernels=True, weights=9, **options)
    restored.policy.load_state_dict(weights)
    restored.load(saved, original.values())
    restored.context.streams.load_state_dict(plain, tensors)
    play(original, range(3, 6))
    play(restored, range(3, 6))
    for name, tensor in original.policy.state_dict().items():
        assert torch.equal(tensor, restored.policy.state_dict()[name]), name
    for name, tensor in original.tensors().items():
        assert torch.equal(tensor, restored.tensors()[name]), name


def test_a_gradient_that_is_not_finite_stops_before_the_optimizer() -> None:
    fused = learner("PPO", OBS, DISCRETE, kernels=True, batch_size=16)
    experience = rollout(fused, steps=8, envs=2)
    before = {k: v.clone() for k, v in fused.policy.state_dict().items()}
    experience.rewards[3, 1] = np.nan
    with pytest.raises(Exception, match="not finite"):
        fused.update(experience, 0.0)
    for name, tensor in fused.policy.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_what_the_kernels_do_not_cover_is_left_to_torch_and_named() -> None:
    image = spaces.Box(0, 255, (8, 8, 3), np.uint8)
    for observation, action, policy, reason in [
        (image, DISCRETE, {}, "images"),
        (spaces.Dict(image=image), DISCRETE, {}, "images"),
        (OBS, spaces.MultiBinary(3), {}, "MultiBinary actions"),
        (OBS, DISCRETE, {"activation": "GELU"}, "GELU"),
        (OBS, DISCRETE, {"features_extractor": "ResnetMLP", "features_dim": 8}, "ResnetMLP"),
    ]:
        made = learner("PPO", observation, action, kernels=True, policy=policy)
        assert made.kernels is None and reason in made.engine_note
    dueling = learner("DQN", OBS, DISCRETE, kernels=True, dueling=True)
    assert dueling.kernels is None and "dueling" in dueling.engine_note


def test_compiling_is_announced_and_loading_is_not(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ludus.kernel_cache._MESSAGE_SECONDS", 0.0)
    announce_compiling()
    announce_compiling()
    with caplog.at_level("INFO", "ludus"):
        assert finite.all_finite(np.zeros(3))  # compiled long ago, or by this call before it is announced
        caplog.clear()
        assert finite.all_finite(np.zeros(3))
        assert caplog.messages == []
        kernel: Any = numba.njit(lambda x: x + 1)
        kernel.py_func.__module__ = "ludus.made_up"
        assert kernel(1) == 2
    assert [message.partition(":")[0] for message in caplog.messages] == ["compiling kernels"]

"""Distributions agree with torch.distributions, draw from their generator alone, and never break a mask."""

from __future__ import annotations

from math import log

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import distributions as reference

from ludus.errors import ConfigError
from ludus.policies.distributions import (
    ActionHead,
    Bernoulli,
    Categorical,
    DiagGaussian,
    Distribution,
    MultiCategorical,
    SquashedGaussian,
)

DRAWS = 10_000


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def close(actual: torch.Tensor, expected: torch.Tensor, atol: float = 1e-6) -> None:
    torch.testing.assert_close(actual, expected, atol=atol, rtol=1e-6)


def test_categorical_agrees_with_torch() -> None:
    logits = torch.randn(64, 7, generator=generator())
    actions = torch.randint(0, 7, (64,), generator=generator())
    ours, theirs = Categorical(logits), reference.Categorical(logits=logits)
    close(ours.log_prob(actions), theirs.log_prob(actions))
    close(ours.entropy(), theirs.entropy())
    assert torch.equal(ours.mode(), logits.argmax(-1))


def test_a_masked_categorical_is_the_categorical_of_its_legal_actions() -> None:
    masked = Categorical(torch.tensor([[1.0, 50.0, 2.0]]), torch.tensor([[True, False, True]]))
    legal = reference.Categorical(logits=torch.tensor([[1.0, 2.0]]))
    close(masked.entropy(), legal.entropy())
    close(masked.log_prob(torch.tensor([2])), legal.log_prob(torch.tensor([1])))
    assert masked.mode().item() == 2
    assert masked.log_prob(torch.tensor([1])).item() < -1e30


def test_entropy_of_equal_legal_actions_is_the_log_of_their_number() -> None:
    mask = torch.tensor([[True, True, False, True], [False, False, True, False]])
    entropy = Categorical(torch.zeros(2, 4), mask).entropy()
    close(entropy, torch.tensor([log(3.0), 0.0]))


def test_a_masked_logit_gets_no_gradient_and_no_nan() -> None:
    logits = torch.tensor([[0.3, -0.2, 0.9]], requires_grad=True)
    policy = Categorical(logits, torch.tensor([[True, False, True]]))
    (policy.entropy() + policy.log_prob(torch.tensor([0]))).sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0, 1] == 0
    assert logits.grad[0, 0] != 0


def test_a_row_without_legal_actions_is_uniform_and_finite() -> None:
    policy = Categorical(torch.tensor([[5.0, 0.0]]), torch.tensor([[False, False]]))
    close(policy.entropy(), torch.tensor([log(2.0)]))


def test_a_masked_action_is_never_drawn() -> None:
    logits = torch.tensor([0.0, 30.0, -30.0, 0.0]).expand(DRAWS, 4)
    mask = torch.tensor([True, False, True, False]).expand(DRAWS, 4)
    assert set(Categorical(logits, mask).sample(generator()).tolist()) == {0}
    rare = Categorical(torch.zeros(DRAWS, 4), mask).sample(generator())
    assert set(rare.tolist()) == {0, 2}


def test_categorical_draws_with_the_right_frequencies() -> None:
    chances = torch.tensor([0.1, 0.2, 0.7])
    drawn = Categorical(chances.log().expand(100_000, 3)).sample(generator())
    frequencies = torch.bincount(drawn, minlength=3) / 100_000
    torch.testing.assert_close(frequencies, chances, atol=0.006, rtol=0)


def test_multi_categorical_is_the_product_of_its_parts() -> None:
    logits = torch.randn(16, 5, generator=generator())
    actions = torch.tensor([[1, 2], [0, 0]]).repeat(8, 1)
    ours = MultiCategorical(logits, [2, 3])
    first, second = reference.Categorical(logits=logits[:, :2]), reference.Categorical(logits=logits[:, 2:])
    close(ours.log_prob(actions), first.log_prob(actions[:, 0]) + second.log_prob(actions[:, 1]))
    close(ours.entropy(), first.entropy() + second.entropy())
    assert torch.equal(ours.mode(), torch.stack([logits[:, :2].argmax(-1), logits[:, 2:].argmax(-1)], -1))


def test_multi_categorical_masks_each_choice() -> None:
    mask = torch.tensor([False, True, True, False, True]).expand(DRAWS, 5)
    policy = MultiCategorical(torch.zeros(DRAWS, 5), [2, 3], mask)
    drawn = policy.sample(generator())
    assert set(map(tuple, drawn.tolist())) == {(1, 0), (1, 2)}
    close(policy.entropy()[0], torch.tensor(log(2.0)))


def test_bernoulli_agrees_with_torch() -> None:
    logits = 3 * torch.randn(64, 4, generator=generator())
    ours, theirs = Bernoulli(logits), reference.Bernoulli(logits=logits)
    actions = (torch.rand(64, 4, generator=generator()) < 0.5).float()
    close(ours.log_prob(actions), theirs.log_prob(actions).sum(-1))
    close(ours.entropy(), theirs.entropy().sum(-1))
    assert torch.equal(ours.mode(), (logits > 0).float())


def test_bernoulli_draws_with_the_right_frequencies() -> None:
    chances = torch.tensor([0.25, 0.9])
    drawn = Bernoulli(torch.logit(chances).expand(100_000, 2)).sample(generator())
    torch.testing.assert_close(drawn.mean(0), chances, atol=0.006, rtol=0)


def test_diag_gaussian_agrees_with_torch() -> None:
    mean = torch.randn(64, 3, generator=generator())
    log_std = torch.tensor([-1.0, 0.0, 0.5])
    actions = torch.randn(64, 3, generator=generator(1))
    ours, theirs = DiagGaussian(mean, log_std), reference.Normal(mean, log_std.exp())
    torch.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions).sum(-1))
    close(ours.entropy(), theirs.entropy().sum(-1))
    assert torch.equal(ours.mode(), mean)


def test_diag_gaussian_draws_have_its_mean_and_deviation() -> None:
    drawn = DiagGaussian(torch.tensor([2.0]).expand(100_000, 1), torch.tensor([log(0.5)])).sample(generator())
    assert drawn.mean().item() == pytest.approx(2.0, abs=0.01)
    assert drawn.std().item() == pytest.approx(0.5, abs=0.01)


def test_squashed_gaussian_agrees_with_torch() -> None:
    mean, log_std = torch.randn(64, 2, generator=generator(), dtype=torch.float64), torch.tensor([-1.0, 0.2])
    theirs = reference.TransformedDistribution(
        reference.Normal(mean, log_std.exp().double()), [reference.TanhTransform(cache_size=1)]
    )
    ours = SquashedGaussian(mean, log_std.double())
    actions, log_prob = ours.rsample_with_log_prob(generator())
    close(log_prob, theirs.log_prob(actions).sum(-1))
    close(ours.log_prob(actions), log_prob)
    close(ours.mode(), torch.tanh(mean))


def test_squashed_gaussian_stays_exact_where_tanh_saturates() -> None:
    mean = torch.full((1, 1), 30.0, requires_grad=True)
    actions, log_prob = SquashedGaussian(mean, torch.full((1, 1), -20.0)).rsample_with_log_prob(generator())
    assert actions.item() == 1.0
    # Density of the normal at noise e, minus log(1 - tanh(30)^2) = log 4 - 60 up to exp(-60).
    noise = torch.randn(1, 1, generator=generator()).item()
    assert log_prob.item() == pytest.approx(-0.5 * noise**2 + 20.0 - 0.918938533 - log(4.0) + 60.0, rel=1e-5)
    log_prob.sum().backward()
    assert mean.grad is not None
    assert mean.grad.item() == pytest.approx(2.0)


def test_squashed_samples_carry_gradient_and_plain_samples_do_not() -> None:
    mean = torch.zeros(4, 2, requires_grad=True)
    policy = SquashedGaussian(mean, torch.zeros(4, 2))
    policy.rsample_with_log_prob(generator())[0].sum().backward()
    assert mean.grad is not None
    assert (mean.grad > 0).all()
    assert not policy.sample(generator()).requires_grad
    with pytest.raises(NotImplementedError, match="no closed-form entropy"):
        policy.entropy()


@pytest.mark.parametrize(
    "policy",
    [
        Categorical(torch.zeros(50, 4)),
        MultiCategorical(torch.zeros(50, 5), [2, 3]),
        Bernoulli(torch.zeros(50, 3)),
        DiagGaussian(torch.zeros(50, 3), torch.zeros(3)),
        SquashedGaussian(torch.zeros(50, 3), torch.zeros(3)),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_draws_depend_on_their_generator_alone(policy: Distribution) -> None:
    before = torch.random.get_rng_state()
    first = policy.sample(generator(3))
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(1)
    assert torch.equal(policy.sample(generator(3)), first)
    assert not torch.equal(policy.sample(generator(4)), first)


# --- the head ---------------------------------------------------------------------------------------------


def test_a_discrete_head_counts_from_zero_and_the_env_from_its_start() -> None:
    head = ActionHead(gym.spaces.Discrete(3, start=5), 4)
    drawn = head(torch.zeros(100, 4)).sample(generator())
    assert set(drawn.tolist()) == {0, 1, 2}
    assert (head.action_shape, head.action_dtype) == ((), torch.int64)
    for_env = head.to_env(np.array([0, 2]))
    assert for_env.tolist() == [5, 7]
    assert for_env.dtype == np.int64


def test_a_multi_discrete_head_adds_each_start_and_keeps_the_shape() -> None:
    space = gym.spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[10, 20], [30, 40]])
    head = ActionHead(space, 4)
    drawn = head(torch.zeros(6, 4), torch.ones(6, 14, dtype=torch.bool)).sample(generator())
    assert drawn.shape == (6, *head.action_shape) == (6, 4)
    assert head.to_env(np.array([[1, 2, 3, 4]])).tolist() == [[[11, 22], [33, 44]]]
    assert all(action in space for action in head.to_env(drawn.numpy()))


def test_a_binary_head_gives_the_env_bits() -> None:
    space = gym.spaces.MultiBinary(3)
    head = ActionHead(space, 4)
    drawn = head(torch.zeros(5, 4)).sample(generator())
    assert drawn.dtype == head.action_dtype == torch.float32
    assert all(action in space for action in head.to_env(drawn.numpy()))


def test_a_box_head_is_unbounded_inside_and_clipped_for_the_env() -> None:
    space = gym.spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 0.5], np.float32))
    head = ActionHead(space, 4, log_std_init=-0.7)
    assert head.log_std.tolist() == pytest.approx([-0.7, -0.7])
    assert isinstance(head(torch.zeros(1, 4)), DiagGaussian)
    for_env = head.to_env(np.array([[-3.0, 0.2], [0.5, 9.0]], np.float32))
    np.testing.assert_array_equal(for_env, np.array([[-1.0, 0.2], [0.5, 0.5]], np.float32))
    assert for_env.dtype == np.float32


def test_an_integer_box_is_rounded_not_truncated() -> None:
    head = ActionHead(gym.spaces.Box(0, 9, (1,), np.int64), 4)
    assert head.to_env(np.array([[2.7], [-4.0]], np.float32)).tolist() == [[3], [0]]


def test_a_space_no_policy_can_act_in_is_named() -> None:
    with pytest.raises(ConfigError, match="Text"):
        ActionHead(gym.spaces.Text(5), 4)


def test_a_mask_for_continuous_actions_is_an_error() -> None:
    head = ActionHead(gym.spaces.Box(-1, 1, (2,)), 4)
    with pytest.raises(ConfigError, match="cannot be masked"):
        head(torch.zeros(1, 4), torch.ones(1, 2, dtype=torch.bool))


def test_the_first_policy_is_nearly_uniform() -> None:
    entropy = ActionHead(gym.spaces.Discrete(4), 8)(torch.ones(1, 8)).entropy()
    assert entropy.item() == pytest.approx(log(4.0), abs=1e-2)

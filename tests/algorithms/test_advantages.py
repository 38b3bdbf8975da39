"""Advantages by hand, against the definition summed out term by term, and at every kind of episode end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ludus.algorithms.advantages import gae

GAMMA, LAMBDA = 0.5, 0.5


def column(*values: float) -> Any:
    return np.array(values, dtype=np.float32)[:, None]


def flags(*values: int) -> Any:
    return np.array(values, dtype=bool)[:, None]


def advantages_of(terminated: Any, ends: Any) -> list[float]:
    advantages, returns = gae(
        rewards=column(1, 2, 3),
        values=column(4, 8, 16),
        next_values=column(8, 16, 32),
        terminated=terminated,
        ends=ends,
        gamma=GAMMA,
        gae_lambda=LAMBDA,
    )
    assert advantages.dtype == returns.dtype == np.float32
    np.testing.assert_array_equal(returns, advantages + column(4, 8, 16))
    return advantages[:, 0].tolist()


def test_an_open_episode_by_hand() -> None:
    # deltas: 1 + 4 - 4 = 1;  2 + 8 - 8 = 2;  3 + 16 - 16 = 3; each later one counts a quarter of the one before
    assert advantages_of(flags(0, 0, 0), flags(0, 0, 0)) == [1 + 0.25 * 2.75, 2 + 0.25 * 3, 3]


def test_termination_is_not_bootstrapped_and_nothing_flows_over_it() -> None:
    # the middle step: 2 + 0 - 8 = -6
    assert advantages_of(flags(0, 1, 0), flags(0, 1, 0)) == [1 + 0.25 * -6, -6, 3]


def test_truncation_is_bootstrapped_with_its_own_successor_and_nothing_flows_over_it() -> None:
    # the middle step keeps 2 + 0.5 * 16 - 8 = 2, but hears nothing of the third
    assert advantages_of(flags(0, 0, 0), flags(0, 1, 0)) == [1 + 0.25 * 2, 2, 3]


def test_what_lies_beyond_an_end_may_be_anything() -> None:
    advantages, _ = gae(
        rewards=column(1, 2, np.nan),
        values=column(4, 8, np.nan),
        next_values=column(8, np.nan, np.nan),
        terminated=flags(0, 1, 0),
        ends=flags(0, 1, 0),
        gamma=GAMMA,
        gae_lambda=LAMBDA,
    )
    assert advantages[:2, 0].tolist() == [1 + 0.25 * -6, -6]


def random_rollout(seed: int, steps: int = 40, envs: int = 5) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    terminated = rng.random((steps, envs)) < 0.1
    return {
        "rewards": rng.normal(size=(steps, envs)).astype(np.float32),
        "values": rng.normal(size=(steps, envs)).astype(np.float32),
        "next_values": rng.normal(size=(steps, envs)).astype(np.float32),
        "terminated": terminated,
        "ends": terminated | (rng.random((steps, envs)) < 0.1),
    }


def summed_out(r: dict[str, Any], gamma: float, lam: float) -> Any:
    """The definition: the sum over k of (gamma lambda)^k delta_{t+k}, up to the end of t's episode."""
    steps, envs = r["rewards"].shape
    result = np.zeros((steps, envs))
    for n in range(envs):
        for t in range(steps):
            for k in range(steps - t):
                s = t + k
                successor = 0.0 if r["terminated"][s, n] else float(r["next_values"][s, n])
                delta = float(r["rewards"][s, n]) + gamma * successor - float(r["values"][s, n])
                result[t, n] += (gamma * lam) ** k * delta
                if r["ends"][s, n]:
                    break
    return result


@pytest.mark.parametrize(("gamma", "lam"), [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0), (0.0, 0.7)])
def test_agrees_with_the_definition(gamma: float, lam: float) -> None:
    for seed in range(3):
        rollout = random_rollout(seed)
        advantages, returns = gae(**rollout, gamma=gamma, gae_lambda=lam)
        expected = summed_out(rollout, gamma, lam)
        np.testing.assert_allclose(advantages, expected, atol=2e-5)
        np.testing.assert_allclose(returns, expected + rollout["values"], atol=2e-5)


def test_with_lambda_one_the_value_targets_are_discounted_returns() -> None:
    rollout = random_rollout(7)
    # whole episodes: each step's successor is the next one's observation, truncated ends have their own
    following = np.roll(rollout["values"], -1, axis=0)
    inside = ~rollout["ends"]
    inside[-1] = False
    rollout["next_values"] = np.where(inside, following, rollout["next_values"])
    _, returns = gae(**rollout, gamma=0.9, gae_lambda=1.0)

    ahead = np.where(rollout["terminated"][-1], 0.0, rollout["next_values"][-1]).astype(np.float64)
    for t in reversed(range(len(returns))):
        cut = rollout["ends"][t]
        bootstrap = np.where(rollout["terminated"][t], 0.0, rollout["next_values"][t])
        ahead = rollout["rewards"][t] + 0.9 * np.where(cut, bootstrap, ahead)
        np.testing.assert_allclose(returns[t], ahead, atol=2e-5)


def test_with_lambda_zero_an_advantage_is_its_own_surprise() -> None:
    r = random_rollout(3)
    advantages, _ = gae(**r, gamma=0.9, gae_lambda=0.0)
    surprise = r["rewards"] + 0.9 * r["next_values"] * ~r["terminated"] - r["values"]
    np.testing.assert_allclose(advantages, surprise, atol=1e-6)


def test_envs_do_not_affect_each_other() -> None:
    rollout = random_rollout(5)
    together, _ = gae(**rollout, gamma=0.99, gae_lambda=0.95)
    for n in range(together.shape[1]):
        alone, _ = gae(**{k: v[:, n : n + 1] for k, v in rollout.items()}, gamma=0.99, gae_lambda=0.95)
        np.testing.assert_array_equal(alone[:, 0], together[:, n])

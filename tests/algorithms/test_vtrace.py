"""V-trace against values worked out by hand, the sum in the paper, and GAE where the policies agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from ludus.algorithms.advantages import gae, vtrace
from ludus.algorithms.learner import LearnerContext
from ludus.algorithms.ppo import PPO, PPOHyperparameters
from ludus.config.schema import PolicyConfig
from ludus.rollout.experience import Cuts, Rollout
from ludus.runs.streams import Streams
from ludus.types import Array


def column(*values: float) -> Array:
    return np.array(values, dtype=np.float64)[:, None]


NEVER = np.zeros((3, 1), dtype=bool)


def test_vtrace_of_three_steps_matches_hand_computation() -> None:
    """Deltas are 1, -0.5 and 1; ratios count as 0.5, 1 and 0.25; gamma is a half."""
    advantages, targets = vtrace(
        column(1, 0, 2), column(1, 2, 3), column(2, 3, 4), NEVER, NEVER, column(0.5, 2, 0.25), 0.5, 1.0
    )
    assert advantages[:, 0].tolist() == [0.40625, -0.375, 0.25]
    assert targets[:, 0].tolist() == [1.40625, 1.625, 3.25]


def test_termination_takes_no_value_and_an_end_takes_no_later_step() -> None:
    terminated, ends = NEVER.copy(), NEVER.copy()
    terminated[0] = ends[0] = True
    ends[1] = True  # truncated: its own successor counts, what follows in the array does not
    advantages, _ = vtrace(
        column(1, 0, 2), column(1, 2, 3), column(99, 3, 4), terminated, ends, column(0.5, 2, 0.25), 0.5, 1.0
    )
    assert advantages[:, 0].tolist() == [0.0, -0.5, 0.25]


def plain_vtrace(
    r: Array, v: Array, nv: Array, done: Array, ends: Array, ratio: Array, gamma: float, lam: float
) -> Array:
    """v_s of Espeholt et al. (2018), equation 1 with rho-bar = c-bar = 1, as the sum it is, for one env."""
    targets = np.zeros(len(r))
    for s in range(len(r)):
        total, trace = 0.0, 1.0
        for t in range(s, len(r)):
            rho = min(1.0, ratio[t])
            total += gamma ** (t - s) * trace * rho * (r[t] + gamma * (0.0 if done[t] else nv[t]) - v[t])
            trace *= lam * min(1.0, ratio[t])
            if ends[t]:
                break
        targets[s] = v[s] + total
    return targets


@pytest.mark.parametrize("seed", range(5))
def test_vtrace_equals_the_sum_of_the_paper(seed: int) -> None:
    rng = np.random.default_rng(seed)
    T, N = 20, 3
    r, v, nv = rng.normal(size=(3, T, N))
    done = rng.random((T, N)) < 0.1
    ends = done | (rng.random((T, N)) < 0.1)
    ratio = np.exp(rng.normal(size=(T, N)))
    gamma, lam = 0.97, (1.0, 0.9)[seed % 2]
    advantages, targets = vtrace(r, v, nv, done, ends, ratio, gamma, lam)
    for i in range(N):
        wanted = plain_vtrace(r[:, i], v[:, i], nv[:, i], done[:, i], ends[:, i], ratio[:, i], gamma, lam)
        np.testing.assert_allclose(targets[:, i], wanted, rtol=1e-5, atol=1e-5)
    if lam == 1.0:  # rho_s (r_s + gamma v_{s+1} - V(x_s)), the paper's weight in the policy gradient
        inner = ~ends[:-1]
        # within an episode the next target is known; next_values there must be the values that follow
        nv2 = nv.copy()
        nv2[:-1][inner] = v[1:][inner]
        advantages, targets = vtrace(r, v, nv2, done, ends, ratio, gamma, 1.0)
        ahead = np.where(done, 0.0, nv2)
        ahead[:-1][inner] = targets[1:][inner]
        wanted = np.minimum(ratio, 1.0) * (r + gamma * ahead - v)
        np.testing.assert_allclose(advantages, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lam", [0.0, 0.9, 1.0])
def test_where_the_same_policy_acted_it_is_gae(lam: float) -> None:
    rng = np.random.default_rng(7)
    r, v, nv = rng.normal(size=(3, 30, 4))
    done = rng.random((30, 4)) < 0.1
    ends = done | (rng.random((30, 4)) < 0.1)
    ours = vtrace(r, v, nv, done, ends, np.ones((30, 4)), 0.99, lam)
    for mine, theirs in zip(ours, gae(r, v, nv, done, ends, 0.99, lam), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-6)


def learner(kernels: bool) -> PPO:
    torch.manual_seed(3)
    h = PPOHyperparameters(
        policy_net_arch=(8,), value_net_arch=(8,), n_steps=16, batch_size=16, normalize_advantage=False
    )
    place = LearnerContext(
        observation_space=spaces.Box(-1, 1, (3,)),
        action_space=spaces.Discrete(4),
        n_envs=2,
        hyperparams=h,
        policy=PolicyConfig(),
        normalize_obs=False,
        device=torch.device("cpu"),
        streams=Streams(1),
        reward_normalizer=None,
        kernels=kernels,
    )
    return PPO(place, h)


def played_by(ppo: PPO, cuts: bool, **change: Any) -> Rollout:
    """A rollout of 16 steps of 2 envs with a truncation in it, acted and valued by `ppo` as it is."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(17, 2, 3)).astype(np.float32)
    last, lost = obs[16], rng.normal(size=(1, 3)).astype(np.float32)
    actions = rng.integers(0, 4, size=(16, 2))
    with torch.no_grad():
        log_probs, _, values = ppo.policy.evaluate(
            torch.as_tensor(obs[:16].reshape(-1, 3)), torch.as_tensor(actions.reshape(-1))
        )
        values = values.reshape(16, 2).numpy()
        next_values = np.concatenate([values[1:], ppo.policy.value(torch.as_tensor(last)).numpy()[None]])
        next_values[5, 1] = ppo.policy.value(torch.as_tensor(lost)).item()
    ends = np.zeros((16, 2), dtype=bool)
    ends[5, 1] = True
    rollout = Rollout(
        steps=32,
        episodes=[],
        obs=obs[:16],
        actions=actions,
        log_probs=log_probs.reshape(16, 2).numpy(),
        values=values,
        next_values=next_values,
        rewards=rng.normal(size=(16, 2)).astype(np.float32),
        terminated=np.zeros((16, 2), dtype=bool),
        ends=ends,
        valid=np.ones((16, 2), dtype=bool),
        masks=None,
        cuts=Cuts(np.array([15, 15, 5]), np.array([0, 1, 1]), np.concatenate([last, lost])) if cuts else None,
    )
    return replace(rollout, **change)


@pytest.mark.parametrize("kernels", [False, True])
def test_fresh_experience_is_credited_alike_either_way(kernels: bool) -> None:
    ppo = learner(kernels)
    plain = ppo.credit(played_by(ppo, cuts=False), 0.0).samples
    corrected = ppo.credit(played_by(ppo, cuts=True), 0.0).samples
    for name in ("log_probs", "values", "advantages", "returns"):
        torch.testing.assert_close(getattr(corrected, name), getattr(plain, name), rtol=1e-5, atol=1e-5)


def test_stale_experience_is_valued_and_weighed_by_the_policy_that_learns() -> None:
    ppo = learner(kernels=False)
    fresh = played_by(ppo, cuts=True)
    # the policy that acted gave its actions twice the probability, and every state the value 0
    nothing = np.zeros_like(fresh.values)
    acted = fresh.log_probs + np.log(2.0).astype(np.float32)
    stale = replace(fresh, log_probs=acted, values=nothing, next_values=nothing)
    samples = ppo.credit(stale, 0.0).samples
    half = np.full((16, 2), 0.5)
    wanted = vtrace(
        fresh.rewards, fresh.values, fresh.next_values, fresh.terminated, fresh.ends, half, 0.99, 0.95
    )
    torch.testing.assert_close(samples.values, torch.as_tensor(fresh.values.reshape(-1)))
    torch.testing.assert_close(samples.log_probs, torch.as_tensor(fresh.log_probs.reshape(-1)))
    torch.testing.assert_close(
        samples.advantages, torch.as_tensor(wanted[0].reshape(-1)), rtol=1e-4, atol=1e-5
    )
    torch.testing.assert_close(samples.returns, torch.as_tensor(wanted[1].reshape(-1)), rtol=1e-4, atol=1e-5)

"""Collectors store the true observations and actions, distinguish episode ends, and obey masks."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from scripted_envs import KINDS, N_ACTIONS, Dropping, Scripted, make_vector_env, scripted

from ludus.envs.vector.serial import SerialVectorEnv
from ludus.policies.actor_critic import ActorCritic
from ludus.policies.base import NetworkSpec
from ludus.policies.observations import RewardNormalizer, to_tensor
from ludus.policies.q_network import QPolicy
from ludus.policies.soft_actor import SACPolicy
from ludus.rollout.collector import CollectionStopped, ReplayCollector, RolloutCollector, random_actions
from ludus.rollout.stepper import Stepper


def spec(**changes: Any) -> NetworkSpec:
    return NetworkSpec(**({"policy_net_arch": (8,), "value_net_arch": (8,)} | changes))


def started(envs: Any) -> Stepper:
    stepper = Stepper(envs, lambda number, index: 1000 * number + index)
    stepper.barrier(0)
    return stepper


def rollouts(envs: Any, n_steps: int, **kwargs: Any) -> RolloutCollector:
    return RolloutCollector(
        started(envs), n_steps=n_steps, generator=torch.Generator().manual_seed(3), **kwargs
    )


def replays(envs: Any, n_steps: int, warmup: int = 0, **kwargs: Any) -> ReplayCollector:
    return ReplayCollector(
        started(envs),
        n_steps=n_steps,
        generator=torch.Generator().manual_seed(3),
        warmup=warmup,
        rng=np.random.default_rng(5),
        **kwargs,
    )


def actor_critic(envs: Any, **changes: Any) -> ActorCritic:
    torch.manual_seed(0)
    return ActorCritic(envs.single_observation_space, envs.single_action_space, spec(**changes))


def decided(envs: Any) -> ActorCritic:
    """A policy so sure of its actions that no draw changes them."""
    policy = actor_critic(envs, ortho_init=False)
    with torch.no_grad():
        policy.action_head.linear.weight *= 1e6
    return policy


def value_of(policy: ActorCritic, obs: Any) -> Any:
    with torch.no_grad():
        return policy.value(policy.prepare(obs)).numpy()


# Rollouts


class Everywhere(gym.Env[Any, Any]):
    """Random observations of any space; takes any action."""

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        return self.observation_space.sample(), 1.0, False, self.np_random.random() < 0.3, {}


BOX = spaces.Box(-3.0, 3.0, (4,), np.float64)
DICT = spaces.Dict({"a": spaces.Box(-1.0, 1.0, (2,), np.float32), "b": spaces.Discrete(3)})
PAIRS = {
    "discrete": (BOX, spaces.Discrete(3, start=-1)),
    "multi-discrete": (BOX, spaces.MultiDiscrete([2, 3])),
    "multi-binary": (BOX, spaces.MultiBinary(3)),
    "box": (BOX, spaces.Box(-1.0, 1.0, (2,), np.float32)),
    "dict": (DICT, spaces.Discrete(2)),
    "images": (spaces.Box(0, 255, (5, 5, 1), np.uint8), spaces.Discrete(2)),
}


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("name", list(PAIRS))
def test_stored_values_and_log_probs_are_those_of_the_stored_observations(name: str, normalize: bool) -> None:
    envs = SerialVectorEnv([lambda: Everywhere(*PAIRS[name])] * 3)
    policy = actor_critic(envs, normalize_obs=normalize, log_std_init=-0.5)
    collector = rollouts(envs, 7)
    for _ in range(2):
        r = collector.collect(policy)
        assert r.steps == 21 and r.rewards.shape == (7, 3)
        obs = (
            {k: v.reshape(21, *v.shape[2:]) for k, v in r.obs.items()}
            if isinstance(r.obs, dict)
            else r.obs.reshape(21, *r.obs.shape[2:])
        )
        actions = torch.as_tensor(r.actions.reshape(21, *r.actions.shape[2:]))
        with torch.no_grad():
            log_probs, _, values = policy.evaluate(to_tensor(obs, "cpu"), actions)
        np.testing.assert_allclose(r.log_probs.reshape(-1), log_probs.numpy(), atol=1e-5)
        np.testing.assert_allclose(r.values.reshape(-1), values.numpy(), atol=1e-5)


def test_observations_are_counted_before_they_are_normalised() -> None:
    envs = SerialVectorEnv([lambda: Everywhere(BOX, spaces.Discrete(2))] * 4)
    policy = actor_critic(envs, normalize_obs=True)
    collector = rollouts(envs, 1)
    first = collector.stepper.obs
    rollout = collector.collect(policy)
    assert policy.obs_normalizer is not None
    np.testing.assert_allclose(policy.obs_normalizer.normalize(first), rollout.obs[0], atol=1e-6)
    assert abs(float(rollout.obs[0].mean())) < 0.1  # a batch counted by itself is centred
    counted = policy.obs_normalizer.moments["obs"].count.item()
    collector.collect(policy)
    assert policy.obs_normalizer.moments["obs"].count.item() - counted == 4


@pytest.mark.parametrize("masks", [None, "info", "obs"])
@pytest.mark.parametrize("kind", KINDS)
def test_next_values_are_those_of_the_true_next_observations(kind: str, masks: str | None) -> None:
    """Step each env alone to get the true next observations; the rollout must hold their values."""
    envs = make_vector_env(kind, scripted(masks))
    policy = decided(envs)
    collector = rollouts(envs, 25)
    for _ in range(2):
        r = collector.collect(policy)
        for i in range(3):
            rows = np.flatnonzero(r.valid[:, i])
            assert len(rows) >= 15
            for t in rows:
                now = {k: v[t, i] for k, v in r.obs.items()} if masks == "obs" else r.obs[t, i]
                who, episode, count = (now["state"] if masks == "obs" else now).tolist()
                env = Scripted(scripted(masks)[i]().script, int(who), masks)
                env.episode, env.count = int(episode), int(count)
                follower, reward, terminated, truncated, _ = env.step(int(r.actions[t, i]))
                assert r.rewards[t, i] == pytest.approx(reward)
                assert r.terminated[t, i] == terminated
                assert bool(r.ends[t, i]) == (terminated or truncated)
                if masks is not None:
                    assert r.masks is not None
                    assert (
                        r.masks[t, i].tolist() == (np.arange(N_ACTIONS) != (count + 2 * episode) % 4).tolist()
                    )
                batch = (
                    {k: np.asarray(v)[None] for k, v in follower.items()}
                    if masks == "obs"
                    else follower[None]
                )
                if not terminated:
                    assert r.next_values[t, i] == pytest.approx(value_of(policy, batch)[0], abs=1e-4)


def test_a_truncated_step_is_not_valued_by_the_episode_that_follows() -> None:
    envs = SerialVectorEnv([lambda: Scripted([(2, "truncated")])])
    policy = decided(envs)
    r = rollouts(envs, 4).collect(policy)
    final = np.array([[0.0, 0.0, 2.0]], dtype=np.float32)
    assert r.next_values[1, 0] == pytest.approx(value_of(policy, final)[0], abs=1e-5)
    assert abs(r.next_values[1, 0] - r.values[2, 0]) > 1e-3
    assert r.next_values[0, 0] == r.values[1, 0]
    assert r.ends[:, 0].tolist() == [False, True, False, True]


def test_a_dropped_step_is_left_out_and_the_one_before_it_is_bootstrapped() -> None:
    script = [(9, "terminated")]
    envs = Dropping([lambda: Scripted(script, 0), lambda: Scripted(script, 1)], {3: [0]})
    policy = decided(envs)
    r = rollouts(envs, 6).collect(policy)
    assert r.valid[:, 0].tolist() == [True, True, True, False, True, True]
    assert r.valid[:, 1].all() and not r.ends[:, 1].any()
    assert r.ends[:, 0].tolist() == [False, False, True, False, False, False]
    assert not r.terminated.any()
    # what the third step led to was seen before it was lost
    assert r.obs[3, 0].tolist() == [0, 0, 3]
    assert r.next_values[2, 0] == r.values[3, 0]
    assert r.obs[4, 0].tolist() == [0, 1, 0]
    assert r.episodes == []


class FirstMaskLate(Scripted):
    def _info(self) -> dict[str, Any]:
        return {"action_mask": self._legal()} if self.count else {}


def test_a_first_mask_that_comes_late_is_stored_with_all_legal_before() -> None:
    envs = SerialVectorEnv([lambda: FirstMaskLate([(9, "terminated")])])
    r = rollouts(envs, 3).collect(actor_critic(envs))
    assert r.masks is not None
    assert r.masks[:, 0].tolist() == [[True] * 4, [True, False, True, True], [True, True, False, True]]


def test_rewards_are_scaled_by_the_statistics_up_to_them() -> None:
    envs = SerialVectorEnv(scripted())
    normalizer, twin = RewardNormalizer(3, gamma=0.9), RewardNormalizer(3, gamma=0.9)
    policy = decided(envs)
    scaled = rollouts(envs, 12, reward_normalizer=normalizer).collect(policy)
    plain = rollouts(SerialVectorEnv(scripted()), 12).collect(policy)
    for t in range(12):
        twin.update(plain.rewards[t], plain.ends[t])
        np.testing.assert_allclose(scaled.rewards[t], twin.scale(plain.rewards[t]), rtol=1e-5)
    assert [e.reward for e in scaled.episodes] == [e.reward for e in plain.episodes]


def test_reward_statistics_are_of_steps_that_carry_experience_in_every_mode() -> None:
    moments = []
    for kind in KINDS:
        envs = make_vector_env(kind, [lambda: Scripted([(3, "terminated"), (2, "truncated")])])
        normalizer = RewardNormalizer(1, gamma=0.9)
        collector = rollouts(envs, 1, reward_normalizer=normalizer)
        policy, valid = decided(envs), 0
        while valid < 14:
            valid += int(collector.collect(policy).valid.sum())
        moments.append((normalizer.moments.mean.item(), normalizer.moments.var.item()))
    assert moments[0][1] > 1
    for other in moments[1:]:
        assert other == pytest.approx(moments[0], rel=1e-9)


def test_running_return_of_a_dropped_episode_is_reset() -> None:
    envs = Dropping([lambda i=i: Scripted([(9, "terminated")], i) for i in range(2)], {2: [0]})
    normalizer = RewardNormalizer(2, gamma=1.0)
    rollouts(envs, 3, reward_normalizer=normalizer).collect(decided(envs))
    assert normalizer.returns[0] == 0 and normalizer.returns[1] > 0


def test_barrier_resets_running_returns() -> None:
    envs = SerialVectorEnv(scripted())
    normalizer = RewardNormalizer(3)
    collector = rollouts(envs, 4, reward_normalizer=normalizer)
    collector.collect(decided(envs))
    assert normalizer.returns.any()
    collector.barrier(1)
    assert not normalizer.returns.any()
    assert collector.stepper.obs[:, 1:].tolist() == [[0, 0]] * 3


def test_hook_is_called_at_every_step_and_can_stop_the_collection() -> None:
    envs = SerialVectorEnv(scripted())
    collector = rollouts(envs, 5)
    heard: list[int] = []

    def hook(steps: int) -> bool:
        heard.append(steps)
        return steps < 9

    collector.step_hook = hook
    with pytest.raises(CollectionStopped):
        collector.collect(actor_critic(envs))
    assert heard == [3, 6, 9]


@pytest.mark.parametrize("masks", ["info", "obs"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_policy_and_no_warm_up_plays_an_illegal_action(kind: str, masks: str) -> None:
    """The env refuses illegal actions, so it is enough to play: on policy, by chance, by value, in warm-up."""
    envs = make_vector_env(kind, scripted(masks))
    rollouts(envs, 60).collect(actor_critic(envs))
    for epsilon, warmup in ((0.0, 0), (1.0, 0), (0.5, 90)):
        envs = make_vector_env(kind, scripted(masks))
        policy = q_policy(envs)
        policy.epsilon = epsilon
        replays(envs, 60, warmup).collect(policy)


def test_masks_of_multi_discrete_actions_are_honoured() -> None:
    class Two(Scripted):
        action_space = spaces.MultiDiscrete([2, 2])

        def step(self, action: Any) -> Any:
            legal = self._legal()
            assert legal[:2][action[0]] and legal[2:][action[1]]
            self.count += 1
            return self._obs(), 0.0, False, self.count == 5, self._info()

    r = rollouts(SerialVectorEnv([lambda: Two([(5, "truncated")], masks="info")] * 2), 40)
    rollout = r.collect(actor_critic(r.stepper.envs))
    assert rollout.masks is not None and rollout.masks.shape == (40, 2, 4)


# Replay


def q_policy(envs: Any, **changes: Any) -> QPolicy:
    torch.manual_seed(0)
    return QPolicy(envs.single_observation_space, envs.single_action_space, spec(**changes))


@pytest.mark.parametrize("masks", [None, "info", "obs"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_transition_is_one_the_env_makes(kind: str, masks: str | None) -> None:
    envs = make_vector_env(kind, scripted(masks))
    collector = replays(envs, 3)
    policy = q_policy(envs)
    policy.epsilon = 1.0
    ends = total = 0
    for _ in range(12):
        t = collector.collect(policy)
        assert t.steps == len(t.rewards)  # a step that only resets is no env step
        total += len(t.rewards)
        for m in range(len(t.rewards)):
            now = t.obs["state"][m] if masks == "obs" else t.obs[m]
            who, episode, count = now.tolist()
            env = Scripted(scripted()[int(who)]().script, int(who), masks)
            env.episode, env.count = int(episode), int(count)
            follower, reward, terminated, truncated, _ = env.step(t.actions[m])
            after = t.next_obs["state"][m] if masks == "obs" else t.next_obs[m]
            assert after.tolist() == (follower["state"] if masks == "obs" else follower).tolist()
            assert t.rewards[m] == pytest.approx(reward)
            assert t.terminated[m] == terminated
            if masks is None:
                assert t.masks is None and t.next_masks is None
            else:  # at an end too, the legal actions of the last observation, not of the next episode's first
                assert t.next_masks is not None and t.next_masks[m].tolist() == env._legal().tolist()
            ends += terminated or truncated
    assert ends > 10
    assert total == 12 * 9 if kind != "NEXT_STEP" else total < 12 * 9


def test_a_dropped_step_makes_no_transition() -> None:
    envs = Dropping([lambda i=i: Scripted([(9, "terminated")], i) for i in range(2)], {1: [0]})
    t = replays(envs, 3).collect(q_policy(envs))
    assert t.obs.tolist() == [[0, 0, 0], [1, 0, 0], [1, 0, 1], [0, 1, 0], [1, 0, 2]]


def test_a_first_mask_that_comes_late_is_replayed_with_all_legal_before() -> None:
    class Later(Scripted):
        def _info(self) -> dict[str, Any]:
            return {"action_mask": self._legal()} if self.count > 1 else {}

    envs = SerialVectorEnv([lambda: Later([(9, "terminated")])])
    t = replays(envs, 3).collect(q_policy(envs))
    assert t.next_masks is not None
    assert t.next_masks.tolist() == [[True] * 4, [True, True, False, True], [True, True, True, False]]


def test_observations_and_rewards_of_transitions_are_raw() -> None:
    envs = SerialVectorEnv(scripted())
    normalizer = RewardNormalizer(3)
    policy = q_policy(envs, normalize_obs=True)
    t = replays(envs, 10, reward_normalizer=normalizer).collect(policy)
    assert t.obs[-1].tolist() != [0, 0, 0] and float(t.obs.max()) == int(t.obs.max()) >= 2
    assert float(t.rewards.max()) >= 100
    assert policy.obs_normalizer is not None
    assert policy.obs_normalizer.moments["obs"].count.item() == pytest.approx(30, abs=1e-3)
    assert normalizer.moments.count.item() == pytest.approx(30, abs=1e-3)


def test_warm_up_lasts_as_many_env_steps_as_it_says() -> None:
    envs = SerialVectorEnv([lambda: Scripted([(99, "terminated")])] * 2)
    policy = q_policy(envs)
    with torch.no_grad():
        policy.q_net[-1].bias[:] = torch.tensor([0.0, 0.0, 0.0, 1e6])  # by itself it always plays 3
    collector = replays(envs, 1, warmup=40)
    actions = np.concatenate([collector.collect(policy).actions for _ in range(30)])
    assert set(actions[:40].tolist()) == {0, 1, 2, 3}
    assert set(actions[40:].tolist()) == {3}


def test_remaining_warm_up_is_saved_in_a_checkpoint() -> None:
    envs = SerialVectorEnv([lambda: Scripted([(99, "terminated")])] * 2)
    collector = replays(envs, 3, warmup=10)
    collector.collect(q_policy(envs))
    other = replays(envs, 3, warmup=10)
    other.load({}, collector.values())
    assert other.values()["collector"] == {"warmup_left": 4}


def test_random_actions_are_uniform_over_the_legal_ones() -> None:
    masks = np.tile(np.array([[True, False, True, True], [False, False, True, False]]), (3000, 1))
    chosen = random_actions(spaces.Discrete(4, start=5), 6000, masks, np.random.default_rng(0))
    assert set(chosen[1::2].tolist()) == {2}
    counts = np.bincount(chosen[::2], minlength=4)
    assert counts[1] == 0
    np.testing.assert_allclose(counts[[0, 2, 3]], 1000, atol=130)  # five standard deviations
    free = random_actions(spaces.Discrete(4, start=5), 6000, None, np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(free), 1500, atol=170)


def test_random_box_actions_fill_the_box_in_the_shape_the_actor_plays() -> None:
    box = spaces.Box(np.array([[0.0, -10.0]]), np.array([[1.0, 10.0]]), dtype=np.float64)
    envs = SyncVectorEnv([lambda: Everywhere(BOX, box)] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    torch.manual_seed(0)
    policy = SACPolicy(BOX, box, spec())
    collector = replays(envs, 2, warmup=4)
    warm, own = collector.collect(policy), collector.collect(policy)
    assert warm.actions.shape == own.actions.shape == (4, 2)
    assert warm.actions.dtype == own.actions.dtype == np.float32
    many = random_actions(box, 4000, None, np.random.default_rng(0))
    assert np.abs(many).max() <= 1
    np.testing.assert_allclose(many.mean(axis=0), 0, atol=0.05)
    np.testing.assert_allclose((many**2).mean(axis=0), 1 / 3, atol=0.03)
    for_env = policy.to_env(many)
    assert all(box.contains(action) for action in for_env[:50])
    np.testing.assert_allclose(for_env.min(axis=0), box.low, atol=0.05)

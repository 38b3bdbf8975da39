"""The stepper returns the same observations, next observations and valid steps in every autoreset mode."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from scripted_envs import KINDS, N_ACTIONS, SCRIPTS, Dropping, Scripted, make_vector_env, scripted

from ludus.envs.vector.serial import SerialVectorEnv
from ludus.errors import EnvFault
from ludus.rollout.stepper import Stepper, read_masks, take
from ludus.types import EpisodeRecord


def started(envs: Any, **kwargs: Any) -> Stepper:
    stepper = Stepper(envs, lambda number, index: 1000 * number + index, **kwargs)
    stepper.barrier(0)
    return stepper


def choose(state: Any, mask: Any) -> int:
    """Some action that follows from what is seen alone, and is legal."""
    wish = int(np.sum(state)) % N_ACTIONS
    return wish if mask is None or mask[wish] else (wish + 1) % N_ACTIONS


def state_of(obs: Any) -> Any:
    return obs["state"] if isinstance(obs, dict) else obs


Seen = list[tuple[Any, ...]]
"""Of one env: (state, mask, action, reward, next state, next mask, terminated, truncated) per valid step."""


def played(stepper: Stepper, steps: int) -> tuple[list[Seen], list[EpisodeRecord]]:
    seen: list[Seen] = [[] for _ in range(stepper.n_envs)]
    episodes: list[EpisodeRecord] = []
    for _ in range(steps):
        obs, masks = stepper.obs, stepper.masks
        mask_of = [None if masks is None else masks[i].tolist() for i in range(stepper.n_envs)]
        actions = np.array([choose(state_of(take(obs, i)), mask_of[i]) for i in range(stepper.n_envs)])
        step = stepper.step(actions)
        episodes += step.episodes
        for i in np.flatnonzero(step.valid):
            follower = step.final_obs.get(int(i), take(stepper.obs, int(i)))
            next_mask = None
            if stepper.masks is not None:
                next_mask = step.final_masks(stepper.masks.shape[1]).get(int(i), stepper.masks[i]).tolist()
            seen[i].append(
                (
                    state_of(take(obs, int(i))).tolist(),
                    mask_of[i],
                    int(actions[i]),
                    float(step.rewards[i]),
                    state_of(follower).tolist(),
                    next_mask,
                    bool(step.terminated[i]),
                    bool(step.truncated[i]),
                )
            )
    return seen, episodes


def by_hand(env: Scripted, steps: int) -> Seen:
    """The same env played alone, without any vector env."""

    def mask() -> Any:
        return None if env.masks is None else env._legal().tolist()

    seen: Seen = []
    state = state_of(env.reset(seed=0)[0])
    for _ in range(steps):
        legal = mask()
        action = choose(state, legal)
        obs, reward, terminated, truncated, _ = env.step(action)
        follower = state_of(obs)
        row = (state.tolist(), legal, action, reward, follower.tolist(), mask(), terminated, truncated)
        seen.append(row)
        state = state_of(env.reset()[0]) if terminated or truncated else follower
    return seen


@pytest.mark.parametrize("masks", [None, "info", "obs"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_mode_gives_the_experience_of_the_env_played_alone(kind: str, masks: str | None) -> None:
    seen, _ = played(started(make_vector_env(kind, scripted(masks))), 40)
    for i, own in enumerate(seen):
        assert len(own) >= 25
        assert own == by_hand(Scripted(SCRIPTS[i], i, masks), len(own))


@pytest.mark.parametrize("kind", KINDS)
def test_episode_records_hold_the_rewards_and_steps_of_whole_episodes(kind: str) -> None:
    seen, episodes = played(started(make_vector_env(kind, scripted())), 40)
    expected = []
    for own in seen:
        reward, length = 0.0, 0
        for *_, step_reward, _, _, terminated, truncated in own:
            reward, length = reward + step_reward, length + 1
            if terminated or truncated:
                expected.append((round(reward, 6), length))
                reward, length = 0.0, 0
    assert len(expected) > 10
    assert sorted((round(e.reward, 6), e.length) for e in episodes) == sorted(expected)
    assert all(e.success is None for e in episodes)


class Succeeding(Scripted):
    def step(self, action: Any) -> Any:
        *result, terminated, truncated, info = super().step(action)
        if terminated or truncated:
            info["is_success"] = self.episode % 2 == 0
        return *result, terminated, truncated, info


@pytest.mark.parametrize("kind", KINDS)
def test_success_and_reported_statistics_are_read_from_the_last_info(kind: str) -> None:
    def statistics() -> Any:
        env = Succeeding([(2, "terminated"), (3, "truncated")])
        return gym.wrappers.TransformReward(gym.wrappers.RecordEpisodeStatistics(env), lambda _: 0.0)

    _, episodes = played(started(make_vector_env(kind, [statistics])), 9)
    assert [(e.length, e.success) for e in episodes[:2]] == [(2, True), (3, False)]
    assert episodes[0].reward > 3  # as the inner wrapper counted it, not the zeros that came out


@pytest.mark.parametrize("kind", KINDS)
def test_with_reports_episodes_only_records_of_the_wrapper_count(kind: str) -> None:
    stepper = started(make_vector_env(kind, scripted()), reports_episodes=True)
    assert played(stepper, 20)[1] == []


def test_a_dropped_step_carries_nothing_and_its_episode_leaves_no_record() -> None:
    script = [(4, "terminated")]
    envs = Dropping([lambda: Scripted(script, 0), lambda: Scripted(script, 1)], {2: [0]})
    seen, episodes = played(started(envs), 7)
    # env 0: two steps, the lost one, four steps of a new episode; env 1: four steps and three more
    assert [row[0][1:] for row in seen[0]] == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [1, 3]]
    assert len(seen[1]) == 7
    assert not any(row[6] or row[7] for row in seen[0][:5])
    assert sorted(e.length for e in episodes) == [4, 4]
    lost_and_found = next(e for e in episodes if e.reward > 400)
    assert lost_and_found.reward == pytest.approx(sum(row[3] for row in seen[0][2:]))


class OwnDropped(Scripted):
    def _info(self) -> dict[str, Any]:
        return {"dropped": 3}


def test_an_envs_own_info_called_dropped_drops_nothing() -> None:
    seen, _ = played(started(SerialVectorEnv([lambda: OwnDropped([(3, "terminated")])])), 5)
    assert len(seen[0]) == 5


class SomeMasks(Scripted):
    """Gives a mask as a plain list, and only every other step."""

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self._legal().tolist()} if self.count % 2 else {}


@pytest.mark.parametrize("kind", KINDS)
def test_an_env_that_gives_no_mask_may_do_anything(kind: str) -> None:
    envs = make_vector_env(kind, [lambda i=i: SomeMasks([(3, "terminated")], i) for i in range(2)])
    stepper = started(envs)
    assert stepper.masks is None
    for _ in range(6):
        stepper.step(np.array([0, 0]))
        assert stepper.masks is not None and stepper.masks.shape == (2, N_ACTIONS)
        for i in range(2):
            legal = np.arange(N_ACTIONS) != (stepper.obs[i][2] + 2 * stepper.obs[i][1]) % N_ACTIONS
            expected = legal if stepper.obs[i][2] % 2 else np.ones(N_ACTIONS, dtype=bool)
            np.testing.assert_array_equal(stepper.masks[i], expected)


def test_masks_are_kept_when_another_env_has_none() -> None:
    infos = {
        "action_mask": np.array([[0, 1], [0, 0]], dtype=np.int8),
        "_action_mask": np.array([True, False]),
    }
    masks = read_masks(np.zeros((2, 1)), infos)
    assert masks is not None and masks.tolist() == [[False, True], [True, True]]


class Remembers(gym.Env[Any, Any]):
    """Noisy, and what it shows depends on all that ever happened to this object."""

    observation_space = spaces.Box(-1e6, 1e6, (2,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.life = 0
        self.count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        self.life += 1
        self.count += 1
        return self._obs(), 1.0, self.np_random.random() < 0.2, self.count == 6, {}

    def _obs(self) -> Any:
        return np.array([self.np_random.normal(), self.life])


def trajectory(stepper: Stepper, steps: int) -> list[Any]:
    rows = []
    for _ in range(steps):
        step = stepper.step(np.zeros(stepper.n_envs, dtype=np.int64))
        rows.append([stepper.obs.tolist(), step.valid.tolist(), step.terminated.tolist(), step.episodes])
    return rows


def test_a_barrier_depends_on_its_number_and_on_nothing_before_it() -> None:
    busy = started(SerialVectorEnv([Remembers] * 3))
    trajectory(busy, 17)
    busy.barrier(5)
    fresh = Stepper(SerialVectorEnv([Remembers] * 3), lambda number, index: 1000 * number + index)
    fresh.barrier(5)
    np.testing.assert_array_equal(busy.obs, fresh.obs)
    assert trajectory(busy, 20) == trajectory(fresh, 20)
    busy.barrier(6)
    assert not np.array_equal(busy.obs, fresh.obs)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_barrier_ends_open_episodes_in_every_mode(mode: AutoresetMode) -> None:
    def noisy() -> Any:
        env = Remembers()
        return gym.wrappers.TransformObservation(
            env, lambda obs: obs[:1], spaces.Box(-9, 9, (1,), np.float64)
        )

    for before in range(1, 8):  # some of these leave an env in the midst of its reset
        busy = started(SyncVectorEnv([noisy] * 2, autoreset_mode=mode))
        trajectory(busy, before)
        busy.barrier(5)
        fresh = Stepper(SyncVectorEnv([noisy] * 2, autoreset_mode=mode), lambda n, i: 1000 * n + i)
        fresh.barrier(5)
        assert trajectory(busy, 20) == trajectory(fresh, 20)


def test_a_barrier_gives_every_env_the_seed_it_is_meant_to_have() -> None:
    envs = SyncVectorEnv([lambda: Scripted([(9, "terminated")])] * 3)
    stepper = started(envs)
    stepper.barrier(4)
    assert [env.seeds for env in envs.envs] == [[0, 4000], [1, 4001], [2, 4002]]


def test_an_env_that_was_given_is_not_rebuilt() -> None:
    env = Remembers()
    stepper = started(SerialVectorEnv([lambda: env]), rebuild=False)
    trajectory(stepper, 3)
    stepper.barrier(1)
    assert stepper.obs[0][1] == 3


def test_env_with_an_attribute_finite_is_still_checked() -> None:
    class Bad(gym.Env[Any, Any]):
        observation_space = spaces.Box(-1.0, 1.0, (2,))
        action_space = spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return np.zeros(2, dtype=np.float32), {}

        def step(self, action: Any) -> Any:
            return np.full(2, np.nan, dtype=np.float32), 0.0, False, False, {}

    envs: Any = SyncVectorEnv([Bad] * 2)
    envs.finite = envs.final_infos = True
    with pytest.raises(EnvFault, match="gave observation"):
        started(envs).step(np.zeros(2, dtype=np.int64))
    envs.close()

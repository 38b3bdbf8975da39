"""Evaluation: one whole episode per seed, in the order of the seeds, for any number of envs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from ludus.envs.make import EnvSpec
from ludus.envs.wrapper_names import register_wrapper
from ludus.envs.wrappers import EnvironmentWrapper
from ludus.errors import EnvFault
from ludus.evaluation import evaluate as evaluation
from ludus.evaluation.evaluate import EvaluationResult, evaluate, play_episodes
from ludus.types import Array, BoolArray, EpisodeRecord, Observation

Env = gym.Env[Any, Any]


class Countdown(gym.Env[Any, Any]):
    """An episode has `seed` steps; the reward is the action; a multiple of three is a success."""

    observation_space = spaces.Box(0, 1000, (1,), np.float32)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        if seed is not None:
            self.seed = self.left = seed
        else:
            self.left = self.seed
        return self.see(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        over = self.left == 0
        truncated = over and self.seed % 2 == 0
        info = {"is_success": self.seed % 3 == 0} if over else {}
        return self.see(), float(action), over and not truncated, truncated, info

    def see(self) -> Array:
        return np.array([self.left], np.float32)


class Parity:
    """Plays 1 if an odd number of steps is left, otherwise 0; records its observations and masks."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.masks: list[BoolArray | None] = []

    def predict(self, obs: Observation, mask: BoolArray | None = None, deterministic: bool = True) -> Array:
        assert isinstance(obs, np.ndarray)
        self.batches.append(len(obs))
        self.masks.append(mask)
        return obs[:, 0].astype(np.int64) % 2


SEEDS = [7, 3, 12, 1, 5, 9, 2, 30]


def expected(seed: int) -> EpisodeRecord:
    return EpisodeRecord(reward=float((seed + 1) // 2), length=seed, success=seed % 3 == 0)


@pytest.mark.parametrize("n_envs", [1, 2, 3, 8, 20])
def test_every_seed_is_played_to_its_end_for_any_number_of_envs(n_envs: int) -> None:
    records = play_episodes(Parity(), [Countdown() for _ in range(n_envs)], SEEDS)
    assert records == [expected(seed) for seed in SEEDS]


def test_evaluate_builds_and_closes_its_own_envs() -> None:
    log: list[str] = []

    class Counted(Countdown):
        def __init__(self) -> None:
            log.append("made")

        def close(self) -> None:
            log.append("closed")

    seeds = list(range(1, 41))
    result = evaluate(Parity(), Counted, seeds)
    assert result.episodes == tuple(expected(seed) for seed in seeds)
    assert log == ["made"] * 16 + ["closed"] * 16
    log.clear()
    evaluate(Parity(), Counted, [4, 5])
    assert log == ["made"] * 2 + ["closed"] * 2


def test_endless_episode_is_cut_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "STEPS_WITHOUT_LIMIT", 50)
    result = evaluate(Parity(), Countdown, [3, 1_000, 50, 51])
    assert [episode.length for episode in result.episodes] == [3, 50, 50, 50]
    assert [episode.capped for episode in result.episodes] == [False, True, False, True]
    assert (
        result.capped == result.metrics()["eval/capped_episodes"] == result.summary()["capped_episodes"] == 2
    )
    assert result.success_rate == 0.25  # of 3; what was cut has not succeeded


def test_env_with_a_time_limit_has_no_other_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "STEPS_WITHOUT_LIMIT", 5)
    limited = evaluate(Parity(), lambda: gym.wrappers.TimeLimit(Countdown(), 60), [1_000, 20])
    assert [episode.length for episode in limited.episodes] == [60, 20] and limited.capped == 0
    assert "eval/capped_episodes" not in limited.metrics()
    assert evaluate(Parity(), EnvSpec("CartPole-v1"), [1], max_steps=4).episodes[0].length == 4


def test_cut_episode_has_the_raw_reward() -> None:
    register_wrapper("Tenfold", lambda env: Scaled(env))
    spec = EnvSpec("CartPole-v1", wrappers=("Tenfold",), frame_skip=2)
    record = evaluate(Parity(), spec, [1], max_steps=2).episodes[0]
    assert (record.reward, record.length, record.capped) == (4.0, 4, True)


class Scaled(EnvironmentWrapper):
    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        return obs, 10 * float(reward), *rest


def test_finished_envs_start_the_next_seed_at_once() -> None:
    actor = Parity()
    play_episodes(actor, [Countdown(), Countdown()], [10, 1, 2, 3])
    assert actor.batches == [2] * 6 + [1] * 4


def test_evaluation_metrics_match_hand_computation() -> None:
    result = EvaluationResult(
        (EpisodeRecord(1.0, 10, True), EpisodeRecord(4.0, 20, None), EpisodeRecord(7.0, 60, False))
    )
    assert result.metrics() == {
        "eval/mean_reward": 4.0,
        "eval/std_reward": pytest.approx(6**0.5),
        "eval/mean_ep_length": 30.0,
        "eval/success_rate": 0.5,
    }
    assert result.summary()["min_reward"] == 1.0 and result.summary()["max_reward"] == 7.0
    assert "success_rate" not in EvaluationResult((EpisodeRecord(1.0, 1),)).summary()


class MaskSometimes(Countdown):
    """Forbids action 0, but returns a mask only for odd numbers of steps left."""

    def __init__(self, form: Callable[[list[int]], Any] = np.array) -> None:
        self.form = form

    def info(self) -> dict[str, Any]:
        return {"action_mask": self.form([0, 1, 1, 1])} if self.left % 2 else {}

    def reset(self, **kwargs: Any) -> Any:
        return super().reset(**kwargs)[0], self.info()

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, truncated, {**info, **self.info()}


@pytest.mark.parametrize("form", [np.array, list, lambda x: np.array([x], np.int8)])
def test_actor_gets_masks_and_a_missing_mask_allows_everything(form: Callable[[list[int]], Any]) -> None:
    actor = Parity()
    play_episodes(actor, [MaskSometimes(form), MaskSometimes(form)], [3, 4])
    first = actor.masks[0]
    assert first is not None and first.dtype == bool
    assert first.tolist() == [[False, True, True, True], [True, True, True, True]]


def test_a_policy_obeys_the_masks() -> None:
    from ludus.evaluation.load import RandomBot

    class Strict(MaskSometimes):
        def info(self) -> dict[str, Any]:
            return {"action_mask": np.array([False, False, True, False])}

    records = play_episodes(RandomBot(spaces.Discrete(4)), [Strict()], [5, 6])
    assert [record.reward for record in records] == [10.0, 12.0]


class LosesLives(EnvironmentWrapper):
    """Ends the agent's episode every five steps, like EpisodicLife, and resets the env only at its own end."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.over = True

    def reset(self, **kwargs: Any) -> Any:
        if self.over or kwargs.get("seed") is not None:
            self.over, self.count = False, 0
            return self.env.reset(**kwargs)
        self.count += 1
        return self.env.unwrapped.see(), {}  # type: ignore[attr-defined]

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.count += 1
        self.over = terminated or truncated
        cut = not self.over and self.count % 5 == 0
        return (
            obs,
            float(reward) * 10,
            terminated or cut,
            truncated,
            {**info, **({"life_lost": True} if cut else {})},
        )


def test_episode_ended_by_a_wrapper_continues_and_is_counted_once() -> None:
    gym.register("CountdownOfLives-v0", entry_point=Countdown)
    register_wrapper("LosesLives", LosesLives)
    result = evaluate(Parity(), EnvSpec("CountdownOfLives-v0", wrappers=("LosesLives",)), SEEDS)
    assert result.episodes == tuple(expected(seed) for seed in SEEDS)


def test_env_error_raises_env_fault_and_closes_every_env() -> None:
    closed: list[int] = []

    class Fails(Countdown):
        def step(self, action: Any) -> Any:
            if self.left == 2:
                raise ZeroDivisionError("nothing left to share")
            return super().step(action)

        def close(self) -> None:
            closed.append(1)

    with pytest.raises(EnvFault, match=r"step\(\) raised ZeroDivisionError: nothing left to share") as caught:
        evaluate(Parity(), Fails, [1, 5, 1])
    assert caught.value.seed == 5 and len(closed) == 3

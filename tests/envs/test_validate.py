from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from ludus.envs.make import EnvSpec
from ludus.envs.validate import Problem, validate_environment
from ludus.errors import UnknownName, UserError


class Good(gym.Env[Any, Any]):
    """A small env without a fault; each test below breaks one promise of it."""

    metadata = {"render_modes": []}  # noqa: RUF012
    observation_space: Any = spaces.Box(-1, 1, (2,), np.float32)
    action_space: Any = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self.look(), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return self.look(), 1.0, self.t == 10, False, {}

    def look(self) -> Any:
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)


def problems(env: Any) -> list[Problem]:
    return validate_environment(env, quiet=True)


def only(env: Any) -> Problem:
    found = problems(env)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", "MountainCar-v0", "Pendulum-v1", "Taxi-v4", "BipedalWalker-v3"]
)
def test_gymnasiums_envs_have_no_problems(env_id: str) -> None:
    assert problems(env_id) == []


def test_a_faultless_env_has_no_problems_in_any_form_it_is_given() -> None:
    assert problems(Good()) == problems(Good) == problems(EnvSpec("CartPole-v1", frame_stack=2)) == []


def test_an_unknown_id_raises() -> None:
    with pytest.raises(UnknownName):
        problems("CartPol-v1")


@pytest.mark.parametrize(
    ("look", "where", "what"),
    [
        (lambda self: np.zeros(2), "reset: observation", "dtype is float64, the space has float32"),
        (lambda self: np.zeros(3, np.float32), "reset: observation", "shape is (3,), the space has (2,)"),
        (lambda self: np.array([0, 5], np.float32), "reset: observation", "such as 5.0 at [1]"),
        (lambda self: np.array([0, np.nan], np.float32), "reset: observation", "NaN at [[1]]"),
        (lambda self: [0.0, 0.0], "reset: observation", "it is a list"),
    ],
)
def test_an_observation_outside_its_space_says_how_it_differs(look: Any, where: str, what: str) -> None:
    broken = type("Broken", (Good,), {"look": look})()
    found = problems(broken)
    assert (found[0].where, found[1].where) == (where, "step: observation")
    assert what in found[0].what
    assert len(found) == 2


@pytest.mark.parametrize(
    ("result", "where", "what"),
    [
        ((float("nan"), False, False, {}), "step: reward", "nan"),
        (("one", False, False, {}), "step: reward", "str"),
        ((1.0, 0, False, {}), "step: terminated", "int"),
        ((1.0, False, None, {}), "step: truncated", "NoneType"),
        ((1.0, False, False, None), "step: info", "NoneType"),
    ],
)
def test_a_wrong_part_of_a_step_is_named(result: Any, where: str, what: str) -> None:
    class Broken(Good):
        def step(self, action: Any) -> Any:
            obs, *_ = super().step(action)
            return (obs, *result)

    found = [
        problem for problem in problems(gym.wrappers.TimeLimit(Broken(), 9)) if problem.severity == "error"
    ]
    assert [problem.where for problem in found] == [where]
    assert what in found[0].what


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_old_four_value_api_is_recognised(wrapped: bool) -> None:
    class Old(Good):
        def reset(self, **kwargs: Any) -> Any:
            return super().reset(**kwargs)[0]

        def step(self, action: Any) -> Any:
            obs, reward, done, _, info = super().step(action)
            return obs, reward, done, info

    env: gym.Env[Any, Any] = gym.wrappers.TimeLimit(Old(), 50) if wrapped else Old()
    found = {problem.where: problem.what for problem in problems(env)}
    assert "instead of (obs, info)" in found["reset"]
    assert "old gym API" in found["step"]


def test_a_reset_without_seed_is_recognised() -> None:
    class Unseedable(Good):
        def reset(self) -> Any:  # type: ignore[override]
            return super().reset()

    assert only(Unseedable()).what == "it does not take a seed"


def test_randomness_outside_the_seed_is_found_in_reset_and_in_step() -> None:
    class UnseededStart(Good):
        def look(self) -> Any:
            return np.random.uniform(-1, 1, 2).astype(np.float32)

    class UnseededReward(Good):
        def step(self, action: Any) -> Any:
            obs, _, *rest = super().step(action)
            return obs, np.random.uniform(), *rest

    assert "two resets with seed 0 start differently" in only(UnseededStart()).what
    assert "reward differs at step 1" in only(UnseededReward()).what


def test_an_observation_changed_after_it_was_returned_is_found() -> None:
    class Reusing(Good):
        buffer = np.zeros(2, np.float32)

        def look(self) -> Any:
            self.buffer[:] = super().look()
            return self.buffer

    found = only(Reusing())
    assert (found.severity, found.where) == ("warning", "step: observation")
    assert "changed by the next step" in found.what


def test_an_episode_without_end_is_a_warning_unless_it_has_a_time_limit() -> None:
    class Endless(Good):
        def step(self, action: Any) -> Any:
            obs, reward, *_ = super().step(action)
            return obs, reward, False, False, {}

    assert only(Endless()).where == "episode"
    assert problems(gym.wrappers.TimeLimit(Endless(), 20)) == []


def test_masks_are_checked_and_obeyed() -> None:
    class Masked(Good):
        mask = (1, 0)

        def action_masks(self) -> Any:
            return np.array(self.mask)

        def step(self, action: Any) -> Any:
            assert action == 0, "illegal"
            return super().step(action)

    class Empty(Good):
        def action_masks(self) -> Any:
            return np.zeros(2)

    class TooLong(Good):
        def action_masks(self) -> Any:
            return np.ones(3)

    assert problems(Masked()) == []
    assert "no legal action" in only(Empty()).what
    assert "has 3 entries, but Discrete(2) needs 2" in only(TooLong()).what


@pytest.mark.parametrize(
    ("space", "what"),
    [
        (spaces.Box(-np.inf, np.inf, (1,)), "not finite"),
        (spaces.Box(0, 1, (1,)), "not symmetric"),
        (spaces.Tuple([spaces.Discrete(2)]), "Tuple is not supported"),
    ],
)
def test_awkward_action_spaces_are_named(space: Any, what: str) -> None:
    env = Good()
    env.action_space = space
    assert what in only(env).what


def test_dict_observations_are_checked_key_by_key() -> None:
    class Keys(Good):
        observation_space = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Dict({})})

        def look(self) -> Any:
            return {"a": 7, "c": 1}

    found = {problem.where for problem in problems(Keys()) if problem.severity == "error"}
    assert {"observation_space['b']", "reset: observation", "reset: observation['a']"} <= found


def test_every_problem_is_listed_at_once_and_a_raise_carries_the_users_traceback() -> None:
    class Many(Good):
        metadata = {}  # noqa: RUF012

        def look(self) -> Any:
            return np.zeros(2)

        def step(self, action: Any) -> Any:
            raise RuntimeError("the wheel came off")

    found = {problem.where: problem for problem in problems(Many())}
    assert set(found) == {"metadata", "reset: observation", "step"}
    assert "the wheel came off" in found["step"].what
    assert "in step" in found["step"].what


def test_what_raises_while_being_built_is_a_problem_too() -> None:
    def build() -> gym.Env[Any, Any]:
        raise RuntimeError("no display")

    assert "no display" in only(build).what


def test_a_step_that_returns_nothing_is_found() -> None:
    class Forgetful(Good):
        def step(self, action: Any) -> Any:
            super().step(action)

    assert "it returned one NoneType" in only(Forgetful()).what


def test_problems_are_printed_and_errors_raised_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(Good):
        def look(self) -> Any:
            return np.zeros(3, np.float32)

    with pytest.raises(UserError, match=r"2 errors"):
        validate_environment(Broken(), raise_on_error=True)
    printed = capsys.readouterr().out
    assert "error: reset: observation: its shape is (3,)" in printed
    assert "2 errors, 0 warnings" in printed


@pytest.mark.parametrize(
    ("info", "what"),
    [
        ({"episode_report": "won"}, 'info["episode_report"] is a str, not a dict'),
        ({"episode": {"r": 1.0}}, 'info["episode"] has no numbers'),
        ({"episode": {"r": float("nan"), "l": 1}}, 'info["episode"] is not finite'),
    ],
)
def test_a_report_that_cannot_be_read_is_a_problem(info: dict[str, Any], what: str) -> None:
    class Reporting(Good):
        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, _ = super().step(action)
            return obs, reward, terminated, truncated, info if terminated else {}

    problem = only(Reporting())
    assert problem.severity == "error" and what in problem.what


def test_an_env_that_exits_or_cannot_be_closed_is_a_problem() -> None:
    class Exits(Good):
        def step(self, action: Any) -> Any:
            raise SystemExit(0)

    assert "it raised SystemExit: 0" in only(Exits()).what

    class Stuck(Good):
        def close(self) -> None:
            raise RuntimeError("stuck")

    assert only(Stuck).where == "close"

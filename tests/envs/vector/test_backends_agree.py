"""Both backends against each other, and against gymnasium's own SyncVectorEnv."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from vector_envs import Counting, DictObs, MultiChoice, Raises, Stateful, needs_extra

from ludus.envs.vector import make_vector
from ludus.envs.vector.base import ChunkedVectorEnv
from ludus.envs.vector.process import ProcessVectorEnv
from ludus.envs.vector.serial import SerialVectorEnv
from ludus.errors import CheckpointError, EnvFault, MissingExtra, UnknownName, UserError

ENVS: dict[str, list[Any]] = {
    "CartPole": [partial(gym.make, "CartPole-v1")] * 3,
    "Pendulum": [partial(gym.make, "Pendulum-v1", max_episode_steps=9)] * 3,
    "dict obs": [partial(DictObs, length=n) for n in (3, 4, 5)],
    "multi-discrete": [partial(MultiChoice, length=n) for n in (3, 4, 5)],
    "masks": [partial(Counting, length=n, masks=True) for n in (3, 4, 5)],
    "no infos": [partial(Counting, length=n, infos=False) for n in (3, 4, 5)],
}


def play(env: Any, steps: int = 30) -> list[Any]:
    env.action_space.seed(5)
    record: list[Any] = [env.reset(seed=[3, 17, 40])]
    record += [env.step(env.action_space.sample()) for _ in range(steps)]
    return record


def assert_same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, np.ndarray) and a.dtype != object:
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, np.ndarray):
        assert_same(list(a), list(b))
    else:
        assert a == b


def both(env_fns: list[Any], **kwargs: Any) -> Iterator[ChunkedVectorEnv]:
    for backend in ("serial", "process"):
        env = make_vector(env_fns, backend, **kwargs)
        yield env
        env.close()


@pytest.mark.parametrize("name", list(ENVS))
def test_serial_and_process_give_the_same_trajectory_with_workers_of_unequal_share(name: str) -> None:
    serial = SerialVectorEnv(ENVS[name])
    process = ProcessVectorEnv(ENVS[name], n_workers=2)
    assert_same(play(serial), play(process))
    process.close()


@pytest.mark.parametrize("name", [name for name in ENVS if name != "multi-discrete"])
def test_serial_plays_as_gymnasiums_same_step_autoreset(name: str) -> None:
    ours = SerialVectorEnv(ENVS[name])
    reference = SyncVectorEnv(ENVS[name], autoreset_mode=AutoresetMode.SAME_STEP)
    assert ours.metadata == reference.metadata
    assert ours.single_observation_space == reference.single_observation_space
    assert ours.observation_space == reference.observation_space
    assert ours.action_space == reference.action_space
    ended = 0
    for own, theirs in zip(play(ours), play(reference), strict=True):
        ended += "final_obs" in own[-1]
        assert_same(_sorted(own[-1]), _sorted(theirs[-1]))
        assert_same(own[:-1], theirs[:-1])
    assert ended >= 2


def _sorted(infos: dict[str, Any]) -> dict[str, Any]:
    return {key: infos[key] for key in sorted(infos)}


def test_an_env_that_reuses_its_buffers_is_seen_as_it_was() -> None:
    for env in both([partial(MultiChoice, length=3)] * 2):
        env.reset(seed=1)
        actions = np.array([[2, 1], [0, 1]])
        first = env.step(actions)[0]
        env.step(actions)
        obs, rewards, terminations, _, infos = env.step(actions)
        np.testing.assert_array_equal(actions, [[2, 1], [0, 1]])
        np.testing.assert_array_equal(first[:, 0], [1, 1])
        np.testing.assert_array_equal(first[:, 2:], actions)
        np.testing.assert_array_equal(rewards, [3.5, 3.5])
        assert terminations.all()
        assert [final[0] for final in infos["final_obs"]] == [3, 3]
        assert infos["final_info"]["count"].tolist() == [3, 3]
        assert obs[:, 0].tolist() == [0, 0]


def test_masks_belong_to_the_returned_observation_also_after_an_end() -> None:
    for env in both([partial(Counting, length=2, masks=True), partial(Counting, length=9, masks=True)]):
        legal = [env.reset(seed=0)[1]["action_mask"]]
        legal += [env.step(np.zeros(2, int))[4]["action_mask"] for _ in range(3)]
        # counts seen: env 0: 0 1 0 1, env 1: 0 1 2 3; the count modulo 3 is forbidden
        forbidden = [np.flatnonzero(~mask).tolist() for mask in legal]
        assert forbidden == [[0, 3], [1, 4], [0, 5], [1, 3]]
        assert legal[0].dtype == np.bool_
        assert legal[0].shape == (2, 3)


def test_env_without_masks_next_to_one_with_masks_may_do_anything() -> None:
    for env in both([Counting, partial(Counting, masks=True)]):
        for infos in (env.reset(seed=0)[1], env.step(np.zeros(2, int))[4]):
            assert infos["action_mask"][0].all()
            assert infos["action_mask"][1].sum() == 2


def test_options_reach_every_env_and_an_integer_seed_counts_up() -> None:
    for env in both([Counting] * 3):
        obs, _ = env.reset(seed=4, options={"start": 2})
        again, _ = env.reset(seed=[4, 5, 6], options={"start": 2})
        np.testing.assert_array_equal(obs, again)
        assert obs[:, 0].tolist() == [2, 2, 2]
        assert len(set(obs[:, 1])) == 3
        with pytest.raises(ValueError, match="2 seeds for 3 envs"):
            env.reset(seed=[1, 2])


def test_actions_that_do_not_fit_are_refused() -> None:
    for env in both([Counting] * 2):
        env.reset(seed=0)
        with pytest.raises(ValueError, match="shape"):
            env.step(np.zeros(1, int))
        with pytest.raises(TypeError):
            env.step(np.zeros(2, float))


def test_attributes_methods_and_frames_of_the_envs_can_be_reached() -> None:
    for env in both([Counting] * 3):
        env.reset(seed=0)
        env.set_attr("count", [7, 8, 9])
        assert env.get_attr("count") == (7, 8, 9)
        env.set_attr("length", 99)
        assert env.call("get_wrapper_attr", "length") == (99, 99, 99)
        assert env.render_mode == "rgb_array"
        frames = env.render()
        assert [frame[0, 0, 0] for frame in frames] == [7, 8, 9]


def _play_a_little(make: Any, env_fns: list[Any]) -> None:
    with contextlib.closing(make(env_fns, env_id="Ball-v0")) as env:
        env.reset(seed=20)
        for _ in range(4):
            env.step(np.zeros(3, int))


@pytest.mark.parametrize(("where", "seed"), [("constructor", None), ("reset", 21), ("step", 21)])
def test_a_fault_carries_the_users_own_traceback(where: str, seed: int | None) -> None:
    env_fns = [Counting, partial(Raises, where), Counting]
    faults = []
    for make in (SerialVectorEnv, partial(ProcessVectorEnv, n_workers=2)):
        with pytest.raises(EnvFault) as caught:
            _play_a_little(make, env_fns)
        faults.append(caught.value)
    serial, process = faults
    assert str(serial) == str(process)
    assert (serial.worker, serial.env_id, serial.seed) == (1, "Ball-v0", seed)
    assert vars(serial) == vars(process)
    text = serial.user_traceback
    assert "vector_envs.py" in text
    assert "ludus/envs/vector" not in text
    if where == "step":
        assert "in _deep_in_the_engine" in text
        assert text.rstrip().endswith("ZeroDivisionError: the ball is everywhere")


def test_a_user_error_in_a_constructor_passes_as_itself() -> None:
    for make in (SerialVectorEnv, ProcessVectorEnv):
        with pytest.raises(MissingExtra) as caught:
            make([needs_extra], env_id="Pong")
        assert caught.value.extra == "atari"
        assert str(caught.value) == str(MissingExtra("Pong", "atari"))


def test_an_observation_of_the_wrong_shape_or_kind_is_a_fault() -> None:
    class Wrong(Counting):
        def _obs(self) -> Any:
            return np.zeros(1, np.float32) if self.count else np.zeros(2, np.float32)

    class Complex(Counting):
        def _obs(self) -> Any:
            return np.zeros(2, np.complex64)

    for env in both([Wrong]):
        env.reset(seed=0)
        with pytest.raises(EnvFault, match=r"shape \(1,\), its space says \(2,\)"):
            env.step(np.zeros(1, int))
    for env in both([Complex]):
        with pytest.raises(EnvFault, match="complex64"):
            env.reset(seed=0)


def test_a_reset_or_step_that_returns_nonsense_is_a_fault() -> None:
    class OldReset(Counting):
        def reset(self, **kwargs: Any) -> Any:
            return super().reset(**kwargs)[0][:1]

    class NoReward(Counting):
        def step(self, action: Any) -> Any:
            return self._obs(), None, False, False, {}

    class NotADict(DictObs):
        def _obs(self) -> Any:
            return np.zeros(3)

    for env in both([OldReset]):
        with pytest.raises(EnvFault, match=r"reset\(\) raised ValueError"):
            env.reset(seed=0)
    for env in both([NoReward]):
        env.reset(seed=0)
        with pytest.raises(EnvFault, match=r"step\(\) raised TypeError"):
            env.step(np.zeros(1, int))
    for env in both([NotADict]):
        with pytest.raises(EnvFault, match="every key of its space"):
            env.reset(seed=0)


def test_wrapper_states_make_the_round_trip_outermost_first() -> None:
    env_fns = [lambda level=level: Stateful(Stateful(Counting(), level), 10 * level) for level in (1, 2, 3)]
    states = []
    for env in both(env_fns):
        env.reset(seed=0)
        env.step(np.zeros(3, int))
        states.append(env.wrapper_states())
        env.load_wrapper_states([[{"level": 5}, {"level": i}] for i in range(3)])
        assert env.wrapper_states() == [[{"level": 5}, {"level": i}] for i in range(3)]
        with pytest.raises(CheckpointError, match="1 wrapper states were saved, but the env has 2"):
            env.load_wrapper_states([[{"level": 5}]] * 3)
        with pytest.raises(CheckpointError, match="2 envs"):
            env.load_wrapper_states([[], []])
    assert states[0] == states[1] == [[{"level": 10 * i + 1}, {"level": i + 1}] for i in (1, 2, 3)]


def test_envs_that_differ_are_user_errors() -> None:
    for make in (SerialVectorEnv, partial(ProcessVectorEnv, n_workers=2)):
        with pytest.raises(UserError, match="space of env 1"):
            make([Counting, DictObs])
        with pytest.raises(UserError, match="at least one env"):
            make([])


def test_an_unknown_backend_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="serial"):
        make_vector([Counting], "seriell")


def test_a_closed_vector_env_can_be_closed_again_but_not_used() -> None:
    for env in both([Counting]):
        env.reset(seed=0)
        env.close()
        env.close()
        with pytest.raises(gym.error.ClosedEnvironmentError):
            env.step(np.zeros(1, int))
        with pytest.raises(gym.error.ClosedEnvironmentError):
            env.reset(seed=0)

"""A lost simulator affects only its own env, until its attempts are used up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from simulated import Simulated

from ludus.envs.vector.remote import RemoteVectorEnv
from ludus.errors import EnvFault, SimulatorLost
from ludus.rollout.stepper import Stepper

ACTIONS = np.zeros(3, dtype=np.int64)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"simulator-{index}" for index in range(3)]
    for path in paths:
        path.write_text("")
    return paths


@pytest.fixture
def envs(files: list[Path]) -> Iterator[RemoteVectorEnv]:
    made = RemoteVectorEnv([partial(Simulated, str(path)) for path in files], attempts=3, first_pause=0.05)
    yield made
    made.close()


def _step_until(envs: RemoteVectorEnv, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not reached():
        assert time.monotonic() < deadline, "never"
        envs.step(ACTIONS)
        time.sleep(0.01)


def test_each_env_has_a_worker_of_its_own(envs: RemoteVectorEnv) -> None:
    assert len(set(envs.worker_pids)) == 3


def test_other_envs_continue_while_one_is_away_and_it_returns_with_a_new_episode(
    envs: RemoteVectorEnv, files: list[Path]
) -> None:
    envs.reset(seed=1)
    envs.step(ACTIONS)
    files[1].rename(files[1].with_suffix(".away"))
    obs, rewards, terminated, truncated, infos = envs.step(ACTIONS)
    assert infos["dropped"].tolist() == [False, True, False]
    assert rewards.tolist() == [1.0, 0.0, 1.0] and not terminated.any() and not truncated.any()
    assert obs[[0, 2], 0].tolist() == [2.0, 2.0] and envs.away == [1]
    files[1].with_suffix(".away").rename(files[1])
    _step_until(envs, lambda: not envs.away)
    obs, *_, infos = envs.step(ACTIONS)
    assert "dropped" not in infos
    assert obs[1, 0] == 1.0 and obs[0, 0] == obs[2, 0] > 2.0


def test_stepper_counts_no_steps_of_an_env_that_is_away(envs: RemoteVectorEnv, files: list[Path]) -> None:
    stepper = Stepper(envs, lambda barrier, index: index, rebuild=False)
    stepper.barrier(0)
    files[0].unlink()
    assert stepper.step(ACTIONS).valid.tolist() == [False, True, True]


def test_attempts_in_a_row_are_bounded_and_the_last_error_names_the_simulator(
    envs: RemoteVectorEnv, files: list[Path]
) -> None:
    envs.reset(seed=1)
    files[2].unlink()
    with pytest.raises(SimulatorLost, match="simulator-2 is gone; 3 attempts") as caught:
        _step_until(envs, lambda: False)
    assert caught.value.where == str(files[2]) and caught.value.fix == "put it back"
    assert len(envs.wrapper_states()) == 3  # a last checkpoint can still be written


def test_a_killed_worker_is_a_lost_env_too(envs: RemoteVectorEnv) -> None:
    import os
    import signal

    envs.reset(seed=1)
    os.kill(envs.worker_pids[0], signal.SIGKILL)
    *_, infos = envs.step(ACTIONS)
    assert infos["dropped"].tolist() == [True, False, False]
    _step_until(envs, lambda: not envs.away)


def test_resets_and_states_do_not_wait_for_one_that_is_away(envs: RemoteVectorEnv, files: list[Path]) -> None:
    envs.reset(seed=1)
    files[1].unlink()
    envs.step(ACTIONS)
    obs, _ = envs.reset(seed=2)
    assert obs[[0, 2], 0].tolist() == [0.0, 0.0]
    assert envs.wrapper_states() == [[], [], []]
    assert envs.away == [1]


def test_when_all_are_away_a_step_waits(envs: RemoteVectorEnv, files: list[Path]) -> None:
    envs.reset(seed=1)
    for path in files:
        path.unlink()
    envs.step(ACTIONS)
    assert envs.away == [0, 1, 2]
    files[0].write_text("")
    *_, infos = envs.step(ACTIONS)
    assert infos["dropped"].all() and 0 not in envs.away


def test_a_simulator_missing_at_the_start_is_an_error_at_once(files: list[Path]) -> None:
    files[1].unlink()
    with pytest.raises(SimulatorLost, match="simulator-1 is gone"):
        RemoteVectorEnv([partial(Simulated, str(path)) for path in files])


def test_a_fault_of_the_env_itself_is_no_lost_simulator(envs: RemoteVectorEnv, files: list[Path]) -> None:
    envs.reset(seed=1)
    files[1].write_text("wrong")
    with pytest.raises(EnvFault, match="a fault of the env itself"):
        envs.step(ACTIONS)

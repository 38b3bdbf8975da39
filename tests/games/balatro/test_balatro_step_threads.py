"""The threads that step the games belong to one env in one process, and exit when the env is deleted."""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import signal
import threading
import time

import numpy as np
import pytest

from ludus.games.balatro.settings import BalatroSettings
from ludus.games.balatro.vector import BalatroVectorEnv

SETTINGS = BalatroSettings(actions="moves", max_hand=10)


def played(env: BalatroVectorEnv, steps: int = 30) -> np.ndarray:
    """Return the last observations after always choosing the first legal move."""
    obs, info = env.reset(seed=3)
    for _ in range(steps):
        obs, _, _, _, info = env.step(info["action_mask"].argmax(axis=1))
    return np.array(obs)


def pool_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("ludus-balatro")]


def test_threads_and_pipes_are_closed_when_the_env_is_deleted() -> None:
    played(BalatroVectorEnv(128, SETTINGS, threads=2), 1)  # whatever numba opens once
    gc.collect()
    deadline = time.monotonic() + 10
    while pool_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    before = len(os.listdir("/dev/fd"))
    env = BalatroVectorEnv(128, SETTINGS, threads=2)
    played(env, 2)
    assert len(pool_threads()) == 2
    del env
    while (pool_threads() or len(os.listdir("/dev/fd")) > before) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert not pool_threads()
    assert len(os.listdir("/dev/fd")) == before


def test_an_interrupted_step_is_finished_before_the_next() -> None:
    env, other = (BalatroVectorEnv(128, SETTINGS, threads=2) for _ in range(2))
    for one in (env, other):
        one.reset(seed=3)
    actions = other.restore(other.snapshot())[1]["action_mask"].argmax(axis=1)
    env.step_async(actions)  # as when Ctrl-C comes before `step_wait`
    other.step(actions)
    assert np.array_equal(env.snapshot()["games"].s, other.snapshot()["games"].s)


@pytest.mark.parametrize("actions", ["cards", "moves"])
def test_an_interrupt_while_waiting_for_a_step_is_harmless(actions: str) -> None:
    env = BalatroVectorEnv(2048, BalatroSettings(actions=actions, max_hand=10), threads=2)
    _, info = env.reset(seed=3)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    usual = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(5):
            env.step_async(info["action_mask"].argmax(axis=1))
            with contextlib.suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.0005)
                env.step_wait()
                signal.setitimer(signal.ITIMER_REAL, 0.0)
            _, info = env.restore(env.snapshot())  # hung, when a report was waited for that had been heard
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, usual)


def test_an_env_can_be_deleted_in_the_middle_of_a_step() -> None:
    for close in (True, False):
        env = BalatroVectorEnv(4096, SETTINGS, threads=2)
        _, info = env.reset(seed=3)
        env.step_async(info["action_mask"].argmax(axis=1))
        if close:
            env.close()
        del env
        gc.collect()
    np.ones((4096, 2000)).sum()  # memory that the threads would still write to, if they did


def test_masks_after_an_interrupted_step_match_the_games() -> None:
    env, other = (BalatroVectorEnv(512, BalatroSettings(max_hand=8), threads=2) for _ in range(2))
    for one in (env, other):
        _, info = one.reset(seed=3)
    first = info["action_mask"].argmax(axis=1)
    _, _, _, _, info = other.step(first)
    second = info["action_mask"].argmax(axis=1)
    env.step_async(first)
    env.step_async(second)  # nobody had ended the first
    env.step_wait()
    other.step(second)
    assert np.array_equal(env.snapshot()["games"].s, other.snapshot()["games"].s)
    assert np.array_equal(env.snapshot()["returns"], other.snapshot()["returns"])


def test_an_env_with_threads_cannot_be_deep_copied() -> None:
    with pytest.raises(TypeError, match="snapshot"):
        copy.deepcopy(BalatroVectorEnv(128, SETTINGS, threads=2))


def test_actions_of_the_wrong_shape_raise_value_error() -> None:
    env = BalatroVectorEnv(4, SETTINGS)
    env.reset(seed=1)
    with pytest.raises(ValueError, match="expected 4 actions, one per game"):
        env.step(np.zeros(3))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_starts_its_own_threads() -> None:
    env = BalatroVectorEnv(128, SETTINGS, threads=2)
    expected = played(env)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, b"same" if np.array_equal(played(env), expected) else b"other")
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        assert answer.read() == b"same"
    os.waitpid(child, 0)
    assert np.array_equal(played(env), expected)

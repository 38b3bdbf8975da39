"""The promises of the process backend when envs, workers or the driver die or hang."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vector_envs import Calamity, Counting, Stateful

from ludus.envs.vector.process import ProcessVectorEnv
from ludus.envs.vector.wire import Kind
from ludus.errors import EnvFault, UserError


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def gone_within(seconds: float, pids: list[int]) -> bool:
    deadline = time.monotonic() + seconds
    while any(map(is_alive, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def interrupted_step(env: ProcessVectorEnv) -> None:
    """Send a step without waiting for it, as a KeyboardInterrupt in the driver does."""
    for worker in env._workers:
        worker.send(Kind.STEP, timeout=1.0)


def open_descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def step_often(env: ProcessVectorEnv) -> None:
    for _ in range(12):
        env.step(actions(env))


def actions(env: ProcessVectorEnv) -> Any:
    return np.zeros(env.num_envs, int)


def test_a_killed_worker_is_replaced_and_its_envs_are_marked_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    env = ProcessVectorEnv([partial(Counting, 50)] * 5, n_workers=2)
    env.reset(seed=0)
    for _ in range(3):
        env.step(actions(env))
    victim = env.worker_pids[1]  # owns envs 2, 3 and 4
    os.kill(victim, signal.SIGKILL)
    obs, rewards, terminations, truncations, infos = env.step(actions(env))
    assert infos["dropped"].tolist() == [False, False, True, True, True]
    assert obs[:, 0].tolist() == [4, 4, 0, 0, 0]
    assert rewards.tolist() == [4.5, 4.5, 0, 0, 0]
    assert infos["count"].tolist() == [4, 4, 0, 0, 0]
    assert not terminations.any()
    assert not truncations.any()
    assert (env.dropped_episodes, env.respawned) == (3, 1)
    assert len(set(obs[2:, 1])) == 3
    obs, _, _, _, infos = env.step(actions(env))
    assert "dropped" not in infos
    assert obs[:, 0].tolist() == [5, 5, 1, 1, 1]
    assert [record.name for record in caplog.records] == ["ludus.envs"]
    assert "SIGKILL" in caplog.text
    assert gone_within(0, [victim])
    env.close()


def test_a_replacement_is_seeded_the_same_way_every_time() -> None:
    seen = []
    for _ in range(2):
        env = ProcessVectorEnv([Counting], n_workers=1)
        first, _ = env.reset(seed=11)
        os.kill(env.worker_pids[0], signal.SIGKILL)
        seen.append(env.step(actions(env))[0])
        assert not np.array_equal(seen[-1], first)
        env.close()
    np.testing.assert_array_equal(seen[0], seen[1])


@pytest.mark.parametrize("what", ["hang", "exit"])
def test_a_worker_that_hangs_or_exits_in_a_step_is_replaced(what: str, tmp_path: Path) -> None:
    env_fns = [partial(Counting, 50), partial(Calamity, what, str(tmp_path / "flag"))]
    env = ProcessVectorEnv(env_fns, n_workers=2, deadline=0.4)
    env.reset(seed=0)
    results = [env.step(actions(env)) for _ in range(4)]
    assert [result[0][:, 0].tolist() for result in results] == [[1, 1], [2, 2], [3, 0], [4, 1]]
    assert ["dropped" in result[4] for result in results] == [False, False, True, False]
    env.close()


def test_a_worker_that_dies_in_reset_is_replaced_and_reset_with_the_seed_asked_for(tmp_path: Path) -> None:
    env = ProcessVectorEnv([partial(Calamity, "die in reset", str(tmp_path / "flag"), when=-1)])
    obs, infos = env.reset(seed=8)
    untroubled = ProcessVectorEnv([Counting])
    np.testing.assert_array_equal(obs, untroubled.reset(seed=8)[0])
    assert (env.respawned, env.dropped_episodes) == (1, 0)
    assert "dropped" not in infos
    env.close()
    untroubled.close()


def test_worker_lost_between_steps_is_reported_in_the_next_one() -> None:
    env = ProcessVectorEnv([lambda: Stateful(Counting(50))] * 2, n_workers=2)
    env.reset(seed=0)
    env.load_wrapper_states([[{"level": 3}], [{"level": 4}]])
    env.step(actions(env))
    os.kill(env.worker_pids[1], signal.SIGKILL)
    assert env.wrapper_states() == [[{"level": 4}], [{"level": 4}]]  # env 1 falls back to what was loaded
    obs, _, _, _, infos = env.step(actions(env))
    assert obs[:, 0].tolist() == [2, 0]
    assert infos["dropped"].tolist() == [False, True]
    assert env.dropped_episodes == 1
    env.close()


def test_the_budget_of_respawns_ends_in_a_fault_that_says_how_the_worker_died() -> None:
    env = ProcessVectorEnv([Counting, partial(Calamity, "exit")], n_workers=2, respawns=2, env_id="Doom-v0")
    env.reset(seed=30)
    with pytest.raises(EnvFault, match=r"exited with code 7, and all 2 respawns are used up") as caught:
        step_often(env)
    assert (env.respawned, caught.value.worker, caught.value.env_id) == (2, 1, "Doom-v0")
    env.close()


def test_a_worker_that_dies_while_building_is_a_fault_at_once() -> None:
    def die() -> Any:
        os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(EnvFault, match="killed by SIGSEGV before its envs were built"):
        ProcessVectorEnv([die])


@pytest.mark.parametrize("what", ["hang", "hang in close"])
def test_close_returns_and_leaves_nothing_when_an_env_hangs(what: str) -> None:
    descriptors = open_descriptors()
    env = ProcessVectorEnv([Counting, partial(Calamity, what)], n_workers=2)
    env.reset(seed=0)
    if what == "hang":
        for _ in range(3):
            interrupted_step(env)
    pids = env.worker_pids
    env.close()
    assert gone_within(0, pids)
    assert open_descriptors() == descriptors


def test_an_interrupted_step_does_not_confuse_the_answers_that_follow() -> None:
    def slow() -> Counting:
        class Slow(Counting):
            def step(self, action: Any) -> Any:
                time.sleep(0.1)
                return super().step(action)

        return Slow(50)

    env = ProcessVectorEnv([slow])
    env.reset(seed=0)
    interrupted_step(env)
    assert env.get_attr("count") == (1,)
    assert env.step(actions(env))[0][:, 0].tolist() == [2]
    env.close()


def test_a_forgotten_vector_env_takes_its_workers_with_it() -> None:
    descriptors = open_descriptors()
    env = ProcessVectorEnv([Counting] * 2, n_workers=2)
    env.reset(seed=0)
    pids = env.worker_pids
    del env
    gc.collect()
    assert gone_within(0, pids)
    assert open_descriptors() == descriptors


def test_programs_an_env_has_started_end_with_its_worker() -> None:
    class WithServer(Counting):
        def __init__(self) -> None:
            super().__init__()
            self.server = subprocess.Popen(["sleep", "600"]).pid

    env = ProcessVectorEnv([WithServer])
    pids = list(env.get_attr("server"))
    assert is_alive(pids[0])
    env.close()
    assert gone_within(5, pids)


def test_functions_that_cannot_travel_are_a_user_error() -> None:
    lock = threading.Lock()
    with pytest.raises(UserError, match="cannot be sent"):
        ProcessVectorEnv([lambda: (lock, Counting())[1]])


def test_an_info_that_cannot_travel_is_a_fault() -> None:
    class Locked(Counting):
        def _info(self) -> dict[str, Any]:
            return {"lock": threading.Lock()}

    env = ProcessVectorEnv([Locked])
    with pytest.raises(EnvFault, match="cannot be sent to the driver"):
        env.reset(seed=0)
    env.close()


SCRIPT = r"""
import ctypes, os, sys, time
import gymnasium as gym
import numpy as np
from gymnasium import spaces
from ludus.envs.vector.process import ProcessVectorEnv

print("script runs", flush=True)

class Local(gym.Env):
    argv = property(lambda self: sys.argv[1])
    observation_space = spaces.Box(0.0, 9.0, (1,), np.float32)
    action_space = spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}
    def step(self, action):
        if sys.argv[1] != "play":
            os.write(1, b"hanging\n")
            if sys.argv[1] == "sleep":
                time.sleep(600)
            ctypes.PyDLL(None).sleep(600)  # keeps every other thread from running
        return np.ones(1, np.float32), 1.0, False, False, {"of": type(self)}

gym.register("Local-v0", Local)
env = ProcessVectorEnv([lambda: gym.make("Local-v0")] * 2, n_workers=2)
env.reset(seed=0)
print(*env.worker_pids, flush=True)
obs, rewards, _, _, infos = env.step(np.zeros(2, int))
assert infos["of"][0] is Local, infos
print("total", rewards.sum(), "torch" in sys.modules, *env.get_attr("argv"))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_without_a_main_guard_and_without_close_runs_once_and_ends(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script), "play"], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == "script runs"
    assert lines[2] == "total 2.0 False play play"
    assert len(lines) == 3
    assert gone_within(0, [int(pid) for pid in lines[1].split()])


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("hang", ["sleep", "freeze"])
def test_a_driver_killed_while_envs_hang_leaves_no_worker_and_no_named_memory(
    script: Path, hang: str, death: signal.Signals
) -> None:
    driver = subprocess.Popen([sys.executable, str(script), hang], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    assert driver.stdout.readline() == "script runs\n"
    pids = [int(pid) for pid in driver.stdout.readline().split()]
    assert len(pids) == 2
    assert [driver.stdout.readline() for _ in pids] == ["hanging\n"] * 2
    assert all(map(is_alive, pids))
    mapped = Path(f"/proc/{pids[0]}/maps").read_text()
    assert "/memfd:ludus-batch (deleted)" in mapped
    assert "/dev/shm" not in mapped
    driver.send_signal(death)
    driver.wait(10)
    assert gone_within(5, pids)
    driver.stdout.close()


def test_workers_started_from_a_thread_outlive_it() -> None:
    made: list[ProcessVectorEnv] = []
    thread = threading.Thread(target=lambda: made.append(ProcessVectorEnv([Counting] * 2, n_workers=2)))
    thread.start()
    thread.join()
    env = made[0]
    env.reset(seed=0)
    assert env.step(actions(env))[0][:, 0].tolist() == [1, 1]
    assert env.respawned == 0
    env.close()


def test_ctrl_c_in_the_terminal_does_not_reach_the_workers() -> None:
    env = ProcessVectorEnv([Counting])
    env.reset(seed=0)
    os.kill(env.worker_pids[0], signal.SIGINT)
    assert env.step(actions(env))[0][:, 0].tolist() == [1]
    assert env.respawned == 0
    env.close()


def test_shared_memory_works_without_memfd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    env = ProcessVectorEnv([Counting])
    assert env.reset(seed=0)[0].shape == (1, 2)
    env.close()


def test_a_worker_imports_nothing_of_envs_that_others_registered(tmp_path: Path) -> None:
    (tmp_path / "heavy.py").write_text(
        "import gymnasium as gym\nclass Heavy(gym.Env): pass\ngym.register('Heavy-v0', Heavy)\n"
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import heavy, gymnasium as gym\n"
        "from ludus.envs.vector.process import ProcessVectorEnv\n"
        "class Look(gym.Wrapper):\n"
        "    seen = property(lambda self: ('heavy' in sys.modules, 'Heavy-v0' in gym.registry))\n"
        "env = ProcessVectorEnv([lambda: Look(gym.make('CartPole-v1'))], n_workers=1)\n"
        "print(*env.get_attr('seen'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "(False, True)\n", done.stderr

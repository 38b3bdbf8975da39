"""Env workers that are killed, hang, raise, leak or babble: found, replaced, counted, and no sample is made up."""

from __future__ import annotations

import logging
import os
import random
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ill_envs import Counted, Ill

from ludus.config.schema import TrainerConfig
from ludus.envs.vector.process import ProcessVectorEnv
from ludus.errors import EnvFault
from ludus.rollout.stepper import Stepper
from ludus.runs.checkpoints import CheckpointManager
from ludus.training.base import TrainResult
from ludus.training.factory import create_trainer

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
STORM_SECONDS = float(os.environ.get("LUDUS_STORM_SECONDS", "60"))
CAUSES = {
    "sleep in step": "did not answer for 1 s in step",
    "sleep in reset": "did not answer for 1 s in step",  # which begins the next episode
    "raise": "failed: step() raised RuntimeError: the board is gone",
    "exit": "exited with code 7",
    "crash": "was killed by SIGSEGV",
    "leak": "MemoryError",
    "write to sockets": "sent invalid data",
}


class Audit:
    """Steps a vector env and holds every sample that counts to what the env must have given."""

    def __init__(self, envs: Any) -> None:
        self.stepper = Stepper(envs, lambda barrier, index: 100 + index)
        self.stepper.barrier(0)
        self.counted = self.not_counted = 0

    def step(self) -> None:
        before = np.array(self.stepper.obs)
        step = self.stepper.step(np.zeros(self.stepper.n_envs, np.int64))
        after = np.array(self.stepper.obs)
        for index, last in step.final_obs.items():
            after[index] = last
        assert (after[step.valid, 0] == before[step.valid, 0] + 1).all(), "a sample was lost or made up"
        assert (step.rewards[step.valid] == after[step.valid, 0]).all()
        assert (after[:, 1] == before[:, 1]).all(), "an env took the place of another"
        assert (step.rewards[~step.valid] == 0).all()
        assert (after[~step.valid, 0] == 0).all(), "a replaced env starts a new episode"
        assert not step.ended[~step.valid].any()
        self.counted += int(step.valid.sum())
        self.not_counted += int((~step.valid).sum())


def falls_ill(ill: str, tmp_path: Path, record_fault: Any, caplog: pytest.LogCaptureFixture) -> None:
    flag = tmp_path / "was-ill"
    envs = ProcessVectorEnv(
        [Counted, partial(Ill, ill, str(flag))], n_workers=2, deadline=1.0, env_id="Ill-v0"
    )
    try:
        audit = Audit(envs)
        with caplog.at_level(logging.WARNING, "ludus"):
            for _ in range(300):
                audit.step()
        assert flag.exists(), "it never fell ill"
        record_fault(f"env worker: {ill}", 1, int(envs.respawned == 1), "1 episode")
        assert (envs.respawned, envs.dropped_episodes, audit.not_counted) == (1, 1, 1)
        assert audit.counted == 2 * 300 - 1
        assert CAUSES[ill] in caplog.text
        assert "the worker of envs 1 to 1 of Ill-v0" in caplog.text
    finally:
        began = time.monotonic()
        envs.close()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("ill", ["raise", "write to sockets"])
def test_one_faulty_worker_is_replaced(
    ill: str, tmp_path: Path, record_fault: Any, caplog: pytest.LogCaptureFixture
) -> None:
    falls_ill(ill, tmp_path, record_fault, caplog)


@pytest.mark.faults
@pytest.mark.parametrize("ill", sorted(set(CAUSES) - {"raise", "write to sockets"}))
def test_other_faulty_workers_are_replaced(
    ill: str, tmp_path: Path, record_fault: Any, caplog: pytest.LogCaptureFixture
) -> None:
    falls_ill(ill, tmp_path, record_fault, caplog)


@pytest.mark.faults
def test_what_an_env_prints_disturbs_nobody(
    tmp_path: Path, record_fault: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    envs = ProcessVectorEnv([Counted, partial(Ill, "babble", str(tmp_path / "was-ill"))], n_workers=2)
    audit = Audit(envs)
    for _ in range(300):
        audit.step()
    envs.close()
    record_fault("env worker: babble", 1, int(envs.respawned == 0))
    assert (envs.respawned, audit.counted, audit.not_counted) == (0, 600, 0)
    assert "nonsense" in capfd.readouterr().err


@pytest.mark.faults
def test_one_that_sleeps_in_close_is_replaced_at_a_barrier_and_left_behind_at_the_end(
    tmp_path: Path, record_fault: Any, caplog: pytest.LogCaptureFixture
) -> None:
    envs = ProcessVectorEnv(
        [Counted, partial(Ill, "sleep in close", str(tmp_path / "was-ill"))], n_workers=2, deadline=1.0
    )
    audit = Audit(envs)  # a barrier closes every env and builds it again
    for _ in range(100):
        audit.step()
    began = time.monotonic()
    envs.close()
    took = time.monotonic() - began
    record_fault("env worker: sleep in close", 2, int(envs.respawned == 1) + int(took < 5))
    assert (envs.respawned, envs.dropped_episodes, audit.counted, audit.not_counted) == (1, 0, 200, 0)
    assert "did not answer for 1 s in rebuild" in caplog.text
    assert took < 5


def test_an_env_that_raises_again_and_again_ends_the_run_with_its_own_traceback(tmp_path: Path) -> None:
    envs = ProcessVectorEnv(
        [partial(Ill, "raise", str(tmp_path / "no-such-folder" / "flag"), 120)], respawns=1, env_id="Ill-v0"
    )
    audit = Audit(envs)

    def play() -> None:
        for _ in range(1000):
            audit.step()

    try:
        with pytest.raises(EnvFault, match="FileNotFoundError") as caught:  # it cannot remember having raised
            play()
    finally:
        envs.close()
    assert envs.respawned == 1
    assert "ill_envs.py" in caught.value.user_traceback
    assert audit.counted == 119 + 119


def test_worker_is_killed_before_its_driver_when_out_of_memory() -> None:
    envs = ProcessVectorEnv([Counted], n_workers=1)
    envs.reset(seed=0)
    try:
        own = int(Path("/proc/self/oom_score_adj").read_text())
        assert int(Path(f"/proc/{envs.worker_pids[0]}/oom_score_adj").read_text()) > own
        os.kill(envs.worker_pids[0], signal.SIGKILL)  # as the kernel does it
        logger = logging.getLogger("ludus.envs")
        records: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
        logger.addHandler(handler)
        try:
            envs.step(np.zeros(1, np.int64))
        finally:
            logger.removeHandler(handler)
        assert "was killed by SIGKILL, out of memory perhaps: workers held up to" in records[0]
    finally:
        envs.close()


@pytest.mark.faults
def test_a_storm_of_kills_and_every_sample_is_one_that_was_played(
    record_fault: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A random worker every five seconds. LUDUS_STORM_SECONDS=300 for the long one."""
    kills = max(int(STORM_SECONDS / 5), 2)
    rng = random.Random(7)
    envs = ProcessVectorEnv([partial(Counted, index) for index in range(5)], n_workers=2, respawns=kills)
    sizes = [2, 3]
    killed: list[tuple[float, int]] = []
    found: list[float] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(time.monotonic())  # type: ignore[method-assign]
    logging.getLogger("ludus.envs").addHandler(handler)
    try:
        audit = Audit(envs)
        began = time.monotonic()
        steps = 0
        for number in range(kills):
            while time.monotonic() < began + 5 * (number + rng.random() * 0.5 + 0.5):
                audit.step()
                steps += 1
                time.sleep(0.002)  # five minutes of it should not be five minutes of work
            victim = rng.randrange(2)
            pid = envs.worker_pids[victim]

            def kill(pid: int = pid, victim: int = victim) -> None:
                killed.append((time.monotonic(), victim))
                os.kill(pid, signal.SIGKILL)

            threading.Timer(rng.random() * 0.2, kill).start()  # at any moment of a step
            while envs.respawned <= number:
                audit.step()
                steps += 1
        for _ in range(100):
            audit.step()
            steps += 1
    finally:
        envs.close()
        logging.getLogger("ludus.envs").removeHandler(handler)
    delays = [seen - at for (at, _), seen in zip(killed, found, strict=True)]
    lost = sum(sizes[victim] for _, victim in killed)
    survived = sum(delay < 1.0 for delay in delays)
    record_fault("env worker: killed at random", kills, survived, f"{lost} of {5 * steps:,} samples")
    assert max(delays) < 1.0, "detected in a second"
    assert envs.respawned == kills
    assert audit.not_counted == envs.dropped_episodes == lost
    assert audit.counted == 5 * steps - lost


@pytest.mark.faults
def test_training_continues_through_kills_and_counts_its_samples(tmp_path: Path, record_fault: Any) -> None:
    settings = TrainerConfig.model_validate(
        {
            "algorithm": "PPO",
            "n_envs": 4,
            "vector": "process",
            "total_timesteps": 16_000,
            "hyperparams": {"n_steps": 128, "batch_size": 128, "n_epochs": 1, "policy_net_arch": [8]},
            "checkpoint": {"every": 8_000},
            "evaluation": {"every": None},
            "tracking": {"every": 512, "tensorboard": False},
            "run_dir": str(tmp_path / "run"),
        }
    )
    trainer: Any = create_trainer(Counted, settings)
    counted, killed = [0], [0]
    collect = None

    def watch(local: Any, global_: Any) -> None:
        envs = trainer.get_env()
        if killed[0] < 4 and trainer.num_timesteps > 3_000 * (killed[0] + 1):
            killed[0] += 1
            os.kill(envs.worker_pids[killed[0] % len(envs.worker_pids)], signal.SIGKILL)

    trainer.create_model()
    collect = trainer.collector.collect

    def counting(policy: Any) -> Any:
        rollout = collect(policy)
        counted[0] += int(rollout.valid.sum())
        played = rollout.obs[rollout.valid] if not isinstance(rollout.obs, dict) else rollout.obs["obs"]
        assert len(played) == rollout.steps
        return rollout

    trainer.collector.collect = counting
    result = trainer.train(callback=watch)
    envs = trainer.get_env()
    respawned, dropped = envs.respawned, envs.dropped_episodes
    trainer.close()
    record_fault("env worker: killed under a training", 4, int(respawned == 4) * 4, f"{dropped} episodes")
    assert respawned == 4
    assert result.steps == counted[0]
    assert result.steps >= 16_000
    assert result.steps % 4 != 0 or dropped % 4 == 0


def test_a_worker_that_hangs_does_not_keep_a_training_from_its_last_checkpoint(
    tmp_path: Path, record_fault: Any, caplog: pytest.LogCaptureFixture
) -> None:
    flag = tmp_path / "was-ill"
    config = TrainerConfig(
        algorithm="PPO",
        n_envs=1,
        vector="process",
        total_timesteps=100_000,
        hyperparams={"n_steps": 32, "batch_size": 32, "n_epochs": 1, "policy_net_arch": [8]},
        checkpoint={"every": None},
        evaluation={"every": None},
        tracking={"tensorboard": False},
        save_dir=str(tmp_path / "runs"),
    )
    trainer = create_trainer(partial(Ill, "sleep in step", str(flag), at=50), config)
    sent: list[float] = []

    def stop() -> None:
        while not flag.exists():
            time.sleep(0.05)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    result = trainer.train()
    took = time.monotonic() - sent[0]
    trainer.close()
    thread.join()
    assert isinstance(result, TrainResult)
    record_fault("SIGTERM while an env worker hangs", 1, int(took < 10), f"over within {took:.1f} s")
    assert (result.status, result.exit_code, result.steps) == ("interrupted", 143, 32)
    assert CheckpointManager(result.run / "checkpoints").newest_intact() is not None
    assert took < 30, "the deadline of a worker is 60 s"

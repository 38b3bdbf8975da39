"""Training on simulators over real sockets: learning, checkpoints, resume, latency metrics."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standins import StandInThread, free_ports, playing, unity_spec

from ludus.config.loading import load_config
from ludus.config.schema import TrainerConfig
from ludus.errors import CheckpointError
from ludus.games.unity.vector import UnityVectorEnv
from ludus.runs.checkpoints import CheckpointManager
from ludus.training.factory import create_trainer
from ludus.training.native import NativeTrainer

PRESET = Path(__file__).parents[3] / "configs" / "unity-uc1.yaml"
DATA = Path(__file__).parents[2] / "data"


@contextlib.contextmanager
def simulators(n: int, *options: str) -> Iterator[int]:
    """Run `ludus unity simulator` in its own process; yield the port."""
    port = free_ports(n)
    command = [
        sys.executable,
        "-m",
        "ludus",
        "unity",
        "simulator",
        "--n",
        str(n),
        "--port",
        str(port),
        *options,
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(10)


def preset(folder: Path, port: int, *overrides: str) -> TrainerConfig:
    quiet = ["tracking.tensorboard=false", f"save_dir={folder}", f"env.kwargs.port={port}"]
    return load_config(PRESET, [*quiet, *overrides]).config


def rows(run: Path, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / name).read_text("utf-8").splitlines()]


def test_ppo_on_eight_simulators_learns_to_reach_the_target(tmp_path: Path) -> None:
    with simulators(8, "--obstacles", "0") as port:
        config = preset(
            tmp_path,
            port,
            "total_timesteps=12_288",
            "hyperparams.n_steps=128",
            "evaluation=null",
            "tracking.every=1",
        )
        trainer = create_trainer(None, config)
        result: Any = trainer.train()
        trainer.close()
    episodes = rows(result.run, "episodes.jsonl")
    first, last = episodes[:30], episodes[-30:]
    assert np.mean([episode["reward"] for episode in last]) > np.mean([e["reward"] for e in first]) + 1.0
    assert np.mean([bool(episode["success"]) for episode in last]) > 0.5
    metrics = rows(result.run)[-1]
    assert 0.0 < metrics["time/sim_inside_ms"] < metrics["time/sim_ms"] <= metrics["time/sim_ms_p99"]
    assert "stand-in simulator, not a Unity build" in (result.run / "logs" / "train.log").read_text("utf-8")


def small(folder: Path, standins: StandInThread, *overrides: str) -> TrainerConfig:
    return preset(
        folder,
        standins.port,
        "n_envs=2",
        "hyperparams.n_steps=32",
        "hyperparams.batch_size=32",
        "hyperparams.n_epochs=1",
        "checkpoint.every=128",
        "total_timesteps=256",
        *overrides,
    )


def test_evaluation_borrows_a_simulator_and_the_run_can_be_extended(tmp_path: Path) -> None:
    with playing(2) as standins:
        config = small(
            tmp_path, standins, "evaluation.every=128", "evaluation.episodes=2", "env.max_episode_steps=20"
        )
        trainer = create_trainer(None, config)
        result: Any = trainer.train()
        trainer.close()
        assert result.evaluation["episodes"] == 2
        # these simulators ignore seeds, so runs cannot be repeated exactly
        with pytest.raises(CheckpointError, match="none is exact"):
            CheckpointManager(result.run / "checkpoints").newest_intact(exact_only=True)
        again = create_trainer(None, config)
        assert isinstance(again, NativeTrainer)
        again.resume(result.run)
        assert again.train(512).steps == 512
        again.close()


def test_training_continues_when_a_simulator_dies(tmp_path: Path) -> None:
    with playing(2) as standins:
        trainer = create_trainer(None, small(tmp_path, standins, "evaluation=null", "total_timesteps=512"))
        killed = False

        def kill_one(locals_: Any, globals_: Any) -> bool:
            nonlocal killed
            if not killed and trainer.num_timesteps > 100:
                killed = True
                standins.stop(1)
                standins.start(1)
            return True

        result: Any = trainer.train(callback=kill_one)
        trainer.close()
        assert killed and result.status == "finished"
        assert "loss 1 of 10" in (result.run / "logs" / "train.log").read_text("utf-8")


@pytest.mark.parametrize("algorithm", ["SAC", "A2C"])
def test_other_algorithms_train_on_simulators(tmp_path: Path, algorithm: str) -> None:
    with playing(2, "uc3") as standins:
        config = TrainerConfig(
            algorithm=algorithm,
            env={"id": "ludus/Unity-v0", "kwargs": unity_spec(standins.port, "uc3").kwargs},
            n_envs=2,
            total_timesteps=64,
            evaluation=None,
            tracking=None,
            save_dir=str(tmp_path),
        )
        trainer = create_trainer(None, config)
        assert trainer.train().status == "finished"
        trainer.close()


def test_engine_sb3_trains_on_simulators(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    with playing(2) as standins:
        trainer = create_trainer(None, small(tmp_path, standins, "engine=sb3", "evaluation=null"))
        assert trainer.train().status == "finished"
        trainer.close()


def test_config_of_the_document_trains_unchanged(tmp_path: Path) -> None:
    with playing(1) as standins:
        loaded = load_config(
            DATA / "unity" / "config.yml",
            [f"env.kwargs.port={standins.port}", "total_timesteps=64", "hyperparams.n_steps=64",
             "hyperparams.batch_size=64", "evaluation=null", f"save_dir={tmp_path}", "tracking=null"],
        )  # fmt: skip
        trainer = create_trainer(None, loaded.config)
        result: Any = trainer.train()
        trainer.close()
        assert result.status == "finished"


@pytest.mark.faults
def test_killed_run_resumes_on_the_same_simulators(tmp_path: Path) -> None:
    with simulators(2) as port:
        overrides = [
            "n_envs=2", "hyperparams.n_steps=64", "hyperparams.batch_size=32", "checkpoint.every=256",
            "evaluation=null", f"save_dir={tmp_path}", f"env.kwargs.port={port}", "total_timesteps=20_000",
        ]  # fmt: skip
        driver = subprocess.Popen([sys.executable, "-m", "ludus", "train", str(PRESET), "-q", *overrides])
        while not list(tmp_path.glob("*/*/*/checkpoints/latest.json")):
            assert driver.poll() is None
        driver.kill()
        driver.wait()
        run = next(tmp_path.rglob("run.json")).parent
        saved = CheckpointManager(run / "checkpoints").newest_intact()
        assert saved is not None
        done = subprocess.run(
            [sys.executable, "-m", "ludus", "resume", str(run), "--steps", str(saved.step + 512), "--json"],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert json.loads(done.stdout.splitlines()[-1])["status"] == "finished"


def steer(obs: np.ndarray) -> np.ndarray:
    """Drive towards the target and ignore obstacles."""
    right, ahead = obs[:, 0], obs[:, 1]
    bearing = np.arctan2(-right, ahead)
    return np.stack([np.cos(bearing), np.clip(bearing, -1, 1)], axis=1).astype(np.float32)


@pytest.mark.learning
def test_ppo_beats_a_driver_that_ignores_obstacles(tmp_path: Path) -> None:
    with simulators(8) as port:
        envs = UnityVectorEnv(unity_spec(port), 8)
        obs, _ = envs.reset()
        returns, running = [], np.zeros(8)
        while len(returns) < 200:
            obs, rewards, terminated, truncated, _ = envs.step(steer(np.asarray(obs)))
            running += rewards
            for index in np.flatnonzero(terminated | truncated):
                returns.append(running[index])
                running[index] = 0.0
        envs.close()
        trainer = create_trainer(None, preset(tmp_path, port))
        trainer.train()
        mean, _ = trainer.evaluate(50)
        trainer.close()
    print(f"scripted {np.mean(returns):.2f}, PPO {mean:.2f}")
    assert mean > np.mean(returns)

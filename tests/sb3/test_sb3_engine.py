"""Every algorithm of Stable-Baselines3 trains, saves, resumes to the byte and plays, in the runs Ludus writes."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import odd_envs  # noqa: F401  # registers its envs
import pytest
import torch
from sb3_runs import HYPERPARAMS, tiny_sb3
from stable_baselines3 import PPO as SB3PPO
from stable_baselines3.common import callbacks as sb3_callbacks
from tiny_runs import resumed, rows, same, steps_of, trained, trainer_for

import ludus
from ludus.config.registry import find_algorithm
from ludus.errors import ConfigError, UserError
from ludus.evaluation.evaluate import evaluate
from ludus.evaluation.load import load
from ludus.rollout.stepper import Stepper
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.sb3.trainer import SB3Trainer
from ludus.training.callbacks import BaseCallback

LINEAR = {"learning_rate": {"linear": [1e-3, 1e-4]}}
EVERY = {"checkpoint": {"every": 50, "keep": 0}, "evaluation": {"every": 120, "episodes": 2}}

MORE_CASES: dict[str, dict[str, Any]] = {
    "n-step returns": {"algorithm": "DQN", "hyperparams": {"n_steps": 3}},
    "a memory-saving buffer": {
        "algorithm": "DQN",
        "hyperparams": {
            "optimize_memory_usage": True,
            "replay_buffer_kwargs": {"handle_timeout_termination": False},
        },
    },
    "state-dependent exploration": {"algorithm": "SAC", "hyperparams": {"use_sde": True}},
    "a dict and PPO": {"env": "odd_envs:DictWalk-v0"},
    "a dict and DQN": {"algorithm": "DQN", "env": "odd_envs:DictWalk-v0"},
    "pictures": {
        "env": {"id": "odd_envs:PictureWalk-v0", "frame_stack": 2},
        "policy": {"features_dim": 8},
        "hyperparams": {"n_steps": 16, "batch_size": 16, "n_epochs": 1},
        "total_timesteps": 160,
    },
    "Ludus's own extractor": {"policy": {"features_extractor": "ResnetMLP", "features_dim": 8}},
    "Ludus's own extractor of a dict": {
        "algorithm": "A2C",
        "env": "odd_envs:DictWalk-v0",
        "policy": {"features_extractor": "ResnetMLP", "features_dim": 8},
    },
    "switches": {"algorithm": "A2C", "env": "odd_envs:SwitchWalk-v0"},
    "no normalisation": {"normalize_obs": False, "normalize_reward": False},
    "a total in updates": {"algorithm": "DQN", "total_timesteps": "30 updates"},
    "all envs in one compiled step": {"vector": "batched"},
}


@pytest.mark.parametrize("case", [*HYPERPARAMS, *MORE_CASES])
def test_trains_saves_resumes_to_the_byte_and_evaluates(case: str, tmp_path: Path) -> None:
    fields: dict[str, Any] = (
        {"algorithm": case, "hyperparams": LINEAR} if case in HYPERPARAMS else MORE_CASES[case]
    )
    config = tiny_sb3(tmp_path / "whole", **(EVERY | fields))
    whole = trained(config)
    cut = RunDirectory.open(shutil.copytree(whole.path, tmp_path / "cut"))
    steps = [
        checkpoint.step
        for checkpoint in CheckpointManager(cut.checkpoints_dir).list()
        if checkpoint.resumable
    ]
    middle = steps[0] if len(steps) < 3 else steps[1]
    assert CheckpointManager(cut.checkpoints_dir).find(middle).exact
    assert middle < steps[-1]
    assert resumed(cut, middle) == middle
    same(whole, cut)

    assert whole.info()["status"] == "finished"
    last = [row for row in rows(whole) if "eval/mean_reward" in row][-1]
    policy = load(f"{whole.path}@latest")
    trainer = trainer_for(config)
    trainer.create_model()  # whose streams say which episodes a run is evaluated on
    seeds = [trainer.streams.derive("eval", index) for index in range(2)]
    trainer.close()
    result = evaluate(policy, policy.env_spec(), seeds)
    assert result.mean_reward == last["eval/mean_reward"]


def test_run_directory_is_that_of_a_native_run_plus_model_zip(tmp_path: Path) -> None:
    run = trained(tiny_sb3(tmp_path, **EVERY))
    assert run.path.parent == tmp_path / "CartPole-v1" / "PPO"
    there = {path.name for path in run.path.iterdir()}
    assert {"config.yaml", "run.json", "metrics.jsonl", "episodes.jsonl", "checkpoints", "model.zip"} <= there
    names = {name for row in rows(run) for name in row}
    assert {"rollout/ep_rew_mean", "rollout/ep_len_mean", "train/approx_kl", "eval/mean_reward"} <= names
    assert (run.checkpoints_dir / "best.json").exists()
    assert json.loads(run.episodes_path.read_text().splitlines()[0]).keys() == {"step", "reward", "length"}


def test_checkpoints_hold_no_pickle_and_none_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained(tiny_sb3(tmp_path, "DQN", **EVERY))
    files = {path.name for path in run.checkpoints_dir.rglob("*") if path.is_file()}
    assert files == {
        *("policy.safetensors", "learner.safetensors", "state.json", "MANIFEST.json"),
        *("latest.json", "best.json"),
    }
    for pickled in run.path.glob("*.[zp][ik]*"):
        pickled.unlink()

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("pickle was read")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    assert resumed(run, steps_of(run)[0]) == steps_of(run)[0]
    ludus.load(f"{run.path}@best").predict(np.zeros(4, dtype=np.float32))


@pytest.mark.parametrize("algorithm", HYPERPARAMS)
def test_learns_what_sb3_alone_would_learn(algorithm: str, tmp_path: Path) -> None:
    config = tiny_sb3(tmp_path, algorithm, hyperparams=LINEAR, total_timesteps=128)
    ours = SB3Trainer(None, config)
    ours.train()
    alone = SB3Trainer(None, config)
    alone.create_model()
    learner: Any = alone.learner
    learner.envs.next_barrier = 0
    alone.model.learn(128)
    for name, value in alone.model.policy.state_dict().items():
        assert torch.equal(value, ours.model.policy.state_dict()[name]), name
    for trainer in (ours, alone):
        trainer.close()


def test_last_checkpoint_equals_the_final_policy(tmp_path: Path) -> None:
    # else the last evaluation of a run would be of another policy than its last checkpoint holds
    trainer = trainer_for(tiny_sb3(tmp_path, "A2C", checkpoint={"every": 160, "keep": 0}))
    run = RunDirectory.open(trainer.train().run)
    saved = CheckpointManager(run.checkpoints_dir).find(320).tensors("policy")
    now = trainer.policy.state_dict()
    trainer.close()
    assert saved.keys() == now.keys()
    assert [name for name in now if not torch.equal(saved[name], now[name])] == []


@pytest.mark.parametrize("algorithm", ["PPO", "RecurrentPPO", "MaskablePPO", "DQN"])
def test_the_last_rollout_is_as_short_as_the_total_asks(tmp_path: Path, algorithm: str) -> None:
    run = trained(tiny_sb3(tmp_path, algorithm, total_timesteps=90))
    assert run.info()["steps"] == 90 and resumed(run, total=200) == 90
    assert run.info()["steps"] == 200


def test_a_signal_ends_an_update_of_sb3_after_the_minibatch(tmp_path: Path) -> None:
    trainer = trainer_for(tiny_sb3(tmp_path, hyperparams={"batch_size": 8}))
    trainer.create_model()
    steps: list[int] = []

    def count(*_: Any) -> None:
        steps.append(1)
        if len(steps) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    trainer.model.policy.optimizer.register_step_post_hook(count)  # type: ignore[attr-defined]
    result = trainer.train()
    trainer.close()
    assert (result.status, result.steps, len(steps)) == ("interrupted", 0, 2)
    assert trainer.run is not None and resumed(trainer.run) == 0


def test_sb3_model_restarts_its_episodes_even_if_the_envs_can_save_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stepper, "can_save_games", property(lambda stepper: True))
    trainer = trainer_for(tiny_sb3(tmp_path, "A2C"))
    trainer.create_model()
    assert trainer.collector is not None and not trainer.collector.saves_games, (
        "a checkpoint in the middle of an episode would be called exact"
    )
    trainer.close()


def test_the_model_zip_plays_as_the_run_does(tmp_path: Path) -> None:
    run = trained(tiny_sb3(tmp_path, normalize_obs=False))
    model = SB3PPO.load(run.path / "model.zip")
    policy = ludus.load(f"{run.path}@latest")
    obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    assert np.array_equal(model.predict(obs, deterministic=True)[0], policy.predict(obs))


def test_ppo_on_an_env_with_masks_becomes_maskable(tmp_path: Path) -> None:
    run = trained(tiny_sb3(tmp_path, env="odd_envs:MaskedWalk-v0", total_timesteps=128))
    assert run.algorithm == "MaskablePPO"
    policy = load(f"{run.path}@latest")
    space = policy.actor.action_space
    for legal in range(space.n):
        mask = np.arange(space.n) == legal
        obs = policy.actor.observation_space.sample()
        assert policy.predict(obs, mask) == legal


def test_ppo_with_every_default_written_out_becomes_maskable_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = ludus.get_default_config("PPO", engine="sb3")
    config.env_id, config.save_dir = "odd_envs:MaskedWalk-v0", str(tmp_path)
    trainer_for(config).create_model()
    assert "has no effect" not in caplog.text
    config.hyperparams.use_sde = True
    trainer_for(config).create_model()
    assert "hyperparams.use_sde has no effect: MaskablePPO" in caplog.text


def test_maskable_ppo_needs_masks(tmp_path: Path) -> None:
    trainer = trainer_for(tiny_sb3(tmp_path, "MaskablePPO", env="CartPole-v1"))
    with pytest.raises(ConfigError, match="no action masks"):
        trainer.create_model()


def test_a_recurrent_policy_remembers_within_an_episode_and_not_across(tmp_path: Path) -> None:
    run = trained(tiny_sb3(tmp_path, "RecurrentPPO", total_timesteps=128, normalize_obs=False))
    policy = load(f"{run.path}@latest")
    obs = np.full((1, 4), 0.5, dtype=np.float32)
    first, memory = policy.predict_with_memory(obs, [None], None, True)
    _, later = policy.predict_with_memory(obs, memory, None, True)
    _, restarted = policy.predict_with_memory(obs, [None], None, True)
    assert np.array_equal(first[0], policy.predict(obs)[0])
    assert not np.array_equal(memory[0][0], later[0][0])
    assert np.array_equal(memory[0][0], restarted[0][0])


@pytest.mark.parametrize(
    ("hyperparams", "message", "fix"),
    [
        ({"learning_startz": 5}, "learning_startz", "learning_starts"),
        (
            {"algorithm_specific": {"exploration_fractoin": 0.5}},
            "exploration_fractoin",
            "exploration_fraction",
        ),
        ({"seed": 3}, "set by Ludus", "seed at the top"),
        ({"gamma": {"linear": [0.9, 0.99]}}, "expects a number here, got a schedule", ""),
        ({"batch_size": "many"}, "batch_size", ""),
        ({"policy_kwargs": {"net_arhc": [8]}}, "net_arhc", "net_arch"),
        ({"policy_kwargs": {"activation_fn": "ReLU"}}, "activation_fn", "policy.activation"),
        ({"policy": "LinearPolicy"}, "LinearPolicy", ""),
    ],
)
def test_an_argument_that_sb3_does_not_take_is_an_error_before_anything_starts(
    hyperparams: dict[str, Any], message: str, fix: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as caught:
        trainer_for(tiny_sb3(tmp_path, "DQN", hyperparams=hyperparams)).create_model()
    assert message in str(caught.value)
    assert fix in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_algorithm_of_the_other_engine_raises_with_that_engine() -> None:
    with pytest.raises(ConfigError, match="engine: sb3"):
        find_algorithm("TD3")
    assert find_algorithm("qrdqn", "sb3").name == "QR-DQN"


def test_unsupported_action_space_raises_with_suitable_algorithms(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="TD3 needs Box actions"):
        trainer_for(tiny_sb3(tmp_path, "TD3", env="CartPole-v1")).create_model()


def test_sb3s_own_callbacks_and_ludus_callbacks_both_work(tmp_path: Path) -> None:
    class Mine(BaseCallback):
        rewards = 0.0

        def _on_step(self) -> bool:
            Mine.rewards += float(self.locals["rewards"].sum())
            self.logger.record("mine/timesteps", self.num_timesteps)
            return True

    class Theirs(sb3_callbacks.BaseCallback):
        def _on_step(self) -> bool:
            assert self.training_env.num_envs == 2
            return self.num_timesteps < 300

    run = trained(tiny_sb3(tmp_path, "A2C", normalize_reward=False), callback=[Mine(), Theirs()])
    assert run.info()["status"] == "stopped"
    assert Mine.rewards == 300  # one for every env step, up to the one that stopped it
    assert "mine/timesteps" in rows(run)[0]


def test_the_trainer_of_the_second_document_can_be_made_directly(tmp_path: Path) -> None:
    config = tiny_sb3(tmp_path, total_timesteps=128).model_copy(update={"engine": "native"})
    trainer = ludus.SB3Trainer("CartPole-v1", config)
    trainer.train()
    mean, std = trainer.evaluate(n_episodes=2)
    assert mean > 0 and std >= 0
    assert RunDirectory.open(trainer.save_model().parents[1])
    trainer.close()


def test_default_configs_hold_sb3s_own_defaults() -> None:
    config = ludus.get_default_config("TD3", engine="sb3")
    assert config.engine == "sb3"
    assert config.typed_hyperparams() == find_algorithm("TD3", "sb3").hyperparameters()  # type: ignore[misc]
    assert config.hyperparams.policy_delay == 2


def test_without_the_extra_one_line_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['stable_baselines3'] = None\n"
        "from ludus.cli.app import main\n"
        "sys.exit(main(['train', '--engine', 'sb3', '--env', 'CartPole-v1']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert 'pip install "ludus-rl[sb3]"' in done.stderr
    assert len(done.stderr.splitlines()) == 3


def test_an_env_object_trains_as_the_one_env_it_is(tmp_path: Path) -> None:
    trainer = trainer_for(tiny_sb3(tmp_path, "A2C", total_timesteps=64, n_envs=1), gym.make("CartPole-v1"))
    trainer.train()
    assert trainer.get_env().num_envs == 1
    trainer.close()

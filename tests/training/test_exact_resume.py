"""A run that resumes from any of its exact checkpoints ends with the bytes of one that never stopped.

Here the run is cut back to a middle checkpoint, with everything that must survive; tests/faults does it with SIGKILL.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import odd_envs  # noqa: F401  # registers its envs
import pytest
import torch
from threadpoolctl import threadpool_limits
from tiny_runs import resumed, same, steps_of, tiny, trained, trainer_for

from ludus.config.schema import TrainerConfig
from ludus.runs.directory import RunDirectory

EVERY = {"checkpoint": {"every": 300, "keep": 0}, "evaluation": {"every": 400, "episodes": 2}}
LINEAR = {"learning_rate": {"linear": [1e-3, 0.0]}}

CASES: dict[str, dict[str, Any]] = {
    "ppo": {"hyperparams": LINEAR},
    "ppo without normalisation": {"normalize_obs": False, "normalize_reward": False},
    "a2c with adam": {"algorithm": "A2C", "hyperparams": {"use_rms_prop": False}},
    "dqn, double and dueling": {"algorithm": "DQN", "hyperparams": {"double": True, "dueling": True}},
    "dqn with masks": {"algorithm": "DQN", "env": "odd_envs:MaskedWalk-v0"},
    "sac": {
        "algorithm": "SAC",
        "hyperparams": {"learning_rate": {"cosine": [1e-3, 1e-4]}},
        "total_timesteps": 400,
        "checkpoint": {"every": 150, "keep": 0},
    },
    "ppo with masks": {"env": "odd_envs:MaskedWalk-v0"},
    "ppo on a dict": {"env": "odd_envs:DictWalk-v0"},
    "ppo on integers with masks": {"env": "Taxi-v4"},
    "dqn on integers": {"algorithm": "DQN", "env": "FrozenLake-v1"},
    "a2c with a curriculum": {
        "algorithm": "A2C",
        "env": "odd_envs:Walk-v0",
        "curriculum": {"window": 2, "success_threshold": 0.5, "maximum": 2.0},
    },
    "ppo on pictures": {
        "env": {"id": "odd_envs:PictureWalk-v0", "frame_stack": 2},
        "policy": {"features_dim": 8},
        "hyperparams": {"n_steps": 32, "batch_size": 32, "n_epochs": 1},
        "total_timesteps": 640,
        "checkpoint": {"every": 200, "keep": 0},
    },
    "ppo with wrappers": {
        "env": {"id": "CartPole-v1", "wrappers": ["TimeAwareObservation"], "frame_skip": 2},
        "hyperparams": LINEAR,
    },
    "an env that remembers earlier episodes": {"env": "BipedalWalker-v3", "n_envs": 1},
    "intervals in updates": {"checkpoint": {"every": "3 updates", "keep": 0}, "total_timesteps": "8 updates"},
    "keeping one, best by a training metric": {
        "checkpoint": {"every": 300, "keep": 1, "best_metric": "rollout/ep_rew_mean"}
    },
}


@pytest.mark.parametrize("case", CASES)
def test_from_a_middle_checkpoint_to_the_same_end(case: str, tmp_path: Path) -> None:
    config = tiny(tmp_path / "whole", **(EVERY | CASES[case]))
    whole = trained(config)
    cut = trained(config.model_copy(update={"save_dir": str(tmp_path / "cut")}))
    same(whole, cut)  # without which nothing below could hold
    steps = [
        step for step in steps_of(cut) if (cut.checkpoints_dir / f"{step:012d}/learner.safetensors").exists()
    ]
    middle = steps[0] if len(steps) < 3 else steps[1]
    assert middle < steps[-1] or config.checkpoint.keep == 1
    assert resumed(cut, middle) == middle
    same(whole, cut)


def test_initial_weights_do_not_depend_on_the_threads_that_the_process_has(tmp_path: Path) -> None:
    config = tiny(tmp_path, env="odd_envs:PictureWalk-v0")
    built = []
    for threads in (2, 1):  # as in a fresh process on two cores, and after a run that kept to one
        threadpool_limits(limits=threads, user_api="blas")
        torch.set_num_threads(threads)
        trainer = trainer_for(config)
        weights = trainer.create_model().state_dict()
        built.append({name: weight.numpy().tobytes() for name, weight in weights.items()})
        trainer.close()
    assert built[0] == built[1]


def test_the_resumed_run_may_lie_elsewhere(tmp_path: Path) -> None:
    whole = trained(tiny(tmp_path, **EVERY))
    moved = Path(shutil.copytree(whole.path, tmp_path / "moved"))
    first = steps_of(whole)[0]
    assert resumed(RunDirectory.open(moved), first) == first
    same(whole, RunDirectory.open(moved))


def test_resuming_twice_is_resuming(tmp_path: Path) -> None:
    config = tiny(tmp_path, **EVERY)
    whole = trained(config)
    again = RunDirectory.open(shutil.copytree(whole.path, tmp_path / "again"))
    for step in (steps_of(whole)[2], steps_of(whole)[0]):
        assert resumed(again, step) == step
    same(whole, again)


def test_a_longer_total_given_at_once_or_later_is_the_same_where_no_schedule_depends_on_it(
    tmp_path: Path,
) -> None:
    every = {"checkpoint": {"every": 512, "keep": 0}, "evaluation": {"every": 512, "episodes": 2}}
    long: TrainerConfig = tiny(tmp_path / "long", total_timesteps=2048, **every)
    short = trained(tiny(tmp_path / "short", total_timesteps=1024, **every))
    assert resumed(short, total=2048) == 1024
    same(trained(long), short)

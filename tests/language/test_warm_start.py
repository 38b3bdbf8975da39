"""Policies that leave a run and enter another: pretrained_model, save_model, load_model, ludus.load."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_runs import resumed, steps_of, tiny, trained, trainer_for

import ludus
from ludus.errors import CheckpointError, UserError
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.training.native import NativeTrainer

OBS = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)


def weights(run: RunDirectory) -> dict[str, torch.Tensor]:
    latest = CheckpointManager(run.checkpoints_dir).latest()
    assert latest is not None
    return latest.tensors("policy")


def has_weights(trainer: NativeTrainer, expected: dict[str, torch.Tensor]) -> bool:
    found = trainer.policy.state_dict()
    return found.keys() == expected.keys() and all(torch.equal(found[k], expected[k]) for k in expected)


@pytest.mark.parametrize("algorithm", ["PPO", "DQN"])
def test_pretrained_weights_and_a_new_optimizer(tmp_path: Path, algorithm: str) -> None:
    first = trained(tiny(tmp_path, algorithm, total_timesteps=512))
    trainer = trainer_for(tiny(tmp_path, algorithm, seed=9, pretrained_model=str(first.path)))
    trainer.create_model()
    assert has_weights(trainer, weights(first))
    assert trainer.learner is not None
    moments = [v for k, v in trainer.learner.tensors().items() if "exp_avg" in k]
    assert all(not moment.any() for moment in moments)
    if algorithm == "DQN":
        target = trainer.learner.target.state_dict()  # type: ignore[attr-defined]
        assert all(torch.equal(target[key], value) for key, value in weights(first).items())
    result = trainer.train(256)
    trainer.close()
    assert result.steps >= 256 and not has_weights(trainer, weights(first))


def test_another_shape_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    first = trained(tiny(tmp_path / "first"))
    config = tiny(
        tmp_path / "second", pretrained_model=str(first.path), hyperparams={"policy_net_arch": [17]}
    )
    trainer = trainer_for(config)
    with pytest.raises(CheckpointError, match="another shape") as caught:
        trainer.train()
    assert "policy_net_arch" in caught.value.fix and not (tmp_path / "second").exists()


def test_a_pretrained_model_that_is_not_there_is_refused(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path, pretrained_model="nobody@best"))
    with pytest.raises(UserError, match="unknown run 'nobody'"):
        trainer.create_model()


def test_run_resumes_without_its_pretrained_model(tmp_path: Path) -> None:
    first = trained(tiny(tmp_path / "first"))
    second = trained(tiny(tmp_path / "second", pretrained_model=str(first.path)))
    shutil.rmtree(first.path)
    assert resumed(second, total=2048) == 1024


def test_a_saved_model_plays_the_same_actions(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path / "runs"))
    trainer.train()
    played = trainer.policy.predict(OBS)
    folder = trainer.save_model(tmp_path / "model")
    latest = trainer.save_model()
    trainer.close()
    assert folder == tmp_path / "model"
    for ref in (folder, latest, f"{folder}@latest", trainer.run.path):  # type: ignore[union-attr]
        np.testing.assert_array_equal(ludus.load(ref).predict(OBS), played)
    other = trainer_for(tiny(tmp_path / "runs", seed=5))
    other.load_model(latest)
    np.testing.assert_array_equal(other.policy.predict(OBS), played)
    other.close()


def test_a_model_is_not_saved_over_another(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path / "runs"))
    trainer.save_model(tmp_path / "model")  # untrained, which is allowed where a path is given
    with pytest.raises(UserError, match="already exists"):
        trainer.save_model(tmp_path / "model")
    with pytest.raises(UserError, match="nothing has been trained yet"):
        trainer.save_model()
    trainer.close()


def test_save_model_without_a_path_saves_into_the_run(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path))
    trainer.train()
    assert trainer.save_model().name == "000000001024"
    assert trainer.run is not None and steps_of(trainer.run) == [1024]
    trainer.close()


def test_loaded_weights_do_not_change_when_training_continues(tmp_path: Path) -> None:
    first = trained(tiny(tmp_path / "first", seed=3, normalize_obs=False))
    still = {"hyperparams": {"learning_rate": 0.0}, "normalize_obs": False}
    trainer = trainer_for(tiny(tmp_path / "second", **still))
    trainer.train(256)
    assert not has_weights(trainer, weights(first))
    trainer.load_model(first.path)
    assert has_weights(trainer, weights(first))
    assert trainer.train(512).steps == 512
    assert has_weights(trainer, weights(first))
    trainer.close()


def test_evaluating_before_training_is_allowed(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path))
    mean, std = trainer.evaluate(n_episodes=3)
    assert mean >= 1 and std >= 0
    assert trainer.evaluate(n_episodes=3) == (mean, std)
    trainer.close()
    assert not list(tmp_path.iterdir())

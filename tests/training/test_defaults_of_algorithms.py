"""Defaults that depend on the algorithm and on the number of envs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_runs import tiny, trainer_for

from ludus.config.schema import get_default_config
from ludus.training.native import NativeTrainer


def resolved(config: Any) -> Any:
    trainer = trainer_for(config)
    try:
        trainer.create_model()
        return trainer.config
    finally:
        trainer.close()


@pytest.mark.parametrize(("algorithm", "env_steps"), [("SAC", 1), ("DQN", 4)])
def test_more_envs_do_not_mean_fewer_gradient_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str, env_steps: int
) -> None:
    counts = {}
    for n_envs in (1, 4):
        taken: list[int] = []
        trainer: NativeTrainer = trainer_for(
            tiny(
                tmp_path, algorithm, n_envs=n_envs, total_timesteps=512, hyperparams={"learning_starts": 256}
            )
        )
        trainer.create_model()
        backend: Any = trainer.learner.backend  # type: ignore[union-attr]
        monkeypatch.setattr(backend, "take_steps", lambda n, fraction, taken=taken: taken.append(n) or {})
        trainer.train()
        trainer.close()
        counts[n_envs] = sum(taken)
    assert counts == {1: 256 // env_steps, 4: 256 // env_steps}


@pytest.mark.parametrize("engine", ["native", "sb3"])
def test_rewards_of_replay_are_not_normalised_unless_asked(tmp_path: Path, engine: str) -> None:
    pytest.importorskip("stable_baselines3")
    given: dict[str, Any] = {"engine": engine, "n_envs": 4}
    config = resolved(tiny(tmp_path, "SAC", **given))
    assert config.normalize_reward is False and config.typed_hyperparams().gradient_steps == 4
    asked = tiny(tmp_path, "SAC", **given, normalize_reward=True, hyperparams={"gradient_steps": 1})
    config = resolved(asked)
    assert config.normalize_reward is True and config.typed_hyperparams().gradient_steps == 1
    assert resolved(tiny(tmp_path, **given)).normalize_reward is True  # PPO


def test_the_config_of_the_documents_adapts_as_well() -> None:
    config = get_default_config("SAC")
    assert config.normalizes_reward() is False and config.hyperparams.gradient_steps == "auto"

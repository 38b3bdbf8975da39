"""A config written out and read back is the same config, and hashes the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from ludus.config.hyperparameters import HyperparameterConfig
from ludus.config.loading import config_hash, dump_yaml, load_config
from ludus.config.presets import preset_names, preset_path, preset_summary
from ludus.config.schema import TrainerConfig, get_default_config

FULL = TrainerConfig(
    name="1e5",
    algorithm="PPO",
    env={
        "id": "CartPole-v1",
        "kwargs": {"sutton_barto_reward": True},
        "wrappers": [{"TimeLimit": {"max_episode_steps": 9}}],
    },
    n_envs=3,
    vector="process",
    total_timesteps="20 updates",
    hyperparams={"learning_rate": {"cosine": [1e-3, 1e-5]}, "n_steps": 20, "batch_size": 30, "ent_coef": 0.1},
    policy={"features_extractor": "ResnetMLP", "ortho_init": False},
    curriculum={"success": 100.0, "maximum": 3.0},
    checkpoint={"every": "5 min", "keep": 0, "best_metric": "rollout/ep_rew_mean"},
    evaluation=None,
    early_stopping={"reward_threshold": 475, "patience": 3, "time": "1.5 hours"},
    video={"every": 500},
    tracking={"tensorboard": False, "wandb": {"project": "p", "mode": "offline"}},
    tags=["a", "2024-01-01"],
)


def read_back(config: TrainerConfig, folder: Path) -> TrainerConfig:
    path = folder / "config.yaml"
    path.write_text(dump_yaml(config), encoding="utf-8")
    return load_config(path).config


@pytest.mark.parametrize("algorithm", ["PPO", "A2C", "DQN", "SAC"])
def test_every_algorithms_defaults_survive_the_file(algorithm: str, tmp_path: Path) -> None:
    for config in (get_default_config(algorithm), TrainerConfig(algorithm=algorithm)):
        again = read_back(config, tmp_path)
        assert again == config
        assert again.typed_hyperparams() == config.typed_hyperparams()
        assert config_hash(again) == config_hash(config)


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_survives_the_file(preset: str, tmp_path: Path) -> None:
    loaded = load_config(preset)
    assert loaded.preset == preset and (loaded.config.env or loaded.config.games) is not None
    again = read_back(loaded.config, tmp_path)
    assert again == loaded.config and config_hash(again) == config_hash(loaded.config)
    assert preset_path(preset).read_text().startswith(f"# {preset_summary(preset)}")


def test_a_config_with_everything_set_survives_the_file(tmp_path: Path) -> None:
    again = read_back(FULL, tmp_path)
    assert again == FULL
    assert read_back(again, tmp_path) == again


def test_what_algorithm_specific_overrides_is_not_written_twice(tmp_path: Path) -> None:
    config = get_default_config("PPO")
    config.hyperparams.algorithm_specific["n_steps"] = 4096
    config.hyperparams.algorithm_specific["entropy_coefficient"] = 0.3
    again = read_back(config, tmp_path)
    typed = again.typed_hyperparams().model_dump()
    assert typed == config.typed_hyperparams().model_dump()
    assert typed["n_steps"] == 4096 and typed["ent_coef"] == 0.3


def test_the_hash_says_what_is_asked_for_and_nothing_else() -> None:
    base = TrainerConfig(algorithm="PPO", hyperparams={"n_steps": 64, "ent_coef": 0.1})
    same = [
        base.model_copy(update={"save_dir": "elsewhere"}),
        base.model_copy(update={"run_dir": "here"}),
        base.model_copy(update={"resume": "auto"}),
        TrainerConfig(hyperparams={"entropy_coefficient": 0.1, "n_steps": 64}),
        TrainerConfig(hyperparams=HyperparameterConfig(ent_coef=0.1, algorithm_specific={"n_steps": 64})),
    ]
    assert {config_hash(config) for config in same} == {config_hash(base)}
    others = [
        base.model_copy(update={"seed": 1}),
        TrainerConfig(hyperparams={"n_steps": 128, "ent_coef": 0.1}),
        TrainerConfig(algorithm="A2C", hyperparams={"n_steps": 64, "ent_coef": 0.1}),
    ]
    assert config_hash(base) not in {config_hash(config) for config in others}


def test_the_hash_does_not_change_between_processes_and_versions() -> None:
    # A changed value here means that `--resume` no longer finds the runs of older versions.
    assert config_hash(TrainerConfig(env="CartPole-v1", seed=1)) == "90129850b5887fd3"

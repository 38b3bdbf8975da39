"""The flat field names of the training-framework document stay valid: to construct, to read, to assign."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ludus.config.hyperparameters import HyperparameterConfig
from ludus.config.schema import CurriculumConfig, TrainerConfig, WandbConfig, get_default_config
from ludus.config.when import When
from ludus.errors import ConfigError, UserError
from ludus.training.factory import create_trainer

EVERY_FIELD: dict[str, Any] = {
    "algorithm": "A2C",
    "total_timesteps": 500,
    "seed": 7,
    "n_envs": 2,
    "use_feature_extractor": True,
    "feature_extractor_type": "ResnetMLP",
    "normalize_obs": False,
    "normalize_reward": False,
    "use_curriculum": True,
    "save_dir": "models",
    "checkpoint_freq": 300,
    "eval_freq": 200,
    "use_wandb": True,
    "wandb_project": "mine",
}


def lies_where_it_belongs(config: TrainerConfig) -> None:
    assert config.algorithm == "A2C" and config.seed == 7 and config.n_envs == 2
    assert config.total_timesteps == When(500)
    assert config.policy.features_extractor == "ResnetMLP"
    assert config.normalize_obs is False and config.normalize_reward is False
    assert config.curriculum == CurriculumConfig()
    assert config.save_dir == "models"
    assert config.checkpoint.every == When(300) and config.checkpoint.keep == 5
    assert config.evaluation.every == When(200)
    assert config.tracking.wandb == WandbConfig(project="mine")


def test_every_field_is_accepted_by_the_constructor() -> None:
    lies_where_it_belongs(TrainerConfig(**EVERY_FIELD))


@pytest.mark.parametrize("order", [list(EVERY_FIELD), list(reversed(EVERY_FIELD))])
def test_every_field_can_be_assigned_in_any_order(order: list[str]) -> None:
    config = TrainerConfig()
    for name in order:
        setattr(config, name, EVERY_FIELD[name])
    lies_where_it_belongs(config)


def test_every_field_can_be_read() -> None:
    config = TrainerConfig(**EVERY_FIELD)
    for name, value in EVERY_FIELD.items():
        read = getattr(config, name)
        assert (read.plain() if isinstance(read, When) else read) == value, name


def test_the_documents_own_defaults_are_accepted() -> None:
    config = TrainerConfig(
        use_feature_extractor=True,
        feature_extractor_type="balatro",
        use_wandb=False,
        wandb_project="balatro-rl",
        use_curriculum=False,
    )
    assert config.policy.features_extractor == "auto"
    assert config.tracking.wandb is None and config.wandb_project == "balatro-rl"
    assert config.curriculum is None and config.use_curriculum is False


def test_a_switch_turns_its_part_off_and_on() -> None:
    config = TrainerConfig(tracking={"every": 7, "wandb": {}}, curriculum={"window": 3})
    config.use_wandb = False
    assert config.tracking.wandb is None and config.tracking.every == 7
    config.use_wandb = True
    assert config.tracking.wandb == WandbConfig() and config.tracking.every == 7
    config.use_curriculum = True
    assert config.curriculum == CurriculumConfig(window=3)  # it was on already
    config.use_curriculum = False
    assert config.curriculum is None
    config.use_feature_extractor = False
    assert config.policy.features_extractor == "FlattenExtractor"
    assert config.use_feature_extractor is False
    config.use_feature_extractor = True
    assert config.policy.features_extractor == "auto"


def test_assigning_an_alias_leaves_copies_alone() -> None:
    config = TrainerConfig(checkpoint={"keep": 2})
    copy = config.model_copy()
    copy.checkpoint_freq = 5
    assert config.checkpoint.every == When(100_000)
    assert copy.checkpoint.every == When(5) and copy.checkpoint.keep == 2


def test_env_id_names_the_env() -> None:
    config = TrainerConfig()
    assert config.env_id is None
    config.env_id = "CartPole-v1"
    assert config.env is not None and config.env.id == config.env_id == "CartPole-v1"
    assert TrainerConfig(env_id="CartPole-v1").env == TrainerConfig(env="CartPole-v1").env


def test_the_same_thing_said_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'checkpoint_freq' and 'checkpoint.every'"):
        TrainerConfig(checkpoint_freq=5, checkpoint={"every": 6})
    with pytest.raises(ConfigError, match=r"'ent_coef' and 'entropy_coefficient'"):
        HyperparameterConfig(ent_coef=0.1, entropy_coefficient=0.2)
    with pytest.raises(ConfigError, match=r"'n_steps' and 'algorithm_specific.n_steps'"):
        HyperparameterConfig(n_steps=5, algorithm_specific={"n_steps": 6})
    with pytest.raises(ConfigError, match=r"features_dim"):
        TrainerConfig(hyperparams={"features_dim": 5}, policy={"features_dim": 6})


def test_every_hyperparameter_field_is_accepted_read_and_assigned() -> None:
    fields: dict[str, Any] = {
        "learning_rate": 1e-3,
        "gamma": 0.9,
        "gae_lambda": 0.8,
        "entropy_coefficient": 0.02,
        "value_function_coefficient": 0.4,
        "max_grad_norm": 0.3,
        "policy_net_arch": [8],
        "value_net_arch": [9],
        "features_dim": 32,
        "algorithm_specific": {"n_steps": 16},
    }
    constructed = HyperparameterConfig(**fields)
    assigned = HyperparameterConfig()
    for name, value in fields.items():
        setattr(assigned, name, value)
    for hyperparams in (constructed, assigned):
        assert {name: getattr(hyperparams, name) for name in fields} == fields
        typed = TrainerConfig(hyperparams=hyperparams).typed_hyperparams()
        assert (typed.ent_coef(0), typed.vf_coef(0), typed.n_steps) == (0.02, 0.4, 16)  # type: ignore[attr-defined]


def test_the_documents_hyperparameter_defaults() -> None:
    hyperparams = HyperparameterConfig()
    assert hyperparams.learning_rate == 3e-4
    assert hyperparams.gamma == 0.99
    assert hyperparams.gae_lambda == 0.95
    assert hyperparams.entropy_coefficient == 0.01
    assert hyperparams.value_function_coefficient == 0.5
    assert hyperparams.max_grad_norm == 0.5
    assert hyperparams.policy_net_arch == hyperparams.value_net_arch == [256, 256]
    assert hyperparams.algorithm_specific == {}
    assert TrainerConfig().policy.features_dim == 512


def test_features_dim_among_the_hyperparameters_shapes_the_policy() -> None:
    config = TrainerConfig(n_envs=2, hyperparams=HyperparameterConfig(features_dim=256))
    assert config.policy.features_dim == 256


TABLES: dict[str, dict[str, Any]] = {
    "PPO": {
        "learning_rate": 3e-4,
        "n_steps": 2048,
        "batch_size": 64,
        "n_epochs": 10,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "clip_range": 0.2,
        "ent_coef": 0.01,
        "vf_coef": 0.5,
    },
    "A2C": {
        "learning_rate": 7e-4,
        "n_steps": 5,
        "gamma": 0.99,
        "gae_lambda": 1.0,
        "ent_coef": 0.01,
        "vf_coef": 0.5,
    },
    "DQN": {
        "learning_rate": 1e-4,
        "buffer_size": 100_000,
        "learning_starts": 10_000,
        "batch_size": 32,
        "train_freq": 4,
        "gamma": 0.99,
    },
}


@pytest.mark.parametrize("algorithm", TABLES)
def test_the_defaults_are_those_of_the_documents_tables(algorithm: str) -> None:
    config = get_default_config(algorithm)
    assert config.algorithm == algorithm
    typed = TrainerConfig(algorithm=algorithm).typed_hyperparams().model_dump()
    for name, value in TABLES[algorithm].items():
        assert getattr(config.hyperparams, name) == value, name
        assert typed[name] == value, name


def test_usage_pattern_3_runs_as_it_stands() -> None:
    from ludus import HyperparameterConfig, TrainerConfig

    hyperparams = HyperparameterConfig(
        learning_rate=1e-3,
        gamma=0.995,
        policy_net_arch=[512, 512],
        algorithm_specific={
            'n_steps': 4096,
            'batch_size': 128,
        }
    )  # fmt: skip

    config = TrainerConfig(
        algorithm="PPO",
        hyperparams=hyperparams,
        total_timesteps=1_000_000
    )  # fmt: skip

    typed = config.typed_hyperparams().model_dump()
    assert typed["learning_rate"] == 1e-3 and typed["gamma"] == 0.995
    assert typed["policy_net_arch"] == (512, 512) and typed["value_net_arch"] == (256, 256)
    assert typed["n_steps"] == 4096 and typed["batch_size"] == 128 and typed["n_epochs"] == 10


def test_what_an_algorithm_does_not_have_is_ignored_and_named() -> None:
    config = TrainerConfig(algorithm="DQN", hyperparams=HyperparameterConfig(gae_lambda=0.9, gamma=0.9))
    assert config.ignored_hyperparams() == ["gae_lambda"]
    assert config.typed_hyperparams().gamma(0.0) == 0.9


def test_the_project_named_while_wandb_was_off_is_used_once_it_is_on() -> None:
    config = TrainerConfig(wandb_project="balatro-rl")
    assert config.wandb_project == "balatro-rl" and config.tracking.wandb is None
    later = config.model_copy()
    later.use_wandb = True
    assert later.tracking.wandb is not None and later.tracking.wandb.project == "balatro-rl"
    assert later.wandb_project == "balatro-rl" and config.use_wandb is False


@pytest.mark.parametrize(
    ("give", "what", "fix"),
    [
        (lambda: TrainerConfig(algoritm="PPO"), "unknown key 'algoritm'", "'algorithm'"),
        (lambda: TrainerConfig(learning_rate=1e-3), "unknown key", "'hyperparams.learning_rate'"),
        (lambda: TrainerConfig(n_envs=0), "n_envs: ", "from 1 to 1_000_000"),
        (lambda: TrainerConfig(evaluation={"episodes": 0}), "evaluation.episodes: ", "from 1 to"),
        (lambda: HyperparameterConfig(learning_rate="fast"), "hyperparams.learning_rate: ", "accepts"),
        (lambda: setattr(TrainerConfig(), "n_envs", "many"), "n_envs: ", "from 1 to 1_000_000"),
        (lambda: setattr(TrainerConfig(), "n_env", 4), "unknown key 'n_env'", "'n_envs'"),
        (lambda: setattr(TrainerConfig().evaluation, "episodes", 0), "episodes: ", "from 1 to"),
        (lambda: create_trainer("CartPole-v1", "PPPO"), "unknown algorithm 'PPPO'", "'PPO'"),
        (lambda: create_trainer("CartPole-v1", {"n_env": 4}), "unknown key 'n_env'", "'n_envs'"),
        (lambda: create_trainer("CartPole-v1", 5), "expected a TrainerConfig, got int", "TrainerConfig("),
    ],
)
def test_a_mistake_in_python_is_reported_in_three_lines(give: Any, what: str, fix: str) -> None:
    with pytest.raises(UserError) as caught:
        give()
    assert what in caught.value.what and fix in caught.value.fix
    assert len(str(caught.value).splitlines()) == 3


def test_a_trainer_takes_an_algorithms_name_or_a_dict(tmp_path: Path) -> None:
    assert create_trainer("CartPole-v1", "a2c").config.algorithm == "A2C"
    data = {"algorithm": "DQN", "n_envs": 2, "save_dir": str(tmp_path)}
    assert create_trainer("CartPole-v1", data).config.n_envs == 2

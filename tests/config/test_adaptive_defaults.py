"""Hyperparameters that are not set follow from the budget, the number of envs and the env's spaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_runs import trainer_for

from ludus.config.adaptive_defaults import MIN_UPDATES, TrainingTask
from ludus.config.loading import load_config
from ludus.config.presets import presets_of_env
from ludus.config.schema import TrainerConfig, get_default_config
from ludus.errors import ConfigError


@pytest.mark.parametrize("n_envs", [1, 6, 8, 64, 1000])
@pytest.mark.parametrize("steps", [10_000, 100_000, 1_000_000, 50_000_000])
def test_ppo_has_at_least_forty_updates_in_whole_minibatches(steps: int, n_envs: int) -> None:
    h: Any = TrainerConfig(n_envs=n_envs, total_timesteps=steps).typed_hyperparams()
    samples = h.n_steps * n_envs
    assert samples % h.batch_size == 0 and h.batch_size > 1
    assert steps // samples >= min(MIN_UPDATES, steps // n_envs)
    assert samples <= 16_384 or h.n_steps == 16


def test_a_hundred_thousand_steps_are_rollouts_of_2048_samples() -> None:
    h: Any = TrainerConfig(total_timesteps=100_000).typed_hyperparams()
    assert (h.n_steps * 8, h.batch_size, h.n_epochs) == (2048, 64, 10)
    assert h.learning_rate(0.0) == 1e-3 and h.learning_rate(1.0) == 0.0


@pytest.mark.parametrize(
    "given", [{"n_steps": 100}, {"batch_size": 100}, {"n_steps": 50, "batch_size": 80}, {"ent_coef": 0.3}]
)
def test_what_the_user_sets_wins_and_the_rest_fits_it(given: dict[str, Any]) -> None:
    h: Any = TrainerConfig(total_timesteps=100_000, hyperparams=given).typed_hyperparams()
    assert {name: getattr(h, name) for name in given} == {
        name: type(getattr(h, name)).parse(value) if name == "ent_coef" else value
        for name, value in given.items()
    }
    assert h.n_steps * 8 % h.batch_size == 0


def test_spaces_choose_networks_and_entropy() -> None:
    config = TrainerConfig()
    small: Any = config.typed_hyperparams(TrainingTask(100_000, 8, inputs=4))
    large: Any = config.typed_hyperparams(TrainingTask(100_000, 8, inputs=400, continuous=True))
    images: Any = config.typed_hyperparams(TrainingTask(10_000_000, 8, inputs=10**4, images=True))
    assert small.policy_net_arch == (64, 64) and small.ent_coef(0.0) == 0.01
    assert large.policy_net_arch == (256, 256) and large.ent_coef(0.0) == 0.0
    assert (images.n_steps * 8, images.batch_size, images.n_epochs) == (2048, 256, 4)


def test_dqn_learns_more_per_step_in_a_short_run() -> None:
    ratios = []
    for steps in (50_000, 200_000, 4_000_000):
        h: Any = TrainerConfig(algorithm="DQN", total_timesteps=steps).typed_hyperparams()
        ratios.append(h.gradient_steps / (h.train_freq * 8))
        assert h.learning_starts < steps / 10 and h.target_update_interval < steps / 100
    assert ratios == [1.0, 0.5, 0.25]


def test_command_line_python_and_config_yaml_have_the_same_values(tmp_path: Path) -> None:
    flags = {"algorithm": "PPO", "env.id": "CartPole-v1", "total_timesteps": "4_000"}
    chosen = []
    for config in (
        load_config(None, [f"save_dir={tmp_path}", "tracking.tensorboard=false"], flags).config,
        TrainerConfig(algorithm="PPO", total_timesteps=4_000, save_dir=str(tmp_path), tracking=None),
    ):
        trainer = trainer_for(config, None if config.env else "CartPole-v1")
        run = trainer.train().run
        trainer.close()
        written = load_config(run / "config.yaml").config.hyperparams.given()
        assert written == trainer.config.hyperparams.given()
        chosen.append(written)
    assert chosen[0] == chosen[1] and chosen[0]["n_steps"] == 8


def test_the_documents_config_does_not_adapt() -> None:
    config = get_default_config("PPO")
    config.total_timesteps = 100_000
    assert (config.typed_hyperparams().n_steps, config.typed_hyperparams().batch_size) == (2048, 64)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("algorithm", "hyperparams"), [("PPO", {"n_steps": 2048}), ("DQN", {"learning_starts": 5_000})]
)
def test_a_budget_smaller_than_one_update_is_refused_and_nothing_is_written(
    tmp_path: Path, algorithm: str, hyperparams: dict[str, Any]
) -> None:
    config = TrainerConfig(
        algorithm=algorithm, total_timesteps=1_000, hyperparams=hyperparams, save_dir=str(tmp_path / "runs")
    )
    trainer = trainer_for(config, "CartPole-v1")
    with pytest.raises(ConfigError, match="total_timesteps: 1,000") as caught:
        trainer.train()
    trainer.close()
    assert len(str(caught.value).splitlines()) == 3
    assert not list(tmp_path.iterdir())


def test_few_updates_are_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = TrainerConfig(
        total_timesteps=1_024, hyperparams={"n_steps": 64}, save_dir=str(tmp_path), tracking=None
    )
    trainer = trainer_for(config, "CartPole-v1")
    trainer.train()
    trainer.close()
    assert "only 2 updates of n_steps * n_envs = 512 samples" in caplog.text


def test_the_preset_of_an_env_is_the_one_of_its_algorithm() -> None:
    assert presets_of_env("CartPole-v1") == {
        "PPO": "cartpole-ppo",
        "A2C": "cartpole-a2c",
        "DQN": "cartpole-dqn",
    }
    assert presets_of_env("LunarLander-v3")["PPO"] == "lunarlander-ppo"
    assert presets_of_env("Taxi-v4") == {}

"""The usage patterns of the training-framework document run with nothing but their import lines changed.

The texts below are the document's; only steps, envs and episodes are fewer here, as `FEWER` says.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import ludus

FEWER = {
    "500_000": "600",
    "total_timesteps=100_000": "total_timesteps=600, n_envs=1",
    "n_episodes=10": "n_episodes=2",
}
IMPORT = re.compile(r"^from training\.\w+ import", re.MULTILINE)

SINGLE = """
from training.framework import get_default_config, create_trainer
from training.utils import create_balatro_env

config = get_default_config("PPO")
config.total_timesteps = 500_000

env = create_balatro_env(seed=42)
trainer = create_trainer(env, config)

trainer.train()
trainer.evaluate(n_episodes=10)
trainer.save_model()
trainer.close()
"""

COMPARISON = """
from training.experiment import ExperimentConfig, MultiAlgorithmBenchmark
from training.utils import create_balatro_env

configs = [
    ExperimentConfig(algorithm="PPO", total_timesteps=100_000),
    ExperimentConfig(algorithm="A2C", total_timesteps=100_000),
    ExperimentConfig(algorithm="DQN", total_timesteps=100_000),
]

benchmark = MultiAlgorithmBenchmark(create_balatro_env)
for config in configs:
    benchmark.add_experiment(config)

results = benchmark.run_all()
best = benchmark.get_best_result()
"""

HYPERPARAMETERS = """
from training.framework import TrainerConfig, HyperparameterConfig

hyperparams = HyperparameterConfig(
    learning_rate=1e-3,
    gamma=0.995,
    policy_net_arch=[512, 512],
    algorithm_specific={
        'n_steps': 4096,
        'batch_size': 128,
    }
)

config = TrainerConfig(
    algorithm="PPO",
    hyperparams=hyperparams,
    total_timesteps=1_000_000
)
"""

CURRICULUM = """
from training.env_wrapper import wrap_balatro_env

env = wrap_balatro_env(
    env,
    use_curriculum=True,
    curriculum_config={
        'initial_max_ante': 2,
        'ante_increment': 1,
        'success_threshold': 0.8,
    }
)
"""


def run(text: str, **names: Any) -> dict[str, Any]:
    """The names that a pattern leaves behind."""
    text, changed = IMPORT.subn("from ludus import", text)
    assert changed
    for given, fewer in FEWER.items():
        text = text.replace(given, fewer)
    Path("pattern.py").write_text(text)
    return runpy.run_path("pattern.py", init_globals=names)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_single_algorithm_training(tmp_path: Path) -> None:
    run(SINGLE)
    assert list(tmp_path.glob("**/checkpoints/0*/policy.safetensors"))


@pytest.mark.learning  # three processes, and each trains with the document's own hyperparameters
def test_multi_algorithm_comparison() -> None:
    left = run(COMPARISON)
    assert [result.status for result in left["results"]] == ["finished"] * 3
    assert left["best"].mean_reward == max(result.mean_reward for result in left["results"])


def test_custom_hyperparameters() -> None:
    config = run(HYPERPARAMETERS)["config"]
    assert config.hyperparams.algorithm_specific["n_steps"] == 4096
    assert config.hyperparams.policy_net_arch == [512, 512]


def test_curriculum_learning() -> None:
    env = run(CURRICULUM, env=ludus.create_balatro_env(seed=1))["env"]
    _, info = env.reset(seed=1)
    assert info["difficulty"] == 2
    config = ludus.TrainerConfig(
        total_timesteps=256, hyperparams={"n_steps": 128, "batch_size": 64, "n_epochs": 1}
    )
    trainer = ludus.create_trainer(env, config)
    trainer.train()
    trainer.close()

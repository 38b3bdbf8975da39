"""Ludus trains agents that play.

    from ludus import TrainerConfig, create_trainer

    trainer = create_trainer("CartPole-v1", TrainerConfig(algorithm="PPO", total_timesteps=100_000))
    trainer.train()
    print(trainer.evaluate(n_episodes=10))

The public names are imported when they are first used, so that `import ludus` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ludus.kernel_cache import ensure_kernel_cache_dir

ensure_kernel_cache_dir()

__version__ = "0.1.0"

# public name -> the module it lives in
_PUBLIC = {
    "ActionMaskWrapper": "ludus.envs.masks",
    "Algorithm": "ludus.config.registry",
    "BalatroEnv": "ludus.games.balatro.env",
    "BalatroGymWrapper": "ludus.games.balatro.wrappers",
    "BalatroMetrics": "ludus.games.balatro.metrics",
    "BaseCallback": "ludus.training.callbacks",
    "BaseFeaturesExtractor": "ludus.policies.extractors",
    "CallbackList": "ludus.training.callbacks",
    "CheckpointManager": "ludus.runs.checkpoints",
    "CurriculumWrapper": "ludus.envs.curriculum",
    "EnvSpec": "ludus.envs.make",
    "EnvironmentWrapper": "ludus.envs.wrappers",
    "ExperimentConfig": "ludus.experiments.experiment",
    "ExperimentResult": "ludus.experiments.experiment",
    "HyperparameterConfig": "ludus.config.hyperparameters",
    "Hyperparameters": "ludus.config.hyperparameters",
    "MultiAlgorithmBenchmark": "ludus.experiments.comparison.benchmark",
    "RLTrainer": "ludus.training.base",
    "RewardScalingWrapper": "ludus.envs.wrappers",
    "SB3Trainer": "ludus.sb3.trainer",
    "Signal": "ludus.envs.signals",
    "TrainResult": "ludus.training.base",
    "TrainerConfig": "ludus.config.schema",
    "compute_moving_average": "ludus.reports.statistics",
    "create_balatro_env": "ludus.games.balatro.wrappers",
    "create_trainer": "ludus.training.factory",
    "export_policy": "ludus.evaluation.export",
    "get_default_config": "ludus.config.schema",
    "get_filter_keys": "ludus.games.diambra.games",
    "load": "ludus.evaluation.load",
    "load_config": "ludus.config.loading",
    "make_env": "ludus.envs.make",
    "make_vectorized_env": "ludus.envs.make",
    "plot_training_curves": "ludus.experiments.comparison.plot",
    "print_comparison_table": "ludus.experiments.comparison.tables",
    "register_algorithm": "ludus.config.registry",
    "register_extractor": "ludus.policies.extractors",
    "register_signals": "ludus.envs.signals",
    "register_wrapper": "ludus.envs.wrapper_names",
    "setup_logging": "ludus.tracking.logs",
    "validate_environment": "ludus.envs.validate",
    "wrap_balatro_env": "ludus.games.balatro.wrappers",
}

__all__ = ["__version__", *_PUBLIC]

if TYPE_CHECKING:
    from ludus.config.hyperparameters import HyperparameterConfig, Hyperparameters
    from ludus.config.loading import load_config
    from ludus.config.registry import Algorithm, register_algorithm
    from ludus.config.schema import TrainerConfig, get_default_config
    from ludus.envs.curriculum import CurriculumWrapper
    from ludus.envs.make import EnvSpec, make_env, make_vectorized_env
    from ludus.envs.masks import ActionMaskWrapper
    from ludus.envs.signals import Signal, register_signals
    from ludus.envs.validate import validate_environment
    from ludus.envs.wrapper_names import register_wrapper
    from ludus.envs.wrappers import EnvironmentWrapper, RewardScalingWrapper
    from ludus.evaluation.export import export_policy
    from ludus.evaluation.load import load
    from ludus.experiments.comparison.benchmark import MultiAlgorithmBenchmark
    from ludus.experiments.comparison.plot import plot_training_curves
    from ludus.experiments.comparison.tables import print_comparison_table
    from ludus.experiments.experiment import ExperimentConfig, ExperimentResult
    from ludus.games.balatro.env import BalatroEnv
    from ludus.games.balatro.metrics import BalatroMetrics
    from ludus.games.balatro.wrappers import BalatroGymWrapper, create_balatro_env, wrap_balatro_env
    from ludus.games.diambra.games import get_filter_keys
    from ludus.policies.extractors import BaseFeaturesExtractor, register_extractor
    from ludus.reports.statistics import compute_moving_average
    from ludus.runs.checkpoints import CheckpointManager
    from ludus.sb3.trainer import SB3Trainer
    from ludus.tracking.logs import setup_logging
    from ludus.training.base import RLTrainer, TrainResult
    from ludus.training.callbacks import BaseCallback, CallbackList
    from ludus.training.factory import create_trainer


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'ludus' has no attribute '{name}'")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

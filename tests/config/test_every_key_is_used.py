"""Every key of a config is used by a run of each kind, or a warning or an error says that it is not.

A short real run of each kind records which keys the code reads. Every other key is in one of two tables. One names the
file that reads a key under a condition which the run does not meet. The other has the keys that a kind of run does not
use: setting one of them must be reported.
"""

from __future__ import annotations

import ast
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from config_reads import EVERY_KEY, keys_of, recorded_reads
from sb3_runs import tiny_sb3
from tiny_runs import tiny, trainer_for

import ludus
from ludus.config.schema import TrainerConfig
from ludus.envs.make import EnvSpec
from ludus.errors import ConfigError
from ludus.language.unused_keys import NOT_FOR_LANGUAGE
from ludus.training.factory import create_trainer
from ludus.training.resolve import unused_by_env_run

PACKAGE = Path(ludus.__file__).parent

# Keys that act only under a condition, or in a command: the file whose code reads them.
MIRROR = dict.fromkeys(("mirror.url", "mirror.bandwidth", "mirror.wait"), "training/trainer.py")
WANDB = {
    f"tracking.wandb.{name}": "training/trackers.py"
    for name in ("project", "entity", "group", "tags", "mode", "checkpoints")
}
COMMANDS = {"resume": "cli/train.py", "sweep": "experiments/sweep/study.py"}
SCALE = {
    "scale.ray": "scale/planning.py",
    "scale.mode": "scale/planning.py",
    "scale.num_learners": "training/learner_ranks.py",
}
SCALE |= {"scale.strategy": "scale/learners.py", "scale.max_failures": "scale/planning.py"}
SCALE |= {"scale.gpus_per_learner": "config/sections.py"}
COLLECTORS = {
    f"scale.{name}": "scale/planning.py" for name in ("collectors", "cpus_per_collector", "max_staleness")
}
ACTORS = {"scale.num_actors": "language/trainer.py", "scale.cpus_per_actor": "language/trainer.py"}
ACTORS |= {"scale.gpus_per_actor": "config/sections.py"}
VIDEO = dict.fromkeys(("video.length", "video.overlay"), "training/native.py")
SB3_NETWORK = {"policy.features_dim": "sb3/network.py"}
GUARD = {f"guard.{name}": "language/algorithms/guard.py" for name in ("patience", "rollbacks")}
GUARD |= {"guard.slow_down": "language/session.py"}
LEAGUE = {"league.lag": "league/opponents.py", "league.reference": "league/league.py"}
ALWAYS = MIRROR | WANDB | COMMANDS | SCALE

SET_FOR_ENVS: dict[str, Any] = {
    "env": {"id": "CartPole-v1"},
    "vector": "process",
    "kernels": False,
    "precision": "bfloat16",
    "deterministic": True,
    "normalize_obs": False,
    "normalize_reward": False,
    "curriculum": {},
    "evaluation.max_steps": 5,
    "video": {"length": 5},
    "scale.collectors": 2,
    "scale.cpus_per_collector": 2.0,
}
SET_FOR_LANGUAGE: dict[str, Any] = {
    "games": {"train": ["TicTacToe-v0"]},
    "league": {"eval_games": 3},
    "rewards": {"final": ["outcome"]},
    "guard": {"patience": 9},
    "warmup": {},
}


# Read before anything is built, to refuse or to warn.
READ_TO_CHECK = {"policy.share_net", "policy.log_std_init", "precision", "hyperparams.value_net_arch"}


@dataclass(frozen=True)
class Kind:
    """A kind of run: its configs, keys read elsewhere, and keys it does not use with a value to set them to."""

    configs: list[dict[str, Any]]
    elsewhere: dict[str, str]
    unused: dict[str, Any]
    refused: dict[str, Any] = field(default_factory=dict)
    """Keys for which an error is raised."""


KINDS = {
    "native rollout": Kind(
        [
            {"algorithm": "PPO", "env": {"id": "Pendulum-v1", "max_episode_steps": 50}},
            {"algorithm": "A2C", "curriculum": {"success": 50}},
            {"algorithm": "PPO", "kernels": False},
        ],
        ALWAYS | COLLECTORS | VIDEO,
        SET_FOR_LANGUAGE,
    ),
    "native off-policy": Kind(
        [
            {"algorithm": "DQN", "hyperparams": {"dueling": True}, "curriculum": {"success": 50}},
            {"algorithm": "SAC"},
        ],
        ALWAYS | COLLECTORS | VIDEO,
        SET_FOR_LANGUAGE | {"policy.share_net": True},
    ),
    "sb3 rollout": Kind(
        [{"algorithm": "PPO", "engine": "sb3", "curriculum": {"success": 50}}],
        MIRROR | WANDB | COMMANDS | VIDEO | SB3_NETWORK,
        SET_FOR_LANGUAGE | {"kernels": False, "precision": "bfloat16"},
        {"scale": {}, "policy.share_net": True},
    ),
    "sb3 off-policy": Kind(
        [{"algorithm": "DQN", "engine": "sb3", "curriculum": {"success": 50}}],
        MIRROR | WANDB | COMMANDS | VIDEO | SB3_NETWORK,
        SET_FOR_LANGUAGE
        | {"policy.share_features_extractor": False, "hyperparams.value_net_arch": [9]}
        | {"kernels": False, "precision": "bfloat16"},
        {"scale": {}, "policy.share_net": True, "policy.log_std_init": 1.0},
    ),
    "language": Kind(
        [
            {
                "algorithm": "A2C",
                "league": {"opponents": "prioritised", "eval_games": 2},
                "scale": {"num_actors": 0},  # without Ray
            },
            {"algorithm": "PPO", "warmup": {"source": "random", "pairs": 8, "epochs": 1}},
            {"algorithm": "GRPO", "games": {"branch": 2}},
        ],
        ALWAYS | ACTORS | LEAGUE | GUARD,
        SET_FOR_ENVS,
    ),
}
# Reported by the language trainer in its own way.
LANGUAGE_REPORTS = {"n_envs", *(key for key in EVERY_KEY if key.startswith("policy."))}


def language_run(folder: Path, **fields: Any) -> TrainerConfig:
    model = {"layers": 1, "hidden": 16, "heads": 2, "context": 32}
    games = {"train": [{"id": "TicTacToe-v0", "template": {"prompt": "{position}"}}], "open": 2, "turns": 4}
    defaults: dict[str, Any] = {
        "language": {"model_kwargs": model, "adapter": {"rank": 2}, "sampler": {"max_new_tokens": 2}},
        "games": games | fields.pop("games", {}),
        "total_timesteps": "1 updates",
        "evaluation": {"every": "1 updates"},
        "tracking": {"every": 1, "tensorboard": False},
        "save_dir": str(folder),
    }
    return TrainerConfig(**(defaults | fields))


def make(kind: str, folder: Path, fields: dict[str, Any]) -> TrainerConfig:
    if kind == "language":
        return language_run(folder, **fields)
    algorithm = fields["algorithm"]
    rest = {name: value for name, value in fields.items() if name not in ("algorithm", "engine")}
    short = {
        "checkpoint": {"every": 128},
        "evaluation": {"every": 256, "episodes": 1},
        "total_timesteps": 256,
    }
    one = tiny_sb3 if fields.get("engine") == "sb3" else tiny
    return one(folder, algorithm, **(short | rest))


def covered(key: str, by: dict[str, Any]) -> bool:
    """Return True if `key` or a section that contains it is in `by`."""
    return any(key == named or key.startswith(f"{named}.") for named in by)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_every_key_is_read_or_known_not_to_be(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = KINDS[kind]
    used = recorded_reads(monkeypatch)
    accepted = set(EVERY_KEY)
    for fields in expected.configs:
        config = make(kind, tmp_path, fields)
        hyperparameters = config.algorithm_entry().hyperparameters
        assert hyperparameters is not None
        accepted |= keys_of(hyperparameters)
        trainer = create_trainer(None, config)
        trainer.train()
        trainer.close()
    reported = NOT_FOR_LANGUAGE if kind == "language" else unused_by_env_run()
    known = expected.elsewhere | expected.unused | expected.refused | reported
    if kind == "language":
        accepted -= LANGUAGE_REPORTS
    else:
        accepted -= {key for key in accepted if key.startswith("language.")}  # makes it a language run
    ignored = {key for key in accepted - used if not covered(key, known)}
    assert not ignored, "accepted and never read: warn in the run that does not use it, or refuse it"
    stale = {key for key in used if covered(key, expected.unused | expected.refused)}
    assert stale <= READ_TO_CHECK, "read by now: take it from the table"


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_this_kind_of_run_does_not_use_is_reported(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = KINDS[kind]
    fields = dict(expected.configs[-1] if kind == "native rollout" else expected.configs[0])
    config = with_keys(make(kind, tmp_path, fields), expected.unused)
    with caplog.at_level(logging.WARNING, "ludus"):
        trainer = create_trainer(None, config)
        trainer.create_model()
        trainer.close()
    warnings = [record.getMessage() for record in caplog.records]
    for key in expected.unused:
        matching = [line for line in warnings if line.startswith((f"{key} has no effect", f"{key}: "))]
        assert len(matching) == 1 and "\n" not in matching[0], f"{key}: {warnings}"


@pytest.mark.parametrize(
    ("kind", "key"), [(kind, key) for kind, expected in KINDS.items() for key in expected.refused]
)
def test_a_key_that_would_change_the_run_is_refused(kind: str, key: str, tmp_path: Path) -> None:
    config = with_keys(make(kind, tmp_path, KINDS[kind].configs[0]), {key: KINDS[kind].refused[key]})
    with pytest.raises(ConfigError) as caught:
        create_trainer(None, config).create_model()
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"early_stopping": {"patience": 3}, "evaluation": None}, "early_stopping.patience"),
        ({"early_stopping": {"reward_threshold": 3}, "evaluation": None}, "early_stopping.reward_threshold"),
        ({"video": {"length": 30}}, "video.length"),
        ({"tracking": {"tensorboard": False, "tensorboard_dir": "x"}}, "tracking.tensorboard_dir"),
        ({"policy": {"features_dim": 24}}, "policy.features_dim"),
        ({"policy": {"log_std_init": 1.0}}, "policy.log_std_init"),
        (
            {"policy": {"share_net": True}, "hyperparams": {"value_net_arch": [9]}},
            "hyperparams.value_net_arch",
        ),
        ({"algorithm": "DQN", "hyperparams": {"value_net_arch": [9]}}, "hyperparams.value_net_arch"),
        ({"algorithm": "SAC", "precision": "bfloat16"}, "precision: bfloat16"),
    ],
)
def test_a_key_that_another_one_switches_off_is_reported(
    fields: dict[str, Any], key: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = create_trainer(None, tiny(tmp_path, fields.pop("algorithm", "PPO"), **fields))
    trainer.create_model()
    trainer.close()
    assert f"{key} has no effect" in caplog.text


def test_what_the_trainers_env_argument_replaces_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = tiny(tmp_path, env={"id": "CartPole-v1", "frame_stack": 3}, vector="process", n_envs=1)
    trainer = create_trainer(gym.make("CartPole-v1"), config)
    trainer.create_model()
    trainer.close()
    assert "env.frame_stack has no effect" in caplog.text and "vector has no effect" in caplog.text


def test_a_curriculum_acts_on_an_env_spec_given_to_the_trainer(tmp_path: Path) -> None:
    config = tiny(tmp_path, curriculum={"initial": 2.0}, env=None)
    trainer = trainer_for(config, EnvSpec("CartPole-v1"))
    assert trainer._source.spec is not None and trainer._source.spec.curriculum is not None
    trainer.close()


def test_keys_that_a_short_run_does_not_reach_are_read_in_the_named_file() -> None:
    for expected in KINDS.values():
        for key, file in expected.elsewhere.items():
            assert key.rpartition(".")[2] in attributes_in(PACKAGE / file), f"{file} does not read {key}"


def with_keys(config: TrainerConfig, values: dict[str, Any]) -> TrainerConfig:
    data = config.model_dump(exclude_unset=True)
    for key, value in values.items():
        node = data
        *sections, name = key.split(".")
        for section in sections:
            node = node.setdefault(section, {})
        node[name] = value
    return TrainerConfig(**data)


def attributes_in(file: Path) -> set[str]:
    return {
        node.attr for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Attribute)
    }

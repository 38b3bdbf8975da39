"""From a file and overrides to a config; what is wrong is named with its line and the nearest right word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ludus.config.loading import load_config
from ludus.config.when import When
from ludus.errors import ConfigError, UnknownName, UserError


def written(folder: Path, text: str) -> Path:
    path = folder / "my.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def failure(folder: Path, text: str, *overrides: str) -> UserError:
    with pytest.raises(UserError) as caught:
        load_config(written(folder, text), overrides)
    return caught.value


GOOD = """\
# a comment
name: tiny
algorithm: ppo
env: {id: CartPole-v1}
n_envs: 4
checkpoint_freq: 500
hyperparams:
  learning_rate: {linear: [1e-3, 0]}
  entropy_coefficient: 0.5
  algorithm_specific:
    n_steps: 32
"""


def test_values_come_with_their_places(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    loaded = load_config(path, ["seed=3", "hyperparams.gamma=0.9"], {"n_envs": 2})
    config = loaded.config
    assert config.n_envs == 2 and config.seed == 3 and config.checkpoint.every == When(500)
    typed: Any = config.typed_hyperparams()
    assert typed.learning_rate(0.5) == pytest.approx(5e-4)
    assert typed.ent_coef(0) == 0.5 and typed.n_steps == 32 and typed.gamma(0) == 0.9
    assert loaded.place(("name",)) == f"{path}, line 2"
    assert loaded.place(("checkpoint", "every")) == f"{path}, line 6"
    assert loaded.place(("hyperparams", "ent_coef")) == f"{path}, line 9"
    assert loaded.place(("hyperparams", "n_steps")) == f"{path}, line 11"
    assert loaded.place(("n_envs",)) == "command line"
    assert loaded.place(("seed",)) == "command line: seed=3"
    assert loaded.place(("device",)) == "default"


@pytest.mark.parametrize(
    ("text", "line", "what", "fix"),
    [
        ("seed: 1\ntotal_timestep: 5\n", 2, "unknown key 'total_timestep'", "'total_timesteps'"),
        ("checkpoint_frequ: 5\n", 1, "unknown key 'checkpoint_frequ'", "'checkpoint_freq'"),
        ("use_wandbb: true\n", 1, "unknown key 'use_wandbb'", "'use_wandb'"),
        (
            "checkpoint:\n  every: 5\n  keeep: 2\n",
            3,
            "unknown key 'keeep' in checkpoint",
            "'keep'",
        ),
        ("env:\n  id: x\n  kwarg: {}\n", 3, "unknown key 'kwarg' in env", "'kwargs'"),
        (
            "tracking:\n  wandb:\n    projekt: x\n",
            3,
            "unknown key 'projekt' in tracking.wandb",
            "'project'",
        ),
        (
            "hyperparams:\n  gamma: 0.9\n  lerning_rate: 1\n",
            3,
            "unknown key 'lerning_rate' in hyperparams",
            "'learning_rate'",
        ),
        (
            "hyperparams:\n  algorithm_specific:\n    n_stepz: 1\n",
            3,
            "unknown key 'n_stepz' in hyperparams",
            "'n_steps'",
        ),
        (
            "hyperparams:\n  entropy_coeficient: 1\n",
            2,
            "unknown key 'entropy_coeficient' in hyperparams",
            "'entropy_coefficient'",
        ),
        ("algorithm: PP0\n", 1, "unknown algorithm 'PP0'", "'PPO'"),
        ("name: x\nengine: nativ\n", 2, "unknown engine 'nativ'", "'native'"),
    ],
)
def test_an_unknown_name_suggests_the_nearest_and_gives_the_line(
    tmp_path: Path, text: str, line: int, what: str, fix: str
) -> None:
    error = failure(tmp_path, text)
    assert what in error.what
    assert fix in error.fix
    assert error.where.endswith(f"my.yaml, line {line}")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("n_envs: many\n", 1, ["n_envs", "integer", "'many'"]),
        ("n_envs: 0\n", 1, ["n_envs", "greater than or equal to 1", "got 0"]),
        ("seed: 1\nvector: thread\n", 2, ["vector", "'serial'", "'process'", "'thread'"]),
        ("total_timesteps: soon\n", 1, ["total_timesteps", "200 updates", "'soon'"]),
        ("checkpoint: {every: 0}\n", 1, ["checkpoint.every", "more than zero"]),
        ("checkpoint_freq: -1\n", 1, ["checkpoint.every"]),
        ("checkpoint: 5\ncheckpoint_freq: 5\n", 1, ["checkpoint", "got 5"]),
        ("threads: 0\n", 1, ["threads", "'auto'", "got 0"]),
        ("env: {id: x, wrappers: [5]}\n", 1, ["env.wrappers.0", "string", "dictionary"]),
        ("hyperparams:\n  learning_rate: fast\n", 2, ["hyperparams.learning_rate", "'fast'"]),
        ("hyperparams:\n  n_steps: 1.5\n", 2, ["hyperparams.n_steps", "1.5"]),
        ("hyperparams:\n  policy_net_arch: [64, 0]\n", 2, ["hyperparams.policy_net_arch.1", "got 0"]),
        ("hyperparams: 5\n", 1, ["hyperparams", "got 5"]),
        ("games: {train: true}\n", 1, ["games.train", "list", "got True"]),
        ("hyperparams:\n  batch_size: 60\n", 2, ["batch_size 60 does not divide"]),
    ],
)
def test_a_wrong_value_is_named_with_its_line(tmp_path: Path, text: str, line: int, words: list[str]) -> None:
    error = failure(tmp_path, text)
    for word in words:
        assert word in str(error)
    assert error.where.endswith(f"my.yaml, line {line}")
    assert len(str(error).splitlines()) == 3


def test_several_problems_are_counted(tmp_path: Path) -> None:
    assert "(and 2 more problems)" in failure(tmp_path, "n_envs: x\nseed: y\nthreads: z\n").what
    assert "(and 1 more problem)" in failure(tmp_path, "n_envs: x\nseed: y\n").what


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    error = failure(tmp_path, "seed: 1\nn_envs: 2\nseed: 3\n")
    assert "'seed' is given twice" in error.what
    assert error.where.endswith("line 3 (first: line 1)")
    error = failure(tmp_path, "hyperparams: {gamma: 1, gamma: 0}\n")
    assert "'hyperparams.gamma' is given twice" in error.what


def test_broken_yaml_gives_the_line(tmp_path: Path) -> None:
    error = failure(tmp_path, "seed: 1\nenv: {id: x\nn_envs: 2\n")
    assert "not valid YAML" in error.what and ", line " in error.where
    assert "mapping of keys" in failure(tmp_path, "- a\n- b\n").what


def test_an_empty_file_is_the_default_config(tmp_path: Path) -> None:
    assert load_config(written(tmp_path, "# nothing\n")).config == load_config().config


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no config file"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(UnknownName, match=r"unknown preset or config file 'cartpole-pp0'") as caught:
        load_config("cartpole-pp0")
    assert "'cartpole-ppo'" in caught.value.fix


def test_null_turns_a_section_off_or_takes_its_defaults(tmp_path: Path) -> None:
    config = load_config(
        written(
            tmp_path,
            "checkpoint: null\nevaluation:\nvideo: null\nearly_stopping: null\npolicy: null\ntracking: null\n",
        )
    ).config
    assert config.checkpoint.every is None and config.evaluation.every is None and config.video.every is None
    assert config.early_stopping.patience is None and config.policy.features_dim == 512
    assert config.tracking.tensorboard is False and config.tracking.wandb is None


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("env=CartPole-v1", lambda c: c.env.id == "CartPole-v1" and c.env.kwargs == {}),
        ("env.id=X-v0", lambda c: c.env.id == "X-v0" and c.env.kwargs == {"a": 1}),
        ("env.kwargs.b=1e-3", lambda c: c.env.kwargs == {"a": 1, "b": 0.001}),
        ("env_id=X-v0", lambda c: c.env.id == "X-v0" and c.env.kwargs == {"a": 1}),
        ("checkpoint.every=9", lambda c: c.checkpoint.every == When(9) and c.checkpoint.keep == 3),
        ("checkpoint_freq=9", lambda c: c.checkpoint.every == When(9) and c.checkpoint.keep == 3),
        ("eval_freq=30 min", lambda c: c.evaluation.every == When(30, "minutes")),
        ("checkpoint=null", lambda c: c.checkpoint.every is None),
        ("hyperparams.ent_coef=0.7", lambda c: c.typed_hyperparams().ent_coef(0) == 0.7),
        ("hyperparams.entropy_coefficient=0.7", lambda c: c.typed_hyperparams().ent_coef(0) == 0.7),
        ("hyperparams.n_steps=256", lambda c: c.typed_hyperparams().n_steps == 256),
        (
            "hyperparams.algorithm_specific.n_steps=256",
            lambda c: c.typed_hyperparams().n_steps == 256,
        ),
        (
            "hyperparams.algorithm_specific.batch_size=32",
            lambda c: c.typed_hyperparams().batch_size == 32,
        ),
        ("hyperparams.learning_rate={cosine: [1, 0]}", lambda c: c.typed_hyperparams().learning_rate(0) == 1),
        ("hyperparams.learning_rate=1e-3", lambda c: c.hyperparams.learning_rate == 0.001),
        ("total_timesteps=1e5", lambda c: c.total_timesteps == When(100_000)),
        ("name=2024-01-31", lambda c: c.name == "2024-01-31"),
        ("name=", lambda c: c.name is None),
        ("tags=[a, b]", lambda c: c.tags == ["a", "b"]),
        ("wandb_project=mine", lambda c: c.tracking.wandb.project == "mine"),
    ],
)
def test_an_override_beats_the_file_however_it_is_spelled(tmp_path: Path, override: str, read: Any) -> None:
    text = """\
env: {id: Old-v0, kwargs: {a: 1}}
checkpoint: {keep: 3}
checkpoint_freq: 100
use_wandb: true
hyperparams:
  entropy_coefficient: 0.1
  batch_size: 64
  algorithm_specific: {n_steps: 128}
"""
    assert read(load_config(written(tmp_path, text), [override]).config)


def test_an_env_given_as_text_takes_dotted_overrides(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, "env: CartPole-v1\n"), ["env.frame_stack=2"]).config
    assert config.env is not None and config.env.id == "CartPole-v1" and config.env.frame_stack == 2


@pytest.mark.parametrize(
    "override", ["seed", "=5", "seed=[1", "seed=!!python/name:os.system", "name=" + "[" * 5000]
)
def test_an_override_that_cannot_be_read_is_refused(override: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, [override])
    assert caught.value.where == "command line"


def test_a_wrong_override_is_shown_as_it_was_typed(tmp_path: Path) -> None:
    error = failure(tmp_path, "seed: 1\n", "n_envs=many")
    assert error.where == "command line: n_envs=many"
    error = failure(tmp_path, "seed: 1\n", "seed.deep=1")
    assert "'seed' holds a value, not a section" in error.what


def test_an_error_found_later_is_located_too(tmp_path: Path) -> None:
    loaded = load_config(written(tmp_path, "seed: 1\ndevice: cpu\n"))
    with pytest.raises(ConfigError) as caught, loaded.locating_errors():
        raise ConfigError("not here", key="device")
    assert caught.value.where.endswith("my.yaml, line 2")

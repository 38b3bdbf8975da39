"""Import of the YAML of the document "Training Pipeline": every key is converted or listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ludus.config.loading import LoadedConfig, load_config
from ludus.config.plain_yaml import write_yaml
from ludus.errors import ConfigError

SEED = Path(__file__).parents[2] / "data" / "pipeline" / "base_ppo_config.yaml"


def load(folder: Path, old: str = "", new: str = "", **choices: str) -> LoadedConfig:
    text = SEED.read_text("utf-8")
    assert old in text
    path = folder / "base ppo.yaml"
    path.write_text(text.replace(old, new, 1) if old else text, "utf-8")
    return load_config(path, flags=choices)


def test_yaml_of_the_document_is_imported_unchanged(tmp_path: Path) -> None:
    config = load(tmp_path).config
    assert (config.name, config.algorithm_entry().name) == ("BipedalWalker-Benchmark", "PPO")
    assert config.env is not None
    assert (config.env.id, config.env.kwargs, config.n_envs) == ("BipedalWalker-v3", {}, 1)
    assert config.total_timesteps.plain() == 500_000
    assert config.pretrained_model is None
    assert config.hyperparams.given() == {
        "learning_rate": 0.0003,
        "n_steps": 8192,
        "batch_size": 512,
        "n_epochs": 5,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "clip_range": 0.2,
        "ent_coef": 0.0,
        "vf_coef": 0.5,
        "max_grad_norm": 0.5,
        "policy_net_arch": [128, 128],
        "value_net_arch": [128, 128],
    }
    assert config.policy.model_dump(exclude_unset=True) == {
        "features_extractor": "ResnetMLP",
        "features_dim": 128,
        "activation": "ReLU",
        "share_features_extractor": False,
    }
    assert (config.normalize_obs, config.normalize_reward) == (False, False)


def test_counts_per_run_become_intervals(tmp_path: Path) -> None:
    config = load(tmp_path).config
    assert config.evaluation.model_dump(mode="json") == {
        "every": 500_000 // 15,
        "episodes": 5,
        "deterministic": True,
        "seed": 5,
        "max_steps": None,
    }
    assert config.checkpoint.every is not None and config.checkpoint.every.plain() == 500_000 // 10
    assert config.video.model_dump(mode="json", include={"every", "length"}) == {"every": 5000, "length": 500}


def test_folder_and_project_of_the_document_are_used(tmp_path: Path) -> None:
    config = load(tmp_path).config
    assert (config.save_dir, config.timestamp) == ("experiments", False)
    assert config.tracking.wandb is not None
    assert (config.tracking.wandb.project, config.tracking.wandb.group) == ("sb3", "BipedalWalker-v3")


def test_no_key_is_lost_and_unneeded_keys_are_listed_with_their_lines(tmp_path: Path) -> None:
    imported = load(tmp_path).imported
    assert imported is not None and imported.lost == []
    assert [remark.key for remark in imported.notes] == [
        "environment.render_mode",
        "environment.monitor",
        "training.algorithm_parameters.policy",
        "training.training.device",
        "training.training.verbose",
        "evaluation.num_episodes",
        "play.experiment",
        "play.pretrained_model",
    ]
    lines = SEED.read_text("utf-8").splitlines()
    for remark in imported.notes:
        number = int(remark.place.partition(", line ")[2].partition(" ")[0])
        assert lines[number - 1].strip().startswith(remark.key.rpartition(".")[2])
    assert imported.play is not None
    assert (imported.play.experiment, imported.play.model) == ("experiment_date", "model")


def test_indented_yaml_gives_the_same_config(tmp_path: Path) -> None:
    pasted = tmp_path / "pasted.yaml"
    pasted.write_text("".join(f"   {line}\n" for line in SEED.read_text("utf-8").splitlines()), "utf-8")
    assert load_config(pasted).config == load(tmp_path).config


def test_converted_config_loads_to_the_same_config(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    assert loaded.imported is not None
    own = tmp_path / "own.yaml"
    own.write_text(write_yaml(loaded.imported.data), "utf-8")
    again = load_config(own)
    assert again.imported is None
    assert again.config == loaded.config


def test_keys_of_other_versions_are_imported(tmp_path: Path) -> None:
    more = "total_timesteps: 500000\n    num_envs: 4\n    seed: 7\n    state_stack: 2\n    is_atari: true"
    config = load(tmp_path, "total_timesteps: 500000", more).config
    assert config.env is not None
    assert (config.n_envs, config.seed, config.env.frame_stack, config.env.wrappers) == (4, 7, 2, ["atari"])


def test_unsupported_section_is_listed_as_lost(tmp_path: Path) -> None:
    unity = "play:\n  experiment: 'latest'\nunity:\n  build_path: 'build/Playground.exe'\nextra:\n"
    imported = load(tmp_path, "play:\n", unity).imported
    assert imported is not None
    assert [remark.key for remark in imported.lost] == ["unity", "extra"]


@pytest.mark.parametrize(
    ("old", "new", "what", "line"),
    [
        ("learning_rate: 0.0003", "learning_rte: 0.0003", "unknown key 'learning_rte'", 19),
        ("learning_rate: 0.0003", "learning_rate: 'fast'", "number or lin_NUMBER", 19),
        ("n_steps: 8192", "n_steps: -1", "greater than or equal to 1", 20),
        ("batch_size: 512", "batch_size: 500", "does not divide", 21),
        ("num_evals: 15", "num_evals: 0", "must be 1 or more", 42),
        ("total_timesteps: 500000", "total_timesteps: 'many'", "whole number", 43),
        ("id: 'BipedalWalker-v3'", "id: 'None'", "environment.id is missing", 4),
        ("activation_fn: 'ReLU'", "activation: 'ReLU'", "unknown key 'activation'", 35),
        ("algorithm: 'ppo'", "algorithm: 'poo'", "unknown algorithm", 14),
        ("{'pi': [128, 128], 'vf': [128, 128]}", "{'pi': [0], 'vf': [128, 128]}", "greater than 0", 31),
        ("architecture:", "architecture: 5\n  other:", "is a mapping", 30),
    ],
)
def test_an_error_names_file_line_and_key(tmp_path: Path, old: str, new: str, what: str, line: int) -> None:
    with pytest.raises(Exception, match=what) as caught:
        load(tmp_path, old, new)
    where = caught.value.where
    assert where.startswith(f"{tmp_path / 'base ppo.yaml'}, line {line} (")


def test_engine_sb3_gets_the_arguments_under_their_own_names(tmp_path: Path) -> None:
    loaded = load(tmp_path, "max_grad_norm: 0.5", "max_grad_norm: 0.5\n    use_sde: true", engine="sb3")
    assert loaded.config.engine == "sb3"
    assert loaded.config.hyperparams.given()["use_sde"] is True
    native = load(tmp_path, "max_grad_norm: 0.5", "max_grad_norm: 0.5\n    use_sde: true")
    assert native.imported is not None
    assert [remark.key for remark in native.imported.lost] == ["training.algorithm_parameters.use_sde"]


def test_python_file_of_unknown_format_raises(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("algorithm = 'PPO'\n")
    with pytest.raises(ConfigError, match="known foreign format"):
        load_config(tmp_path / "mine.py")

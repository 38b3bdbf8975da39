"""Import of the Unity `config.yml` of the document "Training Pipeline"."""

from __future__ import annotations

from pathlib import Path

import pytest

from ludus.config.loading import LoadedConfig, load_config
from ludus.config.plain_yaml import write_yaml
from ludus.errors import ConfigError

DATA = Path(__file__).parents[2] / "data"
SEED = DATA / "unity" / "config.yml"
PIPELINE = DATA / "pipeline" / "base_ppo_config.yaml"


def load(folder: Path, old: str, new: str, source: Path = SEED) -> LoadedConfig:
    text = source.read_text("utf-8")
    assert old in text
    path = folder / "config.yml"
    path.write_text(text.replace(old, new, 1), "utf-8")
    return load_config(path)


def test_config_of_the_document_is_imported_unchanged() -> None:
    loaded = load_config(SEED)
    config = loaded.config
    assert config.env is not None
    assert (config.env.id, config.n_envs, config.algorithm) == ("ludus/Unity-v0", 1, "PPO")
    assert config.env.kwargs == {
        "use_case": "uc1",
        "build": {
            "path": "build/Playground.exe",
            "headless": False,
            "pause": False,
            "sample_time": 0.0,
            "time_scale": 1.0,
        },
    }
    assert (config.save_dir, config.normalize_obs, config.normalize_reward) == ("experiments", False, False)


def test_no_key_is_lost() -> None:
    imported = load_config(SEED).imported
    assert imported is not None and imported.lost == []
    assert [remark.key for remark in imported.notes] == ["ros.package_name", "ros.node_name"]


def test_converted_config_loads_to_the_same_config(tmp_path: Path) -> None:
    loaded = load_config(SEED)
    assert loaded.imported is not None
    own = tmp_path / "own.yaml"
    own.write_text(write_yaml(loaded.imported.data), "utf-8")
    again = load_config(own)
    assert again.imported is None and again.config == loaded.config


@pytest.mark.parametrize(
    ("old", "new", "use_case", "n_envs"),
    [
        ('node_name: "train"', 'node_name: "train_uc2"', "uc2", 1),
        ('package_name: "examples_pkg"', 'package_name: "UC3"', "uc3", 1),
        ("n_environments: 1", "n_environments: 16", "uc1", 16),
        ("n_environments: 1\n", "", "uc1", 1),
    ],
)
def test_use_case_and_number_of_envs_are_imported(
    tmp_path: Path, old: str, new: str, use_case: str, n_envs: int
) -> None:
    config = load(tmp_path, old, new).config
    assert config.env is not None
    assert (config.env.kwargs["use_case"], config.n_envs) == (use_case, n_envs)


def test_config_without_a_build_waits_for_simulators(tmp_path: Path) -> None:
    loaded = load(tmp_path, '  build_path: "build/Playground.exe"\n', "")
    assert loaded.config.env is not None and "build" not in loaded.config.env.kwargs
    assert loaded.imported is not None and loaded.imported.lost == []


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("headless_mode", "headles_mode", "unknown key 'headles_mode'"),
        ("n_environments: 1", "n_environments: many", "whole number"),
        ("n_environments: 1", "n_environments: 0", "greater than or equal to 1"),
    ],
)
def test_invalid_key_is_named_with_its_line(tmp_path: Path, old: str, new: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what) as caught:
        load(tmp_path, old, new)
    assert str(caught.value.where).startswith(f"{tmp_path / 'config.yml'}, line ")


def test_training_yaml_may_contain_use_case_and_unity_sections(tmp_path: Path) -> None:
    text = PIPELINE.read_text("utf-8").replace("id: 'BipedalWalker-v3'", "id: 'uc2'")
    path = tmp_path / "both.yaml"
    path.write_text(f"{text}\nn_environments: 4\nunity:\n  build_path: 'build/Playground.x86_64'\n", "utf-8")
    loaded = load_config(path)
    assert loaded.imported is not None and loaded.imported.lost == []
    assert loaded.config.env is not None and loaded.config.env.id == "ludus/Unity-v0"
    assert (loaded.config.n_envs, loaded.config.env.kwargs["use_case"]) == (4, "uc2")
    assert loaded.config.env.kwargs["build"] == {"path": "build/Playground.x86_64"}


def test_ros_section_alone_gives_one_simulator(tmp_path: Path) -> None:
    path = tmp_path / "config.yml"
    path.write_text('ros:\n  package_name: "examples_pkg"\n  node_name: "train"\n')
    loaded = load_config(path)
    assert loaded.imported is not None and loaded.imported.lost == []
    config = loaded.config
    assert config.env is not None and (config.env.id, config.n_envs) == ("ludus/Unity-v0", 1)

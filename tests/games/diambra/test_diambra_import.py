"""DIAMBRA training settings, as YAML, JSON or config.py, become a config; the game's own settings go to the env."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from ludus.config.loading import load_config
from ludus.errors import ConfigError

SETTINGS = Path(__file__).parents[2] / "data" / "diambra" / "settings.yaml"

CONFIG_PY = """
import os
from filter_keys import get_filter_keys
from diambra.arena import SpaceTypes

env_settings = {"env_num": 32, "check_freq": 100000, "time_steps": 32000000}
settings = {
    "game_id": "sfiii3n",
    "difficulty": 8,
    "characters": "Ken",
    "action_space": SpaceTypes.MULTI_DISCRETE,
    "step_ratio": 1,
    "frame_shape": (84, 84, 1),
    "super_art": 3,
}
game_id = settings["game_id"]
flatten = True
wrappers_settings = {
    "wrappers": [],
    "stack_frames": 4,
    "dilation": 1,
    "no_attack_buttons_combinations": False,
    "normalize_reward": not flatten,
    "normalization_factor": 1.0,
    "stack_actions": 4,
    "scale": True,
    "exclude_image_scaling": True,
    "flatten": flatten,
    "process_discrete_binary": True,
    "role_relative": True,
    "add_last_action": True,
    "filter_keys": get_filter_keys(game_id, flatten),
}
n_steps = 128
n_envs = env_settings["env_num"]
nminibatches = 8
batch_size = (n_steps * n_envs) // nminibatches
if (n_steps * n_envs) % nminibatches != 0:
    raise ValueError("not divisible")
policy_kwargs = {"net_arch": {"pi": [128, 128], "vf": [64, 64]}}
ppo_settings = {
    "gamma": 0.94,
    "n_epochs": 4,
    "n_steps": n_steps,
    "batch_size": batch_size,
    "learning_rate_start": 5.0e-5,
    "learning_rate_end": 2.5e-6,
    "clip_range_start": 0.075,
    "clip_range_end": 0.025,
    "seed": 42,
    "policy_kwargs": policy_kwargs,
}
model_path = "./trained_models"
tensorboard_log_path = "./tensorboard_logs"
monitor_logs_path = "./output/logs"
os.makedirs(model_path, exist_ok=True)
"""


def test_the_settings_mean_what_they_say() -> None:
    loaded = load_config(SETTINGS)
    config = loaded.config
    assert loaded.imported is not None and loaded.imported.lost == []
    assert (config.algorithm, config.n_envs, config.seed) == ("PPO", 32, 42)
    assert config.total_timesteps.plain() == 32_000_000
    assert config.checkpoint.every is not None and config.checkpoint.every.plain() == 100_000
    assert config.hyperparams.given() == {
        "gamma": 0.94,
        "n_epochs": 4,
        "n_steps": 128,
        "batch_size": 128 * 32 // 8,
        "learning_rate": {"linear": [5e-5, 2.5e-6]},
        "clip_range": {"linear": [0.075, 0.025]},
        "policy_net_arch": [128, 128],
        "value_net_arch": [64, 64],
        "ent_coef": 0.0,
    }
    assert config.resume == "auto"


def test_the_games_settings_and_wrappers_go_to_the_env_as_they_are() -> None:
    env = load_config(SETTINGS).config.env
    given = yaml.safe_load(SETTINGS.read_text("utf-8"))
    assert env is not None
    assert env.id == "diambra/sfiii3n"
    expected = {key: value for key, value in given["settings"].items() if key != "game_id"}
    assert env.kwargs == {**expected, "wrappers_settings": given["wrappers_settings"]}


def test_the_three_folders_are_those_configured(tmp_path: Path) -> None:
    config = load_config(SETTINGS).config
    folders = (config.save_dir, config.tracking.tensorboard_dir, config.tracking.monitor_dir)
    assert folders == ("./trained_models", "./tensorboard_logs", "./output/logs")
    data = yaml.safe_load(SETTINGS.read_text("utf-8"))
    for name in ("model_path", "tensorboard_log_path", "monitor_logs_path"):
        del data[name]
    data["paths"] = {"model_path": "elsewhere/models"}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(data))
    config = load_config(tmp_path / "s.yaml").config
    folders = (config.save_dir, config.tracking.tensorboard_dir, config.tracking.monitor_dir)
    assert folders == ("elsewhere/models", "./tensorboard_logs", "./output/logs")


def test_json_reads_the_same_tabs_and_all(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(yaml.safe_load(SETTINGS.read_text("utf-8")), indent="\t"))
    assert load_config(path).config == load_config(SETTINGS).config


def test_config_py_reads_the_same_and_what_only_running_it_would_tell_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "config.py"
    path.write_text(CONFIG_PY)
    loaded = load_config(path)
    assert loaded.imported is not None
    lost = {remark.key: remark.why for remark in loaded.imported.lost}
    assert set(lost) == {"wrappers_settings.normalize_reward"}
    assert "not flatten" in lost["wrappers_settings.normalize_reward"]
    assert [note.why for note in loaded.imported.notes] == [
        "the document's function: filter_keys: auto is the same",
        "code, which is never run",
    ]
    from_yaml = load_config(SETTINGS).config
    assert from_yaml.env is not None and loaded.config.env is not None
    del from_yaml.env.kwargs["wrappers_settings"]["normalize_reward"]
    from_yaml.env.kwargs["wrappers_settings"]["filter_keys"] = "auto"
    assert loaded.config == from_yaml
    assert list(tmp_path.iterdir()) == [path]


def test_a_key_of_a_section_that_other_lines_use_is_listed_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "config.py"
    path.write_text(CONFIG_PY.replace('{"env_num": 32,', '{"env_num": 32, "splash_screen": False,'))
    imported = load_config(path).imported
    assert imported is not None
    assert "env_settings.splash_screen" in [remark.key for remark in imported.lost]


@pytest.mark.parametrize(
    ("old", "new", "what", "line", "key"),
    [
        ("nminibatches: 8", "nminibatches: 7", "does not divide n_steps", 32, "ppo_settings.nminibatches"),
        ("  game_id: sfiii3n\n", "", "settings.game_id is missing", 5, "settings"),
        (
            "  learning_rate_end: 2.5e-6\n",
            "",
            "learning_rate_end is missing",
            33,
            "ppo_settings.learning_rate_start",
        ),
        ("time_steps: 32000000", "time_steps: [1]", "whole number", 4, "env_settings.time_steps"),
        (
            "time_steps: 32000000",
            "time_step: 32000000",
            "unknown key 'time_step'",
            4,
            "env_settings.time_step",
        ),
        ("gamma: 0.94", "gamma: 94", "at most 1", 29, "ppo_settings.gamma"),
    ],
)
def test_an_error_names_file_line_and_key(
    old: str, new: str, what: str, line: int, key: str, tmp_path: Path
) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(SETTINGS.read_text("utf-8").replace(old, new))
    with pytest.raises(ConfigError, match=what) as caught:
        load_config(path)
    assert caught.value.where == f"{path}, line {line} ({key})"


def test_a_value_that_would_have_to_be_run_is_an_error_where_it_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "config.py"
    path.write_text(CONFIG_PY.replace('"time_steps": 32000000', '"time_steps": int("32000000")'))
    with pytest.raises(ConfigError, match="not a literal: int") as caught:
        load_config(path)
    assert caught.value.where == f"{path}, line 6 (env_settings.time_steps)"


def test_a_call_deep_inside_a_setting_costs_that_setting(tmp_path: Path) -> None:
    path = tmp_path / "config.py"
    path.write_text(CONFIG_PY.replace('"stack_actions": 4', '"stack_actions": {"n": [1, count()]}'))
    imported = load_config(path).imported
    assert imported is not None
    assert "wrappers_settings.stack_actions" in [remark.key for remark in imported.lost]
    path.write_text(CONFIG_PY.replace("[128, 128]", "[size(), 128]"))
    with pytest.raises(ConfigError, match="not a literal: size"):
        load_config(path)

"""Import of DIAMBRA training settings from YAML, JSON or config.py; game settings are passed to the env."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from ludus.config.loading import load_config
from ludus.errors import ConfigError

SETTINGS = Path(__file__).parents[2] / "data" / "diambra" / "settings.yaml"

CONFIG_PY = (SETTINGS.parent / "config.py.txt").read_text("utf-8")


def test_settings_are_converted() -> None:
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


def test_game_settings_and_wrappers_are_passed_to_the_env_unchanged() -> None:
    env = load_config(SETTINGS).config.env
    given = yaml.safe_load(SETTINGS.read_text("utf-8"))
    assert env is not None
    assert env.id == "diambra/sfiii3n"
    expected = {key: value for key, value in given["settings"].items() if key != "game_id"}
    assert env.kwargs == {**expected, "wrappers_settings": given["wrappers_settings"]}


def test_the_three_folders_are_converted(tmp_path: Path) -> None:
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


def test_json_gives_the_same_config(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(yaml.safe_load(SETTINGS.read_text("utf-8")), indent="\t"))
    assert load_config(path).config == load_config(SETTINGS).config


def test_config_py_gives_the_same_config_and_lists_values_that_need_execution(tmp_path: Path) -> None:
    path = tmp_path / "config.py"
    path.write_text(CONFIG_PY)
    loaded = load_config(path)
    assert loaded.imported is not None
    lost = {remark.key: remark.why for remark in loaded.imported.lost}
    assert set(lost) == {"wrappers_settings.normalize_reward"}
    assert "not flatten" in lost["wrappers_settings.normalize_reward"]
    assert [note.why for note in loaded.imported.notes] == [
        "a function of the document: the same as filter_keys: auto",
        "code, which is never run",
    ]
    from_yaml = load_config(SETTINGS).config
    assert from_yaml.env is not None and loaded.config.env is not None
    del from_yaml.env.kwargs["wrappers_settings"]["normalize_reward"]
    from_yaml.env.kwargs["wrappers_settings"]["filter_keys"] = "auto"
    assert loaded.config == from_yaml
    assert list(tmp_path.iterdir()) == [path]


def test_key_used_by_other_lines_is_still_listed(tmp_path: Path) -> None:
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


def test_required_value_that_needs_execution_raises(tmp_path: Path) -> None:
    path = tmp_path / "config.py"
    path.write_text(CONFIG_PY.replace('"time_steps": 32000000', '"time_steps": int("32000000")'))
    with pytest.raises(ConfigError, match="not a literal: int") as caught:
        load_config(path)
    assert caught.value.where == f"{path}, line 5 (env_settings.time_steps)"


def test_setting_with_a_nested_call_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "config.py"
    path.write_text(CONFIG_PY.replace('"stack_actions": 4', '"stack_actions": {"n": [1, count()]}'))
    imported = load_config(path).imported
    assert imported is not None
    assert "wrappers_settings.stack_actions" in [remark.key for remark in imported.lost]
    path.write_text(CONFIG_PY.replace("[128, 128]", "[size(), 128]"))
    with pytest.raises(ConfigError, match="not a literal: size"):
        load_config(path)


@pytest.mark.parametrize("written", ["settings.yaml", "config.py"])
@pytest.mark.parametrize("chosen", [{"flags": {"engine": "sb3"}}, {"overrides": ["engine=sb3"]}])
def test_engine_sb3_gets_the_settings_under_stable_baselines3_own_names(
    written: str, chosen: dict[str, object], tmp_path: Path
) -> None:
    pytest.importorskip("stable_baselines3")
    path = tmp_path / written
    path.write_text(CONFIG_PY if written == "config.py" else SETTINGS.read_text())
    loaded = load_config(path, **chosen)  # type: ignore[arg-type]
    assert loaded.imported is not None
    assert not [remark for remark in loaded.imported.lost if remark.key.startswith("ppo_settings")]
    h = loaded.config.typed_hyperparams().model_dump()
    assert (h["gamma"], h["n_epochs"], h["n_steps"], h["batch_size"]) == (0.94, 4, 128, 512)
    assert h["learning_rate"] == {"linear": [5e-5, 2.5e-6]} and h["clip_range"] == {"linear": [0.075, 0.025]}
    assert (loaded.config.seed, loaded.config.n_envs) == (42, 32)

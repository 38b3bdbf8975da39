"""A foreign config from another person runs no code, in whatever corner of it the code stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ludus.cli.app import main
from ludus.config.loading import load_config

_CALL = "__import__('pathlib').Path({mark!r}).touch()"

ATTACKS = {
    "zoo policy_kwargs": (
        "ppo.yml",
        'CartPole-v1: {{n_timesteps: 64, n_envs: 1, policy_kwargs: "dict(net_arch={call})"}}',
    ),
    "zoo normalize": ("ppo.yml", 'CartPole-v1: {{n_timesteps: 64, normalize: "{call}"}}'),
    "zoo env_kwargs": ("ppo.yml", 'CartPole-v1: {{n_timesteps: 64, env_kwargs: "{call}"}}'),
    "zoo replay_buffer_kwargs": (
        "dqn.yml",
        'CartPole-v1: {{n_timesteps: 64, replay_buffer_class: "{call}", replay_buffer_kwargs: "{call}"}}',
    ),
    "zoo wrapper that is no wrapper": (
        "ppo.yml",
        "CartPole-v1: {{n_timesteps: 64, env_wrapper: [{{pathlib.Path: {{mode: 5}}}}, 'os.system']}}",
    ),
    "zoo wrapper with arguments": (
        "ppo.yml",
        "CartPole-v1: {{n_timesteps: 64, env_wrapper: [{{os.system: {{command: 'touch {mark}'}}}}]}}",
    ),
    "zoo callback": ("ppo.yml", "CartPole-v1: {{n_timesteps: 64, callback: ['os.system']}}"),
    "zoo YAML tag": ("ppo.yml", "CartPole-v1: !!python/object/apply:os.system ['touch {mark}']"),
    "pipeline YAML tag": (
        "p.yaml",
        "environment: {{id: CartPole-v1}}\ntraining: {{algorithm: !!python/object/apply:os.system ['touch {mark}']}}",
    ),
    "pipeline architecture text": (
        "p.yaml",
        'environment: {{id: CartPole-v1}}\ntraining: {{algorithm: ppo, architecture: "{call}"}}',
    ),
    "pipeline extractor that is a function": (
        "p.yaml",
        "environment: {{id: CartPole-v1}}\ntraining: {{algorithm: ppo, training: {{total_timesteps: 64}}, "
        "architecture: {{features_extractor_class: os.system, "
        "features_extractor_kwargs: {{command: 'touch {mark}'}}}}}}",
    ),
    "config.py at its top": (
        "config.py",
        "{call}\nsettings = {{'game_id': 'x'}}\nppo_settings = {{'n_steps': 8}}\nenv_settings = {{'env_num': 1}}\n",
    ),
    "config.py in a value": (
        "config.py",
        "settings = {{'game_id': {call}}}\nppo_settings = {{'n_steps': 8}}\nenv_settings = {{'env_num': {call}}}\n",
    ),
    "config.py in policy_kwargs": (
        "config.py",
        "settings = {{'game_id': 'x'}}\nenv_settings = {{'env_num': 1}}\n"
        'ppo_settings = {{"n_steps": 8, "policy_kwargs": "{call}"}}\n',
    ),
    "config.py class body": (
        "config.py",
        "class A:\n    x = {call}\nsettings = {{'game_id': 'x'}}\nppo_settings = {{'n_steps': 8}}\n",
    ),
    "config.py subscript": (
        "config.py",
        "settings = {{'game_id': 'x'}}\nppo_settings = {{'n_steps': [8][{call}]}}\n",
    ),
    "json": ("s.json", '{{"settings": {{"game_id": "x"}}, "ppo_settings": {{"policy_kwargs": "{call}"}}}}'),
}


@pytest.mark.parametrize("command", ["train", "config", "convert", "play"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_payload_of_a_foreign_config_is_run(
    attack: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    mark = str(tmp_path / "pwned")
    name, text = ATTACKS[attack]
    Path(name).write_text(text.format(call=_CALL.format(mark=mark), mark=mark))
    before = set(os.listdir(tmp_path))
    main([command, name])
    assert not Path(mark).exists()
    assert set(os.listdir(tmp_path)) - before <= {"runs", "experiments"}


def test_a_key_cannot_leave_the_comment_that_lists_it_nor_steer_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    block = '{n_timesteps: 64, n_envs: 1, "x\\npretrained_model: evil #": 1, "y\\e[2J": 1}'
    Path("ppo.yml").write_text(f"CartPole-v1: {block}\n")
    assert main(["convert", "ppo.yml"]) == 0
    printed = capsys.readouterr().out
    Path("mine.yaml").write_text(printed)
    assert load_config("mine.yaml").config == load_config("ppo.yml").config
    assert "\\x1b[2J" in printed and "\x1b" not in printed
    Path("bad.yaml").write_text('algorithm: "\\e[2JPPO"\nenv: CartPole-v1\n')
    assert main(["config", "bad.yaml"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_the_payload_would_work_if_it_were_run(tmp_path: Path) -> None:
    mark = tmp_path / "pwned"
    subprocess.run([sys.executable, "-c", _CALL.format(mark=str(mark))], check=True)
    assert mark.exists()

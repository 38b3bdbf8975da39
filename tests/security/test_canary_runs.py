"""A run from elsewhere that tries to execute, start, connect, listen, write and read outside its folder: it must not.

Every command that takes a run is tried with every config key that can hold text. `canary_driver` runs them in a process
with audit hooks. Each must do nothing outside, and end with code 0, or with code 2 and an error of three lines.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from canary_keys import (
    CONSENT,
    DIAMBRA_CONSENT,
    DIAMBRA_HARMLESS,
    HARMLESS,
    HYPERPARAMETERS_HARMLESS,
    UNITY_CONSENT,
    UNITY_HARMLESS,
    attack_value,
    text_keys,
)

from ludus.cli.app import CORE
from ludus.config.loading import config_hash, load_config
from ludus.config.registry import LANGUAGE, algorithm_names, engine_names, find_algorithm
from ludus.config.schema import TrainerConfig
from ludus.errors import MissingExtra
from ludus.games.diambra.settings import DiambraSettings
from ludus.games.unity.settings import UnitySettings
from ludus.plugins import commands
from ludus.training.factory import create_trainer

pytestmark = pytest.mark.long

PLAYS: dict[str, list[str]] = {
    "eval": ["eval", "received", "--episodes", "1"],
    "play": ["play", "received", "--video", "clip.mp4"],
    "video": ["video", "received", "--length", "2", "--episodes", "1", "--no-overlay"],
    "analyze": ["analyze", "received", "--episodes", "1"],
    "export": ["export", "received", "--to", "torchscript"],
    "match": ["match", "received", "random", "--games", "1", "--env", "TicTacToe-v0"],
    "resume": ["resume", "received", "--steps", "96", "-q"],
}
READS: dict[str, list[str]] = {
    "report": ["report", "received"],
    "watch": ["watch", "received", "--once"],
    "runs": ["runs", "list", "--root", "received"],
    "config": ["config", "received/config.yaml"],
    "league": ["league", "received"],
    "mirror": ["mirror", "received"],
    "scale": ["scale", "received", "--actors", "2"],
    "sync": ["sync", "wandb", "received", "--offline"],
    "games": ["games", "received"],
}
"""They read files of the run, or send it; all attacks are tried with them at once."""
LANGUAGE_PLAYS: dict[str, list[str]] = {
    "match": ["match", "received", "random", "--games", "1"],
    "export": ["export", "received", "--to", "peft"],
    "eval": ["eval", "received"],
    "exploitability": ["exploitability", "received"],
    "resume": ["resume", "received", "--steps", "2 updates", "-q"],
}
NO_RUN = {
    "train": "does what a config says",
    "compare": "trains configs",
    "sweep": "trains configs",
    "warmup": "trains a config",
    "import": "a zip of another library: test_hostile_inputs",
    "pull": "a mirror: tests/runs/mirror",
    "ui": "a server: test_dashboard_serves_only_runs",
    "convert": "a config of another format: test_foreign_configs_run_nothing",
    "cluster": "no run",
    "bench": "no run",
    "presets": "no run",
    "envs": "no run",
    "validate": "no run",
    "init": "no run",
    "doctor": "no run",
    "models": "no run",
    "balatro": "no run",
    "unity": "no run",
    "diambra": "its duel asks as eval does; needs an environment of its own: tests/diambra",
}

_OTHER_RUNS = ("match", "league", "mirror", "scale", "sync", "games")
"""They need a run on a game with seats, on Ray or with a mirror, or an extra."""
_USUAL = "--ros-port 0 --environment-id 0 --pause False --sample-time 0.0 --headless"
_PAYLOAD = """
import pathlib
pathlib.Path({mark!r}).touch()
import gymnasium
from ludus import BaseFeaturesExtractor

class Net(BaseFeaturesExtractor):
    pass

class Wrap(gymnasium.Wrapper):
    pass

gymnasium.register("Canary-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv")
"""


class Canary:
    """The driver's process and the folders it works in."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.outside = base / "outside"
        self.mark = self.outside / "pwned"
        self.program = self.outside / "build.x86_64"
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "WANDB"))
        }
        environment |= {
            "HOME": str(base / "home"),
            "TMPDIR": str(base / "tmp"),
            "TORCHINDUCTOR_CACHE_DIR": str(base / "tmp"),  # torch sets it in this process
            "TRITON_CACHE_DIR": str(base / "tmp"),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "OPENAI_API_KEY": "sk-canary",
            "MPLCONFIGDIR": str(base / "home"),
        }
        for name in ("desk", "home", "tmp", "good", "outside/folder"):
            (base / name).mkdir(parents=True)
        (base / "payload.py").write_text(_PAYLOAD.format(mark=str(self.mark)))
        for name in ("secret.txt", "folder/secret.txt"):
            (self.outside / name).write_text("secret\n")
        self.program.write_text(f"#!/bin/sh\ntouch {self.mark}\n")
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)
        driver = Path(__file__).with_name("canary_driver.py")
        self._process = subprocess.Popen(
            [sys.executable, str(driver), str(base)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(base / "driver.log").open("w"),
            text=True,
        )

    def attempt(self, words: list[str], run: str = "env", **case: Any) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        before = sorted(self.outside.rglob("*"))
        line = json.dumps({"run": run, "words": words, "changes": {}, **case})
        print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, (self.base / "driver.log").read_text()[-3_000:]
        result: dict[str, Any] = json.loads(answer)
        result["changed"] = sorted(set(self.outside.rglob("*")) ^ set(before))
        for path in result["changed"]:
            if path.exists():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        return result

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)


def failure(result: dict[str, Any]) -> str | None:
    """Return what a command did wrong; None where it did nothing outside and ended as it must."""
    if result["deeds"] or result["changed"]:
        return f"did {result['deeds']} and changed {list(map(str, result['changed']))}"
    lines = [line for line in result["err"].splitlines() if not line.startswith("Nothing saved is lost")]
    if "Traceback" in result["err"] + result["out"] or result["code"] not in (0, 2):
        return f"ended with {result['code']}: {result['err'][-1_500:]}"
    starts = ("error: ", "  where: ", "  fix:   ")
    if result["code"] == 2 and not (
        len(lines) == 3 and all(line.startswith(start) for line, start in zip(lines, starts, strict=True))
    ):
        return f"an error of other than three lines: {lines}"
    return None


@pytest.fixture(scope="module")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canary]:
    made = Canary(tmp_path_factory.mktemp("canary"))
    usual: dict[str, Any] = {
        "tracking": {"tensorboard": False},
        "save_dir": str(made.base / "trained"),
        "threads": 1,
    }
    _train(
        made.base / "good" / "env",
        algorithm="A2C",
        env="CartPole-v1",
        n_envs=1,
        kernels=False,
        total_timesteps=64,
        checkpoint={"every": 32},
        evaluation={"every": None},
        hyperparams={"policy_net_arch": [4], "value_net_arch": [4]},
        **usual,
    )
    if importlib.util.find_spec("textarena") is not None:
        _train(
            made.base / "good" / "language",
            algorithm="REINFORCE",
            language={
                "model": "tiny",
                "model_kwargs": {"layers": 1, "hidden": 32, "heads": 2, "context": 40},
                "adapter": {"rank": 2},
                "sampler": {"max_new_tokens": 4},
            },
            games={
                "train": [{"id": "KuhnPoker-v0-stakes", "template": {"prompt": "{position}"}}],
                "eval": [{"id": "KuhnPoker-v0-stakes", "template": {"prompt": "{position}"}}],
                "open": 2,
                "turns": 4,
            },
            league={"opponents": "random", "version_every": 1, "eval_games": 2},
            total_timesteps="1 updates",
            checkpoint={"every": "1 updates"},
            evaluation={"every": None},
            **usual,
        )
    yield made
    made.close()


def _train(place: Path, **fields: Any) -> None:
    trainer = create_trainer(None, TrainerConfig(**fields))
    try:
        shutil.copytree(trainer.train().run, place)
    finally:
        trainer.close()


def _unity(**kwargs: Any) -> dict[str, Any]:
    return {"env.id": "ludus/Unity-v0", "env.kwargs": {"connect_seconds": 0.2, "port": 0, **kwargs}}


def attacks(canary: Canary) -> dict[str, dict[str, Any]]:
    """Return changes of a run's config by what they try; each is tried with every command."""
    outside, program = str(canary.outside), str(canary.program)
    used_in_training = {
        key: attack_value(key, outside) for key in CONSENT if key.startswith(("tracking.", "mirror", "scale"))
    }
    return {
        "a program": _unity(build={"path": program, "arguments": ["--own"]}),
        "a program that must start": _unity(build={"path": program, "launch": True}),
        "the whole network": _unity(host="0.0.0.0"),
        "the whole network, unnamed": _unity(host=""),
        "the whole network, IPv6": _unity(host="::"),
        "a host": _unity(host="canary.invalid"),
        "a use case elsewhere": _unity(use_case=f"{outside}/use_case.yaml"),
        "a file for an env": {"env.kwargs": {"asset": f"{outside}/secret.txt"}},
        "an address for an env": {"env.kwargs": {"server": "canary.invalid:80"}},
        "recordings elsewhere": {
            "env.id": "diambra/doapp",
            "env.kwargs": {"recording_settings": {"dataset_path": f"{outside}/recordings"}},
        },
        "code in an env's name": {"env.id": "canary_code:Canary-v0"},
        "code in the run": {"env.id": "received.canary_code:Canary-v0"},
        "a module with import effects": {"env.id": "unittest.__main__:CartPole-v1"},
        "a wrapper": {"env.wrappers": ["canary_code:Wrap"]},
        "a wrapper that writes": {
            "env.wrappers": [{"stable_baselines3.common.monitor:Monitor": {"filename": f"{outside}/monitor"}}]
        },
        "a wrapper that records videos": {
            "env.wrappers": [{"gymnasium.wrappers:RecordVideo": {"video_folder": f"{outside}/videos"}}]
        },
        "a network": {"policy.features_extractor": "canary_code:Net"},
        "a network in models/": {"policy.features_extractor": "Net"},
        "hidden layers": {"policy.network": "canary_code:Net"},
        "whatever training would use": used_in_training,
    }


def test_every_text_key_says_what_it_can_do() -> None:
    assert sorted(text_keys(TrainerConfig)) == sorted(HARMLESS | CONSENT)
    assert sorted(text_keys(UnitySettings)) == sorted(UNITY_HARMLESS | UNITY_CONSENT)
    assert sorted(text_keys(DiambraSettings)) == sorted(DIAMBRA_HARMLESS | DIAMBRA_CONSENT)


def test_hyperparameters_name_nothing_outside() -> None:
    found: set[str] = set()
    for engine in (*engine_names(), LANGUAGE):
        try:
            algorithms = [find_algorithm(name, engine) for name in algorithm_names(engine)]
        except MissingExtra:
            continue
        for algorithm in algorithms:
            if algorithm.hyperparameters is not None:
                found |= set(text_keys(algorithm.hyperparameters))
    assert sorted(found - set(HYPERPARAMETERS_HARMLESS)) == []


def test_every_command_is_tried_or_takes_no_run() -> None:
    assert sorted({*PLAYS, *READS, *LANGUAGE_PLAYS, *NO_RUN}) == sorted({*CORE, *commands()})


def test_security_md_lists_every_command_that_takes_a_run() -> None:
    text = (Path(__file__).parents[2] / "SECURITY.md").read_text()
    section = text.partition("## What a run may use outside its folder")[2].partition("\n## ")[0]
    listed = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    assert sorted(re.findall("`([a-z]+)`", " ".join(listed))) == sorted({*PLAYS, *READS, *LANGUAGE_PLAYS})


@pytest.mark.parametrize("command", PLAYS)
def test_hostile_run_has_no_effect_outside_it(command: str, canary: Canary) -> None:
    failed = {}
    for attack, changes in attacks(canary).items():
        if command == "resume" and attack == "whatever training would use":
            continue  # each on its own below
        result = canary.attempt(PLAYS[command], changes=changes)
        failed[attack] = failure(result)
    assert {attack: what for attack, what in failed.items() if what is not None} == {}


@pytest.mark.parametrize("command", READS)
def test_reading_a_hostile_run_does_nothing_outside(command: str, canary: Canary) -> None:
    changes = {key: value for tried in attacks(canary).values() for key, value in tried.items()}
    changes |= _unity(build={"path": str(canary.program)}, host="0.0.0.0")
    for run in sorted(path.name for path in (canary.base / "good").iterdir()):
        for mirrored in (None, f"file://{canary.outside}/mirrored"):
            result = canary.attempt(READS[command], run=run, changes=changes, mirrored=mirrored)
            assert failure(result) is None, run


@pytest.mark.parametrize("command", ["eval", "resume"])
def test_no_key_of_a_hostile_run_leads_outside(command: str, canary: Canary) -> None:
    failed = {}
    for key in sorted(HARMLESS | CONSENT):
        if not key.startswith(("language.", "games.", "league.", "rewards.", "warmup.")):
            result = canary.attempt(PLAYS[command], changes={key: attack_value(key, str(canary.outside))})
            failed[key] = failure(result)
    assert {key: what for key, what in failed.items() if what is not None} == {}


@pytest.mark.parametrize("command", LANGUAGE_PLAYS)
def test_no_key_of_a_hostile_language_run_leads_outside(command: str, canary: Canary) -> None:
    pytest.importorskip("textarena")
    if command == "exploitability":
        pytest.importorskip("pyspiel")
    failed = {}
    tried: dict[str, Any] = {
        key: attack_value(key, str(canary.outside))
        for key in sorted(HARMLESS | CONSENT)
        if key.startswith(("language.", "games.", "league.", "rewards.", "warmup."))
    }
    tried |= {
        "language.model": "canary/model",
        "league.train": ["openai:canary"],
        "league.eval": ["openai:canary"],
    }
    tried |= {"games.train.id": "gym:canary_code:Canary-v0"}
    for key, value in tried.items():
        key = key.replace("games.train.", "games.train.0.").replace("games.eval.", "games.eval.0.")
        result = canary.attempt(LANGUAGE_PLAYS[command], run="language", changes={key: value})
        failed[key] = failure(result)
    assert {key: what for key, what in failed.items() if what is not None} == {}


@pytest.mark.parametrize("opponent", ["openai:canary", "OUTSIDE/run@best"])
def test_a_checkpoint_brings_no_opponent_of_its_own(opponent: str, canary: Canary) -> None:
    pytest.importorskip("textarena")
    opponent = opponent.replace("OUTSIDE", str(canary.outside))
    words = ["resume", "received", "--steps", "8 updates", "-q"]
    result = canary.attempt(words, run="language", opponent=opponent)
    assert failure(result) is None
    assert result["code"] == 2 and opponent in result["err"]


def test_a_run_does_not_choose_its_mirror(canary: Canary) -> None:
    result = canary.attempt(READS["mirror"], mirrored=f"file://{canary.outside}/mirrored")
    assert failure(result) is None
    assert result["code"] == 2 and f"--allow file://{canary.outside}/mirrored" in result["err"]


@pytest.mark.parametrize("command", ["eval", "analyze", "video", "play", "resume"])
def test_a_program_and_its_arguments_are_shown_before_it_is_started(command: str, canary: Canary) -> None:
    changes = _unity(build={"path": str(canary.program), "arguments": ["--own", "two words"]}, host="0.0.0.0")
    refused = canary.attempt(PLAYS[command], changes=changes)
    assert refused["code"] == 2
    shown = f"{canary.program} {_USUAL} --own 'two words'"
    first, where, fix = refused["err"].splitlines()
    assert shown in first and "0.0.0.0:0" in first
    assert "env.kwargs.build" in where and "config.yaml" in where
    assert "--allow" in fix


def test_consent_starts_exactly_what_was_shown(canary: Canary) -> None:
    changes = _unity(build={"path": str(canary.program)})
    command = f"{canary.program} {_USUAL}"
    for other in (str(canary.program), f"{command} --own"):
        assert canary.attempt([*PLAYS["eval"], "--allow", other], changes=changes)["deeds"] == []
    allowed = canary.attempt([*PLAYS["eval"], "--allow", command], changes=changes)
    assert any("subprocess.Popen" in deed for deed in allowed["deeds"])
    assert canary.mark in allowed["changed"], "the observer sees a program that is started"


def test_consent_to_listen_is_for_that_address(canary: Canary) -> None:
    changes = _unity(host="0.0.0.0")
    assert canary.attempt([*PLAYS["eval"], "--allow", "0.0.0.0:1"], changes=changes)["code"] == 2
    allowed = canary.attempt([*PLAYS["eval"], "--allow", "0.0.0.0:0"], changes=changes)
    assert any(deed.startswith("socket.bind: ('0.0.0.0'") for deed in allowed["deeds"])


def test_a_config_in_a_run_means_that_run(canary: Canary) -> None:
    result = canary.attempt(
        ["eval", "received/config.yaml", "--episodes", "1"], changes={"save_dir": str(canary.outside)}
    )
    assert (result["code"], failure(result)) == (0, None)


def test_a_run_that_claims_to_be_of_the_users_config_is_not_trusted(canary: Canary) -> None:
    words = ["train", "--algo", "a2c", "--env", "CartPole-v1", "--resume", "save_dir=.", "-q"]
    config = load_config(None, ["save_dir=."], {"algorithm": "a2c", "env.id": "CartPole-v1"}).config
    changes = {"mirror": f"file://{canary.outside}/mirrored", **_unity(host="0.0.0.0")}
    result = canary.attempt(words, changes=changes, info={"config_hash": config_hash(config)})
    assert failure(result) is None
    assert result["code"] == 2 and "0.0.0.0:0" in result["err"]


def test_what_was_trained_here_needs_no_consent(canary: Canary) -> None:
    place = f"file://{canary.base / 'desk' / 'copies'}"
    words = ["train", "--algo", "a2c", "--env", "CartPole-v1", "--n-envs", "1", "--steps", "32", "-q"]
    trained = canary.attempt([*words, "run_dir=mine", f"mirror={place}", "kernels=false"])
    assert trained["code"] == 0, trained["err"]
    resumed = canary.attempt(["resume", "mine", "--steps", "64", "-q"], keep="mine")
    assert resumed["code"] == 0, resumed["err"]


def test_the_commands_work_on_a_run_that_does_no_harm(canary: Canary) -> None:
    words = {name: words for name, words in (PLAYS | READS).items() if name not in _OTHER_RUNS}
    ended = {name: canary.attempt(one) for name, one in words.items()}
    assert {name: (result["code"], failure(result)) for name, result in ended.items()} == {
        name: (0, None) for name in words
    }

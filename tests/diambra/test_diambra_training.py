"""Training on stand-in engines: natively and with SB3, Ctrl-C, resume to the byte, the document's settings."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from running_engines import Start
from safetensors.numpy import load_file

from ludus.cli.app import main
from ludus.config.loading import load_config
from ludus.config.schema import TrainerConfig
from ludus.envs.vector.remote import RemoteVectorEnv
from ludus.errors import ConfigError, SimulatorLost, UserError
from ludus.games.diambra import cli as diambra
from ludus.games.diambra.duels import fight_duels
from ludus.games.diambra.opponents import RunOpponent
from ludus.games.diambra.standin.server import EngineStandIn, Serving
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.training.factory import create_trainer, open_trainer

DATA = Path(__file__).parents[1] / "data" / "diambra"
ENV: dict[str, Any] = {
    "id": "diambra/doapp",
    "kwargs": {
        "difficulty": 2,
        "frame_shape": [36, 36, 1],
        "wrappers_settings": {
            "scale": True,
            "exclude_image_scaling": True,
            "role_relative": True,
            "add_last_action": True,
            "normalize_reward": True,
            "filter_keys": ["own_health", "opp_health", "own_side", "action"],
        },
    },
}


def _config(folder: Path, **more: Any) -> TrainerConfig:
    fields: dict[str, Any] = {
        "env": ENV,
        "n_envs": 2,
        "total_timesteps": 256,
        "normalize_obs": False,
        "normalize_reward": False,
        "checkpoint": {"every": 128, "best_metric": "rollout/ep_rew_mean"},
        "hyperparams": {
            "n_steps": 32,
            "batch_size": 32,
            "n_epochs": 1,
            "learning_rate": {"linear": [1e-3, 0.0]},
            "policy_net_arch": [16],
            "value_net_arch": [16],
        },
        "policy": {"features_dim": 16},
        "tracking": {"every": 64, "tensorboard": False},
        "save_dir": str(folder),
    }
    return TrainerConfig(**(fields | more))


def _train(config: TrainerConfig) -> RunDirectory:
    trainer = create_trainer(None, config)
    try:
        return RunDirectory.open(trainer.train().run)
    finally:
        trainer.close()


def _policy(run: RunDirectory) -> dict[str, bytes]:
    newest = CheckpointManager(run.checkpoints_dir).latest()
    assert newest is not None
    return {key: value.tobytes() for key, value in load_file(newest.path / "policy.safetensors").items()}


def test_a_run_that_is_stopped_and_resumed_ends_with_the_same_bytes(start: Start, tmp_path: Path) -> None:
    engines = start(2)
    whole = _train(_config(tmp_path / "whole"))
    halved = _train(_config(tmp_path / "halved", total_timesteps=256, early_stopping={"time": "1 h"}))
    CheckpointManager(halved.checkpoints_dir).truncate_after(128)
    trainer = open_trainer(halved)
    try:
        assert trainer.resume(halved).step == 128
        result = trainer.train()
    finally:
        trainer.close()
    assert result.steps == 256
    assert _policy(halved) == _policy(whole)
    rows = [json.loads(line) for line in whole.metrics_path.read_text().splitlines()]
    rates = [row["train/learning_rate"] for row in rows if "train/learning_rate" in row]
    again = [json.loads(line) for line in halved.metrics_path.read_text().splitlines()]
    assert [row["train/learning_rate"] for row in again if "train/learning_rate" in row] == rates
    assert rates == sorted(rates, reverse=True) and len(set(rates)) > 1
    assert all(engine.standin.counts["Close"] == engine.standin.counts["EnvInit"] for engine in engines)


def test_stable_baselines3_trains_on_it_too(start: Start, tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    start(2)
    config = _config(tmp_path, engine="sb3", total_timesteps=128, checkpoint={"every": 64})
    run = _train(config)
    assert (run.path / "model.zip").is_file()


def test_evaluations_while_training_are_refused_because_no_engine_is_left(
    start: Start, tmp_path: Path
) -> None:
    start(2)
    trainer = create_trainer(None, _config(tmp_path, evaluation={"every": 64}))
    with pytest.raises(ConfigError, match="evaluation while training needs an engine of its own"):
        trainer.create_model()


def test_a_policy_is_evaluated_on_as_many_engines_as_there_are_and_seated_against_a_bot(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engines = start(2)
    run = _train(_config(tmp_path, total_timesteps=64))
    before = [engine.standin.counts["Reset"] for engine in engines]
    assert main(["eval", str(run.path), "--episodes", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["episodes"] == 3
    played = [engine.standin.counts["Reset"] - n for engine, n in zip(engines, before, strict=True)]
    assert sum(played) == 3 and min(played) >= 1
    result = fight_duels(str(run.path), "brawler", fights=2, root=tmp_path)
    assert len(result.rewards) == result.tally.games == 2
    # both seats are taken in turn, so that somebody who meets himself wins and loses the same
    both = fight_duels(str(run.path), str(run.path), fights=2, root=tmp_path)
    assert both.tally.wins == both.tally.losses and sum(both.rewards) == 0


def test_a_generation_trains_against_the_one_before_and_resumes_to_the_byte(
    start: Start, tmp_path: Path
) -> None:
    start(1)
    first = _train(_config(tmp_path / "first", n_envs=1, total_timesteps=32))
    saved = first.checkpoints_dir / "000000000032"
    seats = {**ENV, "kwargs": {**ENV["kwargs"], "n_players": 2, "opponent": f"{first.path}@latest"}}
    run = _train(_config(tmp_path / "second", n_envs=1, env=seats))
    pinned = load_config(run.config_path).config.env
    assert pinned is not None and pinned.kwargs["opponent"] == str(saved)
    whole = _policy(run)
    CheckpointManager(run.checkpoints_dir).truncate_after(128)
    trainer = open_trainer(run)
    try:
        assert trainer.resume(run).step == 128
        trainer.train()
    finally:
        trainer.close()
    assert _policy(run) == whole
    with pytest.raises(UserError, match="trained with other observations or actions"):
        RunOpponent(str(saved))(gym.spaces.Discrete(2), gym.spaces.Discrete(2))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"n_players": 2, "opponent": "brawller"}, "unknown bot or run 'brawller'"),
        ({"opponent": "brawler"}, "opponent: brawler needs n_players: 2"),
    ],
)
def test_an_opponent_that_cannot_be_seated_is_named_before_anything_starts(
    start: Start, tmp_path: Path, changes: dict[str, Any], what: str
) -> None:
    engines = start(2)
    with pytest.raises(UserError, match=what):
        create_trainer(None, _config(tmp_path, env={**ENV, "kwargs": {**ENV["kwargs"], **changes}}))
    assert all(engine.standin.counts["EnvInit"] == 0 for engine in engines)


def test_the_documents_settings_train_as_written(start: Start, tmp_path: Path, monkeypatch: Any) -> None:
    start(2)
    monkeypatch.chdir(tmp_path)
    Path("settings.yaml").write_bytes((DATA / "settings.yaml").read_bytes())
    assert load_config("settings.yaml").config.hyperparams.given()["batch_size"] == 128 * 32 // 8
    short = ["n_envs=2", "total_timesteps=256", "hyperparams.batch_size=64"]
    assert main(["train", "settings.yaml", *short, "-q"]) == 0
    (run,) = Path("trained_models").glob("*/*/*")
    assert list(Path("tensorboard_logs").glob("*/events*")) and list(
        Path("output/logs").glob("*/monitor.csv")
    )
    assert CheckpointManager(run / "checkpoints").latest() is not None


def test_a_wrong_number_of_engines_is_three_lines_with_the_line_of_the_file(
    start: Start, tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    start(2)
    monkeypatch.chdir(tmp_path)
    Path("settings.yaml").write_bytes((DATA / "settings.yaml").read_bytes())
    assert main(["train", "settings.yaml"]) == 2
    what, where, fix = capsys.readouterr().err.splitlines()[-3:]
    assert "n_envs is 32, but DIAMBRA_ENVS has 2 engines" in what
    assert "settings.yaml, line 2 (env_settings.env_num)" in where and "n_envs=2" in fix


def test_ctrl_c_saves_and_closes_the_engines_and_the_run_can_be_resumed(start: Start, tmp_path: Path) -> None:
    engines = start(2)
    config = {
        **_config(tmp_path, total_timesteps=1_000_000).model_dump(mode="json", exclude_unset=True),
        "resume": "auto",
    }
    path = tmp_path / "my config.yaml"
    path.write_text(json.dumps(config))
    command = [sys.executable, "-m", "ludus", "train", str(path), "--json"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "1"})
    deadline = time.monotonic() + 120
    while engines[0].standin.counts["Step"] < 50:
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    summary = json.loads(out.splitlines()[-1])
    assert (running.returncode, summary["status"]) == (130, "interrupted")
    assert [engine.standin.counts["Close"] for engine in engines] == [1, 1]
    trainer = open_trainer(RunDirectory.open(summary["run"]))
    try:
        found = trainer.resume(summary["run"])
        assert found.step == summary["steps"] > 0
        assert trainer.train(summary["steps"] + 64).steps == summary["steps"] + 64
    finally:
        trainer.close()


def test_a_command_runs_with_engines_of_its_own_and_its_exit_code_is_the_answer() -> None:
    program = "import os, sys; print(os.environ['DIAMBRA_ENVS']); sys.exit(7)"
    command = [sys.executable, "-m", "ludus", "diambra", "run", "-s", "1", "--game", "doapp"]
    ended = subprocess.run(
        [*command, sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 7, ended.stderr
    host, _, port = ended.stdout.strip().rpartition(":")
    assert host == "127.0.0.1"
    with pytest.raises(OSError):
        socket.create_connection((host, int(port)), timeout=5).close()


def test_ending_the_command_that_started_them_ends_command_and_engines() -> None:
    program = (
        "import os, signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(5));"
        "print(os.getpid(), os.environ['DIAMBRA_ENVS'], flush=True); time.sleep(60)"
    )
    running = subprocess.Popen(
        [sys.executable, "-m", "ludus", "diambra", "run", sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    pid, address = running.stdout.readline().split()
    running.terminate()
    running.communicate(timeout=30)
    assert running.returncode == 5  # it was the command's own to end, and it had the time for it
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    host, _, port = address.rpartition(":")
    with pytest.raises(OSError):
        socket.create_connection((host, int(port)), timeout=5).close()


def test_a_signal_that_comes_while_the_command_starts_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    start = diambra._start

    def start_late(*words: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return start(*words)

    monkeypatch.setattr(diambra, "_start", start_late)
    assert diambra._run_to_end(["sleep", "60"], dict(os.environ)) == 128 + signal.SIGTERM


def test_a_command_under_nohup_ignores_a_hangup_too() -> None:
    usual = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert diambra._run_to_end(["sh", "-c", "kill -HUP $$; exit 7"], dict(os.environ)) == 7
    finally:
        signal.signal(signal.SIGHUP, usual)


@contextlib.contextmanager
def _engine_processes(number: int) -> Iterator[tuple[list[str], list[subprocess.Popen[str]]]]:
    """Engines as processes of their own, which can be killed and stopped: their addresses, and they."""
    running = [_engine_process("0") for _ in range(number)]
    try:
        yield [_address_of(one) for one in running], running
    finally:
        for one in running:
            one.send_signal(signal.SIGCONT)
            one.kill()
            one.communicate()


def _engine_process(port: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ludus", "diambra", "engine", "--port", port]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _address_of(engine: subprocess.Popen[str]) -> str:
    assert engine.stdout is not None
    return engine.stdout.readline().split(" at ")[1].split(",")[0]


def test_training_continues_while_one_engine_dies_and_another_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _engine_processes(3) as (addresses, engines):
        monkeypatch.setenv("DIAMBRA_ENVS", " ".join(addresses))
        env = {**ENV, "kwargs": {**ENV["kwargs"], "grpc_timeout": 2}}
        trainer = create_trainer(None, _config(tmp_path, env=env, n_envs=3, total_timesteps=100_000_000))
        events = {
            200: lambda: engines[1].kill(),
            300: lambda: engines[2].send_signal(signal.SIGSTOP),
        }
        back: list[int] = []

        def happen(locals_: Any, globals_: Any) -> bool:
            steps = trainer.num_timesteps
            for when in [when for when in events if when <= steps]:
                events.pop(when)()
            away = trainer.get_env().away
            if not events and 1 in away and 2 in away and not back:
                back.append(steps)  # both are lost, and the third has played on
                engines[1].communicate()
                engines[1] = _engine_process(addresses[1].rpartition(":")[2])
                engines[2].send_signal(signal.SIGCONT)
            return not back or bool(away) or steps < back[0] + 600

        result = trainer.train(callback=happen)
        trainer.close()
        log = (Path(result.run) / "logs" / "train.log").read_text("utf-8")
    assert back and result.steps > back[0]
    assert f"the DIAMBRA engine 1 at {addresses[1]} is not available" in log
    assert f"the DIAMBRA engine 2 at {addresses[2]} hangs: it did not answer in time" in log
    for index in (1, 2):
        assert f"the DIAMBRA engine {index} at {addresses[index]} is back" in log


def test_an_engine_gone_for_good_ends_the_run_with_what_was_learnt_saved(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = functools.partial(RemoteVectorEnv, attempts=2, first_pause=0.05)
    monkeypatch.setattr("ludus.envs.vector.remote.RemoteVectorEnv", hasty)
    monkeypatch.setattr("ludus.games.diambra.engines._GRACE_SECONDS", 0.1)
    engines = start(2)
    trainer = create_trainer(None, _config(tmp_path, total_timesteps=100_000_000))

    def kill_one(locals_: Any, globals_: Any) -> bool:
        if trainer.num_timesteps >= 200:
            engines[1].close()
        return True

    with pytest.raises(SimulatorLost) as caught:
        trainer.train(callback=kill_one)
    trainer.close()
    assert f"engine 1 at {engines[1].address} cannot be reached" in caught.value.what
    assert "2 attempts to get it back failed" in caught.value.what
    (run,) = tmp_path.glob("*/*/*")
    notes = " ".join(getattr(caught.value, "__notes__", []))
    assert "ludus resume" in notes
    newest = CheckpointManager(run / "checkpoints").latest()
    assert newest is not None and newest.step >= 192  # the update before the loss
    port = int(engines[1].address.rpartition(":")[2])
    engines[1] = Serving(EngineStandIn(), port=port)
    again = open_trainer(RunDirectory.open(run))
    try:
        assert again.resume(run).step == newest.step
        assert again.train(newest.step + 128).steps == newest.step + 128
    finally:
        again.close()

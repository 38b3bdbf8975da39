"""`ludus sweep`: several processes on one study, kill and resume, pruning, output files."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from comparisons import TINY, start

from ludus.cli.app import main
from ludus.config.loading import load_config
from ludus.config.registry import algorithm_names
from ludus.config.search_space import Choice, Range, parse_space
from ludus.experiments.processes.watch import RunWatch
from ludus.experiments.sweep.running import SweepWork, _falls_behind
from ludus.experiments.sweep.study import Sweep, choose_space
from ludus.runs.directory import RunDirectory

CONFIG = """
env: CartPole-v1
algorithm: PPO
sweep:
  hyperparams.learning_rate: {log: [1e-4, 1e-2]}
  hyperparams.n_steps: {choice: [50, 100]}
  hyperparams.batch_size: {choice: [50, 64]}
  hyperparams.n_epochs: {int: [1, 3]}
"""
WORDS = ["sweep", "my.yaml", *TINY, "--trials", "3", "--out", "out", "--no-pruning"]


def _states(folder: Path) -> dict[int, str]:
    """Return the states of the trials of the sweep in `folder`."""
    config = load_config(folder / "config.yaml").config
    written = load_config(folder.parent / "my.yaml").config.sweep
    assert written is not None
    return {trial.number: trial.state.name for trial in Sweep.create(folder, config, written).trials()}


def _suspend(process: subprocess.Popen[str], folder: Path) -> None:
    """Suspend `process` while it does not hold the lock of the journal."""
    with (folder / "study.journal.lock").open("rb+") as lock:
        while True:
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                process.send_signal(signal.SIGCONT)
                time.sleep(0.05)
            else:
                return


@pytest.mark.long
def test_second_process_finishes_the_trials_of_a_killed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my.yaml").write_text(CONFIG)
    folder = tmp_path / "out"
    doomed = start(tmp_path, *WORDS, "--jobs", "1")
    deadline = time.monotonic() + 120
    while not list(folder.glob("trials/*/run/checkpoints/0*")):
        assert doomed.poll() is None and time.monotonic() < deadline, doomed.communicate()[0]
        time.sleep(0.01)
    _suspend(doomed, folder)  # it keeps its trial, which does not end
    helper = start(tmp_path, *WORDS, "--jobs", "1")
    assert helper.stdout is not None
    guard = threading.Timer(120, helper.kill)
    guard.start()
    lines = iter(helper.stdout.readline, "")
    waits = next((line for line in lines if "waiting" in line), "")
    guard.cancel()
    doomed.send_signal(signal.SIGKILL)
    doomed.communicate(timeout=60)
    printed = helper.communicate(timeout=120)[0]
    assert helper.returncode == 0, printed
    assert "waiting for 1 trial of other processes" in waits, "it left a trial behind that nobody may finish"
    assert list(_states(folder).values()) == ["COMPLETE"] * 3, printed
    runs = [RunDirectory(path) for path in sorted(folder.glob("trials/*/run"))]
    assert [run.info()["status"] for run in runs] == ["finished"] * 3

    # again: nothing is trained, but all files are written
    monkeypatch.chdir(tmp_path)
    assert main([*WORDS, "--json"]) == 0
    out = capsys.readouterr()
    summary = json.loads(out.out.splitlines()[-1])
    assert "3 of 3 trials already exist" in out.err
    assert (summary["status"], summary["trials"], summary["failed"]) == ("finished", 3, 0)
    with (folder / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    best = max(rows, key=lambda row: float(row["reward"]))
    assert summary["best"]["reward"] == float(best["reward"])
    config = load_config(folder / "best.yaml").config
    tried = config.hyperparams.given()
    assert tried["n_steps"] == int(best["hyperparams.n_steps"])
    assert tried["learning_rate"] == float(best["hyperparams.learning_rate"])
    assert tried["batch_size"] == 50, "64 divides neither 100 nor 200: a misfit is never trained"
    assert config.sweep is None
    page = (folder / "index.html").read_text()
    assert "<h2>The best trials</h2>" in page and "<h2>History</h2>" in page


def _sweep(tmp_path: Path, **space: Any) -> Sweep:
    config = load_config(None, TINY, {"env.id": "CartPole-v1", "algorithm": "A2C"}).config
    return Sweep.create(tmp_path / "out", config, space or {"hyperparams.gamma": {"uniform": [0.9, 0.99]}})


def test_trial_with_low_evaluations_is_pruned(tmp_path: Path) -> None:
    import optuna

    sweep = _sweep(tmp_path)
    distribution = optuna.distributions.FloatDistribution(0.9, 0.99)
    for value in (100.0, 110.0, 120.0, 130.0, 140.0):
        sweep.study.add_trial(
            optuna.trial.create_trial(
                params={"hyperparams.gamma": 0.95},
                distributions={"hyperparams.gamma": distribution},
                value=value,
                intermediate_values={1: value / 4, 2: value / 2, 3: value},
            )
        )
    for scores, verdict in (((20.0, 70.0), False), ((20.0, 59.0), True)):  # the median at the second is 60
        trial = sweep.next_trial(99)
        assert trial is not None
        job = sweep.job(trial, 1)
        job.run.mkdir(parents=True)
        rows = [
            {"step": 500 * number, "updates": 1, "episodes": 1, "eval/mean_reward": score}
            for number, score in enumerate(scores, start=1)
        ]
        (job.run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        work = SweepWork(trial, job, RunWatch(job.run, sweep.config.total_timesteps))
        assert _falls_behind(work, sweep.config.evaluation.every) is verdict
        assert work.evaluations == dict(enumerate(scores, start=1))
        sweep.finish(trial, None, "PRUNED")
    assert [trial.state.name for trial in sweep.trials()].count("PRUNED") == 2


def test_only_abandoned_trials_are_resumed(tmp_path: Path) -> None:
    mine, other = _sweep(tmp_path), _sweep(tmp_path)
    first = mine.next_trial(2)
    assert first is not None
    second = other.next_trial(2)
    assert second is not None and second.number != first.number
    assert other.next_trial(2) is None, "two trials are there"
    mine.release(first)
    again = other.next_trial(2)
    assert again is not None
    assert (again.number, again.settings) == (first.number, first.settings)


def test_trial_that_ends_during_next_trial_is_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = _sweep(tmp_path), _sweep(tmp_path)
    first = mine.next_trial(1)
    assert first is not None
    seen = other.trials

    def slow(*states: str) -> Any:
        found = seen(*states)
        monkeypatch.setattr(other, "trials", seen)
        mine.study.tell(first.number, 5.0)  # as `finish` begins
        mine.release(first)
        return found

    monkeypatch.setattr(other, "trials", slow)
    assert other.next_trial(1) is None
    assert [trial.state.name for trial in seen()] == ["COMPLETE"]


def test_trial_with_incomplete_settings_is_replaced(tmp_path: Path) -> None:
    space = {
        "hyperparams.gamma": {"uniform": [0.9, 0.99]},
        "hyperparams.n_steps": {"choice": [5, 10]},
        "n_envs": {"choice": [1, 0]},  # n_envs: 0 is an invalid config
    }
    sweep = _sweep(tmp_path, **space)
    sweep.study.ask().suggest_float("hyperparams.gamma", 0.9, 0.99)
    unfit = sweep.study.ask()
    unfit.suggest_float("hyperparams.gamma", 0.9, 0.99)
    for key, value in (("hyperparams.n_steps", "5"), ("n_envs", "0")):
        sweep.study.sampler = _Always(value)
        unfit.suggest_categorical(key, sweep.space[key].labels)  # type: ignore[union-attr]
    sweep = _sweep(tmp_path, **space)
    trial = sweep.next_trial(1)
    assert trial is not None
    assert trial.number >= 2 and set(trial.settings) == set(space) and trial.settings["n_envs"] == 1
    assert [one.number for one in sweep.trials()] == [trial.number], "what never began does not count"


class _Always:
    """A sampler that always draws the same value."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def sample_independent(self, *args: Any) -> Any:
        return self.value


def test_process_killed_while_writing_does_not_block_or_damage_the_journal(tmp_path: Path) -> None:
    first = _sweep(tmp_path).next_trial(1)
    assert first is not None
    journal = tmp_path / "out" / "study.journal"
    with journal.open("ab") as file:
        file.write(b'{"op_code":8,"worker_id":"x","trial_id"')
    (tmp_path / "out" / "study.journal.lock").touch()
    began = time.monotonic()
    again = _sweep(tmp_path)
    again.finish(first, 1.0, "COMPLETE")
    assert [trial.value for trial in _sweep(tmp_path).trials()] == [1.0]
    assert time.monotonic() - began < 20, "a lock that nobody holds was waited for"


@pytest.mark.parametrize(
    ("engine", "algorithm"),
    [("native", name) for name in algorithm_names()] + [("sb3", name) for name in algorithm_names("sb3")],
)
def test_every_algorithm_has_a_valid_search_space(engine: str, algorithm: str) -> None:
    flags = {"env.id": "CartPole-v1", "algorithm": algorithm, "engine": engine}
    written, where = choose_space(load_config(None, [], flags).config)
    assert len(written) >= 4 and where == f"built into {algorithm}"
    for key, dimension in parse_space(written).items():
        ends = dimension.values if isinstance(dimension, Choice) else (dimension.low, dimension.high)
        for value in ends:
            whole = isinstance(dimension, Range) and dimension.whole
            fitting = {"hyperparams.batch_size": 32} if algorithm == "PPO" and "n_steps" in key else {}
            load_config(None, [], {**flags, **fitting, key: int(value) if whole else value})


def test_another_space_in_the_same_directory_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _sweep(tmp_path)
    (tmp_path / "my.yaml").write_text(CONFIG)
    assert main(["sweep", "my.yaml", *TINY, "--out", "out"]) == 2
    assert "another sweep" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--algo", "ppo"], "no env is given"),
        (["--env", "CartPole-v1", "--space", "nowhere.yaml"], "file not found: 'nowhere.yaml'"),
        (["--env", "CartPole-v1", "evaluation=null"], "a sweep compares evaluations"),
        (
            ["--env", "CartPole-v1", "sweep={hyperparams.learning_rat: {log: [1e-5, 1e-2]}}"],
            "did you mean 'hyperparams.learning_rate'?",
        ),
        (["--env", "CartPole-v1", "sweep={n_env: {int: [1, 2]}}"], "did you mean 'n_envs'?"),
        (["--env", "CartPole-v1", "sweep={n_envs: 3}"], "expected one of uniform"),
        (
            ["--env", "CartPole-v1", "n_envs=2", "sweep={hyperparams.batch_size: {choice: [7, 11]}}"],
            "no setting of the search space fits the config",
        ),
    ],
)
def test_mistakes_are_answered_in_three_lines(
    words: list[str],
    what: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *words, "--trials", "1", "-q"]) == 2
    err = capsys.readouterr().err
    assert what in err
    assert len(err.splitlines()) == 3


def test_missing_optuna_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main(["sweep", "cartpole-ppo"]) == 2
    assert 'pip install "ludus-rl[sweep]"' in capsys.readouterr().err

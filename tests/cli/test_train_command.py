"""`ludus train` and `ludus resume`: what they print, what they leave behind, and how they end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import TINY, Command, Outcome

from ludus.config.loading import load_config
from ludus.runs.directory import RunDirectory, list_runs

CARTPOLE = ["--env", "CartPole-v1", *TINY]


def test_train_ends_with_one_json_object_on_stdout_and_everything_else_on_stderr(
    trained_in_process_of_its_own: tuple[Path, Outcome],
) -> None:
    folder, outcome = trained_in_process_of_its_own
    assert outcome.code == 0, outcome.err
    assert len(outcome.out.splitlines()) == 1
    assert set(outcome.json) == {"run", "status", "steps", "fps", "seconds", "eval", "reason"}
    assert (outcome.json["status"], outcome.json["steps"]) == ("finished", 512)
    assert outcome.json["eval"]["episodes"] == 2
    run = RunDirectory.open(folder / outcome.json["run"])
    assert run.info()["status"] == "finished"
    assert run.info()["command"].startswith("ludus train --algo ppo")
    assert "ludus eval latest" in outcome.err
    assert outcome.json["run"] in outcome.err


def test_where_nobody_set_omp_num_threads_nothing_complains_of_threads(tmp_path: Path) -> None:
    """Users do not set it, unlike `make test`: BLAS must be configured before the kernels call it."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    words = ["--env", "CartPole-v1", "--steps", "8192", "n_envs=8", "evaluation.every=null"]
    done = subprocess.run(
        [sys.executable, "-m", "ludus", "train", *words, "tracking.tensorboard=false", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "BLAS" not in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_the_run_can_be_resumed(
    number: signal.Signals, code: int, ludus: Command, tmp_path: Path
) -> None:
    training = subprocess.Popen(
        [sys.executable, "-m", "ludus", "train", *CARTPOLE, "--steps", "100_000_000", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    try:
        deadline = time.monotonic() + 60
        while not any(path.stat().st_size for path in tmp_path.glob("runs/*/*/*/metrics.jsonl")):
            assert training.poll() is None and time.monotonic() < deadline, training.communicate()
            time.sleep(0.05)
        training.send_signal(number)
        out, err = training.communicate(timeout=60)
    finally:
        training.kill()
    assert training.returncode == code, err
    summary = json.loads(out.splitlines()[-1])
    assert summary["status"] == "interrupted"
    assert "Traceback" not in err
    assert re.search(r"ludus resume latest", err)

    resumed = ludus("resume", "latest", "--steps", summary["steps"] + 256, "--json")
    assert resumed.code == 0, resumed.err
    assert f"from checkpoint {summary['steps']:012d}, approximately" in resumed.err
    assert resumed.json["run"] == summary["run"]
    assert (resumed.json["status"], resumed.json["steps"]) == ("finished", summary["steps"] + 256)


def test_the_summary_says_how_it_went_where_it_is_and_what_to_type_next(ludus: Command) -> None:
    outcome = ludus("train", *CARTPOLE, "--steps", 256)
    assert outcome.code == 0, outcome.err
    for expected in ("finished", "256 steps", "over 2 episodes", "ludus play latest", "tensorboard --logdir"):
        assert expected in outcome.out
    assert str(list_runs("runs")[0].path) in outcome.out


def test_a_first_word_with_an_equals_sign_is_an_override(ludus: Command) -> None:
    outcome = ludus("train", "env=CartPole-v1", "total_timesteps=128", *TINY, "--json")
    assert (outcome.code, outcome.json["steps"]) == (0, 128)


def test_paths_with_spaces_come_back_quoted(ludus: Command) -> None:
    outcome = ludus("train", *CARTPOLE, "--steps", 128, "save_dir=my runs")
    assert outcome.code == 0, outcome.err
    assert "ludus eval latest --root 'my runs'" in outcome.out


def test_quiet_prints_the_run_and_nothing_else(ludus: Command) -> None:
    outcome = ludus("train", *CARTPOLE, "--steps", 128, "-q")
    assert outcome.out.strip() == str(list_runs("runs")[0].path)
    assert outcome.err == ""


def test_a_preset_is_remembered_and_its_newest_run_found_by_its_name(ludus: Command) -> None:
    trained = ludus("train", "cartpole-ppo", *TINY, "total_timesteps=128", "--json")
    assert trained.code == 0, trained.err
    assert RunDirectory(trained.json["run"]).info()["preset"] == "cartpole-ppo"
    played = ludus("eval", "preset:cartpole-ppo", "--episodes", 1, "--json")
    assert played.json["run"] == trained.json["run"]


def test_resume_starts_a_run_then_leaves_the_finished_one_alone(ludus: Command, tmp_path: Path) -> None:
    config = ["env: CartPole-v1", "total_timesteps: 256"]
    (tmp_path / "my.yaml").write_text("\n".join(config))
    started = ludus("train", "my.yaml", *TINY, "--resume", "--json")
    assert (started.code, started.json["status"]) == (0, "finished")
    again = ludus("train", "my.yaml", *TINY, "--resume", "--json")
    assert again.code == 0
    assert "already finished" in again.err
    assert again.json["run"] == started.json["run"]
    assert len(list_runs("runs")) == 1
    other = ludus("train", "my.yaml", *TINY, "seed=7", "--resume", "--json")
    assert other.json["run"] != started.json["run"]


def test_resume_continues_a_run_with_another_budget_and_other_intervals(
    ludus: Command, tmp_path: Path
) -> None:
    (tmp_path / "my.yaml").write_text("env: CartPole-v1\ntotal_timesteps: 256\n")
    started = ludus("train", "my.yaml", *TINY, "--resume", "--json")
    changes = [
        "total_timesteps=512",
        "checkpoint.every=128",
        "evaluation=null",
        "name=longer",
        "tracking.every=64",
    ]
    longer = ludus("train", "my.yaml", *TINY, *changes, "--resume", "--json")
    assert longer.code == 0, longer.err
    assert (longer.json["run"], longer.json["steps"]) == (started.json["run"], 512)
    assert "from checkpoint 000000000256" in longer.err and len(list_runs("runs")) == 1
    config = load_config(RunDirectory(Path(longer.json["run"])).config_path).config
    assert (config.total_timesteps, config.checkpoint.every, config.evaluation.every) == (512, 128, None)
    again = ludus("train", "my.yaml", *TINY, *changes, "--resume", "--json")
    assert "already finished, at step 512" in again.err


def test_a_run_of_an_older_version_is_continued_with_another_budget(ludus: Command, tmp_path: Path) -> None:
    started = ludus("train", *CARTPOLE, "--steps", 256, "--json")
    run = RunDirectory(Path(started.json["run"]))
    info = run.info()
    del info["learning_hash"]
    run.info_path.write_text(json.dumps(info))
    longer = ludus("train", *CARTPOLE, "--steps", 512, "--resume", "--json")
    assert (longer.json["run"], longer.json["steps"]) == (started.json["run"], 512)


def test_resume_lists_what_else_differs_and_how_to_continue_that_run(ludus: Command) -> None:
    started = ludus("train", *CARTPOLE, "--steps", 256, "--json")
    other = ludus("train", *CARTPOLE, "--steps", 512, "hyperparams.gamma=0.9", "seed=7", "--resume", "--json")
    assert other.code == 0 and other.json["run"] != started.json["run"]
    assert (
        "  seed: 42 there, 7 here" in other.err and "  hyperparams.gamma: 0.99 there, 0.9 here" in other.err
    )
    assert f"ludus resume {started.json['run']}" in other.err and "total_timesteps" not in other.err


def test_the_config_can_be_given_as_an_option_and_steps_in_thousands(ludus: Command, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("env: CartPole-v1\n")
    outcome = ludus("train", "--config", "my.yaml", *TINY, "--steps", "0.256k", "--json")
    assert (outcome.code, outcome.json["steps"]) == (0, 256), outcome.err


def test_resume_auto_continues_a_run_that_was_killed(ludus: Command, tmp_path: Path) -> None:
    arguments = [*CARTPOLE, "--steps", 512, "checkpoint.every=128", "resume=auto", "run_dir=here", "--json"]
    first = ludus("train", *arguments)
    assert first.code == 0, first.err
    run = RunDirectory(tmp_path / "here")
    run.update_info(status="running", pid=2**22 + 1)  # as SIGKILL leaves it, some way before its end
    for checkpoint in sorted(run.checkpoints_dir.glob("0*"))[2:]:
        checkpoint.rename(tmp_path / checkpoint.name)
    second = ludus("train", *arguments)
    assert second.code == 0, second.err
    assert "from checkpoint 000000000256, exactly" in second.err
    assert (second.json["run"], second.json["steps"]) == (first.json["run"], 512)


def test_a_finished_run_is_resumed_only_to_a_higher_total(ludus: Command, run: Path) -> None:
    alone = ludus("resume", run, "--json")
    assert (alone.code, alone.json["status"], alone.json["steps"]) == (0, "finished", 512)
    assert "already finished" in alone.err
    longer = ludus("resume", run, "--steps", 640, "--json")
    assert (longer.code, longer.json["steps"]) == (0, 640)
    assert "from checkpoint 000000000512, exactly" in longer.err
    # the new total is the run's own from now on
    assert "already finished" in ludus("resume", run).out


@pytest.mark.parametrize("total", [256, 512])
def test_a_total_that_a_finished_run_has_reached_is_answered_with_what_to_give_instead(
    ludus: Command, run: Path, total: int
) -> None:
    lower = ludus("resume", run, "--steps", total)
    assert lower.code == 0 and "already finished, at step 512" in lower.out
    assert f"--steps {total} " in lower.out and "give more than 512" in lower.out
    assert "--steps TOTAL" not in lower.out


def test_resume_goes_back_to_the_checkpoint_that_is_named(ludus: Command, run: Path) -> None:
    outcome = ludus("resume", run, "--checkpoint", 256, "--json")
    assert outcome.code == 0, outcome.err
    assert "from checkpoint 000000000256, exactly" in outcome.err
    assert outcome.json["steps"] == 512


def test_resume_skips_a_damaged_run_with_one_warning_that_says_what_to_do(
    ludus: Command, tmp_path: Path
) -> None:
    words = ["train", *CARTPOLE, "--steps", 256, "--resume", "--json"]
    started = ludus(*words)
    damaged = tmp_path / "runs/other/PPO/cut off"
    damaged.mkdir(parents=True)
    (damaged / "run.json").write_text('{"name": "cut')
    again = ludus(*words)
    assert again.code == 0, again.err
    assert again.json["run"] == started.json["run"]
    (warning,) = [line for line in again.err.splitlines() if "cut off" in line]
    assert "skipped the damaged run" in warning and "ludus runs rm 'runs/other/PPO/cut off'" in warning
    alone = ludus("resume", "runs/other/PPO/cut off")
    assert alone.code == 2 and len(alone.error_lines) == 3
    assert "ludus runs rm 'runs/other/PPO/cut off'" in alone.error_lines[2]
    assert ludus("runs", "rm", "runs/other/PPO/cut off", "--yes").code == 0 and not damaged.exists()


FAULTY_ENV = """
import gymnasium, numpy

class Door(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return numpy.zeros(3, numpy.float32), {}

    def step(self, action):
        Door.steps += 1
        if Door.steps > 700:
            raise KeyError("the door is locked")
        return numpy.zeros(3, numpy.float32), 1.0, Door.steps % 10 == 0, False, {}

gymnasium.register("Door-v0", Door)
"""


def test_a_fault_of_the_users_env_shows_its_own_traceback_and_the_way_back(
    ludus: Command, tmp_path: Path
) -> None:
    (tmp_path / "doors.py").write_text(FAULTY_ENV)
    options = ["checkpoint.every=128", "evaluation=null", "--steps", 100_000, "--json"]
    outcome = ludus("train", "--env", "doors:Door-v0", *TINY[:-1], *options)
    assert outcome.code == 3
    assert 'raise KeyError("the door is locked")' in outcome.err
    assert "please report" not in outcome.err
    assert "Resume with: ludus resume runs/" in outcome.error_lines[-1]
    assert "the door is locked" in outcome.json["error"]["what"]
    assert "doors:Door-v0" in outcome.json["error"]["where"]


def test_what_nobody_expected_is_a_traceback_and_a_request_to_report_it(ludus: Command) -> None:
    from ludus.config.registry import _by_engine, register_algorithm

    def trainer(env: str, config: object) -> None:
        raise RuntimeError("the ceiling fell down")

    register_algorithm("Unlucky", trainer)
    try:
        outcome = ludus("train", "--algo", "unlucky", "--env", "CartPole-v1", "--json")
    finally:
        del _by_engine["native"]["UNLUCKY"]
    assert outcome.code == 1
    assert "RuntimeError: the ceiling fell down" in outcome.err
    assert "please report" in outcome.error_lines[-1]
    assert outcome.error_lines[-1].endswith("github.com/ludus-rl/ludus/issues")
    assert "/typer/" not in outcome.err
    assert outcome.json["error"]["what"] == "RuntimeError: the ceiling fell down"


def test_ctrl_c_before_training_is_quiet(ludus: Command) -> None:
    from ludus.config.registry import _by_engine, register_algorithm

    def trainer(env: str, config: object) -> None:
        raise KeyboardInterrupt

    register_algorithm("Unlucky", trainer)
    try:
        outcome = ludus("train", "--algo", "unlucky", "--env", "CartPole-v1")
    finally:
        del _by_engine["native"]["UNLUCKY"]
    assert (outcome.code, outcome.err) == (130, "")


def test_a_finished_run_has_its_course_in_its_log(run: Path, tmp_path: Path) -> None:
    lines = (tmp_path / run / "logs" / "train.log").read_text().splitlines()
    assert "started to 512 steps" in lines[0] and "CartPole-v1 x 2" in lines[0]
    assert "checkpoint 000000000256 saved" in "\n".join(lines)
    assert "evaluation at step 512: reward " in "\n".join(lines)
    assert lines[-1].endswith("finished at step 512")


def test_what_goes_to_the_log_of_a_run_alone_is_not_on_the_terminal(
    trained_in_process_of_its_own: tuple[Path, Outcome],
) -> None:
    assert "started to" not in trained_in_process_of_its_own[1].err


def test_resume_keeps_later_checkpoints_by_default(ludus: Command, run: Path, tmp_path: Path) -> None:
    done = ludus("resume", run, "--checkpoint", "256")
    assert done.code == 0 and "1 checkpoints later than step 256 were moved to" in done.err
    kept = tmp_path / run / "set_aside" / "after-256"
    assert ludus("eval", kept.relative_to(tmp_path), "-n", "2").code == 0
    assert ludus("resume", run, "--checkpoint", "256", "--discard-later").code == 0
    assert [path.name for path in kept.parent.iterdir()] == ["after-256"]

"""The dashboard shows a run of another process, fits its terminal, and does not change the run or the terminal."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from recorded_runs import add_checkpoint, recorded
from rich.console import Console

from ludus.cli.app import main
from ludus.reports.terminal.screen import _keys, frame, print_frame
from ludus.reports.terminal.watched import Watched, choose_run
from ludus.runs.directory import RunDirectory
from ludus.runs.mirror.state import MirrorState

LEAGUE = {
    "games/finished": 40.0,
    "games/invalid_rate": 0.05,
    "league/rating/learner": 31.25,
    "league/sigma/learner": 1.5,
    "league/rating/minimax": 35.0,
    "league/frequency/minimax": 0.25,
    "league/win_rate/learner/minimax": 0.125,
    "league/frequency/learner@10": 0.75,
    "time/tokens_per_second": 5400.0,
}


def shown(run: RunDirectory, width: int = 80, height: int = 24) -> list[str]:
    """Return the lines of the dashboard."""
    watched = Watched(run)
    watched.refresh()
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, legacy_windows=False)
    console.print(frame(watched, width, height), height=height)
    return out.getvalue().splitlines()


def training(root: Path, **fields: object) -> RunDirectory:
    """Return a run that is half done and being trained by this process."""
    run = recorded(root, **fields)  # type: ignore[arg-type]
    config = run.config_path.read_text().replace("total_timesteps: 100000", "total_timesteps: 200000")
    run.config_path.write_text(config)
    run.update_info(status="running", pid=os.getpid())
    return run


def test_single_agent_dashboard_fits_a_small_terminal(tmp_path: Path) -> None:
    run = training(tmp_path)
    add_checkpoint(run, 50_000, best=True)
    lines = shown(run)
    assert len(lines) == 24
    text = "\n".join(lines)
    assert "PPO on BipedalWalker-v3  running" in lines[0]
    assert "50%  100,000 / 200,000 steps   0:11 elapsed   0:1" in lines[1]
    for part in ("reward while training", "evaluation", "learning", "throughput", "checkpoints"):
        assert f"─ {part} " in text
    for word in ("policy loss", "KL", "steps/s", "cores busy", "50k best", "█", "±"):
        assert word in text


def test_self_play_has_four_panes(tmp_path: Path) -> None:
    lines = shown(training(tmp_path, metrics=LEAGUE))
    text = "\n".join(lines)
    left, right = text.index("games and buffer"), text.index("ratings")
    assert left < right < text.index("─ learning") < text.index("─ utilisation")
    (minimax,) = [line for line in lines if "minimax" in line]
    assert minimax.split("││")[1].split() == ["minimax", "35.0", "25%", "12%", "│"]
    (learner,) = [line for line in lines if "31.2 ± 1.5" in line]
    assert "learner" in learner
    assert any("learner@10" in line and "75%" in line for line in lines)
    for word in ("games played", "games/update", "invalid moves", "tokens/s"):
        assert word in text


@pytest.mark.parametrize("metrics", [{}, LEAGUE])
@pytest.mark.parametrize("size", [(80, 24), (40, 12), (120, 30), (200, 60), (20, 5)])
def test_dashboard_fits_every_terminal(
    tmp_path: Path, metrics: dict[str, float], size: tuple[int, int]
) -> None:
    run = training(tmp_path, name="a run with quite a long name " * 3, metrics=metrics)
    lines = shown(run, *size)
    assert len(lines) <= size[1]
    assert max(len(line) for line in lines) <= size[0]


def test_a_run_that_has_just_begun_or_is_damaged_is_shown(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "CartPole-v1", "PPO", "new")
    run.update_info(status="running", pid=os.getpid())
    assert "no row yet" in "\n".join(shown(run))
    run.info_path.write_text("{")
    assert "damaged" in shown(run)[0]


def test_problems_of_files_and_mirror_are_shown(tmp_path: Path) -> None:
    run = training(tmp_path)
    assert "damaged" not in "\n".join(shown(run))
    with run.metrics_path.open("a") as file:
        file.write("torn\n")
    MirrorState("s3://bucket/" + "long/" * 20, missing=3, trouble="it is full").save(run.path)
    lines = shown(run)
    assert len(lines) == 24 and max(len(line) for line in lines) <= 80
    assert lines[-3].strip() == "1 damaged row is left out of metrics.jsonl"
    assert lines[-2].startswith("mirror: it is full, 3 files are missing there (s3://bucket/long/")
    assert lines[-2].rstrip().endswith("…")
    watched = Watched(run)
    watched.refresh()
    output = watched.snapshot()
    assert output["damaged_rows"] == 1 and output["mirror"]["trouble"] == "it is full"


def test_control_sequences_in_a_run_are_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "\x1b]0;pwned\x07\x9b31m"
    path = tmp_path / "runs" / "X" / "PPO" / f"name{command}"
    path.mkdir(parents=True)
    info = {name: command for name in ("env_id", "algorithm", "status")} | {"tags": [command]}
    (path / "run.json").write_text(json.dumps(info))
    run = RunDirectory(path)
    metrics = {f"train/{command}": 1.0, f"league/rating/{command}": 2.0, f"games/{command}": 3.0}
    run.metrics_path.write_text(json.dumps({"step": 1, "episodes": 1, "time/seconds": 1} | metrics) + "\n")
    MirrorState(command, trouble=command).save(run.path)
    assert main(["runs", "--root", str(tmp_path / "runs")]) == 0
    assert main(["watch", "--root", str(tmp_path / "runs")]) == 0
    output = "\n".join(shown(run)) + capsys.readouterr().out
    assert "\ufffd]0;pwned" in output
    assert not set(command) & set(output) - set("]0;pwned31m")


def test_dashboard_follows_the_run_and_a_resume(tmp_path: Path) -> None:
    run = training(tmp_path)
    watched = Watched(run)
    watched.refresh()
    before = run.metrics_path.read_bytes()
    with run.metrics_path.open("a") as file:
        file.write(
            '{"step": 150000, "updates": 75, "rollout/ep_rew_mean": 777.0, "time/seconds": 17.0}\n{"st'
        )
    watched.refresh()
    assert watched.number("rollout/ep_rew_mean") == 777.0
    assert watched.fraction == 0.75
    run.metrics_path.write_bytes(before)
    watched.refresh()
    assert watched.fraction == 0.5
    assert watched.number("rollout/ep_rew_mean") != 777.0


def test_running_run_is_chosen_before_a_newer_one(tmp_path: Path) -> None:
    assert choose_run(str(tmp_path)) is None
    busy = training(tmp_path, name="busy")
    recorded(tmp_path, "newer")
    assert choose_run(str(tmp_path)) == busy


def test_dashboard_is_printed_once_without_a_terminal(tmp_path: Path) -> None:
    run = training(tmp_path)
    watched = Watched(run)
    watched.refresh()
    out = io.StringIO()
    print_frame(watched, Console(file=out, width=80, height=24, force_terminal=False))
    lines = out.getvalue().splitlines()
    assert len(lines) == 21 and run.name in lines[0]  # what follows does not push the name off the screen
    assert "\x1b" not in out.getvalue()


def test_json_has_the_newest_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = training(tmp_path)
    assert main(["watch", "--root", str(tmp_path), "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["run"], output["status"], output["fraction"]) == (str(run.path), "running", 0.5)
    assert output["metrics"]["step"] == 100_000
    assert main(["watch", "--root", str(tmp_path / "none")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 3


class Terminal:
    """`ludus watch` on a terminal of 80 by 24."""

    def __init__(self, root: Path) -> None:
        self.driver, self.device = pty.openpty()
        size = struct.pack("HHHH", 24, 80, 0, 0)
        import fcntl

        fcntl.ioctl(self.device, termios.TIOCSWINSZ, size)
        self.before = termios.tcgetattr(self.device)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ludus", "watch", "--root", str(root)],
            stdin=self.device,
            stdout=self.device,
            stderr=self.device,
            env={**os.environ, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        self.seen = ""

    def read_until(self, word: str, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while word not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.driver], [], [], 0.2)[0]:
                with contextlib.suppress(OSError):
                    self.seen += os.read(self.driver, 65_536).decode(errors="replace")

    def wait(self) -> int:
        end = time.monotonic() + 60.0
        while self.process.poll() is None and time.monotonic() < end:
            if select.select([self.driver], [], [], 0.1)[0]:
                self.seen += os.read(self.driver, 65_536).decode(errors="replace")
        return self.process.wait(1.0)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    training(tmp_path)
    opened = Terminal(tmp_path)
    yield opened
    if opened.process.poll() is None:
        opened.process.kill()
        opened.process.wait()
    os.close(opened.driver)
    os.close(opened.device)


def test_an_arrow_key_is_not_taken_for_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, device = pty.openpty()
    with os.fdopen(device) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with _keys() as key_within:
            for typed, key in ((b"\x1b[B", ""), (b"\x1b", "\x1b"), (b"q", "q")):
                os.write(driver, typed)
                assert key_within(60.0) == key
    os.close(driver)


@pytest.mark.parametrize("how", ["q", "ctrl-c", "the run ends"])
def test_leaving_restores_the_terminal_and_does_not_affect_the_run(
    terminal: Terminal, tmp_path: Path, how: str
) -> None:
    (run,) = [RunDirectory(path.parent) for path in tmp_path.glob("*/*/*/run.json")]
    files = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    terminal.read_until("press q")
    if how == "q":
        os.write(terminal.driver, b"q")
    elif how == "ctrl-c":
        terminal.process.send_signal(signal.SIGINT)
    else:
        run.update_info(status="finished")
        files[run.info_path] = run.info_path.read_bytes()
    assert terminal.wait() == 0
    assert termios.tcgetattr(terminal.device) == terminal.before
    assert terminal.seen.count("\x1b[?1049h") == terminal.seen.count("\x1b[?1049l") == 1  # the other screen
    assert terminal.seen.count("\x1b[?25l") <= terminal.seen.count("\x1b[?25h")  # the cursor is back
    assert ("which keeps training" in terminal.seen) == (how != "the run ends")
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == files

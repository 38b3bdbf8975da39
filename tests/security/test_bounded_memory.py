"""Files of any size cost bounded memory: they are refused, or read in parts."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_runs import newest

from ludus.reports.reading import read_metrics
from ludus.runs.directory import RunDirectory
from ludus.tracking import following
from ludus.tracking.jsonl import LONGEST_LINE, read_jsonl

MOST_MIB = 1_200  # torch alone takes about 400
_LIMIT = 16 << 30


def _sparse(path: Path, size: int) -> None:
    """A file of that many zeros, which takes no room on the disk."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


def _state(run: Path) -> None:
    folder = newest(run)
    _sparse(folder / "state.json", 300 << 20)
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    manifest.pop("sha256", None)
    digest = hashlib.sha256()
    for _ in range(300):
        digest.update(bytes(1 << 20))
    manifest["files"]["state.json"] = {"size": 300 << 20, "sha256": digest.hexdigest()}
    (folder / "MANIFEST.json").write_text(json.dumps(manifest))


def _rows(run: Path) -> None:
    with (run / "metrics.jsonl").open("w") as file:
        for step in range(1_500_000):
            file.write(f'{{"step": {step}, "a": {step % 7}, "b": 1}}\n')


def _names(run: Path) -> None:
    with (run / "metrics.jsonl").open("w") as file:
        for step in range(400):
            file.write(json.dumps({"step": step} | {f"name/{step}-{n}": n for n in range(500)}) + "\n")


def _games(run: Path) -> None:
    folder = run / "games" / "train"
    folder.mkdir(parents=True)
    turn = {"index": 0, "observation": "x" * 200, "text": "y" * 200, "well_formed": True, "invalid": False}
    turn |= {
        "truncated": False,
        "prompt": [1] * 50,
        "completion": [2] * 5,
        "entropy": 1.0,
        "reward_parts": {},
    }
    match = {
        "game": "TicTacToe-v0",
        "seed": 1,
        "players": ["a", "b"],
        "rewards": [1.0, -1.0],
        "reason": "won",
    }
    match |= {"cut_off": False, "length": 1, "moves": [[0, "[4]"]], "turns": [turn]}
    match["turns"][0] |= {"log_probs": [0.5] * 250}  # in memory eight times as much
    rest = json.dumps(match)[1:]
    with (folder / "00000001.jsonl").open("w") as file:
        for number in range(100_000):
            file.write(f'{{"match": {number}, {rest}\n')


def _line_of_games(run: Path) -> None:
    (run / "games" / "train").mkdir(parents=True)
    _sparse(run / "games" / "train" / "00000001.jsonl", 3 << 30)


ATTACKS: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "metrics: a line of 3 GB": (
        lambda run: _sparse(run / "metrics.jsonl", 3 << 30),
        ["report", "runs", "watch"],
    ),
    "metrics: 1,500,000 rows": (_rows, ["report", "watch"]),
    "metrics: 200,000 names": (_names, ["report", "watch"]),
    "games: 100,000 of them": (_games, ["games", "a game"]),
    "games: a line of 3 GB": (_line_of_games, ["games"]),
    "run.json: 3 GB": (lambda run: _sparse(run / "run.json", 3 << 30), ["runs", "report", "resume"]),
    "config.yaml: 3 GB": (lambda run: _sparse(run / "config.yaml", 3 << 30), ["eval", "resume"]),
    "manifest: 3 GB": (
        lambda run: _sparse(newest(run) / "MANIFEST.json", 3 << 30),
        ["eval", "resume", "runs"],
    ),
    "best.json: 3 GB": (
        lambda run: _sparse(run / "checkpoints/best.json", 3 << 30),
        ["eval", "runs", "report"],
    ),
    "games.json: 3 GB": (lambda run: _sparse(run / "games.json", 3 << 30), ["report"]),
    "state: 300 MB": (_state, ["eval", "resume"]),
}
_WORDS = {
    "report": ["report", "received", "--output", "page.html"],
    "runs": ["runs", "list", "--root", "received"],
    "watch": ["watch", "received", "--once"],
    "games": ["games", "received"],
    "a game": ["games", "received", "--match", "7"],
    "eval": ["eval", "received", "--episodes", "1"],
    "resume": ["resume", "received", "--steps", "96", "-q"],
}


@pytest.mark.faults
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux counts memory in this way")
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_file_of_a_run_fills_the_memory(
    attack: str, tmp_path: Path, record_fault: Callable[..., None]
) -> None:
    run = _train(tmp_path / "received")
    spoil, commands = ATTACKS[attack]
    spoil(run)
    peaks = []
    for command in commands:
        code, peak, said = _measure(_WORDS[command], tmp_path)
        peaks.append(peak)
        assert code in (0, 2), (command, code, said)
        assert "Traceback" not in said
    survived = sum(peak < MOST_MIB for peak in peaks)
    record_fault("hostile run: memory filled", len(peaks), survived, f"at most {max(peaks):,.0f} MiB")
    assert survived == len(peaks), dict(zip(commands, peaks, strict=True))


def _train(place: Path) -> Path:
    words = [
        "train",
        "--algo",
        "a2c",
        "--env",
        "CartPole-v1",
        "--steps",
        "64",
        f"run_dir={place}",
        "-q",
        "n_envs=1",
    ]
    words += ["kernels=false", "evaluation.every=null", "tracking.tensorboard=false"]
    subprocess.run([sys.executable, "-m", "ludus", *words], check=True, stdout=subprocess.DEVNULL)
    return place


def _measure(words: list[str], folder: Path) -> tuple[int, float, str]:
    """Exit code, most MiB that were resident, and what it said."""

    def bound() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_LIMIT, _LIMIT))

    process = subprocess.Popen(
        [sys.executable, "-m", "ludus", *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=bound,
    )
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_maxrss / 1024, said


def test_points_beyond_those_that_can_be_shown_are_thinned_as_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_MAX_POINTS", 10_000)
    columns = following.Columns(clock="time/seconds")
    for step in range(50_000):
        peak = {20_001: 7.0, 30_003: -9.0}.get(step, step % 2)
        columns.take({"step": step, "time/seconds": step / 10, "a": peak})
        assert len(columns._values["a"]) <= 10_001
    series = columns.series()["a"]
    assert (series.values.max(), series.values.min()) == (7.0, -9.0)
    assert list(series.steps) == sorted(series.steps) and (series.steps[0], series.steps[-1]) == (0, 49_999)
    assert abs(series.seconds[-1] - 4_999.9) < 1.0 and columns.rows == 50_000


def test_names_beyond_a_few_thousand_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_MAX_NAMES", 10)
    columns = following.Columns()
    for step in range(100):
        columns.take({"step": step, f"name-{step}": 1.0, "x" * 600: 1.0})
    assert len(columns.series()) == 10


def test_a_line_longer_than_any_row_is_passed_over(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "CartPole-v1", "PPO", "long")
    good = b'{"step": 1, "a": 2.0}\n'
    long = b'{"step": 2, "a": "' + b"x" * (2 * LONGEST_LINE + 5) + b'"}\n'
    run.metrics_path.write_bytes(good + long + good.replace(b"1", b"3") + b'{"step": 4, "a"')
    found = read_metrics(run)
    assert list(found.series["a"].steps) == [1, 3] and found.damaged == 1
    assert [row["step"] for row in read_jsonl(run.metrics_path)] == [1, 3]
    with run.metrics_path.open("ab") as file:
        file.write(b": 5.0}\n")
    again = read_metrics(run, since=found.position)
    assert list(again.series["a"].steps) == [4] and not again.rewound
    run.metrics_path.write_bytes(good + b"x" * (12 * LONGEST_LINE))  # without an end
    assert list(read_metrics(run).series["a"].steps) == [1]
    assert following.last_row(run.metrics_path) is None


def test_a_pipe_is_not_waited_at(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "CartPole-v1", "PPO", "pipe")
    os.mkfifo(run.metrics_path)
    assert read_metrics(run).series == {} and following.last_row(run.metrics_path) is None
    with contextlib.suppress(FileNotFoundError):
        run.info_path.unlink()
    os.mkfifo(run.info_path)
    assert run._info_or_empty() == {}

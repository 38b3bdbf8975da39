"""Reading the files of a run, also during training and with damaged files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ludus.reports.reading import (
    list_checkpoints,
    list_videos,
    progress_at,
    read_config,
    read_episodes,
    read_metrics,
    summaries,
    summarize,
    total_of,
)
from ludus.reports.terminal.watched import Watched
from ludus.runs.directory import RunDirectory
from ludus.runs.hints import Hints


def make_run(root: Path, name: str = "walker", **info: object) -> RunDirectory:
    run = RunDirectory.create(root, "CartPole-v1", "PPO", name)
    run.update_info(**({"status": "finished", "seed": 3} | info))
    return run


def write_rows(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_checkpoint(run: RunDirectory, step: int) -> Path:
    folder = run.checkpoints_dir / f"{step:012d}"
    folder.mkdir(parents=True)
    manifest = {
        "format": 1,
        "step": step,
        "created": "2026-01-02T03:04:05+00:00",
        "exact": True,
        "resumable": True,
        "files": {"policy.safetensors": {"size": 70, "sha256": ""}, "state.json": {"size": 30, "sha256": ""}},
    }
    (folder / "MANIFEST.json").write_text(json.dumps(manifest))
    return folder


def test_run_is_summarised_from_its_files(tmp_path: Path) -> None:
    run = make_run(tmp_path, evaluation={"mean_reward": 480.5}, steps=2000, tags=["a", "b"], seconds=9.0)
    write_rows(
        run.metrics_path, [{"step": 2000, "updates": 2, "rollout/ep_rew_mean": 321.5, "time/seconds": 8.5}]
    )
    write_checkpoint(run, 2000)
    Hints(run.checkpoints_dir).set_best(2000, "eval/mean_reward", 490.0)
    (row,) = summaries(tmp_path)
    assert row.as_dict() | {"created": None} == {
        "name": run.name,
        "path": str(run.path),
        "env": "CartPole-v1",
        "algorithm": "PPO",
        "status": "finished",
        "steps": 2000,
        "seconds": 8.5,
        "reward": 321.5,
        "evaluation": 480.5,
        "best": 490.0,
        "seed": 3,
        "created": None,
        "tags": ["a", "b"],
    }


def test_run_without_a_process_has_died(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert summarize(make_run(tmp_path, "one", status="running", pid=os.getpid())).status == "running"
    assert summarize(make_run(tmp_path, "two", status="running", pid=ended.pid)).status == "died"
    assert summarize(make_run(tmp_path, "three", status="running", pid="x")).status == "died"


def test_damaged_files_do_not_raise(tmp_path: Path) -> None:
    run = make_run(tmp_path, "odd", tags="word", seed="x", evaluation=7, steps="many")
    run.config_path.write_text("a: [")
    run.checkpoints_dir.mkdir()
    (run.checkpoints_dir / "best.json").write_text("{")
    (run.checkpoints_dir / "000000000010").mkdir()
    run.metrics_path.write_bytes(b"\x00\xff\n")
    row = summarize(run)
    assert (row.tags, row.seed, row.evaluation, row.best, row.steps) == ((), None, None, None, 10)
    assert read_config(run) == {}
    assert read_metrics(run).series == {}
    (damaged,) = list_checkpoints(run)
    assert not damaged.intact
    run.info_path.write_text("[")
    assert summarize(run).status == "damaged"


ODD_ROWS = [
    b'{"step": "abc", "updates": "many"}',
    b'{"step": null}',
    b'{"step": NaN, "updates": NaN, "time/seconds": NaN}',
    b'{"step": 1e999, "updates": Infinity, "time/seconds": 1e999}',
    b'{"step": 1%s, "time/seconds": 1%s}' % (b"0" * 400, b"0" * 400),
    b'{"step": [1], "rollout/ep_rew_mean": {"a": 1}}',
    b"\x00\xff",
    b"[" * 50_000,
]


def test_damaged_rows_are_counted_and_skipped(tmp_path: Path) -> None:
    for number, row in enumerate(ODD_ROWS):
        run = make_run(tmp_path, f"odd {number}", status="running", pid=os.getpid())
        write_rows(run.metrics_path, [{"step": 10, "updates": 1, "a": 2.5, "time/seconds": 1.0}])
        with run.metrics_path.open("ab") as file:
            file.write(row + b"\n")
        found, summary, watched = read_metrics(run), summarize(run), Watched(run)
        assert (found.rows, found.damaged, found.series["a"].values.tolist()) == (1, 1, [2.5])
        watched.refresh()
        assert (watched.damaged, watched.number("a")) == (1, 2.5) and watched.fraction == 0
        assert summary.status == "running" and summary.seconds in (None, 1.0)


def test_metrics_are_read_from_the_last_position(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    assert read_metrics(run).rows == 0
    write_rows(run.metrics_path, [{"step": step, "a": step / 2, "time/seconds": step} for step in range(4)])
    first = read_metrics(run, {"a"})
    assert first.series["a"].values.tolist() == [0.0, 0.5, 1.0, 1.5]
    with run.metrics_path.open("a") as file:
        file.write('{"step": 4, "a": 2.0, "time/seconds": 4.0}\n{"step": 5, "a')
    second = read_metrics(run, since=first.position)
    assert (second.rows, second.rewound) == (1, False)
    assert second.series["a"].values.tolist() == [2.0]
    assert second.series["a"].seconds.tolist() == [4.0]
    write_rows(run.metrics_path, [{"step": 1, "a": 9.0}])
    third = read_metrics(run, since=second.position)
    assert third.rewound
    assert third.series["a"].values.tolist() == [9.0]


def test_episodes_come_as_series(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    write_rows(
        run.episodes_path,
        [{"step": 5, "reward": 1.5, "length": 5}, {"step": 9, "reward": 2.0, "length": 4, "success": True}],
    )
    series = read_episodes(run).series
    assert series["reward"].values.tolist() == [1.5, 2.0]
    assert series["success"].steps.tolist() == [9.0]
    assert len(read_episodes(run, max_points=1).series["length"]) == 1


def test_checkpoints_and_videos_are_listed(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    assert (list_checkpoints(run), list_videos(run)) == ([], [])
    for step in (200, 100):
        write_checkpoint(run, step)
    (run.checkpoints_dir / ".tmp-300-1").mkdir()
    hints = Hints(run.checkpoints_dir)
    hints.set_best(100, "eval/mean_reward", 1.0)
    hints.set_pinned({200})
    found = list_checkpoints(run)
    assert [(one.step, one.best, one.pinned, one.size) for one in found] == [
        (100, True, False, 100),
        (200, False, True, 100),
    ]
    run.videos_dir.mkdir()
    (run.videos_dir / "000000000100.mp4").write_bytes(b"1234")
    (run.videos_dir / "best run.gif").write_bytes(b"12")
    (run.videos_dir / "notes.txt").write_bytes(b"")
    (run.videos_dir / "elsewhere.mp4").symlink_to("/etc/hostname")
    assert [(video.name, video.step, video.size) for video in list_videos(run)] == [
        ("000000000100.mp4", 100, 4),
        ("best run.gif", None, 2),
    ]


def test_progress_follows_from_the_total(tmp_path: Path) -> None:
    row = {"step": 500, "updates": 5, "episodes": 50, "time/seconds": 30.0}
    for total, fraction in ((1000, 0.5), ("10 updates", 0.5), ("1 min", 0.5), ("200 episodes", 0.25)):
        when = total_of({"total_timesteps": total})
        assert when is not None
        assert when.fraction(progress_at(row)) == fraction
    assert total_of({}) is None


def test_reading_needs_no_torch() -> None:
    code = (
        "import ludus.reports.reading, sys; assert 'torch' not in sys.modules and 'plotly' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

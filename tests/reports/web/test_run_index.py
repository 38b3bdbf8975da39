from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_site import append_rows, wait_until, write_run

from ludus.reports.web.entry import RunEntry
from ludus.reports.web.index import RunIndex
from ludus.runs.lock import RunLock


@pytest.fixture
def index(root: Path) -> Iterator[RunIndex]:
    """Of the folder `root`; it begins to look when the test starts it."""
    found = RunIndex(root, cache=None, scan_every=0.2)
    yield found
    found.stop()


def only(index: RunIndex) -> RunEntry:
    """Starts the index, and returns the one run that it finds."""
    index.start()
    index.note_request()
    [entry] = index.entries.values()
    index.refresh(entry)
    return entry


def test_run_summary_has_all_columns(root: Path, index: RunIndex) -> None:
    path = write_run(root, "one", [10.0, 20.0, 30.0], tags=["a", "b"])
    (path / "checkpoints").mkdir()
    (path / "checkpoints" / "best.json").write_text(
        '{"checkpoint": "000000000200", "metric": "m", "value": 25.5}'
    )
    found = only(index).summary()
    expected = {
        "name": "one",
        "env": "CartPole-v1",
        "algorithm": "PPO",
        "status": "finished",
        "steps": 300,
        "reward": 30.0,
    }
    expected |= {
        "best": 25.5,
        "fps": 900.0,
        "seed": 1,
        "tags": ["a", "b"],
        "rows": 3,
        "total": "1000",
        "progress": 0.3,
    }
    assert found | expected == found
    assert found["spark"] == [0, 50, 100]


def test_new_changed_and_removed_runs_are_distinguished(root: Path, index: RunIndex) -> None:
    write_run(root, "one", [1.0])
    first = only(index)
    version = index.version
    second = write_run(root, "two", [2.0])
    wait_until(lambda: len(index.entries) == 2 and index.changed_since(version)[0])
    assert [entry.path.name for entry in index.changed_since(version)[0]] == ["two"]
    version = index.version
    shutil.rmtree(second)
    wait_until(lambda: len(index.entries) == 1)
    changed, removed = index.changed_since(version)
    assert changed == [] and removed != [first.id] and len(removed) == 1


def test_a_watched_run_is_followed(root: Path, index: RunIndex) -> None:
    path = write_run(root, "one", [1.0])
    entry = only(index)
    index.watch([entry.id])
    append_rows(path, [2.0, 3.0], first=2)
    wait_until(lambda: entry.read_progress.rows == 3)
    assert entry.read_progress.last["rollout/ep_rew_mean"] == 3.0


def test_only_runs_with_a_living_process_are_shown_as_running(root: Path, index: RunIndex) -> None:
    path = write_run(root, "one", [1.0], status="running", pid=2**22 + 1)
    entry = only(index)
    assert entry.status == "died"
    with RunLock(path):
        index.refresh(entry)
        assert entry.status == "running"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1]", '{"status": 5, "tags": 7, "created": [], "seed": "x"}', '{"a":' * 900 + "1" + "}" * 900],
)
def test_a_damaged_run_does_not_hide_the_others(root: Path, index: RunIndex, text: str) -> None:
    damaged = write_run(root, "damaged", [1.0])
    (damaged / "run.json").write_text(text)
    (damaged / "config.yaml").write_text("total_timesteps: 1e999\n")
    write_run(root, "whole", [1.0])
    index.start()
    index.note_request()
    found = {entry.path.name: entry.summary() for entry in index.entries.values()}
    assert found.keys() == {"damaged", "whole"}
    json.dumps(list(found.values()), allow_nan=False)


def test_links_are_neither_runs_nor_read(root: Path, index: RunIndex, tmp_path: Path) -> None:
    outside = write_run(tmp_path / "elsewhere", "outside", [666.0])
    (root / "linked").symlink_to(outside)
    inside = write_run(root, "inside")
    (inside / "metrics.jsonl").unlink()
    (inside / "metrics.jsonl").symlink_to(outside / "metrics.jsonl")
    (inside / "run.json").unlink()
    (inside / "run.json").symlink_to(outside / "run.json")
    entry = only(index)
    assert (entry.path.name, entry.status, entry.read_progress.rows) == ("inside", "damaged", 0)


def test_a_pipe_in_place_of_a_file_does_not_stop_the_index(root: Path, index: RunIndex) -> None:
    path = write_run(root, "one")
    (path / "metrics.jsonl").unlink()
    os.mkfifo(path / "metrics.jsonl")
    write_run(root, "two", [1.0])
    index.start()
    wait_until(lambda: sorted(entry.read_progress.rows for entry in index.entries.values()) == [0, 1])

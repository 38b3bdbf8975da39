from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ludus.tracking.tensorboard import TensorBoardTracker


def scalars(directory: Path, tag: str) -> list[tuple[int, float]]:
    events = EventAccumulator(str(directory)).Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


def test_each_metric_is_a_scalar_at_its_step(tmp_path: Path) -> None:
    tracker = TensorBoardTracker(tmp_path / "tb")
    clock = {"updates": 1, "episodes": 2}
    tracker.row({"step": 10, **clock, "train/loss": 0.5, "note": "text", "eval/x": None}, 10)
    tracker.row({"step": 20, **clock, "train/loss": math.nan, "rollout/n": 3}, 20)
    tracker.close()
    events = EventAccumulator(str(tmp_path / "tb")).Reload()
    assert sorted(events.Tags()["scalars"]) == ["rollout/n", "train/loss"]
    (first, second) = scalars(tmp_path / "tb", "train/loss")
    assert first == (10, 0.5)
    assert second[0] == 20
    assert math.isnan(second[1])
    assert scalars(tmp_path / "tb", "rollout/n") == [(20, 3.0)]


def test_rows_are_readable_while_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ludus.tracking.tensorboard._FLUSH_SECONDS", 0.0)
    tracker = TensorBoardTracker(tmp_path)
    tracker.row({"a": 1.0}, 1)
    assert scalars(tmp_path, "a") == [(1, 1.0)]
    tracker.close()


def test_a_resumed_run_shows_every_step_once(tmp_path: Path) -> None:
    first = TensorBoardTracker(tmp_path)
    for step in (10, 20, 30, 40):
        first.row({"a": float(step)}, step)
    first.close()
    second = TensorBoardTracker(tmp_path, resumed_at=20)
    second.row({"a": 31.0}, 30)
    second.close()
    third = TensorBoardTracker(tmp_path, resumed_at=30)
    third.row({"a": 42.0}, 40)
    third.close()
    assert scalars(tmp_path, "a") == [(10, 10.0), (20, 20.0), (30, 31.0), (40, 42.0)]


def test_a_torn_event_file_does_not_hide_the_resumed_one(tmp_path: Path) -> None:
    first = TensorBoardTracker(tmp_path)
    first.row({"a": 1.0}, 10)
    first.row({"a": 2.0}, 20)
    first.close()
    (torn,) = tmp_path.iterdir()
    torn.write_bytes(torn.read_bytes()[:-5])
    second = TensorBoardTracker(tmp_path, resumed_at=10)
    second.row({"a": 3.0}, 20)
    second.close()
    assert scalars(tmp_path, "a") == [(10, 1.0), (20, 3.0)]


def test_the_whole_folder_is_imported_and_used_without_torch(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from ludus.tracking import jsonl, logs, progress, sparkline, tensorboard, tracker, wandb\n"
        "assert 'tensorboard' not in sys.modules\n"
        f"tensorboard.TensorBoardTracker({str(tmp_path)!r}).close()\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

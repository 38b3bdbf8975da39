from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ludus.errors import MissingExtra
from ludus.tracking.wandb import WandbTracker


def test_without_wandb_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtra, match="'wandb'"):
        WandbTracker("run", "project", tmp_path, {})


def test_an_offline_run_is_written_to_its_folder(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    tracker = WandbTracker(
        "run", "project", tmp_path, {"seed": 1}, tags=["t"], mode="offline", run_id="abc123"
    )
    assert tracker.run_id == "abc123"
    tracker.row({"step": 10, "updates": 1, "episodes": 0, "train/loss": 0.5, "eval/x": None}, 10)
    tracker.row({"step": 5, "updates": 1, "episodes": 0, "train/loss": 0.5}, 5)
    tracker.close()
    assert list(tmp_path.glob("wandb/offline-run-*/run-abc123.wandb"))

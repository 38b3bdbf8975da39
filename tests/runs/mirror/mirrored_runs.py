"""Run directories with all files that are mirrored, made without training."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory


def make_run(root: Path, *, steps: tuple[int, ...] = (100, 200), size: int = 64) -> RunDirectory:
    """Make a run with checkpoints at `steps`, each with tensors of `size` floats."""
    run = RunDirectory.create(root, "Cart Pole", "PPO", "mine", now=datetime(2026, 1, 2, 3, 4, 5))
    run.config_path.write_text("name: mine\n")
    run.episodes_path.touch()
    run.update_info(status="running")
    for step in steps:
        add_checkpoint(run, step, size=size)
    run.videos_dir.mkdir()
    (run.videos_dir / "000000000100.mp4").write_bytes(b"video" * 100)
    run.report_path.write_text("<html>")
    (run.path / "wandb").mkdir()
    (run.path / "wandb" / "local").write_text("theirs")
    run.logs_dir.mkdir()
    (run.logs_dir / "train.log").write_text("line\n")
    return run


def add_checkpoint(run: RunDirectory, step: int, *, keep: int = 0, size: int = 64) -> None:
    """Save a checkpoint and its row of metrics."""
    with run.metrics_path.open("a") as file:
        file.write(json.dumps({"step": step}) + "\n")
    state: dict[str, Any] = {"files": {"metrics.jsonl": run.metrics_path.stat().st_size}}
    tensors = {"policy": {"w": torch.full((size,), float(step))}, "learner": {"m": torch.arange(size) * step}}
    CheckpointManager(run.checkpoints_dir, keep=keep).save(step, tensors, state)


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file that is mirrored."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {
        name: path.read_bytes()
        for name, path in sorted(found.items())
        if not name.startswith((".", "wandb/")) and name != "run.lock"
    }

"""W&B follows a run offline: its rows, its checkpoints and videos as artifacts, under one id across resumes."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus.cli.app import main
from ludus.errors import MissingExtra
from ludus.runs.directory import RunDirectory
from ludus.tracking.wandb import WandbTracker


@pytest.fixture
def wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The real W&B, which keeps its files in the test's folder and uses no network."""
    for name in ("WANDB_DIR", "WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "wandb-home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    return pytest.importorskip("wandb", reason="the extra wandb is not installed")


def written(run: Path, run_id: str) -> bytes:
    """Everything W&B wrote for the run of this id, session after session."""
    files = sorted(run.glob(f"wandb/offline-run-*-{run_id}/run-{run_id}.wandb"))
    return b"".join(path.read_bytes() for path in files)


def add_checkpoint(run: RunDirectory, step: int) -> Path:
    folder = run.checkpoints_dir / f"{step:012d}"
    folder.mkdir(parents=True)
    for name in ("policy.safetensors", "learner.safetensors", "state.json"):
        (folder / name).write_bytes(name.encode())
    files = {path.name: {"size": path.stat().st_size, "sha256": ""} for path in folder.iterdir()}
    head = {"format": 1, "step": step, "created": "", "exact": True, "resumable": True}
    (folder / "MANIFEST.json").write_text(json.dumps(head | {"files": files}))
    return folder


def recorded(root: Path, steps: range) -> RunDirectory:
    run = RunDirectory.create(root, "CartPole-v1", "PPO", "a run")
    run.update_info(status="finished")
    run.config_path.write_text("tracking: {wandb: {project: p, mode: offline}}\ntags: [own]\n")
    run.metrics_path.write_text(
        "".join(f'{{"step": {step}, "updates": 1, "own/value": 0.5}}\n' for step in steps)
    )
    return run


def test_without_wandb_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtra, match="'wandb'"):
        WandbTracker("run", "project", tmp_path, {})


def test_an_offline_run_is_written_to_its_folder(tmp_path: Path, wandb: Any) -> None:
    noted: dict[str, Any] = {}
    tracker = WandbTracker(
        "run",
        "project",
        tmp_path,
        {"seed": 1},
        tags=["t"],
        mode="offline",
        run_id="abc123",
        note=noted.update,
    )
    assert tracker.run_id == "abc123"
    tracker.row({"step": 10, "updates": 1, "episodes": 0, "train/loss": 0.5, "eval/x": None}, 10)
    tracker.row({"step": 5, "updates": 1, "episodes": 0, "train/loss": 0.5}, 5)
    tracker.close()
    assert noted == {"wandb_run_id": "abc123", "wandb_step": 5}
    deadline = time.monotonic() + 30  # W&B's own process writes the file, when it comes to it
    while written(tmp_path, "abc123").count(b"train/loss") < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert written(tmp_path, "abc123").count(b"train/loss") >= 2


@pytest.mark.parametrize("what", ["policy", "whole", None])
def test_checkpoints_and_videos_are_artifacts(tmp_path: Path, wandb: Any, what: Any) -> None:
    run = recorded(tmp_path, range(1))
    (run.videos_dir).mkdir()
    video = run.videos_dir / "000000000100.gif"
    video.write_bytes(b"GIF89a" + bytes(np.arange(50, dtype=np.uint8)))
    added: dict[str, set[str]] = {}
    tracker = WandbTracker("a run", "p", run.path, {}, mode="offline", run_id="xyz", checkpoints=what)
    log = tracker._run.log_artifact

    def listen(artifact: Any, aliases: list[str]) -> Any:
        added[f"{artifact.name.split(':')[0]} {' '.join(aliases)}"] = set(artifact.manifest.entries)
        return log(artifact, aliases=aliases)

    tracker._run.log_artifact = listen
    tracker.checkpoint(add_checkpoint(run, 100), 100, best=True)
    tracker.checkpoint(run.path / "pruned", 200, best=False)
    tracker.video(video, 100)
    tracker.video(run.path / "gone.mp4", 100)
    tracker.close()
    folder = "checkpoints/000000000100"
    playable = {"run.json", "config.yaml", *(f"{folder}/{n}" for n in ("policy.safetensors", "state.json"))}
    playable.add(f"{folder}/MANIFEST.json")
    expected = {"a-run-videos latest step-100": {"000000000100.gif"}}
    if what is not None:
        rest = {f"{folder}/learner.safetensors"} if what == "whole" else set()
        expected["a-run-policy latest step-100 best"] = playable | rest
    assert added == expected


def test_login_is_never_prompted_for(tmp_path: Path, wandb: Any) -> None:
    from ludus.errors import UserError

    with pytest.raises(UserError, match="nobody is logged in") as caught:
        WandbTracker("run", "p", tmp_path, {})
    assert "wandb login" in caught.value.fix


def test_finished_run_is_synced_from_its_files_and_later_only_new_rows(
    tmp_path: Path, wandb: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = recorded(tmp_path, range(100, 400, 100))
    add_checkpoint(run, 300)

    def sync(*more: str) -> dict[str, Any]:
        assert main(["sync", "wandb", str(run.path), "--json", "--allow", "wandb:p", *more]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    assert main(["sync", "wandb", str(run.path)]) == 2  # it was not trained here
    assert "--allow wandb:p" in capsys.readouterr().err
    first = sync()
    assert (first["rows"], first["files"]) == (3, 1)
    assert run.info()["wandb_run_id"] == first["wandb_run_id"]
    assert written(run.path, first["wandb_run_id"]).count(b"own/value") >= 3
    assert sync()["rows"] == 0
    with run.metrics_path.open("a") as file:
        file.write('{"step": 400, "updates": 1, "own/value": 0.5}\n')
    second = sync()
    assert (second["rows"], second["wandb_run_id"]) == (1, first["wandb_run_id"])
    again = sync("--again")
    assert again["rows"] == 4
    assert again["wandb_run_id"] != first["wandb_run_id"]


def test_a_run_in_training_is_not_synced(
    tmp_path: Path, wandb: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    import os

    run = recorded(tmp_path, range(3))
    run.update_info(status="running", pid=os.getpid())
    assert main(["sync", "wandb", str(run.path)]) == 2
    assert "still training" in capsys.readouterr().err

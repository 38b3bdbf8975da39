"""Whatever a tracker does, the run is trained to its end and its files are whole."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tiny_runs import resumed, rows, tiny, trained

from ludus.errors import MissingExtra
from ludus.training import trackers


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def broken(moment: str, trouble: Any) -> type:
    """A tracker that meets `trouble` at `moment`."""

    def meet(name: str) -> Any:
        return lambda *arguments, **named: trouble() if name == moment else None

    names = {
        "__init__": "start",
        "row": "row",
        "checkpoint": "checkpoint",
        "close": "close",
        "video": "video",
    }
    return type("Broken", (), {method: meet(name) for method, name in names.items()})


def fail() -> None:
    raise OSError("no space left")


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("moment", ["start", "row", "checkpoint", "close"])
def test_a_tracker_that_raises_or_hangs_never_stops_training(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    release: threading.Event,
    moment: str,
    hangs: bool,
) -> None:
    trouble: Any = (lambda: release.wait() and None) if hangs else fail
    monkeypatch.setattr(trackers, "TensorBoardTracker", broken(moment, trouble))
    monkeypatch.setitem(trackers.PATIENCE_AT_THE_END, "tensorboard", 0.2)
    with caplog.at_level(logging.WARNING, logger="ludus.tracking"):
        run = trained(tiny(tmp_path, tracking={"every": 128, "tensorboard": True}))
    assert run.info()["status"] == "finished"
    assert [row["step"] for row in rows(run)] == list(range(128, 1025, 128))
    said = [record.getMessage() for record in caplog.records if record.name == "ludus.tracking"]
    assert len(said) == 1
    assert said[0].startswith("TensorBoard ")


def test_tensorboard_has_scalars_weights_and_hyperparameters_of_a_real_run_across_a_resume(
    tmp_path: Path,
) -> None:
    config = tiny(tmp_path, tracking={"every": 128, "tensorboard": True}, checkpoint={"every": 512})
    run = trained(config)
    resumed(run, 512)
    events = EventAccumulator(str(run.tensorboard_dir)).Reload()
    steps = [event.step for event in events.Scalars("train/param_norm")]
    assert steps == list(range(128, 1025, 128))
    assert any(tag.startswith("weights/") for tag in events.Tags()["histograms"])
    assert "_hparams_/session_start_info" in events.PluginTagToContent("hparams")


def test_wandb_that_is_not_installed_is_reported_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    with pytest.raises(MissingExtra, match="'wandb'"):
        trained(tiny(tmp_path, tracking={"tensorboard": False, "wandb": {}}))


def test_wandb_continues_its_run_when_training_is_resumed(tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="the extra wandb is not installed")
    settings = {
        "every": 128,
        "tensorboard": False,
        "wandb": {"project": "p", "mode": "offline", "tags": ["t"]},
    }
    run = trained(tiny(tmp_path, tracking=settings, checkpoint={"every": 512}))
    first = run.info()["wandb_run_id"]
    time.sleep(1.1)  # W&B names the folder of a session by its second
    resumed(run, 512, 1280)
    assert run.info()["wandb_run_id"] == first
    assert run.info()["wandb_step"] == 1280
    assert len(list(run.path.glob(f"wandb/offline-run-*-{first}/run-{first}.wandb"))) == 2

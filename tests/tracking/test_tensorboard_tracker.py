from __future__ import annotations

import io
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from PIL import Image
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


def test_rows_are_readable_during_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_hyperparameters_are_shown_with_the_rewards_to_compare_them_by(tmp_path: Path) -> None:
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    tracker = TensorBoardTracker(
        tmp_path, hyperparameters={"lr": 0.5, "arch": [64, 64], "env": "X"}, name="a"
    )
    tracker.row({"eval/mean_reward": 1.0}, 10)
    tracker.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    kept = events.PluginTagToContent("hparams")
    start = HParamsPluginData.FromString(kept["_hparams_/session_start_info"]).session_start_info
    assert start.hparams["lr"].number_value == 0.5
    assert start.hparams["arch"].string_value == "[64, 64]"
    assert start.group_name == "a"
    shown = HParamsPluginData.FromString(kept["_hparams_/experiment"]).experiment
    assert [info.name.tag for info in shown.metric_infos] == ["eval/mean_reward", "rollout/ep_rew_mean"]


def test_the_weights_of_a_checkpoint_are_histograms(tmp_path: Path) -> None:
    checkpoint = tmp_path / "000000000100"
    checkpoint.mkdir()
    weights = {
        "net.weight": np.linspace(-1, 1, 101, dtype=np.float32),
        "steps": np.array([3]),
        "bad": np.array([np.nan], dtype=np.float32),
    }
    safetensors.numpy.save_file(weights, checkpoint / "policy.safetensors")
    tracker = TensorBoardTracker(tmp_path / "tb")
    tracker.checkpoint(checkpoint, 100, best=True)
    tracker.checkpoint(tmp_path / "pruned meanwhile", 200, best=False)
    tracker.close()
    events = EventAccumulator(str(tmp_path / "tb")).Reload()
    assert events.Tags()["histograms"] == ["weights/net.weight"]
    (shown,) = events.Histograms("weights/net.weight")
    assert (shown.step, shown.histogram_value.num) == (100, 101)
    assert (shown.histogram_value.min, shown.histogram_value.max) == (-1.0, 1.0)
    assert sum(shown.histogram_value.bucket) == 101


def test_video_is_an_animated_image(tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    path = tmp_path / "000000000100.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = 320, 200, "yuv420p"
        for shade in range(90):
            picture = np.full((200, 320, 3), 2 * shade, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    tracker = TensorBoardTracker(tmp_path / "tb")
    tracker.video(path, 100)
    tracker.video(tmp_path / "gone.mp4", 200)
    tracker.close()
    (shown,) = EventAccumulator(str(tmp_path / "tb")).Reload().Images("video")
    assert (shown.step, shown.width, shown.height) == (100, 240, 150)
    with Image.open(io.BytesIO(shown.encoded_image_string)) as animation:
        assert animation.format == "GIF"
        assert animation.n_frames == 45  # every second frame: at most sixty


def test_the_whole_folder_is_imported_and_used_without_torch(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from ludus.tracking import background, following, jsonl, logs, machine, progress\n"
        "from ludus.tracking import tensorboard, tracker, wandb\n"
        "assert 'tensorboard' not in sys.modules\n"
        f"tensorboard.TensorBoardTracker({str(tmp_path)!r}).close()\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

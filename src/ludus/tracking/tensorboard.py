"""TensorBoard event files, written with TensorBoard's own record writer (torch is not needed).

A resumed run writes a new event file whose first event makes readers discard what the interrupted run wrote
after the checkpoint, so the curves show every step once.
"""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ludus.tracking.tracker import CLOCK, RowValue
from ludus.types import Array

_FLUSH_SECONDS = 10.0
_HEADLINES = ("eval/mean_reward", "rollout/ep_rew_mean")
_BINS = 30
_MAX_TENSORS = 100
_MAX_VALUES = 200_000  # most values of one tensor in a histogram
_FRAMES, _FRAME_WIDTH, _FRAMES_PER_SECOND = 60, 240, 10
_log = logging.getLogger("ludus.tracking")


class TensorBoardTracker:
    """Writes into a new event file under `directory`: scalars, weights as histograms, videos, hyperparameters.

    `resumed_at` is the env step of the checkpoint a run continues from: older event files in `directory`
    count up to and including that step, no further. `hyperparameters` are shown for the run named `name`.
    """

    def __init__(
        self,
        directory: str | Path,
        resumed_at: int | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        name: str = "",
    ) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore[import-untyped]
        from tensorboard.compat.proto.summary_pb2 import (  # type: ignore[import-untyped]
            HistogramProto,
            Summary,
        )
        from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

        self._event, self._summary, self._histogram = Event, Summary, HistogramProto
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        # readers take the files in the order of their names: the count keeps two within a second in order
        count = sum(1 for _ in directory.glob("events.out.tfevents.*"))
        path = directory / f"events.out.tfevents.{int(time.time()):010d}.{count:04d}"
        self._writer = RecordWriter(path.open("xb"))
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        if resumed_at is not None:
            restart = SessionLog(status=SessionLog.START)
            self._write(Event(wall_time=time.time(), step=resumed_at + 1, session_log=restart))
        if hyperparameters:
            self._write_hyperparameters(hyperparameters, name)
        self._flush()

    def row(self, row: Mapping[str, RowValue], step: int) -> None:
        """Write the row's metrics at `step`; text and missing values are left out."""
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in row.items()
            if name not in CLOCK and isinstance(value, int | float)
        ]
        if values:
            self._write(self._event(wall_time=time.time(), step=step, summary=self._summary(value=values)))
        if time.monotonic() - self._flushed >= _FLUSH_SECONDS:
            self._flush()

    def checkpoint(self, path: Path, step: int, *, best: bool) -> None:
        """Write the policy's weights as histograms, one per tensor."""
        values = [
            self._summary.Value(tag=f"weights/{name}", histo=self._counted(array))
            for name, array in _weights(path)
        ]
        if values:
            self._write(self._event(wall_time=time.time(), step=step, summary=self._summary(value=values)))

    def video(self, path: Path, step: int) -> None:
        """Add the video to the images, small and short. Without the extra `video` only GIFs are shown."""
        animation = _animation(path)
        if animation is None:
            return
        data, width, height = animation
        image = self._summary.Image(height=height, width=width, colorspace=3, encoded_image_string=data)
        value = self._summary.Value(tag="video", image=image)
        self._write(self._event(wall_time=time.time(), step=step, summary=self._summary(value=[value])))

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()

    def _write_hyperparameters(self, values: Mapping[str, Any], name: str) -> None:
        from tensorboard.plugins.hparams import summary_v2  # type: ignore[import-untyped]

        plain = {
            key: value if isinstance(value, int | float | str) else str(value)
            for key, value in values.items()
        }
        shown = [summary_v2.Metric(metric) for metric in _HEADLINES]
        for summary in (
            summary_v2.hparams_config_pb(hparams=[], metrics=shown),
            summary_v2.hparams_pb(plain, trial_id=name or None),
        ):
            # TensorBoard's stand-in for TensorFlow has a Summary of its own; the bytes are the same
            again = self._summary.FromString(summary.SerializeToString())
            self._write(self._event(wall_time=time.time(), summary=again))

    def _counted(self, values: Array) -> Any:
        counts, edges = np.histogram(values, bins=_BINS)
        return self._histogram(
            min=float(values.min()),
            max=float(values.max()),
            num=float(values.size),
            sum=float(values.sum()),
            sum_squares=float(np.square(values).sum()),
            bucket_limit=edges[1:].tolist(),
            bucket=counts.astype(float).tolist(),
        )

    def _write(self, event: object) -> None:
        self._writer.write(event.SerializeToString())  # type: ignore[attr-defined]

    def _flush(self) -> None:
        self._writer.flush()
        self._flushed = time.monotonic()


def _weights(checkpoint: Path) -> Iterator[tuple[str, Array]]:
    """The floating-point tensors of a checkpoint's policy by name, large ones thinned."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(checkpoint / "policy.safetensors", framework="numpy") as tensors:
            for name in list(tensors.keys())[:_MAX_TENSORS]:
                array = np.asarray(tensors.get_tensor(name))
                if array.dtype.kind != "f" or array.size == 0:
                    continue
                flat = array.reshape(-1)[:: -(-array.size // _MAX_VALUES)].astype(np.float64)
                if np.isfinite(flat).all():
                    yield name, flat
    except (OSError, SafetensorError, TypeError, ValueError) as error:
        # pruned meanwhile, or of a dtype that NumPy lacks: skip the histograms
        _log.debug("no histograms of %s: %s", checkpoint, error)


def _animation(path: Path) -> tuple[bytes, int, int] | None:
    """The video as a GIF, with its width and height: TensorBoard shows no other moving pictures."""
    try:
        from PIL import Image

        if path.suffix == ".gif":
            with Image.open(path) as image:
                return path.read_bytes(), image.width, image.height
        import av

        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            apart = max(1, -(-(stream.frames or _FRAMES) // _FRAMES))
            frames = []
            for index, frame in enumerate(container.decode(stream)):
                if index % apart == 0:
                    height = max(1, round(frame.height * _FRAME_WIDTH / frame.width))
                    picture: Any = frame
                    frames.append(picture.to_image(width=_FRAME_WIDTH, height=height))
    except ImportError:
        return None
    except Exception as error:  # an unreadable video must not stop the tracker
        _log.debug("no video of %s: %s", path, error)
        return None
    if not frames:
        return None
    target = io.BytesIO()
    rest = frames[1:]
    frames[0].save(
        target, "GIF", save_all=True, append_images=rest, duration=1000 // _FRAMES_PER_SECOND, loop=0
    )
    return target.getvalue(), frames[0].width, frames[0].height

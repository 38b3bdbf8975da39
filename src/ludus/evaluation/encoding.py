"""Encoding of pictures to a file: an H.264 MP4 that browsers can stream, or a GIF."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ludus.errors import MissingExtra, UserError
from ludus.types import Array

SUFFIXES = (".mp4", ".gif")
_BT601 = 6  # the matrix between RGB and YUV; without it, players guess from the size
_THREADS = 2
# half the work of the preset veryfast, with files a third larger; some options of ultrafast are undone
_X264 = "cabac=1:aq-mode=1:mbtree=1:rc-lookahead=5"
_GIF_FPS = 25  # a GIF counts in hundredths of a second, and every frame adds to its size


def require_video() -> None:
    """Raise MissingExtra if videos cannot be written."""
    try:
        import av  # noqa: F401
    except ImportError:
        raise MissingExtra("writing a video", "video") from None


def check_name(path: Path, where: str) -> None:
    """Raise UserError unless the name has the suffix of a video."""
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"invalid video name '{path.name}'", where=where, fix="end the name in .mp4 or .gif")


class VideoWriter:
    """A video file to which frames are appended; its name ends in .mp4 or .gif. Use it in a `with` statement.

    `rate` is the file's own frames per second. H.264 is encoded in threads of the encoder while the next frame is
    drawn.

    The file is created atomically when the block ends without an error, otherwise not at all.
    """

    def __init__(self, path: Path, fps: int) -> None:
        require_video()
        self._path, self._partial = path, path.with_name(f".{path.name}.partial")
        self._gif = path.suffix.lower() == ".gif"
        self._every = max(1, round(fps / _GIF_FPS)) if self._gif else 1
        self.rate = max(1, round(fps / self._every))
        self._container: Any = None
        self._stream: Any = None
        self._last: Array | None = None
        self.frames = 0  # passed to `write`
        self.written = 0  # a GIF skips some

    def __enter__(self) -> VideoWriter:
        import av

        self._path.parent.mkdir(parents=True, exist_ok=True)
        kind, options = ("gif", {}) if self._gif else ("mp4", {"movflags": "+faststart"})
        self._container = av.open(str(self._partial), "w", format=kind, options=options)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._stream is not None:
                for packet in self._stream.encode():
                    self._container.mux(packet)
            self._container.close()
            if kind is None:
                self._partial.replace(self._path)
        finally:
            self._partial.unlink(missing_ok=True)

    def write(self, frame: Any) -> None:
        """Append one RGB picture; all have the size of the first."""
        self._last = picture = _even(frame)
        self.frames += 1
        if (self.frames - 1) % self._every:
            return
        if self._stream is None:
            self._stream = self._add_stream(picture)
        self.written += 1
        for packet in self._stream.encode(self._as_frame(picture)):
            self._container.mux(packet)

    def repeat(self) -> None:
        """Append the last frame again."""
        if self._last is not None:
            self.write(self._last)

    def _add_stream(self, picture: Array) -> Any:
        stream = self._container.add_stream("gif" if self._gif else "libx264", rate=self.rate)
        stream.height, stream.width = picture.shape[:2]
        stream.pix_fmt = "pal8" if self._gif else "yuv420p"  # the only format that every browser plays
        if not self._gif:
            stream.options = {"crf": "20", "preset": "ultrafast", "x264-params": _X264}
            stream.codec_context.colorspace = _BT601
            # encode several frames in parallel while the next one is drawn
            stream.codec_context.thread_type, stream.codec_context.thread_count = "FRAME", _THREADS
        return stream

    def _as_frame(self, picture: Array) -> Any:
        return _indexed(picture) if self._gif else _in_planes(picture)


def _in_planes(picture: Array) -> Any:
    """Return a frame in the format of H.264. Our own kernel is five times as fast as the library's scaler."""
    import av

    from ludus.evaluation.pixels import to_planes

    frame: Any = av.VideoFrame(picture.shape[1], picture.shape[0], "yuv420p")
    frame.colorspace = _BT601
    planes = (
        np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[:, : plane.width]
        for plane in frame.planes
    )
    to_planes(picture, *planes)
    return frame


def _indexed(picture: Array) -> Any:
    """Return a frame in the format of a GIF: at most 256 colours."""
    import av
    from PIL import Image

    # no dithering: it would look like noise from frame to frame
    indexed = Image.fromarray(picture).quantize(
        256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
    )
    colors = np.full((256, 4), 255, np.uint8)  # ARGB
    palette = np.array(indexed.getpalette("RGB"), np.uint8).reshape(-1, 3)
    colors[: len(palette), 1:] = palette
    pair: Any = (np.asarray(indexed), colors)
    return av.VideoFrame.from_ndarray(pair, format="pal8")


def _even(frame: Any) -> Array:
    """Return the frame as RGB bytes with even sides, as H.264 requires, by dropping a last row or column."""
    picture = np.asarray(frame)
    if picture.ndim != 3 or picture.shape[2] < 3:
        raise not_a_picture(frame)
    height, width = picture.shape[0] // 2 * 2, picture.shape[1] // 2 * 2
    return np.ascontiguousarray(picture[:height, :width, :3], dtype=np.uint8)


def not_a_picture(frame: Any) -> UserError:
    """Return the error for an env that does not render pictures."""
    return UserError(
        f"expected an RGB picture from the env's render, got shape {np.shape(frame)}",
        where="env.render()",
        fix="give the env a render mode 'rgb_array'",
    )

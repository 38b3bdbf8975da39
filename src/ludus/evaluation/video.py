"""Films a policy: H.264 MP4 that browsers play."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from ludus.errors import MissingExtra, UserError
from ludus.evaluation.evaluate import Actor, Game, choose, guarded
from ludus.evaluation.screen import prepare_pygame
from ludus.types import Array


@dataclass(frozen=True)
class Film:
    """A written video."""

    path: Path
    frames: int
    rewards: list[float]


def require_video() -> None:
    """MissingExtra unless videos can be written."""
    try:
        import av  # noqa: F401
    except ImportError:
        raise MissingExtra("writing a video", "video") from None


def record_video(
    actor: Actor,
    make_env: Callable[[], gym.Env[Any, Any]],
    path: Path,
    *,
    seed: int = 0,
    episodes: int = 1,
    max_frames: int | None = None,
    deterministic: bool = True,
) -> Film:
    """Play `episodes` episodes, at most `max_frames` frames, and write them to `path`.

    `make_env` builds an env whose render mode is rgb_array. The file appears whole or not at all.
    """
    require_video()
    prepare_pygame()
    env = make_env()
    fps = int(env.metadata.get("render_fps") or 30)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    rewards: list[float] = []
    try:
        with _Writer(partial, fps) as writer:
            for episode in range(episodes):
                if max_frames is not None and writer.frames >= max_frames:
                    break
                rewards.append(_film_episode(actor, env, seed + episode, writer, max_frames, deterministic))
            rest = fps // 2 if max_frames is None else min(fps // 2, max_frames - writer.frames)
            for _ in range(rest):  # let the end be seen
                writer.repeat()
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
        env.close()
    return Film(path, writer.frames, rewards)


def _film_episode(
    actor: Actor,
    env: gym.Env[Any, Any],
    seed: int,
    writer: _Writer,
    max_frames: int | None,
    deterministic: bool,
) -> float:
    game = Game(env, seed)
    writer.write(guarded(env, seed, "render"))
    over = False
    while not over and (max_frames is None or writer.frames < max_frames):
        over = game.step(choose(actor, [game], deterministic=deterministic)[0]) is not None
        writer.write(guarded(env, seed, "render"))
    return game.reward


class _Writer:
    """An MP4 file that frames are appended to."""

    def __init__(self, path: Path, fps: int) -> None:
        self._path = path
        self._fps = fps
        self._container: Any = None
        self._stream: Any = None
        self._last: Any = None
        self.frames = 0

    def __enter__(self) -> _Writer:
        import av

        self._container = av.open(str(self._path), "w", format="mp4")
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._stream is not None:
            for packet in self._stream.encode():
                self._container.mux(packet)
        self._container.close()

    def write(self, frame: Any) -> None:
        import av

        picture = _even(frame)
        if self._stream is None:
            self._stream = self._container.add_stream("libx264", rate=self._fps)
            self._stream.width, self._stream.height = picture.shape[1], picture.shape[0]
            self._stream.pix_fmt = "yuv420p"  # the one format every browser plays
            self._stream.options = {"crf": "20", "preset": "veryfast"}
        self._last = picture
        for packet in self._stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
            self._container.mux(packet)
        self.frames += 1

    def repeat(self) -> None:
        """The last frame once more."""
        if self._last is not None:
            self.write(self._last)


def _even(frame: Any) -> Array:
    """The frame as RGB bytes whose sides H.264 accepts: even, by dropping a last row or column."""
    picture = np.asarray(frame)
    if picture.ndim != 3 or picture.shape[2] < 3:
        raise UserError(
            f"the env renders {picture.shape} instead of an RGB picture",
            where="env.render()",
            fix="give the env a render mode 'rgb_array'",
        )
    height, width = picture.shape[0] // 2 * 2, picture.shape[1] // 2 * 2
    return np.ascontiguousarray(picture[:height, :width, :3], dtype=np.uint8)

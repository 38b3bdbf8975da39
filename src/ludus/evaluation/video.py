"""Records videos of one or several policies, with or without a panel of numbers and live plots."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from ludus.envs.seeds import EpisodeSeed, following_seed
from ludus.envs.signals import Signals, signals_of
from ludus.envs.user_code import build, close_env, guarded
from ludus.errors import UserError
from ludus.evaluation.encoding import VideoWriter, not_a_picture, require_video
from ludus.evaluation.episode_trace import EpisodeTrace, TraceStep
from ludus.evaluation.evaluate import Actor
from ludus.evaluation.overlay import ink, panel
from ludus.evaluation.overlay.data import PanelData, PanelFeed
from ludus.evaluation.policy_outputs import PolicyProbe
from ludus.evaluation.screen import prepare_pygame
from ludus.types import Array

__all__ = ["RecordedVideo", "Scene", "record_scenes", "record_video", "require_video"]

Env = gym.Env[Any, Any]
_BETWEEN = 4  # pixels from one scene to the next
_CAPTION = 26
_FAST_FPS = 30  # at this rate a step is one pixel of a plot


@dataclass(frozen=True)
class Scene:
    """A policy and its env, whose render mode is rgb_array. `title` and `subtitle` are shown.

    `reward_scale`: see `PolicyProbe`. `max_steps`: see `step_limit`.
    """

    actor: Actor
    make_env: Callable[[], Env]
    title: str = ""
    subtitle: str = ""
    reward_scale: float | None = 1.0
    max_steps: int | None = None


@dataclass(frozen=True)
class RecordedVideo:
    """A written video, the rewards of each scene's episodes, and how many endless episodes were cut."""

    path: Path
    frames: int
    fps: int
    rewards_of: tuple[list[float], ...]
    capped: int = 0

    @property
    def rewards(self) -> list[float]:
        """The rewards of the first scene."""
        return self.rewards_of[0]

    @property
    def seconds(self) -> float:
        return self.frames / self.fps


def record_video(
    actor: Actor,
    make_env: Callable[[], Env],
    path: Path,
    *,
    seed: EpisodeSeed = 0,
    episodes: int = 1,
    max_frames: int | None = None,
    max_steps: int | None = None,
    deterministic: bool = True,
) -> RecordedVideo:
    """Play `episodes` episodes, at most `max_frames` frames, and write them to `path`; `max_steps`: see `Scene`.

    `make_env` builds an env whose render mode is rgb_array. The file is written atomically.
    """
    return record_scenes(
        [Scene(actor, make_env, max_steps=max_steps)],
        path,
        seed=seed,
        episodes=episodes,
        max_frames=max_frames,
        deterministic=deterministic,
    )


def record_scenes(
    scenes: Sequence[Scene],
    path: Path,
    *,
    seed: EpisodeSeed = 0,
    episodes: int = 1,
    max_frames: int | None = None,
    deterministic: bool = True,
    overlay: bool = False,
    on_frame: Callable[[int], None] | None = None,
    on_panel: Callable[[int, PanelData], None] | None = None,
) -> RecordedVideo:
    """Record all `scenes` in one picture, each from the same seeds, as MP4, or as GIF if `path` ends in .gif.

    A scene whose episode is over waits for the others. The global random generators are restored afterwards.
    `on_frame` is called with the number of frames so far, `on_panel` with the index of a scene and its panel.
    """
    require_video()
    prepare_pygame()
    with _randomness_kept(), ExitStack() as open_envs:
        tiles: list[_Tile] = []
        for scene in scenes:
            env = build(scene.make_env)
            open_envs.callback(close_env, env)
            on_tile_panel = None if on_panel is None else partial(on_panel, len(tiles))
            tiles.append(_Tile(scene, env, overlay, alone=len(scenes) == 1, on_panel=on_tile_panel))
        fps = _fps(tiles[0].env)
        with VideoWriter(path, fps) as writer:
            for frame in _frames(tiles, seed, episodes, deterministic):
                writer.write(frame)
                if on_frame is not None:
                    on_frame(writer.frames)
                if writer.frames == max_frames:
                    break
            for tile in tiles:
                tile.end()
            rest = fps // 2 if max_frames is None else min(fps // 2, max_frames - writer.frames)
            for _ in range(rest):  # hold the last frame
                writer.repeat()
    return RecordedVideo(
        path,
        writer.written,
        writer.rate,
        tuple(tile.rewards for tile in tiles),
        sum(tile.capped for tile in tiles),
    )


def _frames(tiles: Sequence[_Tile], seed: EpisodeSeed, episodes: int, deterministic: bool) -> Iterator[Array]:
    for episode in range(episodes):
        note = f"episode {episode + 1} of {episodes}" if episodes > 1 else f"seed {seed}"
        for tile in tiles:
            tile.begin(following_seed(seed, episode), note, deterministic)
        while any([tile.advance() for tile in tiles]):  # a list: every tile advances
            yield _side_by_side([tile.frame for tile in tiles])


class _Tile:
    """One scene of a video: its env, its episode and its current frame."""

    def __init__(
        self,
        scene: Scene,
        env: Env,
        overlay: bool,
        *,
        alone: bool,
        on_panel: Callable[[PanelData], None] | None,
    ) -> None:
        self._scene, self.env, self._on_panel = scene, env, on_panel
        self._caption = "" if alone or overlay else "  ·  ".join(filter(None, (scene.title, scene.subtitle)))
        self._arrangement: panel.Arrangement = "right" if alone else "below"
        self._signals = signals_of(env) if overlay else Signals()
        self._probe = PolicyProbe(scene.actor, scene.reward_scale) if overlay else None
        self._feed = (
            PanelFeed(scene.title or _name(env), scene.subtitle, self._signals, env.action_space)
            if overlay
            else None
        )
        self._panel: panel.Panel | None = None
        self._size: tuple[int, ...] = ()
        self._trace: EpisodeTrace | None = None
        self._steps: Iterator[TraceStep] = iter(())
        self.frame: Array = np.zeros((2, 2, 3), np.uint8)
        self.rewards: list[float] = []
        self.capped = 0

    def begin(self, seed: EpisodeSeed, note: str, deterministic: bool) -> None:
        """Start an episode and end the previous one."""
        self.end()
        self._seed = seed
        self._trace = EpisodeTrace(
            self._scene.actor,
            self.env,
            seed,
            self._signals,
            probe=self._probe,
            deterministic=deterministic,
            max_steps=self._scene.max_steps,
        )
        self._steps = iter(self._trace)
        if self._feed is not None:
            self._feed.begin(note)

    def end(self) -> None:
        """Record the reward of the episode, also if it was cut."""
        if self._trace is not None:
            self.rewards.append(self._trace.reward)
        self._trace = None

    def advance(self) -> bool:
        """Draw the next step into `frame`. Returns False if the episode is over."""
        trace_step = next(self._steps, None)
        if trace_step is None:
            return False
        self.capped += trace_step.ended == "cut"
        picture = self._picture()
        if self._feed is not None:
            data = self._feed.take(trace_step)
            if self._on_panel is not None:
                self._on_panel(data)
            picture = self._with_panel(picture, data)
        elif self._caption:
            picture = _captioned(picture, self._caption)
        self.frame = picture
        return True

    def _picture(self) -> Array:
        """Render the env. Raises UserError if the size differs from the first picture."""
        frame = guarded(self.env, self._seed, "render")
        picture = np.asarray(frame)
        if picture.ndim != 3 or picture.shape[2] < 3:
            raise not_a_picture(frame)
        self._size = self._size or picture.shape
        if picture.shape != self._size:
            raise UserError(
                f"picture size changed: {self._size[1]}x{self._size[0]}, then {picture.shape[1]}x{picture.shape[0]}",
                where="env.render()",
                fix="render all pictures of the env in one size",
            )
        return picture[:, :, :3]

    def _with_panel(self, picture: Array, data: PanelData) -> Array:
        if self._arrangement == "right":
            picture = _enlarged(picture, math.ceil(panel.LEAST_HEIGHT / picture.shape[0]))
            width, height = panel.RIGHT_WIDTH, picture.shape[0]
        else:
            picture = _enlarged(picture, panel.LEAST_WIDTH // picture.shape[1])
            picture = _padded(picture, picture.shape[0], max(picture.shape[1], panel.LEAST_WIDTH))
            width, height = picture.shape[1], panel.BELOW_HEIGHT
        if self._panel is None:
            stride = max(1, round(_FAST_FPS / _fps(self.env)))
            self._panel = panel.Panel(data, width, height, self._arrangement, stride)
        on_the_right = self._arrangement == "right"
        tall, wide = picture.shape[:2]
        whole = np.empty((tall, wide + width, 3) if on_the_right else (tall + height, wide, 3), np.uint8)
        whole[:tall, :wide] = picture
        self._panel.draw(data, whole[:, wide:] if on_the_right else whole[tall:])
        return whole


def _fps(env: Env) -> int:
    return int(env.metadata.get("render_fps") or 30)


def _name(env: Env) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def _enlarged(picture: Array, times: int) -> Array:
    return picture if times <= 1 else picture.repeat(times, axis=0).repeat(times, axis=1)


def _padded(picture: Array, height: int, width: int) -> Array:
    """Return the picture in the middle of a background of this size."""
    missing = height - picture.shape[0], width - picture.shape[1]
    if missing == (0, 0):
        return picture
    ground = np.empty((height, width, 3), np.uint8)
    ground[...] = ink.GROUND
    top, left = missing[0] // 2, missing[1] // 2
    ground[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return ground


def _captioned(picture: Array, words: str) -> Array:
    strip = np.empty((_CAPTION, picture.shape[1], 3), np.uint8)
    strip[...] = ink.GROUND
    ink.write(strip, ink.fitted(words, 13, picture.shape[1] - 16), 8, 5, 13)
    return np.concatenate([strip, picture])


def _side_by_side(pictures: Sequence[Array]) -> Array:
    """Arrange up to three pictures in a row, more in a square."""
    if len(pictures) == 1:
        return pictures[0]
    columns = len(pictures) if len(pictures) <= 3 else math.ceil(math.sqrt(len(pictures)))
    height, width = (max(picture.shape[side] for picture in pictures) for side in (0, 1))
    rows = math.ceil(len(pictures) / columns)
    whole = np.empty(
        (rows * (height + _BETWEEN) - _BETWEEN, columns * (width + _BETWEEN) - _BETWEEN, 3), np.uint8
    )
    whole[...] = ink.TRACK
    for index in range(rows * columns):
        top, left = index // columns * (height + _BETWEEN), index % columns * (width + _BETWEEN)
        place = whole[top : top + height, left : left + width]
        place[...] = _padded(pictures[index], height, width) if index < len(pictures) else ink.GROUND
    return whole


@contextmanager
def _randomness_kept() -> Iterator[None]:
    """Restore the global random generators afterwards, so that a video does not change the training around it."""
    python, legacy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)
        torch.set_rng_state(cpu)
        if gpus:
            torch.cuda.set_rng_state_all(gpus)

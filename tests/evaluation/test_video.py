"""Videos: an MP4 that can be decoded, with every frame, and never an incomplete file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from ludus.envs import signals
from ludus.envs.signals import Signal, register_signals
from ludus.errors import EnvFault, UserError
from ludus.evaluation.analysis.recording import record_episodes
from ludus.evaluation.overlay.data import PanelData
from ludus.evaluation.overlay.panel import Panel
from ludus.evaluation.video import Scene, record_scenes, record_video
from ludus.types import Array

av = pytest.importorskip("av")

FPS = 10


class Screen(gym.Env[Any, Any]):
    """Renders a grey that brightens by 10 with every step of an episode of `length` steps."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": FPS}  # noqa: RUF012
    render_mode = "rgb_array"
    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length: int = 6, size: tuple[int, int] = (32, 48), fails_at: int = -1) -> None:
        self.length, self.size, self.fails_at = length, size, fails_at
        self.closed = False

    def reset(self, **kwargs: Any) -> tuple[Any, Any]:
        self.age = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.age += 1
        if self.age == self.fails_at:
            raise RuntimeError("the screen went dark")
        return np.zeros(1, np.float32), 1.0, self.age == self.length, False, {}

    def render(self) -> Any:
        return np.full((*self.size, 3), 20 + 10 * self.age, np.uint8)

    def close(self) -> None:
        self.closed = True


class Still:
    def predict(self, obs: Any, mask: Any = None, deterministic: bool = True) -> Array:
        return np.zeros(len(obs), np.int64)


def frames(path: Path) -> list[Array]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def test_video_can_be_decoded_and_has_every_frame(tmp_path: Path) -> None:
    path = tmp_path / "videos" / "video.mp4"
    video = record_video(Still(), Screen, path)
    decoded = frames(path)
    assert video.path == path and video.rewards == [6.0]
    assert len(decoded) == video.frames == 7 + FPS // 2  # the start, six steps, half a second to see the end
    greys = [round(float(frame.mean())) for frame in decoded]
    assert greys == pytest.approx([20, 30, 40, 50, 60, 70, 80, 80, 80, 80, 80, 80], abs=4)
    assert [p.name for p in path.parent.iterdir()] == ["video.mp4"]
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name == "h264" and stream.codec_context.pix_fmt == "yuv420p"
        assert stream.average_rate == FPS


def test_several_episodes_are_in_one_video(tmp_path: Path) -> None:
    video = record_video(Still(), Screen, tmp_path / "video.mp4", episodes=3)
    assert video.rewards == [6.0] * 3 and len(frames(video.path)) == video.frames == 3 * 7 + FPS // 2


@pytest.mark.parametrize("limit", [1, 4, 7, 9, 100])
def test_video_is_not_longer_than_max_frames(tmp_path: Path, limit: int) -> None:
    video = record_video(Still(), Screen, tmp_path / "video.mp4", episodes=1, max_frames=limit)
    assert len(frames(video.path)) == video.frames == min(limit, 7 + FPS // 2)


def test_episodes_that_do_not_end_are_cut(tmp_path: Path) -> None:
    video = record_video(Still(), Screen, tmp_path / "video.mp4", episodes=2, max_steps=3)
    assert video.rewards == [3.0, 3.0] and video.capped == 2


def test_odd_sizes_lose_a_row_and_a_column(tmp_path: Path) -> None:
    video = record_video(Still(), lambda: Screen(size=(33, 49)), tmp_path / "video.mp4")
    assert frames(video.path)[0].shape == (32, 48, 3)


@pytest.mark.parametrize("fails_at", [1, 4])
def test_failure_leaves_no_file_and_keeps_an_older_video(tmp_path: Path, fails_at: int) -> None:
    path = tmp_path / "video.mp4"
    env = Screen(fails_at=fails_at)
    with pytest.raises(EnvFault, match="the screen went dark"):
        record_video(Still(), lambda: env, path)
    assert not list(tmp_path.iterdir()) and env.closed
    path.write_bytes(b"older")
    with pytest.raises(EnvFault):
        record_video(Still(), lambda: Screen(fails_at=fails_at), path)
    assert path.read_bytes() == b"older" and [p.name for p in tmp_path.iterdir()] == ["video.mp4"]


@pytest.mark.parametrize("picture", [None, np.zeros((4, 4)), "text"])
def test_render_that_is_not_a_picture_raises(tmp_path: Path, picture: Any) -> None:
    class Blind(Screen):
        def render(self) -> Any:
            return picture

    with pytest.raises(UserError, match="expected an RGB picture"):
        record_video(Still(), Blind, tmp_path / "video.mp4")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("overlay", [True, False])
def test_pictures_of_changing_size_raise(tmp_path: Path, overlay: bool) -> None:
    class Growing(Screen):
        def render(self) -> Any:
            return np.zeros((32 + 2 * (self.age > 2), 48, 3), np.uint8)

    with pytest.raises(UserError, match="48x32, then 48x34"):
        record_scenes([Scene(Still(), Growing)], tmp_path / "video.mp4", overlay=overlay)
    assert not list(tmp_path.iterdir())


def test_video_can_be_streamed(tmp_path: Path) -> None:
    data = record_video(Still(), Screen, tmp_path / "video.mp4").path.read_bytes()
    assert 0 < data.find(b"moov") < data.find(b"mdat")


def test_a_gif_has_the_colors_and_half_the_frames_of_a_fast_env(tmp_path: Path) -> None:
    slow = record_video(Still(), Screen, tmp_path / "slow.gif")
    assert slow.frames == len(frames(slow.path)) == 7 + FPS // 2 and slow.fps == FPS
    greys = [round(float(frame.mean())) for frame in frames(slow.path)]
    assert greys[:7] == [20, 30, 40, 50, 60, 70, 80]

    class Fast(Screen):
        metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012

    fast = record_video(Still(), Fast, tmp_path / "fast.gif")
    assert fast.fps == 25 and fast.frames == len(frames(fast.path)) == (7 + 25) // 2


def test_overlay_shows_the_recorded_numbers_in_every_frame(tmp_path: Path) -> None:
    """The walker with a real policy: the same numbers as `ludus analyze` records, frame by frame."""
    import torch

    from ludus.config.schema import TrainerConfig
    from ludus.envs.make import EnvSpec
    from ludus.evaluation.load import new_learner

    spec = EnvSpec("BipedalWalker-v3", render_mode="rgb_array", max_episode_steps=25).resolve()
    env = spec()
    torch.manual_seed(5)
    policy = new_learner(
        TrainerConfig(env="BipedalWalker-v3"), env.observation_space, env.action_space
    ).policy
    env.close()
    scene = Scene(policy.eval(), spec, "walker", reward_scale=2.0)
    shown: list[PanelData] = []
    video = record_scenes(
        [scene],
        tmp_path / "video.mp4",
        seed=7,
        episodes=2,
        overlay=True,
        on_panel=lambda number, panel: shown.append(panel),
    )
    recording = record_episodes(policy, spec, [7, 8], reward_scale=2.0)
    decoded = frames(video.path)
    assert len(shown) == 52 and len(decoded) == video.frames == 52 + 25
    assert decoded[0].shape == (400, 1000, 3) and video.rewards == recording.rewards
    panel = Panel(shown[0], 400, 400, "right")
    drawn = [panel.draw(data).astype(int) for data in shown]
    for at in (
        0,
        20,
        25,
        26,
        51,
    ):  # the file shows what was drawn for this trace step
        distances = [np.abs(decoded[at][:, 600:] - picture).mean() for picture in drawn]
        assert distances[at] == min(distances) < 3.0
    columns = recording.columns
    for episode in (0, 1):
        panels, rows = shown[26 * episode : 26 * (episode + 1)], slice(25 * episode, 25 * (episode + 1))
        assert [panel.step for panel in panels] == list(range(26))
        assert [panel.reward for panel in panels] == [0.0, *columns["reward"][rows]]
        assert [panel.total for panel in panels] == pytest.approx([0.0, *columns["return"][rows]])
        assert [panel.value for panel in panels[:-1]] == columns["value"][rows].tolist()
        for index, column in enumerate(recording.action_columns):
            assert [panel.bars[index].value for panel in panels[:-1]] == columns[column][rows].tolist()
        for index, column in enumerate(recording.signal_columns):
            assert [panel.signals[index].value for panel in panels[:-1]] == columns[column][rows].tolist()
        assert panels[-1].value is None and panels[-1].ended == "truncated"


def test_small_picture_is_enlarged_next_to_its_panel(tmp_path: Path) -> None:
    video = record_scenes([Scene(Still(), Screen)], tmp_path / "video.mp4", overlay=True)
    first = frames(video.path)[0]
    assert first.shape == (32 * 13, 48 * 13 + 400, 3) and abs(first[:, : 48 * 13].mean() - 20) < 4


@pytest.mark.parametrize("overlay", [True, False])
def test_scenes_side_by_side_wait_for_each_other(tmp_path: Path, overlay: bool) -> None:
    scenes = [Scene(Still(), lambda n=n: Screen(n), f"of {n}") for n in (3, 6)]
    video = record_scenes(scenes, tmp_path / "video.mp4", overlay=overlay, episodes=2)
    assert video.rewards_of == ([3.0, 3.0], [6.0, 6.0]) and video.frames == 2 * 7 + FPS // 2
    decoded = frames(video.path)
    tile = 560 if overlay else 48
    assert decoded[0].shape[1] == 2 * tile + 4
    top = 0 if overlay else 26
    left, right = (
        decoded[6][top + 4 : top + 24, x + tile // 2 - 8 : x + tile // 2 + 8] for x in (0, tile + 4)
    )
    assert abs(left.mean() - 50) < 6 and abs(right.mean() - 80) < 6  # the first stays at its third step


def test_four_scenes_make_a_square(tmp_path: Path) -> None:
    video = record_scenes([Scene(Still(), Screen)] * 4, tmp_path / "video.mp4", max_frames=2)
    assert frames(video.path)[0].shape == (2 * 32 + 4, 2 * 48 + 4, 3) and len(video.rewards_of) == 4


def test_recording_does_not_change_global_random_generators(tmp_path: Path) -> None:
    import random

    import torch

    class Dicey(Screen):
        def step(self, action: Any) -> Any:
            random.random(), np.random.rand(), torch.rand(1)
            return super().step(action)

    def states() -> list[str]:
        return [str(random.getstate()), str(np.random.get_state()), str(torch.get_rng_state().tolist())]

    before = states()
    record_video(Still(), Dicey, tmp_path / "video.mp4")
    assert states() == before
    with pytest.raises(EnvFault):
        record_video(Still(), lambda: Dicey(fails_at=3), tmp_path / "video.mp4")
    assert states() == before


def test_failing_signal_raises_env_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "_registry", list(signals._registry))
    register_signals("Screen", [Signal("height", lambda env, obs, info: env.no_such_thing)])
    with pytest.raises(EnvFault, match="a signal raised AttributeError"):
        record_scenes([Scene(Still(), Screen)], tmp_path / "video.mp4", overlay=True)
    assert not list(tmp_path.iterdir())


def test_run_records_videos_and_continues_if_recording_fails(tmp_path: Path) -> None:
    from ludus.config.schema import TrainerConfig
    from ludus.training.factory import create_trainer

    config = TrainerConfig(
        env="CartPole-v1",
        n_envs=1,
        total_timesteps=256,
        hyperparams={"n_steps": 64, "n_epochs": 1, "policy_net_arch": [8], "value_net_arch": [8]},
        video={"every": 128, "length": 20},
        evaluation=None,
        tracking=None,
        save_dir=str(tmp_path),
    )
    trainer = create_trainer(None, config)
    run = trainer.train().run
    trainer.close()
    assert sorted(p.name for p in (run / "videos").iterdir()) == ["000000000128.mp4", "000000000256.mp4"]
    assert len(frames(run / "videos" / "000000000128.mp4")) <= 20

    class Blind(Screen):
        def render(self) -> Any:
            return None

    trainer = create_trainer(Blind, config)
    result = trainer.train()
    trainer.close()
    assert result.status == "finished" and not list((result.run / "videos").glob("*"))
    assert "no video at step 128" in (result.run / "logs" / "train.log").read_text()

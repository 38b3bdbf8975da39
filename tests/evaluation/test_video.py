"""Films: an MP4 that can be decoded, with as many frames as were shown, and never a half-written one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from ludus.errors import EnvFault, UserError
from ludus.evaluation.video import record_video
from ludus.types import Array

av = pytest.importorskip("av")

FPS = 10


class Screen(gym.Env[Any, Any]):
    """Shows a grey that brightens by 10 with every step of an episode of `length` steps."""

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


def test_a_film_can_be_decoded_and_has_every_frame(tmp_path: Path) -> None:
    path = tmp_path / "videos" / "film.mp4"
    film = record_video(Still(), Screen, path)
    decoded = frames(path)
    assert film.path == path and film.rewards == [6.0]
    assert len(decoded) == film.frames == 7 + FPS // 2  # the start, six steps, half a second to see the end
    greys = [round(float(frame.mean())) for frame in decoded]
    assert greys == pytest.approx([20, 30, 40, 50, 60, 70, 80, 80, 80, 80, 80, 80], abs=4)
    assert [p.name for p in path.parent.iterdir()] == ["film.mp4"]
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name == "h264" and stream.codec_context.pix_fmt == "yuv420p"
        assert stream.average_rate == FPS


def test_several_episodes_follow_each_other(tmp_path: Path) -> None:
    film = record_video(Still(), Screen, tmp_path / "film.mp4", episodes=3)
    assert film.rewards == [6.0] * 3 and len(frames(film.path)) == film.frames == 3 * 7 + FPS // 2


@pytest.mark.parametrize("limit", [1, 4, 7, 9, 100])
def test_it_is_never_longer_than_asked(tmp_path: Path, limit: int) -> None:
    film = record_video(Still(), Screen, tmp_path / "film.mp4", episodes=1, max_frames=limit)
    assert len(frames(film.path)) == film.frames == min(limit, 7 + FPS // 2)


def test_odd_sides_lose_a_row_and_a_column(tmp_path: Path) -> None:
    film = record_video(Still(), lambda: Screen(size=(33, 49)), tmp_path / "film.mp4")
    assert frames(film.path)[0].shape == (32, 48, 3)


@pytest.mark.parametrize("fails_at", [1, 4])
def test_a_fault_leaves_no_file_and_an_older_film_alone(tmp_path: Path, fails_at: int) -> None:
    path = tmp_path / "film.mp4"
    env = Screen(fails_at=fails_at)
    with pytest.raises(EnvFault, match="the screen went dark"):
        record_video(Still(), lambda: env, path)
    assert not list(tmp_path.iterdir()) and env.closed
    path.write_bytes(b"older")
    with pytest.raises(EnvFault):
        record_video(Still(), lambda: Screen(fails_at=fails_at), path)
    assert path.read_bytes() == b"older" and [p.name for p in tmp_path.iterdir()] == ["film.mp4"]


@pytest.mark.parametrize("picture", [None, np.zeros((4, 4)), "text"])
def test_what_is_no_picture_is_refused(tmp_path: Path, picture: Any) -> None:
    class Blind(Screen):
        def render(self) -> Any:
            return picture

    with pytest.raises(UserError, match="instead of an RGB picture"):
        record_video(Still(), Blind, tmp_path / "film.mp4")
    assert not list(tmp_path.iterdir())


def test_a_run_films_itself_and_trains_on_when_it_cannot(tmp_path: Path) -> None:
    from ludus.config.schema import TrainerConfig
    from ludus.trainers.factory import create_trainer

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

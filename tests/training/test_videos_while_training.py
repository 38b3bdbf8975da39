"""Films made while training: there at the steps asked for, and the training ends with the bytes it has without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import odd_envs
import pytest
from gymnasium import register
from sb3_runs import tiny_sb3
from tiny_runs import resumed, same, steps_of, tiny, trained

from ludus.runs.directory import RunDirectory

pytest.importorskip("av")


class Shown(odd_envs.DictWalk):
    """Draws from numpy's global generator, as envs should not and some do, whenever it is looked at."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def render(self) -> Any:
        return np.full((20, 30, 3), np.random.randint(256), np.uint8)


register("ShownWalk-v0", Shown)
EVERY = {"checkpoint": {"every": 300, "keep": 0}, "evaluation": {"every": 400, "episodes": 2}}
VIDEO = {"every": 350, "length": 8}

CASES: dict[str, Any] = {
    "ppo": tiny,
    "ppo on an env of odd habits": lambda folder, **fields: tiny(folder, env="ShownWalk-v0", **fields),
    "sb3's crossq, whose layers gather statistics": lambda folder, **fields: tiny_sb3(
        folder, "CrossQ", total_timesteps=400, **fields
    ),
}


def videos(run: RunDirectory) -> list[str]:
    return sorted(path.name for path in run.videos_dir.glob("*.mp4"))


@pytest.mark.parametrize("case", CASES)
def test_recording_videos_does_not_change_training(case: str, tmp_path: Path) -> None:
    plain = trained(CASES[case](tmp_path / "plain", **EVERY))
    recorded = trained(CASES[case](tmp_path / "recorded", **EVERY, video=VIDEO))
    same(plain, recorded)
    assert videos(recorded) and not videos(plain)


def test_the_log_says_at_which_step_the_first_video_is_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "ludus"):
        run = trained(tiny(tmp_path, total_timesteps=256, video={"every": 200, "length": 2}))
    assert any("after the update that reaches its step, the first at step 256" in m for m in caplog.messages)
    assert videos(run) == ["000000000256.mp4"]


def test_a_run_with_videos_resumes_to_the_byte_and_records_the_rest(tmp_path: Path) -> None:
    config = tiny(tmp_path / "whole", checkpoint=EVERY["checkpoint"], video=VIDEO)
    whole = trained(config)
    cut = trained(config.model_copy(update={"save_dir": str(tmp_path / "cut")}))
    for path in cut.videos_dir.iterdir():
        path.unlink()
    middle = steps_of(cut)[1]
    assert resumed(cut, middle) == middle
    same(whole, cut)
    assert videos(cut) == [name for name in videos(whole) if int(name[:12]) > middle]


def test_without_the_overlay_the_picture_is_alone(tmp_path: Path) -> None:
    import av

    run = trained(tiny(tmp_path, env="ShownWalk-v0", video={**VIDEO, "overlay": False}))
    with av.open(str(run.videos_dir / videos(run)[0])) as video:
        assert (video.streams.video[0].height, video.streams.video[0].width) == (20, 30)

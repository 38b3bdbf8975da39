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
FILMS = {"every": 350, "length": 8}

CASES: dict[str, Any] = {
    "ppo": tiny,
    "ppo on an env of odd habits": lambda folder, **fields: tiny(folder, env="ShownWalk-v0", **fields),
    "sb3's crossq, whose layers gather statistics": lambda folder, **fields: tiny_sb3(
        folder, "CrossQ", total_timesteps=400, **fields
    ),
}


def films(run: RunDirectory) -> list[str]:
    return sorted(path.name for path in run.videos_dir.glob("*.mp4"))


@pytest.mark.parametrize("case", CASES)
def test_a_filmed_run_is_the_run_it_would_have_been(case: str, tmp_path: Path) -> None:
    plain = trained(CASES[case](tmp_path / "plain", **EVERY))
    filmed = trained(CASES[case](tmp_path / "filmed", **EVERY, video=FILMS))
    same(plain, filmed)
    assert films(filmed) and not films(plain)


def test_a_filmed_run_resumes_to_the_byte_and_films_the_rest(tmp_path: Path) -> None:
    config = tiny(tmp_path / "whole", checkpoint=EVERY["checkpoint"], video=FILMS)
    whole = trained(config)
    cut = trained(config.model_copy(update={"save_dir": str(tmp_path / "cut")}))
    for path in cut.videos_dir.iterdir():
        path.unlink()
    middle = steps_of(cut)[1]
    assert resumed(cut, middle) == middle
    same(whole, cut)
    assert films(cut) == [name for name in films(whole) if int(name[:12]) > middle]


def test_without_the_overlay_the_picture_is_alone(tmp_path: Path) -> None:
    import av

    run = trained(tiny(tmp_path, env="ShownWalk-v0", video={**FILMS, "overlay": False}))
    with av.open(str(run.videos_dir / films(run)[0])) as film:
        assert (film.streams.video[0].height, film.streams.video[0].width) == (20, 30)

"""`ludus video` and `ludus analyze`: what they write, where, and what they answer to what cannot be done."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from command_line import Command

av = pytest.importorskip("av")


def size(path: Path) -> tuple[int, int]:
    with av.open(str(path)) as video:
        return video.streams.video[0].width, video.streams.video[0].height


def test_a_video_of_a_run_is_saved_among_its_videos_with_the_overlay(ludus: Command, run: Path) -> None:
    outcome = ludus("video", run, "--length", 20, "--json")
    assert outcome.code == 0, outcome.err
    video = Path(outcome.json["video"])
    assert video.parent == run / "videos" and video.suffix == ".mp4" and size(video) == (1000, 400)
    assert outcome.json["frames"] == 20 and outcome.json["policies"][0]["env"] == "CartPole-v1"
    assert str(video) in outcome.err


def test_checkpoints_of_a_run_stand_side_by_side_and_a_file_is_named(ludus: Command, run: Path) -> None:
    steps = ["--checkpoint", 256, "--checkpoint", "latest"]
    out = Path("my videos") / "two.gif"
    outcome = ludus("video", run, *steps, "--length", 6, "--gif", "--output", out, "--json")
    assert outcome.code == 0, outcome.err
    assert size(out) == (1204, 670)
    assert [one["checkpoint"] for one in outcome.json["policies"]] == ["000000000256", "000000000512"]
    plain = ludus("video", f"{run}@256", "latest", "--no-overlay", "--length", 4, "--quiet")
    assert plain.code == 0 and size(Path(plain.out.strip())) == (1204, 426)
    assert Path(plain.out.strip()).name == "comparison-000000000256-000000000512-seed0.mp4"


def test_a_bot_given_with_a_run_plays_the_runs_env(ludus: Command, run: Path) -> None:
    outcome = ludus("video", "random", run, "--length", 4, "--no-overlay", "--output", "two.mp4", "--json")
    assert outcome.code == 0, outcome.err
    listed = [(one["policy"] == "random", one["env"]) for one in outcome.json["policies"]]
    assert listed == [(True, "CartPole-v1"), (False, "CartPole-v1")]


@pytest.mark.parametrize(
    ("arguments", "what", "fix"),
    [
        (["RUN", "--output", "a.avi"], "'a.avi'", ".mp4"),
        (["RUN", "--gif", "--output", "a.mp4"], "'a.mp4'", ".gif"),
        (["RUN@best", "--checkpoint", "latest"], "already names a checkpoint", "leave --checkpoint out"),
        (["RUN", "--checkpoint", "77"], "unknown checkpoint", ""),
        (["RUN", "--overlays"], "unknown option '--overlays'", "--overlay"),
        (["no-such-run"], "unknown run", ""),
        (["random"], "needs an env", "--env"),
        (["random", "--env", "blind_env:Blind-v0"], "does not render pictures", "rgb_array"),
    ],
)
def test_an_impossible_video_is_reported_in_three_lines(
    ludus: Command, run: Path, tmp_path: Path, arguments: list[str], what: str, fix: str
) -> None:
    (tmp_path / "blind_env.py").write_text(
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Blind(CartPoleEnv):\n    metadata = {'render_modes': []}\n"
        "gym.register('Blind-v0', Blind)\n"
    )
    outcome = ludus("video", *(argument.replace("RUN", str(run)) for argument in arguments))
    assert outcome.code == 2 and len(outcome.error_lines) == 3, outcome.err
    assert what in outcome.error_lines[0] and fix in outcome.error_lines[2]


def test_an_analysis_lies_in_the_run_with_page_steps_and_pictures(ludus: Command, run: Path) -> None:
    outcome = ludus("analyze", run, "-n", 2, "--export", "csv", "--png", "--json")
    assert outcome.code == 0, outcome.err
    result: dict[str, Any] = outcome.json
    folder = Path(result["page"]).parent
    assert folder.parent == run / "analysis" and Path(result["page"]).stat().st_size > 1e6
    with Path(result["data"]).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == result["steps"] and {row["seed"] for row in rows} == {"0", "1"}
    returns = [sum(float(row["reward"]) for row in rows if row["seed"] == seed) for seed in ("0", "1")]
    assert returns == result["rewards"] and result["signals"][2] == "pole angle"
    assert sorted(path.name for path in folder.glob("*.png"))[0] == "actions.png"


def test_a_bot_is_analyzed_into_this_folder(ludus: Command, tmp_path: Path) -> None:
    outcome = ludus("analyze", "random", "--env", "Pendulum-v1", "-n", 1, "-q")
    assert outcome.code == 0, outcome.err
    assert (
        outcome.out.strip() == "analysis-random-Pendulum-v1/analysis.html"
        and Path(outcome.out.strip()).is_file()
    )


def test_wrong_words_to_analyze_are_answered_in_three_lines(ludus: Command, run: Path) -> None:
    for arguments in ([run, "--export", "xml"], [f"{run}@best", "--checkpoint", "best"], ["nobody"]):
        outcome = ludus("analyze", *arguments)
        assert outcome.code == 2 and len(outcome.error_lines) == 3, outcome.err

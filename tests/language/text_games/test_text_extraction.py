"""Extraction: the move in what a model wrote, and whether it was written in the asked form."""

from __future__ import annotations

import pytest

from ludus.errors import ConfigError
from ludus.language.text_games.extraction import make_extractor


@pytest.mark.parametrize(
    ("setting", "completion", "expected"),
    [
        ("brackets", "I take [4]", ("[4]", True)),
        ("brackets", "not [3] but [0 2].", ("[0 2]", True)),
        ("brackets", "[[4]]", ("[4]", True)),
        ("brackets", " four ", ("four", False)),
        ("brackets", "[]", ("[]", False)),
        ("brackets", "<think>[1]? no.</think>[2]", ("[2]", True)),
        ("brackets", "<think>[1]</think> so be it", ("so be it", False)),
        ("brackets", "<think>[1] is free, or", ("", False)),
        ("brackets", "[1] <think> wait, [2]", ("", False)),
        ("brackets", "<think>a</think> [1] <think>[2]", ("", False)),
        ("boxed", r"<think>\boxed{4}", ("", False)),
        ("last-line", "<think>\n[up]", ("", False)),
        ("whole", "<think>I could offer 3", ("", False)),
        ({"regex": r"move (\d)"}, "<think>move 1", ("", False)),
        ("boxed", r"so \boxed{4}", ("[4]", True)),
        ("boxed", r"\boxed{[col 3]}", ("[col 3]", True)),
        ("boxed", r"\boxed{1} or \boxed{ \text{bet} }", (r"[\text{bet}]", True)),
        ("boxed", r"\boxed{4", (r"\boxed{4", False)),
        ("boxed", r"\boxed{}", (r"\boxed{}", False)),
        ("last-line", "let me see\n\n [up] \n\n", ("[up]", True)),
        ("last-line", " \n", ("", False)),
        ("whole", " I offer 3 for 2. ", ("I offer 3 for 2.", True)),
        ("whole", "", ("", False)),
        ({"regex": r"move (\d)"}, "move 1, no, move 2", ("2", True)),
        ({"regex": r"[a-z]+"}, "UP down", ("down", True)),
        ({"regex": r"move (\d)"}, "stay", ("stay", False)),
    ],
)
def test_the_move_is_found(
    setting: str | dict[str, str], completion: str, expected: tuple[str, bool]
) -> None:
    assert make_extractor(setting)(completion) == expected


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("box", r"unknown extraction 'box'[\s\S]*did you mean 'boxed'"),
        ({"regex": "("}, "cannot be read"),
        ({"pattern": "x"}, "unknown extraction"),
    ],
)
def test_a_setting_that_cannot_work_says_why(setting: str | dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_extractor(setting)

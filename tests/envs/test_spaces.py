from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from ludus.envs.spaces import describe_space, space_from_json, space_to_json
from ludus.errors import UserError

BOX = spaces.Box(np.array([-np.inf, 0.1], np.float32), np.array([np.inf, 2], np.float32))


@pytest.mark.parametrize(
    "space",
    [
        BOX,
        spaces.Box(0, 255, (84, 84, 4), np.uint8),
        spaces.Box(-1, 1, (), np.float64),
        spaces.Box(-(2**62) - 1, 2**62 + 1, (2,), np.int64),
        spaces.Discrete(5, start=-2),
        spaces.MultiDiscrete([3, 4]),
        spaces.MultiDiscrete([[3, 4], [2, 2]]),
        spaces.MultiBinary(7),
        spaces.MultiBinary([2, 3]),
        spaces.Dict({"z": BOX, "a": spaces.Discrete(2)}),
    ],
    ids=str,
)
def test_a_space_comes_back_equal_from_standard_json(space: spaces.Space[Any]) -> None:
    text = json.dumps(space_to_json(space), allow_nan=False)
    back = space_from_json(json.loads(text))
    assert back == space
    assert back.dtype == space.dtype


def test_uniform_bounds_are_written_once() -> None:
    assert space_to_json(spaces.Box(0, 255, (84, 84, 4), np.uint8))["high"] == 255


def test_a_space_ludus_cannot_use_is_named() -> None:
    with pytest.raises(UserError, match="Text"):
        space_to_json(spaces.Text(5))


@pytest.mark.parametrize(
    "damaged",
    [
        {"type": "Tuple"},
        {"type": "Discrete", "n": 3},
        {"type": "Discrete", "n": 3, "start": 0, "code": "x"},
        {"type": "Discrete", "n": "3", "start": 0},
        {"type": "Discrete", "n": -1, "start": 0},
        {"type": "Box", "shape": [2], "dtype": "object", "low": 0, "high": 1},
        {"type": "Box", "shape": [2], "dtype": "float32", "low": [0, 0, 0], "high": 1},
        {"type": "Box", "shape": [10**6, 10**6], "dtype": "float32", "low": 0, "high": 1},
        {"type": "Box", "shape": [2], "dtype": "float32", "low": "__import__('os')", "high": 1},
        {"type": "MultiDiscrete", "nvec": [2, 0], "start": [0, 0]},
        {"type": "Dict", "spaces": {"a": 3}},
        {"type": "Dict", "spaces": []},
        [],
    ],
    ids=str,
)
def test_a_damaged_description_is_a_user_error(damaged: Any) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        space_from_json(damaged)


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (BOX, "2 numbers"),
        (spaces.Box(-1, 1, (1,)), "1 number in [-1, 1]"),
        (spaces.Box(0, 255, (84, 84, 4), np.uint8), "image 84x84x4"),
        (spaces.Box(0, 9, (3,), np.int64), "3 numbers in [0, 9]"),
        (spaces.Box(-np.inf, 1, (2,)), "2 numbers"),
        (spaces.Box(0, 1, (0,)), "0 numbers"),
        (spaces.Discrete(6), "one of 6"),
        (spaces.MultiDiscrete([3, 4]), "2 choices (3 x 4)"),
        (spaces.MultiBinary(7), "7 switches"),
        (spaces.Dict({"speed": BOX}), "{speed: 2 numbers}"),
    ],
)
def test_spaces_are_described_in_few_words(space: spaces.Space[Any], text: str) -> None:
    assert describe_space(space) == text

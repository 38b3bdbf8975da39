"""Strict JSON restores every value exactly, or raises with the position of the value."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ludus.runs import strict_json


def test_values_survive_the_round_trip() -> None:
    value = {
        "i": 2**200,
        "f": [0.1, -0.0, 1e-320],
        "n": None,
        "b": [True, False],
        "s": "\u2028é\x00\udcff",
        "e": {},
    }
    assert strict_json.loads(strict_json.dumps(value)) == value


def test_floats_outside_json_survive_and_the_text_stays_standard_json() -> None:
    text = strict_json.dumps([math.nan, math.inf, -math.inf, np.float32("nan")])
    assert "NaN" not in text
    assert "Infinity" not in text
    nan, inf, minus_inf, numpy_nan = strict_json.loads(text)
    assert math.isnan(nan)
    assert math.isnan(numpy_nan)
    assert (inf, minus_inf) == (math.inf, -math.inf)


def test_numpy_scalars_become_plain_numbers() -> None:
    assert strict_json.dumps([np.int64(3), np.float32(0.5), np.bool_(True)]) == "[3, 0.5, true]"


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": {1: 2}}, r"value\['a'\] has the key 1"),
        ({"a": [0, {1, 2}]}, r"value\['a'\]\[1\] is a set"),
        ({"t": torch.zeros(1)}, "is a Tensor"),
        ({"__float__": "nan"}, "__float__"),
    ],
)
def test_value_that_would_change_raises_with_its_position(value: object, place: str) -> None:
    with pytest.raises(TypeError, match=place):
        strict_json.dumps(value)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "", "{", "[" * 200_000])
def test_text_that_is_not_strict_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        strict_json.loads(text)


def test_every_flipped_bit_and_every_cut_of_a_sealed_object_is_noticed() -> None:
    value = {"status": "running", "steps": 100, "name": "é", "rate": 1e-05, "tags": ["a", "A"], "none": None}
    text = strict_json.dumps_sealed(value)
    assert strict_json.loads_sealed(text) == value
    data = text.encode()
    for place in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            with pytest.raises(ValueError):
                strict_json.loads_sealed(changed.decode("utf-8"))
        with pytest.raises(ValueError):
            strict_json.loads_sealed(data[:place].decode("utf-8"))


def test_object_without_a_seal_is_accepted() -> None:
    assert strict_json.loads_sealed('{"status": "running"}') == {"status": "running"}
    with pytest.raises(ValueError, match="not a JSON object"):
        strict_json.loads_sealed("[]")

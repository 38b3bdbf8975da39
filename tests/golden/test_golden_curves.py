"""A short seeded run of each algorithm gives the numbers it always gave: a refactor must not change them."""

from __future__ import annotations

import json

import pytest
from regenerate import RUNS, curve, path_of

COMPARED = 6  # rows; rounding differs between CPUs, and what it starts grows from update to update
HINT = "if the numbers are meant to change: python tests/golden/regenerate.py"


@pytest.mark.parametrize("algorithm", RUNS)
def test_the_curve_is_reproduced(algorithm: str) -> None:
    golden = json.loads(path_of(algorithm).read_text(encoding="utf-8"))
    rows = curve(algorithm)
    assert [(row["step"], sorted(row)) for row in rows] == [(row["step"], sorted(row)) for row in golden], (
        HINT
    )
    for row, expected in zip(rows[:COMPARED], golden[:COMPARED], strict=True):
        assert row == pytest.approx(expected, rel=1e-4, abs=1e-6), HINT

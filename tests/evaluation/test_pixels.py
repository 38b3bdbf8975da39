"""The compiled loops over pixels, compared with FFmpeg's scaler and a curve computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ludus.evaluation.pixels import draw_curve, to_planes
from ludus.types import Array

ZERO = np.full(3, 7, np.uint8)
GREYS = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)


def planes(picture: Array) -> tuple[Array, Array, Array]:
    height, width = picture.shape[:2]
    y, u, v = (np.zeros((height // n, width // n), np.uint8) for n in (1, 2, 2))
    to_planes(picture, y, u, v)
    return y, u, v


def drawn(values: Any, height: int, width: int, **look: Any) -> Array:
    """Return the shares of the line's colour, in 255ths, of a curve between 0 and 1."""
    room = np.zeros((height + 2, width + 2, 3), np.uint8)
    options = {"low": 0.0, "high": 1.0, "stride": 1, "thickness": 1.0, "below": 0.0, "zero": -1} | look
    place = room[1:-1, 1:-1]
    draw_curve(place, np.array(values, float), shades=GREYS, zero_color=ZERO, **options)
    assert not room[0].any() and not room[-1].any() and not room[:, 0].any() and not room[:, -1].any()
    return place[:, :, 0]


def test_yuv_planes_match_the_library() -> None:
    av = pytest.importorskip("av")
    rng = np.random.default_rng(0)
    blocks = rng.integers(0, 256, (6, 8, 3), np.uint8).repeat(16, axis=0).repeat(16, axis=1)
    theirs = av.VideoFrame.from_ndarray(blocks, format="rgb24").reformat(format="yuv420p")
    for ours, plane, size in zip(planes(blocks), theirs.planes, (16, 8, 8), strict=True):
        his = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[:, : plane.width].astype(int)
        inside = (slice(size // 2, None, size),) * 2  # the library's colours blend at the edges of the blocks
        assert np.abs(ours.astype(int) - his)[inside].max() <= 1


def test_colour_plane_is_the_mean_of_four_pixels_and_neutral_for_grey() -> None:
    two = np.zeros((2, 4, 3), np.uint8)
    two[:, 2:] = 255
    y, u, v = planes(two)
    assert y.tolist() == [[16, 16, 235, 235]] * 2 and u.tolist() == v.tolist() == [[128, 128]]
    spot = np.zeros((2, 2, 3), np.uint8)
    spot[0, 0] = 255, 0, 0
    assert planes(spot)[2].tolist() == [[128 + round(0.4392 * 255 / 4)]]


HIGH, LOW = 0.75, 0.25  # of four rows, with half a row free at each end: the second and the third


def test_curve_is_drawn_at_its_values() -> None:
    assert drawn([HIGH, HIGH], 4, 2).tolist() == [[0, 0], [255, 255], [0, 0], [0, 0]]
    assert drawn([0.5], 4, 1)[:, 0].tolist() == [0, 128, 128, 0]
    assert drawn([1.0], 4, 1)[:, 0].tolist() == [128, 128, 0, 0]
    assert drawn([LOW, HIGH], 4, 2).tolist() == [[0, 0], [0, 255], [255, 255], [0, 0]]  # joined by an upright


def test_nan_and_missing_values_leave_a_gap() -> None:
    picture = drawn([HIGH, np.nan, LOW], 4, 4)
    assert picture[1:3].tolist() == [[255, 0, 0, 0], [0, 0, 255, 0]]  # and nothing joins the two


def test_values_have_the_width_of_the_stride_and_the_area_below_is_shaded() -> None:
    assert drawn([HIGH, LOW], 4, 5, stride=2)[1].tolist() == [255, 255, 255, 0, 0]
    assert drawn([HIGH], 4, 1, below=0.2)[:, 0].tolist() == [0, 255, 51, 51]


def test_curve_covers_the_zero_line() -> None:
    assert drawn([HIGH, LOW], 4, 3, zero=2)[2].tolist() == [7, 255, 7]

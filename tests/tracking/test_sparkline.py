from __future__ import annotations

from ludus.tracking.progress import sparkline


def test_lowest_is_one_eighth_and_highest_is_full() -> None:
    assert sparkline([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 8) == ["▁▂▃▄▅▆▇█"]


def test_two_lines_give_sixteen_levels() -> None:
    assert sparkline([0.0, 15.0, 7.0, 8.0], 4, height=2) == [" █ ▁", "▁███"]


def test_values_are_averaged_into_columns() -> None:
    assert sparkline([0.0, 0.0, 6.0, 8.0, 3.0, 4.0, 7.0, 7.0], 4) == ["▁█▅█"]


def test_gaps_repeat_the_value_before_and_the_rest_stays_blank() -> None:
    assert sparkline([None, 0.0, None, None, 7.0, float("nan"), None], 7) == [" ▁▁▁█  "]


def test_fewer_values_than_columns_are_stretched() -> None:
    assert sparkline([0.0, 7.0], 6) == ["▁▁▁███"]


def test_flat_and_empty_curves_are_drawn() -> None:
    assert sparkline([3.0, 3.0], 2) == ["▄▄"]
    assert sparkline([None, None], 3, height=2) == ["   ", "   "]

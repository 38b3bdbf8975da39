"""A file is read as it grows: every whole line once, and from its start after it was truncated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ludus.tracking import following
from ludus.tracking.following import Columns, Follower, MetricSeries, last_row, thin


def test_each_whole_line_is_read_once_and_a_torn_one_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    follower = Follower(path)
    assert list(follower.rows()) == []
    path.write_bytes(b'{"step": 1}\n{"step": 2}\n{"st')
    assert list(follower.rows()) == [{"step": 1}, {"step": 2}]
    assert list(follower.rows()) == []
    with path.open("ab") as file:
        file.write(b'ep": 3}\n')
    assert list(follower.rows()) == [{"step": 3}]
    again = Follower(path, follower.position)
    with path.open("ab") as file:
        file.write(b'{"step": 4}\n')
    assert list(again.rows()) == [{"step": 4}]
    assert not again.rewound


@pytest.mark.parametrize("new", [b'{"step": 1}\n', b'{"step": 1}\n{"step": 2, "a": 0.5}\n{"step": 9}\n', b""])
def test_truncated_file_is_read_from_its_start(tmp_path: Path, new: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n{"step": 2, "a": 0.25}\n')
    follower = Follower(path)
    list(follower.rows())
    path.write_bytes(new)
    assert len(list(follower.rows())) == new.count(b"\n")
    assert follower.rewound
    list(follower.rows())
    assert not follower.rewound


def test_missing_file_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n')
    follower = Follower(path)
    list(follower.rows())
    path.unlink()
    assert list(follower.rows()) == []
    assert follower.rewound


def test_damaged_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n\x00\xff\n7\n\n{"step": 2}\n')
    follower = Follower(path)
    assert list(follower.rows()) == [{"step": 1}, {"step": 2}]
    assert follower.position.offset == path.stat().st_size
    assert follower.damaged == 2
    with path.open("ab") as file:
        file.write(b"[" * 100_000 + b"\n")  # nested beyond what can be read
    assert list(follower.rows()) == [] and follower.damaged == 1
    assert list(follower.rows()) == [] and follower.damaged == 0


def test_numbers_that_no_float_holds_are_left_out_and_rows_without_a_step_counted() -> None:
    columns = Columns()
    for row in ({"step": 1, "a": 10**400, "b": 2}, {"step": 10**400}, {"step": float("inf")}, {"a": 1}):
        columns.take(row)
    assert (list(columns.series()), columns.rows, columns.stray) == (["b"], 1, 3)


def test_lines_longer_than_a_chunk_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_CHUNK", 7)
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1, "name": "a long line"}\n{"step": 2}\n{"step": 3')
    follower = Follower(path)
    assert [row["step"] for row in follower.rows()] == [1, 2]
    assert list(Follower(path, follower.position).rows()) == []


def test_the_last_row_is_found_from_the_end(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert last_row(path) is None
    path.write_bytes(b"")
    assert last_row(path) is None
    path.write_bytes(b'{"step": 1}\n' + b'{"long": "' + b"x" * 100_000 + b'"}\n{"tor')
    found = last_row(path)
    assert found is not None
    assert len(found["long"]) == 100_000


def test_columns_hold_numbers_by_name_and_times_of_evaluations_are_interpolated() -> None:
    columns = Columns(clock="time/seconds")
    columns.take({"step": 10, "updates": 1, "a": 1.0, "time/seconds": 2.0})
    columns.take({"step": 15, "eval/mean_reward": 7.0, "text": "x", "none": None, "list": [1]})
    columns.take({"step": 20, "updates": 2, "a": 3.0, "time/seconds": 4.0})
    columns.take({"no step": 1})
    series = columns.series()
    assert sorted(series) == ["a", "eval/mean_reward", "time/seconds", "updates"]
    assert series["a"].steps.tolist() == [10.0, 20.0]
    assert series["a"].values.tolist() == [1.0, 3.0]
    assert series["eval/mean_reward"].seconds.tolist() == [3.0]
    assert columns.rows == 3
    only = Columns(names={"a"})
    only.take({"step": 1, "a": 1.0, "b": 2.0})
    assert list(only.series()) == ["a"]


def test_thinning_keeps_peaks_and_both_ends() -> None:
    values = np.sin(np.arange(10_000) / 50.0)
    values[4_321], values[7_777] = 50.0, -50.0
    keep = thin(values, 200)
    assert len(keep) <= 200
    assert keep[0] == 0 and keep[-1] == 9_999
    assert {4_321, 7_777} <= set(keep.tolist())
    assert (np.diff(keep) > 0).all()


@pytest.mark.parametrize(
    ("count", "points"), [(0, 10), (1, 1), (5, 5), (11, 10), (100, 7), (7, 3), (1000, 999)]
)
def test_thinning_never_gives_more_than_asked_for(count: int, points: int) -> None:
    values = np.arange(float(count))
    thinned = MetricSeries(values, values, values).thinned(points)
    assert len(thinned) <= points
    assert len(thinned) == count or len(thinned) >= min(points, 4) - 1
    assert thinned.values.tolist() == sorted(set(thinned.values.tolist()))

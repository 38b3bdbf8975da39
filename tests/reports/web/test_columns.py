from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus.reports.web.columns import BLOCK, ColumnStore, ReadProgress, as_json, bucketed


def lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def rows(count: int, start: int = 0, factor: float = 1.0) -> list[dict[str, Any]]:
    return [{"step": i, "a": i * factor} for i in range(start, start + count)]


@pytest.fixture
def store() -> Any:
    found = ColumnStore(None)
    yield found
    found.close()


def test_rows_are_read_once_when_the_file_grows(store: ColumnStore) -> None:
    progress, data = ReadProgress(), lines(rows(5000))
    for end in (0, 10, 4096, 50_000, 50_001, len(data)):
        store.read_rows("r", io.BytesIO(data[:end]), progress)
    x, y = store.series("r", "a")
    assert progress.rows == 5000 and progress.end.offset == len(data)
    assert x.tolist() == y.tolist() == list(range(5000))
    assert not store.read_rows("r", io.BytesIO(data), progress)


def test_a_torn_last_line_waits_for_its_end(store: ColumnStore) -> None:
    progress = ReadProgress()
    store.read_rows("r", io.BytesIO(lines(rows(2)) + b'{"step": 2, "a"'), progress)
    assert progress.rows == 2
    store.read_rows("r", io.BytesIO(lines(rows(3))), progress)
    assert store.series("r", "a")[1].tolist() == [0, 1, 2]


def test_damaged_lines_cost_only_themselves(store: ColumnStore) -> None:
    data = (
        lines(rows(2))
        + b'nonsense\n\n[1]\n{"step": 2, "a": "text"}\n{"step": 3, "a": null, "b": 1e400}\n'
        + lines(rows(1, 4))
    )
    progress = ReadProgress()
    store.read_rows("r", io.BytesIO(data), progress)
    assert store.series("r", "a")[0].tolist() == [0, 1, 4]
    assert store.series("r", "b")[0].tolist() == []
    assert progress.end.damaged == 2
    store.read_rows("r", io.BytesIO(data + b'{"a": 7}\n'), progress)
    assert progress.end.damaged == 3  # a row that says no step
    store.read_rows("r", io.BytesIO(lines(rows(1))), progress)
    assert progress.end.damaged == 0  # progress back with the rest


def test_halves_of_two_rows_do_not_make_one(store: ColumnStore) -> None:
    progress = ReadProgress()
    store.read_rows("r", io.BytesIO(b'{"step": 1, "a": 1\n"b": 2}\n{"step": 3, "a": 3}\n'), progress)
    assert (progress.rows, progress.end.damaged) == (1, 2)
    assert store.series("r", "a")[0].tolist() == [3]


def test_numbers_too_large_for_any_float_are_left_out(store: ColumnStore) -> None:
    progress = ReadProgress()
    store.read_rows(
        "r",
        io.BytesIO(lines(rows(1)) + b'{"step": 1, "a": 1' + b"0" * 400 + b"}\n" + lines(rows(1, 2))),
        progress,
    )
    assert store.series("r", "a")[0].tolist() == [0, 2]


def test_a_metric_that_comes_late_or_seldom_keeps_its_steps(store: ColumnStore) -> None:
    found = rows(3 * BLOCK)
    found[2 * BLOCK + 7]["eval"] = 1.5
    found[-1]["eval"] = 2.5
    progress = ReadProgress()
    store.read_rows("r", io.BytesIO(lines(found)), progress)
    x, y = store.series("r", "eval")
    assert x.tolist() == [2 * BLOCK + 7, 3 * BLOCK - 1] and y.tolist() == [1.5, 2.5]
    assert progress.last["eval"] == 2.5


def test_a_resume_that_cuts_the_file_back_takes_back_what_it_cut(store: ColumnStore) -> None:
    first = rows(3 * BLOCK)
    progress = ReadProgress()
    store.read_rows("r", io.BytesIO(lines(first)), progress)
    again = first[: 2 * BLOCK + 100] + rows(4000, 2 * BLOCK + 100, factor=-1.0)
    store.read_rows("r", io.BytesIO(lines(again)), progress)
    x, y = store.series("r", "a")
    assert progress.epoch == 1 and progress.rows == len(again)
    assert y.tolist() == [row["a"] for row in again] and x.tolist() == [row["step"] for row in again]


def test_another_file_in_its_place_is_read_from_the_start(store: ColumnStore) -> None:
    progress = ReadProgress()
    store.read_rows("r", io.BytesIO(lines(rows(10))), progress)
    store.read_rows("r", io.BytesIO(lines(rows(3, 50))), progress)
    assert store.series("r", "a")[1].tolist() == [50, 51, 52]
    store.read_rows("r", io.BytesIO(b""), progress)
    assert progress.rows == 0 and progress.last == {} and store.series("r", "a")[1].tolist() == []


def test_stored_rows_survive_a_restart(tmp_path: Path) -> None:
    data = lines(rows(BLOCK + 5))
    store = ColumnStore(tmp_path / "cache" / "index.sqlite")
    progress = ReadProgress()
    store.read_rows("r", io.BytesIO(data), progress)
    store.close()
    store = ColumnStore(tmp_path / "cache" / "index.sqlite")
    assert store.runs() == {"r": progress}
    more = data + lines(rows(2, BLOCK + 5))
    store.read_rows("r", io.BytesIO(more), store.runs()["r"])
    assert store.series("r", "a")[1].tolist() == list(range(BLOCK + 7))
    store.close()


def test_a_damaged_index_is_rebuilt_and_one_in_use_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    path.write_bytes(b"this is no database" * 1000)
    one = ColumnStore(path)
    one.read_rows("r", io.BytesIO(lines(rows(3))), ReadProgress())
    other = ColumnStore(path)  # as a second dashboard of the same folder
    assert other.runs() == {} and one.runs().keys() == {"r"}
    other.close()
    one.close()


def test_the_newest_rows_come_column_by_column(store: ColumnStore) -> None:
    found = rows(BLOCK + 3)
    found[-2]["b"] = 7.0
    progress = ReadProgress()
    store.read_rows("r", io.BytesIO(lines(found)), progress)
    newest = store.newest("r", BLOCK, progress)
    assert newest == {
        "step": [BLOCK, BLOCK + 1, BLOCK + 2],
        "a": [BLOCK, BLOCK + 1, BLOCK + 2],
        "b": [None, 7.0, None],
    }


def test_rows_without_a_time_lie_between_those_with_one(store: ColumnStore) -> None:
    found = [
        {"step": 0, "time/seconds": 10.0},
        {"step": 50, "eval": 1.0},
        {"step": 100, "time/seconds": 20.0},
    ]
    store.read_rows("r", io.BytesIO(lines(found)), ReadProgress())
    assert store.series("r", "eval", "time/seconds")[0].tolist() == [15.0]


def test_thinning_keeps_means_and_peaks() -> None:
    y = np.zeros(10_000)
    y[4321] = 100.0
    found = bucketed(np.arange(10_000.0), y, 100)
    assert len(found["x"]) == 100 and max(v for v in found["hi"] if v is not None) == 100.0
    assert found["y"][43] == 1.0 and found["x"][0] == 49.5
    short = bucketed(np.arange(3.0), y[:3], 100)
    assert short == {"x": [0, 1, 2], "y": [0, 0, 0]}


def test_numbers_travel_short_and_whole() -> None:
    assert as_json(np.array([0.1 + 0.2, 123456789.0, np.nan, 1e-7 / 3, -0.0])) == [
        0.3,
        123456789.0,
        None,
        3.333333e-08,
        0.0,
    ]

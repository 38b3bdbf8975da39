from __future__ import annotations

import json
import logging
import math
from pathlib import Path

import numpy as np
import pytest

from ludus.errors import CheckpointError
from ludus.tracking.jsonl import Extent, JsonlWriter, read_jsonl, truncate


def write_rows(path: Path, *rows: dict[str, object]) -> int:
    writer = JsonlWriter(path)
    for row in rows:
        writer.write(row)
    writer.close()
    return writer.offset


def test_a_row_is_one_line_of_json(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "rows.jsonl"
    write_rows(path, {"step": 1, "a": 0.5}, {"step": 2, "text": "é\n"})
    assert path.read_bytes() == b'{"step": 1, "a": 0.5}\n{"step": 2, "text": "\\u00e9\\n"}\n'


def test_non_finite_numbers_become_null_and_the_line_stays_valid_json(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_rows(path, {"a": math.nan, "b": -math.inf, "c": np.float32("nan"), "d": [1.0, math.inf], "e": 2})

    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    row = json.loads(path.read_text(), parse_constant=refuse)
    assert row == {"a": None, "b": None, "c": None, "d": [1.0, None], "e": 2}


def test_numpy_scalars_are_written_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_rows(path, {"a": np.float32(0.5), "b": np.int64(3), "c": np.bool_(True), "d": np.float64(0.1)})
    assert path.read_text() == '{"a": 0.5, "b": 3, "c": true, "d": 0.1}\n'


def test_value_that_json_cannot_hold_raises_and_leaves_no_partial_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    writer = JsonlWriter(path)
    with pytest.raises(TypeError, match="ndarray"):
        writer.write({"a": np.zeros(2)})
    writer.close()
    assert path.read_bytes() == b""


def test_offset_is_what_is_synced_and_survives_reopening(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    writer = JsonlWriter(path)
    assert writer.offset == 0
    writer.write({"a": 1})
    assert writer.offset == 0
    writer.sync()
    assert writer.offset == len(b'{"a": 1}\n') == path.stat().st_size
    writer.close()
    writer.close()
    assert JsonlWriter(path).offset == 9


def test_flush_makes_rows_visible(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    writer = JsonlWriter(path)
    writer.write({"a": 1})
    writer.flush()
    assert list(read_jsonl(path)) == [{"a": 1}]
    writer.close()


def test_truncate_restores_the_exact_bytes_of_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    offset = write_rows(path, {"a": 1}, {"a": 2})
    saved = path.read_bytes()
    write_rows(path, {"a": 3}, {"a": 4})
    truncate(path, Extent(offset))
    assert path.read_bytes() == saved
    write_rows(path, {"a": 5})
    assert [row["a"] for row in read_jsonl(path)] == [1, 2, 5]


@pytest.mark.parametrize(
    ("content", "says"), [(None, "missing"), (b'{"a": 1}\n', "9 bytes"), (b"x" * 40, "no row")]
)
def test_truncate_raises_for_a_file_that_differs_from_the_checkpoint(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    path = tmp_path / "rows.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CheckpointError, match=says) as caught:
        truncate(path, Extent(20))
    assert caught.value.where == str(path)
    if content is not None:
        assert path.read_bytes() == content


def test_torn_last_line_is_skipped_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n{"a": 3, "b"')
    assert list(read_jsonl(path)) == [{"a": 1}, {"a": 2}]
    assert not caplog.records


@pytest.mark.parametrize("damage", [b'{"a": 2, \n', b"\x00\x00\xff\n", b"7\n"])
def test_a_damaged_line_is_skipped_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: bytes
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n' + damage + b'\n{"a": 3}\n')
    with caplog.at_level(logging.WARNING, logger="ludus.tracking"):
        assert list(read_jsonl(path)) == [{"a": 1}, {"a": 3}]
    assert [record.name for record in caplog.records] == ["ludus.tracking"]
    assert "rows.jsonl: line 2" in caplog.text


@pytest.mark.parametrize("torn", [b'{"a"', b'{"long": "' + b"x" * 200_000])
def test_a_writer_cuts_off_the_torn_line_a_killed_process_left(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n' + torn)
    write_rows(path, {"a": 2})
    assert path.read_bytes() == b'{"a": 1}\n{"a": 2}\n'


def test_a_writer_cuts_off_a_torn_first_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a"')
    write_rows(path, {"a": 2})
    assert path.read_bytes() == b'{"a": 2}\n'

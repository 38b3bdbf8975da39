"""A file is replaced whole, and a failed replacement leaves the old one and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from ludus.runs import atomic


def test_text_and_bytes_replace_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic.write_atomic(path, "grün")
    assert path.read_bytes() == "grün".encode()
    atomic.write_atomic(str(path), b"\x00\xff")
    assert path.read_bytes() == b"\x00\xff"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("operation", ["write_bytes", "sync", "rename"])
def test_a_failed_write_leaves_the_old_file_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    path = tmp_path / "file"
    atomic.write_atomic(path, "old")

    def refuse(*arguments: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(atomic, operation, refuse)
    with pytest.raises(OSError, match="Input/output"):
        atomic.write_atomic(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_only_temporaries_of_dead_processes_are_stale(tmp_path: Path) -> None:
    beyond_any_pid = 2**30
    (tmp_path / f".tmp-dead-{beyond_any_pid}").mkdir()
    (tmp_path / f".tmp-dead-{beyond_any_pid}" / "part").touch()
    (tmp_path / f".tmp-file-{2**70}").touch()
    (tmp_path / ".tmp-alive-1").touch()
    (tmp_path / ".tmp-nobody").touch()
    atomic.remove_stale_temporaries(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".tmp-alive-1", ".tmp-nobody"]

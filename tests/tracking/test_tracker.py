from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from ludus.errors import CheckpointError
from ludus.tracking.jsonl import Extent
from ludus.tracking.tracker import MetricsLog, RowValue
from ludus.types import EpisodeRecord


class Listener:
    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, RowValue]]] = []
        self.closed = False

    def row(self, row: Mapping[str, RowValue], step: int) -> None:
        self.rows.append((step, dict(row)))

    def close(self) -> None:
        self.closed = True


class Broken(Listener):
    def row(self, row: Mapping[str, RowValue], step: int) -> None:
        super().row(row, step)
        raise ConnectionError("the service is away")


class BrokenAtClose(Listener):
    def close(self) -> None:
        raise OSError("disk full")


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "metrics.jsonl", tmp_path / "episodes.jsonl"


def test_a_metrics_row_is_the_clock_then_the_metrics_by_name(paths: tuple[Path, Path]) -> None:
    log = MetricsLog(*paths)
    row = log.record(128, 2, 7, {"train/b": np.float32(0.25), "rollout/a": 1.5, "time/fps": 10.0})
    assert list(row) == ["step", "updates", "episodes", "rollout/a", "time/fps", "train/b"]
    expected = (
        '{"step": 128, "updates": 2, "episodes": 7, "rollout/a": 1.5, "time/fps": 10.0, "train/b": 0.25}\n'
    )
    assert paths[0].read_text() == expected  # visible at once, before close
    log.close()


def test_an_episode_row_has_success_only_where_known(paths: tuple[Path, Path]) -> None:
    log = MetricsLog(*paths)
    log.episode(10, EpisodeRecord(reward=1.5, length=4))
    log.episode(12, EpisodeRecord(reward=-2.0, length=5, success=False), env=3)
    log.close()
    assert paths[1].read_text() == (
        '{"step": 10, "reward": 1.5, "length": 4}\n'
        '{"step": 12, "reward": -2.0, "length": 5, "success": false, "env": 3}\n'
    )


def test_followers_get_each_row_after_it_is_in_the_file(paths: tuple[Path, Path]) -> None:
    in_file: list[str] = []

    class Reader(Listener):
        def row(self, row: Mapping[str, RowValue], step: int) -> None:
            in_file.append(paths[0].read_text())

    listener = Listener()
    log = MetricsLog(*paths, followers=[Reader(), listener])
    row = log.record(1, 1, 0, {"a": np.float32(0.5), "b": math.inf})
    log.close()
    assert json.loads(in_file[0]) == {"step": 1, "updates": 1, "episodes": 0, "a": 0.5, "b": None}
    assert listener.rows == [(1, row)]
    assert type(listener.rows[0][1]["a"]) is float
    assert listener.rows[0][1]["b"] == math.inf
    assert listener.closed


def test_a_follower_that_raises_is_reported_once_and_dropped(
    paths: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    broken, listener = Broken(), Listener()
    log = MetricsLog(*paths, followers=[broken, listener])
    with caplog.at_level(logging.WARNING, logger="ludus.tracking"):
        for step in (1, 2, 3):
            log.record(step, step, 0, {})
        log.close()
    assert [step for step, _ in broken.rows] == [1]
    assert not broken.closed
    assert [step for step, _ in listener.rows] == [1, 2, 3]
    assert len(paths[0].read_text().splitlines()) == 3
    assert len(caplog.records) == 1
    assert "Broken" in caplog.text
    assert "the service is away" in caplog.text


def test_a_follower_that_fails_to_close_does_not_keep_the_others_open(
    paths: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener()
    log = MetricsLog(*paths, followers=[BrokenAtClose(), listener])
    log.close()
    assert listener.closed
    assert "BrokenAtClose" in caplog.text


def test_rewind_and_the_same_rows_again_give_the_same_bytes(paths: tuple[Path, Path]) -> None:
    def play(log: MetricsLog, steps: range) -> None:
        for step in steps:
            log.episode(step, EpisodeRecord(reward=step / 3, length=step))
            log.record(step, step, step, {"train/loss": 1 / (step + 1)})

    log = MetricsLog(*paths)
    play(log, range(3))
    saved = log.extents()
    assert {name: extent.size for name, extent in saved.items()} == {
        path.name: path.stat().st_size for path in paths
    }
    play(log, range(3, 6))
    log.close()
    uninterrupted = [path.read_bytes() for path in paths]

    with paths[0].open("ab") as file:
        file.write(b'{"step": 7, "tor')  # killed while writing
    resumed = MetricsLog(*paths)
    resumed.rewind(saved)
    assert resumed.extents() == saved
    play(resumed, range(3, 6))
    resumed.close()
    assert [path.read_bytes() for path in paths] == uninterrupted


def test_rewind_names_the_file_that_is_too_short_or_unknown(paths: tuple[Path, Path]) -> None:
    log = MetricsLog(*paths)
    with pytest.raises(CheckpointError, match=r"episodes\.jsonl"):
        log.rewind({"metrics.jsonl": Extent(0), "episodes.jsonl": Extent(10)})
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl"):
        MetricsLog(*paths).rewind({"episodes.jsonl": Extent(0)})

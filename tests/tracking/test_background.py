"""A tracker that raises or hangs, at its start, on a row or at its end, is reported once and nothing waits for it."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from ludus.errors import UserError
from ludus.tracking import background
from ludus.tracking.background import Background, RunFiles
from ludus.tracking.tracker import MetricsLog, RowValue


class Remembering:
    """Tracker that records all calls. At `trouble` it raises an exception or waits for an event."""

    def __init__(self, trouble: Callable[[], object] = lambda: None, at: str = "") -> None:
        self.seen: list[str] = []
        self._trouble, self._at = trouble, at
        self._meet("start")

    def row(self, row: Mapping[str, RowValue], step: int) -> None:
        self._meet("row")
        self.seen.append(f"row {step}")

    def checkpoint(self, path: Path, step: int, *, best: bool) -> None:
        self.seen.append(f"checkpoint {step}{' best' * best}")

    def video(self, path: Path, step: int) -> None:
        self.seen.append(f"video {step}")

    def close(self) -> None:
        self._meet("close")
        self.seen.append("closed")

    def _meet(self, moment: str) -> None:
        if moment == self._at:
            self._trouble()


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Event that hanging trackers wait for. It is set at the end, which lets every thread exit."""
    event = threading.Event()
    yield event
    event.set()


def fail() -> None:
    raise ConnectionError("the service is away")


def train(folder: Path, follower: Background, rows: int = 50) -> None:
    log = MetricsLog(folder / "metrics.jsonl", folder / "episodes.jsonl", [follower])
    for step in range(rows):
        log.record(step, step, 0, {"a": 1.0})
    log.close()
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == rows


def test_every_row_arrives_in_order_and_then_it_is_closed(tmp_path: Path) -> None:
    made: list[Remembering] = []

    def opened() -> Remembering:
        made.append(Remembering())
        return made[0]

    train(tmp_path, Background("TensorBoard", opened))
    assert made[0].seen == [*(f"row {step}" for step in range(50)), "closed"]


@pytest.mark.parametrize("at", ["start", "row", "close"])
def test_tracker_that_raises_is_reported_once_and_every_row_is_in_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, at: str
) -> None:
    follower = Background("W&B", lambda: Remembering(fail, at), advice="Then sync.")
    with caplog.at_level(logging.WARNING, logger="ludus.tracking"):
        train(tmp_path, follower)
        follower.row({}, 99)  # and nothing more is said
    assert [record.getMessage() for record in caplog.records] == [
        "W&B failed and is dropped for the rest of the run: ConnectionError: the service is away. Training continues, "
        "metrics.jsonl has every row. Then sync."
    ]


@pytest.mark.parametrize("at", ["start", "row", "close"])
def test_hanging_tracker_is_reported_once_and_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, release: threading.Event, at: str
) -> None:
    room = 5_000 if at == "close" else 20
    follower = Background("W&B", lambda: Remembering(release.wait, at), last_patience=0.2, room=room)
    began = time.monotonic()
    with caplog.at_level(logging.WARNING, logger="ludus.tracking"):
        train(tmp_path, follower)
    assert time.monotonic() - began < 30.0  # without the limit it would wait forever
    (record,) = caplog.records
    said = {"close": "did not end within"}.get(at, "cannot keep up: 20 rows are waiting")
    assert said in record.getMessage()


def test_slow_tracker_is_reported_before_its_queue_is_full(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, release: threading.Event
) -> None:
    at_it = threading.Event()

    def hang() -> None:
        at_it.set()
        release.wait()

    follower = Background("W&B", lambda: Remembering(hang, "row"), patience=0.05, last_patience=5.0)
    with caplog.at_level(logging.WARNING, logger="ludus.tracking"):
        follower.row({}, 1)
        assert at_it.wait(60)
        time.sleep(0.1)
        follower.row({}, 2)
        follower.close()  # that it hangs is known: no further patience
    (record,) = caplog.records
    assert "has not answered" in record.getMessage()


def test_idle_tracker_is_not_reported_as_hanging(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Background("TensorBoard", Remembering, patience=600.0)
    follower.row({}, 1)
    end = time.monotonic() + 60
    while follower._busy and time.monotonic() < end:
        time.sleep(0.01)
    clock = time.monotonic
    monkeypatch.setattr(background.time, "monotonic", lambda: clock() + 3600.0)  # an hour without a row
    with caplog.at_level(logging.WARNING, logger="ludus.tracking"):
        for step in range(100):
            follower.row({}, step)
        follower.close()
    assert not caplog.records


def test_user_error_is_reported_with_its_fix(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def refused() -> Remembering:
        raise UserError("Weights & Biases did not start: nobody is logged in", fix="`wandb login` once")

    with caplog.at_level(logging.WARNING, logger="ludus.tracking"):
        train(tmp_path, Background("W&B", refused))
    (record,) = caplog.records
    assert "W&B does not follow this run: Weights & Biases did not start" in record.getMessage()
    assert "`wandb login` once" in record.getMessage()


def save(run: Path, step: int) -> None:
    folder = run / "checkpoints" / f"{step:012d}"
    folder.mkdir(parents=True)
    (folder / "MANIFEST.json").write_text("{}")


def test_checkpoints_and_videos_are_shown_once_each(tmp_path: Path) -> None:
    run, made = tmp_path / "run", []

    def opened() -> Remembering:
        made.append(Remembering())
        return made[0]

    save(run, 100)
    files = RunFiles(run, known=True)  # a resumed run: that one is no news
    follower = Background("W&B", opened, files)
    save(run, 200)
    (run / "checkpoints" / "best.json").write_text('{"checkpoint": "000000000200"}')
    (run / "videos").mkdir()
    (run / "videos" / "000000000150.mp4").write_bytes(b"video")
    (run / "videos" / ".000000000250.mp4.partial").write_bytes(b"half a video")
    (run / "checkpoints" / ".tmp-300-1").mkdir()
    follower.row({}, 250)
    follower.close()
    shown = [word for word in made[0].seen if not word.startswith("row")]
    assert shown == ["video 150", "checkpoint 200 best", "closed"]


def test_rewritten_file_counts_as_new(tmp_path: Path) -> None:
    save(tmp_path, 100)
    files = RunFiles(tmp_path)
    assert [file.step for file in files.news(last=True)] == [100]
    assert files.news(last=True) == []
    manifest = tmp_path / "checkpoints" / f"{100:012d}" / "MANIFEST.json"
    os.utime(manifest, ns=(1, 1))
    assert [file.step for file in files.news()] == [100]


def test_checkpoint_is_reported_only_after_it_has_settled(tmp_path: Path) -> None:
    save(tmp_path, 100)
    assert RunFiles(tmp_path).news() == []  # a moment later it may be the best
    assert len(RunFiles(tmp_path).news(last=True)) == 1

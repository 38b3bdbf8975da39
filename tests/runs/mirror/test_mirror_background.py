"""A run continues whatever its mirror does: failures are reported once, recorded, and retried."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mirrored_runs import add_checkpoint, contents, make_run
from s3_server import Door

from ludus.errors import UserError
from ludus.runs.mirror import sync
from ludus.runs.mirror.background import Mirror, mirror_now
from ludus.runs.mirror.pull import pull_run
from ludus.runs.mirror.remote import Remote, in_words
from ludus.runs.mirror.state import MirrorState

QUICK: Any = {"every": 0.02, "look": 0.02}


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that another thread fulfils."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_files_written_during_training_are_mirrored(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs")
    url = f"file://{tmp_path}/mirror"
    mirror = Mirror(run, url, **QUICK)
    until(lambda: (MirrorState.load(run.path) or MirrorState("")).mirrored is not None)
    assert not pull_run(url, tmp_path / "early").run.logs_dir.exists()  # logs go up at the end
    for step in (300, 400, 500):
        add_checkpoint(run, step, keep=2)
    run.update_info(status="finished")
    mirror.close()
    assert contents(pull_run(url, tmp_path / "late").run.path) == contents(run.path)
    state = MirrorState.load(run.path)
    assert state is not None and (state.missing, state.trouble) == (0, None)


def test_lost_remote_is_reported_once_and_updated_after_reconnect(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = make_run(tmp_path / "runs")
    folder = tmp_path / "mirror"
    mirror = Mirror(run, f"file://{folder}", **QUICK)
    until(lambda: (MirrorState.load(run.path) or MirrorState("")).mirrored is not None)
    with caplog.at_level(logging.INFO, logger="ludus.runs"):
        shutil.rmtree(folder)
        folder.write_text("a file where the folder was")
        add_checkpoint(run, 300)
        until(lambda: (MirrorState.load(run.path) or MirrorState("")).trouble is not None)
        add_checkpoint(run, 400)
        folder.unlink()
        mirror.close()
    assert len(warnings(caplog)) == 1 and "Training continues" in warnings(caplog)[0]
    assert contents(pull_run(f"file://{folder}", tmp_path / "back").run.path) == contents(run.path)
    state = MirrorState.load(run.path)
    assert state is not None and state.trouble is None


def test_missing_files_are_counted_and_sent_by_a_later_command(
    s3: Door, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = make_run(tmp_path / "runs", steps=(100,))
    s3.refuse = "expired"
    with caplog.at_level(logging.INFO, logger="ludus.runs"):
        Mirror(run, "s3://runs", patience=20.0, **QUICK).close()
    first, last = warnings(caplog)
    assert "the credentials may have expired" in first
    assert f"{len(contents(run.path))} files are missing" in last and f"ludus mirror {run.path}" in last
    state = MirrorState.load(run.path)
    assert state is not None and state.missing == len(contents(run.path))
    s3.refuse = None
    mirror_now(run, state.at)
    assert contents(pull_run(state.at, tmp_path / "back").run.path) == contents(run.path)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_hanging_remote_does_not_block_the_end_of_a_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    release: threading.Event,
) -> None:
    monkeypatch.setattr(Remote, "write", lambda self, name, source: release.wait() and None)
    run = make_run(tmp_path / "runs")
    with caplog.at_level(logging.INFO, logger="ludus.runs"):
        Mirror(run, f"file://{tmp_path}/mirror", patience=0.3, **QUICK).close()
    assert "not finished in time" in warnings(caplog)[-1]
    assert run.info()["status"] == "running"


def test_stopping_ends_the_wait_for_the_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: threading.Event
) -> None:
    monkeypatch.setattr(Remote, "write", lambda self, name, source: release.wait() and None)
    mirror = Mirror(make_run(tmp_path / "runs"), f"file://{tmp_path}/mirror", patience=3600.0, **QUICK)
    mirror.close(stopping=lambda: True)


def test_checkpoint_deleted_during_its_upload_is_uploaded_completely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "runs", steps=(100,))
    path = run.checkpoints_dir / "000000000100"
    held = contents(path)
    write = Remote.write

    def delete_first(self: Remote, name: str, source: Any) -> None:
        if path.exists():
            shutil.rmtree(path)
        write(self, name, source)

    monkeypatch.setattr(Remote, "write", delete_first)
    mirror_now(run, f"file://{tmp_path}/mirror")
    assert (
        contents(pull_run(f"file://{tmp_path}/mirror", tmp_path / "b").run.path / path.relative_to(run.path))
        == held
    )


def test_checkpoint_saved_during_a_pass_is_uploaded_with_its_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "runs")
    commit, came = sync.Sync._commit, []

    def add_then_commit(self: Any, *arguments: Any, **named: Any) -> Any:
        if not came:
            came.append(add_checkpoint(run, 300))
        return commit(self, *arguments, **named)

    monkeypatch.setattr(sync.Sync, "_commit", add_then_commit)
    url = f"file://{tmp_path}/mirror"
    mirror_now(run, url)
    pulled = pull_run(url, tmp_path / "back").run
    steps = sorted(path.name for path in pulled.checkpoints_dir.iterdir() if path.is_dir())
    assert steps == ["000000000100", "000000000200"]
    mirror_now(run, url)
    assert contents(pull_run(url, tmp_path / "later").run.path) == contents(run.path)


def test_only_one_process_mirrors_a_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs")
    url = f"file://{tmp_path}/mirror"

    tried = []

    def try_too(path: str) -> None:
        if not tried:
            tried.append(path)
            with pytest.raises(UserError, match="in use"):
                mirror_now(run, url)

    mirror_now(run, url, note=try_too)
    assert tried


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(28, "No space left on device"), "no space left"),
        (PermissionError(13, "Permission denied"), "permission denied"),
        (OSError(30, "Read-only file system"), "permission denied"),
        (ConnectionRefusedError(111, "Connection refused"), "cannot be reached"),
        (TimeoutError("timed out"), "cannot be reached"),
        (FileNotFoundError(2, "No such file or directory"), "not found"),
        (
            RuntimeError("GET https://x/y?upload_id=AB&key=s3cr3t " + "k" * 40),
            "RuntimeError: GET https://x/y… …",
        ),
    ],
)
def test_errors_are_described_without_secrets(error: Exception, words: str) -> None:
    assert words in in_words(error)
    assert "s3cr3t" not in in_words(error) and "kkkk" not in in_words(error)


def test_run_without_a_mirror_does_not_import_it() -> None:
    code = (
        "import sys, ludus.runs.mirror.background, ludus.runs.mirror.pull, ludus.cli.mirror\n"
        "print([name for name in ('fsspec', 's3fs', 'gcsfs', 'gdrive_fsspec', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

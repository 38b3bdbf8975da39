"""A process killed at any file operation leaves a store with a whole checkpoint, none older than before."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ludus.runs import atomic
from ludus.runs.checkpoints import CheckpointManager

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")

OPERATIONS = ("make_directory", "write_bytes", "write_by", "sync", "rename", "remove")


def save(store: CheckpointManager, step: int, value: float = 0.0, *, resumable: bool = True) -> None:
    group = {"w": torch.full((4,), value)}
    store.save(step, {"policy": group}, {"value": value}, resumable=resumable)


def die(path: Path, operation: str) -> None:
    """Leave the operation half done where it can be, then be killed."""
    if operation in ("write_bytes", "write_by"):
        path.write_bytes(b"{")
    elif operation == "remove" and path.is_dir():
        next(path.iterdir()).unlink()
    os.kill(os.getpid(), signal.SIGKILL)


def run_killed_at(number: int, action: Callable[[], None]) -> bool:
    """Run `action` in a child that is killed at its file operation `number`; whether it got that far."""
    child = os.fork()
    if child == 0:
        done = 0

        def counted(operation: str) -> Callable[..., None]:
            original = getattr(atomic, operation)

            def call(path: Path, *rest: object) -> None:
                nonlocal done
                if done == number:
                    die(path, operation)
                done += 1
                original(path, *rest)

            return call

        try:
            for operation in OPERATIONS:
                setattr(atomic, operation, counted(operation))
            action()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), "the action itself failed"
    return status == signal.SIGKILL


def prepare(directory: Path) -> CheckpointManager:
    """A store with a best checkpoint (10), two more (20, 30) and a policy-only one (35)."""
    store = CheckpointManager(directory, keep=2)
    save(store, 10)
    store.mark_best(store.find(10), "eval/mean_reward", 1.0)
    save(store, 20)
    save(store, 30)
    save(store, 35, 35.0, resumable=False)
    return store


def check_whole(store: CheckpointManager, at_least: int) -> None:
    resumed = store.newest_intact()
    assert resumed is not None
    assert resumed.step >= at_least
    for checkpoint in store.list():
        checkpoint.verify()
    best = store.best()
    assert best is not None
    assert best.step == 10


def leftovers(store: CheckpointManager) -> list[Path]:
    return list(store.directory.glob(".*"))


@pytest.mark.parametrize("step", [40, 35, 30], ids=["new", "upgrade", "replace"])
def test_a_kill_at_any_operation_of_a_save_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, step: int
) -> None:
    original = prepare(tmp_path / "original")
    number = 0
    while True:
        copy = tmp_path / f"killed-at-{number}"
        shutil.copytree(original.directory, copy)
        store = CheckpointManager(copy, keep=2)
        killed = run_killed_at(number, lambda store=store: save(store, step, 99.0))  # type: ignore[misc]
        check_whole(store, at_least=30)
        standing = [c for c in store.list() if c.step == step]
        if step != 40:
            # Replacing: at every moment the old one or the new one is there.
            assert [c.state()["value"] for c in standing] in ([0.0], [35.0], [99.0])
        save(store, 50)
        check_whole(store, at_least=50)
        assert leftovers(store) == []
        if not killed:
            break
        number += 1
        shutil.rmtree(copy)
    assert number > 12
    assert "damaged" not in caplog.text


def test_a_kill_at_any_operation_of_truncate_leaves_only_valid_checkpoints(tmp_path: Path) -> None:
    original = prepare(tmp_path / "original")
    original.pin(30)
    number = 0
    while True:
        store = CheckpointManager(tmp_path / f"killed-at-{number}", keep=2)
        shutil.copytree(original.directory, store.directory)
        killed = run_killed_at(number, lambda store=store: store.truncate_after(10))  # type: ignore[misc]
        check_whole(store, at_least=10)
        store.truncate_after(10)
        assert [(c.step, c.resumable) for c in store.list()] == [(10, True), (30, False)]
        assert leftovers(store) == []
        if not killed:
            break
        number += 1
    assert number > 8


def test_unfinished_files_of_a_living_process_are_kept(tmp_path: Path) -> None:
    store = prepare(tmp_path)
    theirs = store.directory / f".tmp-60-{os.getppid()}"
    theirs.mkdir()
    save(store, 50)
    assert theirs.is_dir()


@pytest.mark.parametrize("step", [40, 35, 30], ids=["new", "upgrade", "replace"])
def test_an_error_at_any_operation_of_a_save_is_raised_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    original = prepare(tmp_path / "original")
    number = 0
    failed = True
    while failed:
        store = CheckpointManager(tmp_path / f"failed-at-{number}", keep=2)
        shutil.copytree(original.directory, store.directory)
        done = 0

        def once(original_call: Callable[..., None], fail_at: int = number) -> Callable[..., None]:
            def call(*arguments: object) -> None:
                nonlocal done
                done += 1
                if done - 1 == fail_at:
                    raise OSError(28, "No space left on device")
                original_call(*arguments)

            return call

        failed = False
        with monkeypatch.context() as patch:
            for operation in OPERATIONS:
                patch.setattr(atomic, operation, once(getattr(atomic, operation)))
            try:
                save(store, step, 99.0)
            except OSError:
                failed = True
        assert failed == (done > number)
        check_whole(store, at_least=30)
        assert {c.step for c in store.list()} >= {10, 30}
        save(store, 50)
        assert leftovers(store) == []
        number += 1
    assert number > 12

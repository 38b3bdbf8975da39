"""Links in runs: one that leads out is refused by name, one that stays inside is fine, and removing follows none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ludus.cli.app import main
from ludus.errors import UserError
from ludus.games.unity.builds import not_launched_reason
from ludus.games.unity.settings import BuildConfig
from ludus.plain_files import read_plain, way_out
from ludus.runs.directory import RunDirectory, find_run
from ludus.tracking.wandb import WandbTracker


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("precious")
    return RunDirectory.create(tmp_path / "runs", "CartPole-v1", "PPO", "sent", timestamp=False)


def test_a_link_that_leads_out_is_named(run: RunDirectory, tmp_path: Path) -> None:
    (run.path / "logs").mkdir()
    (run.path / "logs" / "train.log").symlink_to(tmp_path / "outside" / "file")
    for look in (lambda: find_run(str(run.path), "."), lambda: RunDirectory.open(run.path)):
        with pytest.raises(UserError) as caught:
            look()
        assert caught.value.where == str(run.path / "logs" / "train.log")


@pytest.mark.parametrize("target", ["../sent/run.json", "run.json", "missing", "."])
def test_link_inside_the_run_is_accepted(run: RunDirectory, target: str) -> None:
    (run.path / "link").symlink_to(target)
    assert find_run(str(run.path), ".") == run


@pytest.mark.parametrize("target", ["..", "../..", "../sent2/x", "/", "/dev/zero", "../missing"])
def test_link_that_leads_out_is_found(run: RunDirectory, target: str) -> None:
    (run.path / "link").symlink_to(target)
    assert way_out(run.path) == run.path / "link"


def test_what_wandb_keeps_may_link_to_its_logs_but_its_folder_is_no_link(
    run: RunDirectory, tmp_path: Path
) -> None:
    (run.path / "wandb" / "logs").mkdir(parents=True)
    (run.path / "wandb" / "logs" / "debug-core.log").symlink_to(tmp_path / "outside" / "file")
    assert find_run(str(run.path), ".") == run
    (run.path / "wandb").rename(tmp_path / "outside" / "wandb")
    (run.path / "wandb").symlink_to(tmp_path / "outside" / "wandb")
    with pytest.raises(UserError):
        find_run(str(run.path), ".")


def test_the_run_itself_may_be_linked_to(run: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(run.path)
    assert find_run(str(tmp_path / "alias"), ".").info()["name"] == "sent"


def test_a_run_with_links_can_be_removed_and_they_are_not_followed(run: RunDirectory, tmp_path: Path) -> None:
    (run.path / "checkpoints").symlink_to(tmp_path / "outside")
    (run.path / "metrics.jsonl").symlink_to(tmp_path / "outside" / "file")
    assert main(["runs", "rm", str(run.path), "--yes"]) == 0
    assert not run.path.exists() and (tmp_path / "outside" / "file").read_text() == "precious"


def test_only_plain_files_of_a_bounded_size_are_read(tmp_path: Path) -> None:
    plain, link, pipe = tmp_path / "plain", tmp_path / "link", tmp_path / "pipe"
    plain.write_bytes(b"x" * 10)
    link.symlink_to(plain)
    os.mkfifo(pipe)
    assert read_plain(plain, 10) == read_plain(link, 10, links=True) == b"x" * 10
    for path in (link, pipe, tmp_path, tmp_path / "missing", Path("/dev/zero")):
        with pytest.raises(OSError):
            read_plain(path, 10)
    with pytest.raises(OSError, match="more than 9 bytes"):
        read_plain(plain, 9)


@pytest.mark.parametrize("place", ["here", "in the run"])
def test_wandb_takes_no_server_from_a_run(
    place: str, run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run.path / "wandb").mkdir()
    (run.path / "wandb" / "settings").write_text("[default]\nbase_url = http://canary.invalid\n")
    monkeypatch.chdir(run.path if place == "here" else tmp_path)
    used = tmp_path / "other" if place == "here" else run.path
    with pytest.raises(UserError, match="settings") as caught:
        WandbTracker("name", "project", used, {})
    assert caught.value.where.endswith("wandb/settings")


def test_a_program_that_came_with_a_run_is_not_started(run: RunDirectory) -> None:
    run.config_path.write_text("env: ludus/Unity-v0\n")
    build = run.path / "build.x86_64"
    build.write_text("#!/bin/sh\n")
    build.chmod(0o755)
    with pytest.raises(UserError, match="never started"):
        not_launched_reason(BuildConfig(path=str(build)))
    assert not_launched_reason(BuildConfig(path=str(build), launch=False)) is not None

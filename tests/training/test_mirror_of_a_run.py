"""A mirrored run resumes on another machine to the same bytes, and never waits for its mirror."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tiny_runs import resumed, same, steps_of, tiny, trained

from ludus.errors import MissingExtra
from ludus.runs.mirror.pull import pull_run
from ludus.runs.mirror.state import MirrorState

pytest.importorskip("s3fs", reason="the extra cloud is not installed")
pytest.importorskip("moto", reason="moto is not installed")

from s3_server import KEY_ID, SECRET, s3_server

EVERY = {"checkpoint": {"every": 512, "keep": 0}}


def test_a_run_pulled_from_s3_ends_with_the_bytes_of_one_that_never_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = trained(tiny(tmp_path / "whole", **EVERY))
    with s3_server() as (address, _):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        import s3fs

        s3fs.S3FileSystem(skip_instance_cache=True).makedirs("trained", exist_ok=True)
        config = tiny(tmp_path / "here", **EVERY, mirror="s3://trained/mine")
        run = trained(config)
        state = MirrorState.load(run.path)
        assert state is not None and (state.missing, state.trouble) == (0, None)
        there = pull_run("s3://trained/mine", tmp_path / "there").run
        assert steps_of(there) == steps_of(run)
        assert resumed(there, 512) == 512
        same(whole, there)
    for path in [*run.path.rglob("*"), *there.path.rglob("*")]:
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


def test_a_mirror_that_cannot_work_stops_nothing_and_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ludus.runs.mirror.background._FIRST_PAUSE", 0.01)
    (tmp_path / "file").write_text("no folder")
    with caplog.at_level(logging.WARNING, logger="ludus.runs"):
        run = trained(tiny(tmp_path / "runs", mirror={"url": f"file://{tmp_path}/file", "wait": 5}))
    assert run.info()["status"] == "finished"
    first, last = [record.getMessage() for record in caplog.records if record.name == "ludus.runs"]
    assert "failed" in first and "Training continues" in first
    assert "ludus mirror" in last
    state = MirrorState.load(run.path)
    assert state is not None and state.trouble and state.missing > 0


def test_a_mirror_whose_package_is_missing_is_reported_before_a_run_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    with pytest.raises(MissingExtra, match="'cloud'"):
        trained(tiny(tmp_path, mirror="gdrive://runs"))
    assert not list(tmp_path.iterdir())

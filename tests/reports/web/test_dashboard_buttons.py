"""Stop and resume: only the process that really trains the run is asked, and only once."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from dashboard_site import Site, wait_until, write_run

from ludus.runs.lock import RunLock

# Holds the lock of a run and says so; the first SIGTERM is counted, as a training would that saves now.
_HOLDER = """
import os, signal, sys, time
from pathlib import Path
from ludus.runs.lock import RunLock
run, text = Path(sys.argv[1]), sys.argv[2]
signal.signal(signal.SIGTERM, lambda *_: (run / "asked").open("a").write("x"))
with RunLock(run) as lock:
    if text:
        lock.path.write_text(text)
    print("held", flush=True)
    while True:
        time.sleep(0.05)
"""


@contextmanager
def training(run: Path, lock_text: str = "") -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(run), lock_text], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        (run / "run.json").write_text(json.dumps({"status": "running", "pid": process.pid}))
        yield process
    finally:
        process.kill()
        process.wait()


def stop(site: Site, name: str) -> tuple[int, str]:
    code, answer = site.post(f"/api/runs/{site.id_of(name)}/stop")
    return code, answer["message"] if code == 200 else answer["error"]["what"]


def resume(site: Site, name: str, **body: str) -> tuple[int, str]:
    code, answer = site.post(f"/api/runs/{site.id_of(name)}/resume", body)
    return code, answer["message"] if code == 200 else answer["error"]["what"]


def test_the_process_that_holds_the_run_is_asked_once(root: Path, site: Site) -> None:
    run = write_run(root, "one")
    with training(run) as process:
        assert stop(site, "one") == (200, f"process {process.pid} was asked to save and stop")
        assert stop(site, "one") == (409, "the run was already asked to stop")
        assert site.get(f"/api/runs/{site.id_of('one')}")["control"]["stopping"] is True
        wait_until((run / "asked").exists)
        assert (run / "asked").read_text() == "x"
    assert resume(site, "one")[0] == 409


def test_a_run_that_nobody_trains_is_not_stopped(root: Path, site: Site) -> None:
    run = write_run(root, "one", status="running", pid=os.getpid())
    (run / "run.lock").write_text(f"{os.getpid()} {socket.gethostname()}\n")
    assert stop(site, "one") == (409, "no process trains this run")


@pytest.mark.parametrize(
    "text", ["{bystander} {host}", "{bystander} elsewhere", "1 {host}", "-1 {host}", "x"]
)
def test_a_lock_that_names_another_process_reaches_nobody(root: Path, site: Site, text: str) -> None:
    run = write_run(root, "one")
    with subprocess.Popen(["sleep", "60"]) as bystander:
        with training(run, text.format(bystander=bystander.pid, host=socket.gethostname())):
            code, what = stop(site, "one")
            assert code == 409 and what in (
                "the process that trains the run is not visible from here",
                "no process trains this run",
            )
        assert not (run / "asked").exists()
        assert bystander.poll() is None
        bystander.kill()


def test_a_lock_that_is_a_link_to_another_runs_lock_stops_neither(root: Path, site: Site) -> None:
    victim, decoy = write_run(root, "victim"), write_run(root, "decoy", status="running")
    with training(victim):
        (decoy / "run.lock").symlink_to(victim / "run.lock")
        assert stop(site, "decoy") == (409, "no process trains this run")
        assert not (victim / "asked").exists()


def test_runs_that_cannot_be_resumed_are_reported(root: Path, site: Site) -> None:
    run = write_run(root, "one")
    assert resume(site, "one") == (409, "the run has no checkpoint to resume from")
    _checkpoint(run)
    assert resume(site, "one", steps="; rm -rf /")[0] == 409
    with RunLock(run):
        assert resume(site, "one") == (409, "the run is in use")


def test_a_resume_that_fails_says_why(root: Path, site: Site) -> None:
    run = write_run(root, "one@best")  # a name that looks like a checkpoint of `one`
    _checkpoint(run)
    (run / "config.yaml").write_text("algorithm: NOPE\n")
    assert resume(site, "one@best")[0] == 200
    address = f"/api/runs/{site.id_of('one@best')}"
    wait_until(lambda: site.get(address)["control"]["failed"], seconds=60)
    assert "NOPE" in site.get(address)["control"]["failed"]
    assert "NOPE" in (run / "logs" / "resume.log").read_text()


def test_a_log_that_is_a_link_is_not_written_through(root: Path, site: Site, tmp_path: Path) -> None:
    run = write_run(root, "one")
    _checkpoint(run)
    outside = tmp_path / "precious"
    outside.write_text("precious")
    (run / "logs").mkdir()
    (run / "logs" / "resume.log").symlink_to(outside)
    assert resume(site, "one")[0] == 404
    assert outside.read_text() == "precious"


def _checkpoint(run: Path) -> None:
    folder = run / "checkpoints" / "000000000100"
    folder.mkdir(parents=True)
    manifest = {
        "format": 1,
        "step": 100,
        "created": "2026-11-01T10:00:00+00:00",
        "exact": True,
        "resumable": True,
    }
    (folder / "MANIFEST.json").write_text(json.dumps(manifest | {"files": {}}))

"""A killed and interrupted comparison ends with the same results files as an uninterrupted one."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from comparisons import RESULTS, TINY, finished_runs, start, write_configs

from ludus.cli.app import main


def _stop_when_finished(process: subprocess.Popen[str], comparison: Path, runs: int, number: int) -> str:
    """Send the signal once `runs` runs have ended; return the output of the command."""
    deadline = time.monotonic() + 120
    while len(finished_runs(comparison)) < runs:
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0]
        time.sleep(0.01)
    process.send_signal(number)
    return process.communicate(timeout=120)[0]


@pytest.mark.long
def test_killed_and_interrupted_comparison_ends_with_identical_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    configs = write_configs(tmp_path)
    arguments = ["compare", *configs, *TINY, "--seeds", "3", "--jobs", "2"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"

    killed = start(tmp_path, *arguments, "--out", "broken")
    _stop_when_finished(killed, broken, 2, signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    survivors = finished_runs(broken)

    # immediately, while the orphaned runs may still be saving
    interrupted = start(tmp_path, *arguments, "--out", "broken")
    output = _stop_when_finished(interrupted, broken, 5, signal.SIGINT)
    assert interrupted.returncode == 130, output
    assert "runs are already finished" in output
    assert "ludus compare --resume broken" in output
    assert "Traceback" not in output
    assert finished_runs(broken).items() >= survivors.items()
    survivors = finished_runs(broken)
    assert len(survivors) < 9, "nothing was left to resume"

    assert main(["compare", "--resume", "broken", "--json"]) == 0
    assert finished_runs(broken).items() >= survivors.items()
    assert len(finished_runs(broken)) == 9
    assert main([*arguments, "--out", "whole", "--json"]) == 0
    capsys.readouterr()
    for name in RESULTS:
        assert (broken / name).read_bytes() == (whole / name).read_bytes(), name

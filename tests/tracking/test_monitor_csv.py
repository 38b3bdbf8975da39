"""`monitor.csv` holds each episode once, in the form that Stable-Baselines3's tools read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ludus.tracking.monitor_csv import MonitorCsv


def rows(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_episodes_appear_when_a_row_is_taken_and_a_torn_line_waits(tmp_path: Path) -> None:
    episodes, path = tmp_path / "episodes.jsonl", tmp_path / "logs" / "a run" / "monitor.csv"
    follower = MonitorCsv(path, episodes, "CartPole-v1")
    episodes.write_text('{"step": 20, "reward": 20.0, "length": 20}\n{"step": 31, "rew')
    follower.row({"step": 40, "time/seconds": 1.5}, 40)
    assert json.loads(rows(path)[0].removeprefix("#"))["env_id"] == "CartPole-v1"
    assert rows(path)[1:] == ["r,l,t", "20.0,20,1.5"]
    episodes.write_text(
        '{"step": 20, "reward": 20.0, "length": 20}\n{"step": 31, "reward": 11.0, "length": 11}\n'
    )
    follower.row({"step": 50, "eval/mean_reward": 3.0}, 50)  # an evaluation row has no time
    follower.row({"step": 60, "time/seconds": 2.0}, 60)
    follower.close()
    assert rows(path)[2:] == ["20.0,20,1.5", "11.0,11,2.0"]


def test_a_resumed_run_has_no_episode_twice(tmp_path: Path) -> None:
    episodes, path = tmp_path / "episodes.jsonl", tmp_path / "monitor.csv"
    episodes.write_text('{"step": 5, "reward": 1.0, "length": 5}\n' * 3)
    first = MonitorCsv(path, episodes, "e")
    first.row({"time/seconds": 1.0}, 15)
    first.close()
    again = MonitorCsv(path, episodes, "e")
    episodes.write_text('{"step": 5, "reward": 1.0, "length": 5}\n')  # cut back to the checkpoint
    again.row({"time/seconds": 0.5}, 5)
    again.close()
    assert rows(path)[2:] == ["1.0,5,0.5"]


def test_stable_baselines3_reads_it(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    monitor = pytest.importorskip("stable_baselines3.common.monitor")
    episodes = tmp_path / "episodes.jsonl"
    episodes.write_text('{"step": 5, "reward": 1.0, "length": 5}\n{"step": 9, "reward": 2.5, "length": 4}\n')
    follower = MonitorCsv(tmp_path / "monitor.csv", episodes, "e")
    follower.row({"time/seconds": 1.0}, 9)
    follower.close()
    frame = monitor.load_results(str(tmp_path))
    assert (list(frame["r"]), list(frame["l"])) == ([1.0, 2.5], [5, 4])

"""Analysis of a policy: consistent columns of every step, charts of the same numbers, and files."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from ludus.envs import signals
from ludus.envs.signals import Signal, register_signals
from ludus.errors import MissingExtra
from ludus.evaluation.analysis.charts import explained_variance, figures_of
from ludus.evaluation.analysis.export import require_format, usual_format, write_steps
from ludus.evaluation.analysis.recording import Recording, record_episodes, to_go
from ludus.types import Array


class Counting(gym.Env[Any, Any]):
    """Rewards 1, 2, 3, …; ends after `seed` steps. Observes the count."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space: Any = spaces.Discrete(3, start=1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.age, self.length = 0, seed or 3
        return np.array([0.0], np.float32), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.age += 1
        done = self.age == self.length
        return np.array([self.age], np.float32), float(self.age), done and self.length < 5, done, {}


class Boxed(Counting):
    action_space = spaces.Box(-1, 1, (2,), np.float32)


class Cycling:
    """Plays 1, 2, 3, 1, …, or zeros of a given shape."""

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        self.shape, self.moves = shape, 0

    def predict(self, obs: Any, mask: Any = None, deterministic: bool = True) -> Array:
        self.moves += 1
        if self.shape:
            return np.zeros((len(obs), *self.shape), np.float32)
        return np.full(len(obs), 1 + (self.moves - 1) % 3)


@pytest.fixture(autouse=True)
def _signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "_registry", list(signals._registry))
    counted = [
        Signal("count", lambda env, obs, info: env.age, "steps"),
        Signal("pace", lambda env, obs, info: 1.0, "steps/s", rate_of="count"),
        Signal("odd", lambda env, obs, info: env.age % 2, contact=True),
        Signal("reward", lambda env, obs, info: -env.age),  # as a column of its own is called
    ]
    register_signals("Counting", counted, ("one", "two", "three"))


def recorded() -> Recording:
    return record_episodes(Cycling(), Counting, [3, 5], gamma=0.5)


def test_rows_record_every_step() -> None:
    recording = recorded()
    columns = recording.columns
    expected = {
        "episode": [0, 0, 0, 1, 1, 1, 1, 1],
        "seed": [3, 3, 3, 5, 5, 5, 5, 5],
        "step": [0, 1, 2, 0, 1, 2, 3, 4],
        "reward": [1, 2, 3, 1, 2, 3, 4, 5],
        "return": [1, 3, 6, 1, 3, 6, 10, 15],
        "return_to_go": [6, 5, 3, 15, 14, 12, 9, 5],
        "discounted_return_to_go": [2.75, 3.5, 3, 3.5625, 5.125, 6.25, 6.5, 5],
        "terminated": [0, 0, 1, 0, 0, 0, 0, 0],
        "truncated": [0, 0, 0, 0, 0, 0, 0, 1],
        "action": [1, 2, 3, 1, 2, 3, 1, 2],
        "count": [0, 1, 2, 0, 1, 2, 3, 4],  # of the state in which the action was taken
        "odd": [0, 1, 0, 0, 1, 0, 1, 0],
        "signal reward": [0, -1, -2, 0, -1, -2, -3, -4],
    }
    assert {name: columns[name].tolist() for name in expected} == expected
    assert np.isnan(columns["value"]).all() and not recording.has_values
    assert [(one.seed, one.reward, one.length, one.ended) for one in recording.episodes] == [
        (3, 6.0, 3, "terminated"),
        (5, 15.0, 5, "truncated"),
    ]
    assert to_go(np.array([1.0, 0.0, 4.0]), 0.5).tolist() == [2.0, 2.0, 4.0]


def test_endless_episode_is_cut() -> None:
    episode = record_episodes(Cycling(), Counting, [50], max_steps=4).episodes[0]
    assert (episode.length, episode.reward, episode.ended) == (4, 10.0, "cut")


def test_every_component_of_an_action_has_a_column() -> None:
    recording = record_episodes(Cycling((2,)), Boxed, [3])
    assert recording.action_columns == ("action 0", "action 1")
    assert recording.columns["action 1"].tolist() == [0.0, 0.0, 0.0]


def test_charts_contain_the_recorded_numbers() -> None:
    recording = recorded()
    figures = {figure.name: figure for figure in figures_of(recording)}
    assert list(figures) == ["episode-1", "episode-2", "phase-portraits", "actions", "returns"]
    second = {chart.title: chart for chart in figures["episode-2"].charts}
    assert second["reward"].series[0].y.tolist() == [1, 2, 3, 4, 5]
    assert second["action"].series[0].y.tolist() == [0, 1, 2, 0, 1]  # counted from the first choice
    assert second["action"].names == ("one", "two", "three")
    assert second["count"].series[0].y.tolist() == [0, 1, 2, 3, 4] and second["count"].y_label == "steps"
    assert second["contacts"].kind == "bands" and second["contacts"].series[0].y.tolist() == [0, 1, 0, 1, 0]
    (phase,) = figures["phase-portraits"].charts
    assert (phase.x_label, phase.y_label) == ("count", "pace") and len(phase.series) == 2
    (histogram,) = figures["actions"].charts
    assert histogram.names == ("one", "two", "three")
    assert histogram.series[0].y.tolist() == [3 / 8, 3 / 8, 2 / 8]
    assert figures["returns"].charts[0].series[0].y.tolist() == [6, 15]


def test_explained_variance_is_one_for_a_perfect_prediction_and_zero_for_the_mean() -> None:
    truth = np.array([1.0, 2.0, 6.0])
    assert explained_variance(truth, truth) == 1.0
    assert explained_variance(np.full(3, 3.0), truth) == 0.0
    assert np.isnan(explained_variance(truth, np.ones(3)))


def test_csv_has_every_row_and_empty_cells_for_nan(tmp_path: Path) -> None:
    recording = recorded()
    path = write_steps(recording, tmp_path / "steps.csv", "csv", {})
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(recording.columns) and len(rows) == 8
    assert [float(row["discounted_return_to_go"]) for row in rows] == recording.columns[
        "discounted_return_to_go"
    ].tolist()
    assert {row["value"] for row in rows} == {""}
    assert [path.name for path in tmp_path.iterdir()] == ["steps.csv"]


def test_parquet_has_the_same_columns_and_metadata(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    recording = recorded()
    path = write_steps(recording, tmp_path / "steps.parquet", "parquet", {"run": "a run"})
    table = parquet.read_table(path)
    assert table.column_names == list(recording.columns)
    for name, column in recording.columns.items():
        np.testing.assert_array_equal(table[name].to_numpy(), column)
    assert json.loads(table.schema.metadata[b"ludus"]) == {"run": "a run"}


def test_without_pyarrow_csv_is_the_default_and_parquet_names_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert usual_format() == "csv"
    with pytest.raises(MissingExtra, match="'parquet'"):
        require_format("parquet")


def test_failed_write_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "steps.csv").mkdir()
    with pytest.raises(OSError):
        write_steps(recorded(), tmp_path / "steps.csv", "csv", {})
    assert [path.name for path in tmp_path.iterdir()] == ["steps.csv"]


def test_most_frequent_choices_are_drawn_with_their_names() -> None:
    class Wide(Counting):
        action_space = spaces.Discrete(40)

    class Counter(Cycling):
        def predict(self, obs: Any, mask: Any = None, deterministic: bool = True) -> Array:
            self.moves += 1
            return np.full(len(obs), 7 if self.moves % 2 else self.moves % 40)

    (figure,) = (f for f in figures_of(record_episodes(Counter(), Wide, [60])) if f.name == "actions")
    (chart,) = figure.charts
    assert chart.title == "action: the 15 most frequent of 21" and chart.names[0] == "7"
    assert len(chart.series[0].y) == 15 and chart.series[0].y[0] == 0.5

"""`MultiAlgorithmBenchmark`, as the document "training framework" uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from rich.console import Console

from ludus import (
    ExperimentConfig,
    MultiAlgorithmBenchmark,
    TrainerConfig,
    plot_training_curves,
    print_comparison_table,
)
from ludus.errors import ConfigError, UnknownName, UserError
from ludus.experiments.comparison.tables import budget_note
from ludus.experiments.experiment import ExperimentResult, RunResult

FIELDS: dict[str, Any] = {
    "total_timesteps": 1000,
    "n_envs": 2,
    "hyperparams": {"policy_net_arch": [16], "value_net_arch": [16]},
    "evaluation": {"every": 500, "episodes": 2},
    "tracking": {"tensorboard": False},
}


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> MultiAlgorithmBenchmark:
    """Pattern 2 of the document, with CartPole made by a function."""
    length = 50
    folder = tmp_path_factory.mktemp("benchmark")
    done = MultiAlgorithmBenchmark(
        lambda: gym.make("CartPole-v1", max_episode_steps=length), directory=folder / "results", quiet=True
    )
    for algorithm in ("A2C", "DQN"):
        done.add_experiment(ExperimentConfig(algorithm=algorithm, seeds=2, **FIELDS))
    done.run_all()
    return done


def test_every_experiment_has_a_result_over_its_seeds(benchmark: MultiAlgorithmBenchmark) -> None:
    assert [(one.name, one.status, len(one.runs)) for one in benchmark.results] == [
        ("A2C", "finished", 2),
        ("DQN", "finished", 2),
    ]
    first = benchmark.results[0]
    scores = [run.score for run in first.runs]
    assert None not in scores
    assert first.mean_reward == pytest.approx(sum(filter(None, scores)) / 2)
    assert max(run.best_score or 0 for run in first.runs) == first.best_reward
    assert first.best_reward is not None and first.best_reward <= 50  # the function's own limit
    assert (first.total_timesteps, first.env) == (2000, "custom")
    assert first.core_seconds > 0


def test_best_result_is_chosen_by_the_given_metric(benchmark: MultiAlgorithmBenchmark) -> None:
    by_reward = benchmark.get_best_result()
    assert by_reward.mean_reward == max(one.mean_reward or 0 for one in benchmark.results)
    quickest = benchmark.get_best_result("training_time")
    assert quickest.training_time == min(one.training_time for one in benchmark.results)
    with pytest.raises(UnknownName, match="mean_rewards"):
        benchmark.get_best_result("mean_rewards")


def test_comparison_has_the_probability_of_improvement(benchmark: MultiAlgorithmBenchmark) -> None:
    found = benchmark.compare_algorithms()
    assert set(found) == {"A2C", "DQN"}
    chance = found["A2C"]["probability_of_improvement"]["DQN"]
    assert chance + found["DQN"]["probability_of_improvement"]["A2C"] == pytest.approx(1.0)
    assert next(iter(found)) == benchmark.get_best_result("iqm").name


def test_the_summary_is_a_table(
    benchmark: MultiAlgorithmBenchmark, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    benchmark.print_summary()
    out = capsys.readouterr().out
    assert "IQM" in out
    assert "index.html" in out
    print_comparison_table({"PPO": {"mean_reward": 12.5, "std": 1}, "A2C": {"mean_reward": 3.0}})
    assert "12.50" in capsys.readouterr().out


def test_running_again_in_the_same_directory_trains_nothing(benchmark: MultiAlgorithmBenchmark) -> None:
    before = (benchmark.directory / "results.json").read_bytes()
    again = MultiAlgorithmBenchmark(benchmark.env_creator, directory=benchmark.directory, quiet=True)
    for config in benchmark.experiments:
        again.add_experiment(config)
    results = again.run_all()
    assert [one.training_time for one in results] == [one.training_time for one in benchmark.results]
    assert (benchmark.directory / "results.json").read_bytes() == before


def test_curves_are_drawn_from_results_and_from_plain_numbers(
    benchmark: MultiAlgorithmBenchmark, tmp_path: Path
) -> None:
    figure = plot_training_curves(benchmark.results, save_path=tmp_path / "plot.png")
    assert [trace.name for trace in figure.data] == ["A2C", "DQN"]
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    smooth = plot_training_curves({"PPO": [1.0, 2.0, 6.0]}, window=2, save_path=tmp_path / "plot.html")
    assert list(smooth.data[0].y) == [1.0, 1.5, 4.0]
    assert "<html" in (tmp_path / "plot.html").read_text()
    with pytest.raises(UserError, match="cannot write"):
        plot_training_curves({"PPO": [1.0]}, save_path=tmp_path / "plot.bmp")


class Episodes:
    """An object with rewards, like the metrics of a game and the result of a training."""

    rewards: ClassVar = [1.0, 2.0, 6.0]


@pytest.mark.parametrize(
    "metrics",
    [
        {"PPO": {"rewards": [1, 2, 6]}},
        {"PPO": {"steps": [10, 20, 30], "values": [1, 2, 6]}},
        {"PPO": Episodes()},
        Episodes(),
        [1.0, 2.0, 6.0],
        {"PPO": np.array([1, 2, 6])},
    ],
)
def test_every_form_of_a_series_is_drawn(metrics: Any) -> None:
    assert list(plot_training_curves(metrics).data[0].y) == [1.0, 2.0, 6.0]


@pytest.mark.parametrize(
    "metrics",
    [{"PPO": {"reward": [1]}}, {"PPO": "fast"}, {"PPO": 5}, 5, {"PPO": {"steps": [1], "values": [1, 2]}}],
)
def test_invalid_series_raises_in_three_lines(metrics: Any) -> None:
    with pytest.raises(UserError, match="is not a curve") as caught:
        plot_training_curves(metrics)
    assert len(str(caught.value).splitlines()) == 3


def test_plain_numbers_by_algorithm_are_printed_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_comparison_table([{"algorithm": "PPO", "mean_reward": 12.5}, {"name": "mine", "mean_reward": 3.0}])
    out = capsys.readouterr().out
    assert "PPO" in out and "12.50" in out and "mine" in out
    for nothing in ([5], [], {"PPO": 3}):
        with pytest.raises(UserError, match="nothing to compare"):
            print_comparison_table(nothing)  # type: ignore[arg-type]


def test_different_budgets_are_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def result(name: str, steps: int) -> ExperimentResult:
        run = RunResult(seed=1, status="finished", run=tmp_path, steps=steps, score=1.0)
        return ExperimentResult(name, name, "CartPole-v1", TrainerConfig(), (run,), 1.0, None, 1.0, None)

    ours = [result("PPO", 16_384), result("DQN", 2_000)]
    print_comparison_table(ours, Console(width=120))
    out = capsys.readouterr().out
    assert "16,384" in out and "2,000" in out
    note = budget_note(ours)
    assert note is not None and "PPO 16,384, DQN 2,000" in note
    assert budget_note([result("PPO", 2_048), result("DQN", 2_048)]) is None


def test_missing_results_or_experiments_raise(tmp_path: Path) -> None:
    empty = MultiAlgorithmBenchmark("CartPole-v1", directory=tmp_path / "none")
    with pytest.raises(UserError, match="no experiments to compare"):
        empty.run_all()
    with pytest.raises(UserError, match="no results yet"):
        empty.print_summary()
    assert not (tmp_path / "none").exists()


def test_an_experiment_is_a_trainer_config_with_seeds() -> None:
    config = ExperimentConfig(algorithm="PPO", total_timesteps=100_000, seed=7, seeds=3, eval_freq=5_000)
    assert config.seed_list == [7, 8, 9]
    assert ExperimentConfig(seeds=[4, 2]).seed_list == [4, 2]
    assert isinstance(config.trainer_config(), TrainerConfig)
    assert config.trainer_config().evaluation.every == config.evaluation.every
    assert not hasattr(config.trainer_config(), "seeds")
    for wrong in (0, [], [1, 1], [-1]):
        with pytest.raises(ConfigError, match="seeds must be"):
            ExperimentConfig(seeds=wrong)


def test_duplicate_names_are_numbered(tmp_path: Path) -> None:
    twice = MultiAlgorithmBenchmark("CartPole-v1", directory=tmp_path)
    for rate in (1e-3, 1e-4):
        twice.add_experiment(ExperimentConfig(algorithm="PPO", hyperparams={"learning_rate": rate}))
    names = [one.name for one in twice._comparison().experiments]
    assert names == ["PPO", "PPO-2"]

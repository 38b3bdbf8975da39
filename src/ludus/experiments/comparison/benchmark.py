"""`MultiAlgorithmBenchmark`: a comparison of algorithms from Python."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from ludus.config.loading import plain_config
from ludus.config.schema import TrainerConfig
from ludus.errors import UnknownName, UserError
from ludus.experiments.comparison.live import ComparisonDisplay
from ludus.experiments.comparison.page import write_page
from ludus.experiments.comparison.plan import Comparison, plan_experiments
from ludus.experiments.comparison.results import describe, write_results
from ludus.experiments.comparison.running import run_comparison
from ludus.experiments.comparison.tables import print_comparison_table
from ludus.experiments.experiment import (
    CURVE_POINTS,
    ExperimentConfig,
    ExperimentResult,
    spread_evaluations,
)

METRICS = ("mean_reward", "best_reward", "iqm", "fps", "training_time", "core_seconds", "peak_memory")
_LESS_IS_BETTER = ("training_time", "core_seconds", "peak_memory")


class MultiAlgorithmBenchmark:
    """Trains several configs on one env and compares them.

    `env_creator` is a function that returns a new env, or an id; None leaves it to the configs. `directory`
    is where everything is kept (default: a new one below `comparisons/`); given one that holds this
    benchmark already, `run_all` goes on with it and repeats nothing that is finished. `jobs` runs train at a
    time (default: one per core).
    """

    def __init__(
        self,
        env_creator: Callable[[], Any] | str | None = None,
        *,
        directory: str | Path | None = None,
        jobs: int | None = None,
        quiet: bool = False,
    ) -> None:
        self.env_creator = env_creator
        self.directory = Path(directory) if directory is not None else _new_directory()
        self.jobs = jobs
        self.quiet = quiet
        self.experiments: list[ExperimentConfig] = []
        self.results: list[ExperimentResult] = []

    def add_experiment(self, config: ExperimentConfig | TrainerConfig) -> None:
        """Compare this config as well. Its `name` labels it (default: the algorithm's).

        One that does not say when to evaluate is evaluated twenty times over its run, for a curve.
        """
        unsaid = "evaluation" not in config.model_fields_set
        if not isinstance(config, ExperimentConfig):
            config = ExperimentConfig.model_validate(plain_config(config))
        if isinstance(self.env_creator, str):
            config = config.model_copy()
            config.env_id = self.env_creator
        self.experiments.append(spread_evaluations(config, CURVE_POINTS) if unsaid else config)

    def run_all(self) -> list[ExperimentResult]:
        """Train everything and write results.json, results.csv, costs.json and index.html into `directory`.

        One that fails is reported and has its `error` in the results; the rest go on. Ctrl-C lets the runs
        save and returns what there is.
        """
        comparison = self._comparison()
        self.directory.mkdir(parents=True, exist_ok=True)
        comparison.save()
        display = ComparisonDisplay(Console(highlight=False), self.quiet)
        run_comparison(comparison, display, self.jobs)
        self.results = comparison.results()
        write_page(self.directory, *write_results(self.directory, self.results))
        return self.results

    def print_summary(self) -> None:
        """Print the results as a table, the best first."""
        self._require_results()
        print_comparison_table(self.results)
        for result in self.results:
            if result.error:
                print(f"{result.name} failed: {result.error}")
        print(f"page: {self.directory / 'index.html'}")

    def get_best_result(self, metric: str = "mean_reward") -> ExperimentResult:
        """The result with the best `metric`; UserError when none has one.

        For training_time, core_seconds and peak_memory the lowest is best, else the highest.
        """
        self._require_results()
        if metric not in METRICS:
            raise UnknownName("metric", metric, METRICS, fix=f"known: {', '.join(METRICS)}")
        known = [(value, one) for one in self.results if (value := _value(one, metric)) is not None]
        if not known:
            raise UserError("no experiment has ended with a result", where=str(self.directory))
        choose = min if metric in _LESS_IS_BETTER else max
        return choose(known, key=lambda pair: pair[0])[1]

    def compare_algorithms(self) -> dict[str, dict[str, Any]]:
        """Name to its numbers, the best first: those of `ExperimentResult.summary`, its costs, `steps_to` shares
        of the best, and `probability_of_improvement` over each other one.
        """
        self._require_results()
        found = describe(self.results, self.directory)
        chances: dict[str, dict[str, float]] = {}
        for row in found["probability_of_improvement"]:
            chances.setdefault(row["better"], {})[row["than"]] = row["value"]
        pairs = zip(self.results, found["experiments"], strict=True)
        ranked = sorted(pairs, key=lambda pair: (pair[0].iqm is None, -(_value(pair[0], "iqm") or 0.0)))
        return {
            result.name: {
                **result.summary(),
                "fps": result.fps,
                "training_time": result.training_time,
                "core_seconds": result.core_seconds,
                "peak_memory": result.peak_memory,
                "steps_to": described["steps_to"],
                "probability_of_improvement": chances.get(result.name, {}),
            }
            for result, described in ranked
        }

    def _comparison(self) -> Comparison:
        creator = self.env_creator if callable(self.env_creator) else None
        name = None if creator is None else getattr(creator, "__name__", "custom")
        experiments = plan_experiments(self.experiments, "custom" if name == "<lambda>" else name)
        return Comparison(self.directory, experiments, creator)

    def _require_results(self) -> None:
        if not self.results:
            raise UserError("there are no results yet", fix="call run_all() first")


def _value(result: ExperimentResult, metric: str) -> float | None:
    if not any(run.counts for run in result.runs):
        return None
    if metric == "iqm":
        return None if result.iqm is None else result.iqm.value
    value: float | None = getattr(result, metric)
    return value


def _new_directory() -> Path:
    return Path("comparisons") / f"{datetime.now():%Y%m%d-%H%M%S-%f}"

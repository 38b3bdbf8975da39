"""`MultiAlgorithmBenchmark`: a comparison of algorithms from Python."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from numbers import Integral
from pathlib import Path
from typing import Any

from ludus.config.loading import plain_config
from ludus.config.schema import TrainerConfig
from ludus.errors import NONE, UnknownName, UserError, printable, require_types
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
from ludus.tracking.progress import PlainConsole

METRICS = ("mean_reward", "best_reward", "iqm", "fps", "training_time", "core_seconds", "peak_memory")
_LESS_IS_BETTER = ("training_time", "core_seconds", "peak_memory")


class MultiAlgorithmBenchmark:
    """Trains several configs on one env and compares them.

    `env_creator` is a function that returns a new env, or an id; None uses the envs of the configs. `directory` is the
    output folder (default: a new one below `comparisons/`). If it already contains this benchmark, `run_all` resumes it
    and does not repeat finished runs. `jobs` runs train at a time (default: one per core).
    """

    def __init__(
        self,
        env_creator: Callable[[], Any] | str | None = None,
        *,
        directory: str | Path | None = None,
        jobs: int | None = None,
        quiet: bool = False,
    ) -> None:
        require_types(
            "MultiAlgorithmBenchmark",
            env_creator=(env_creator, (str, Callable, NONE)),  # type: ignore[arg-type]
            directory=(directory, (str, Path, NONE)),
            jobs=(jobs, (Integral, NONE)),
        )
        self.env_creator = env_creator
        self.directory = Path(directory) if directory is not None else _new_directory()
        self.jobs = jobs
        self.quiet = quiet
        self.experiments: list[ExperimentConfig] = []
        self.results: list[ExperimentResult] = []

    def add_experiment(self, config: ExperimentConfig | TrainerConfig) -> None:
        """Add a config to the comparison. Its `name` labels it (default: that of the algorithm).

        If it does not set when to evaluate, it is evaluated twenty times over its run, for a curve.
        """
        require_types("add_experiment", config=(config, (TrainerConfig,)))
        unset = "evaluation" not in config.model_fields_set
        if not isinstance(config, ExperimentConfig):
            config = ExperimentConfig.model_validate(plain_config(config))
        if isinstance(self.env_creator, str):
            config = config.model_copy()
            config.env_id = self.env_creator
        self.experiments.append(spread_evaluations(config, CURVE_POINTS) if unset else config)

    def run_all(self) -> list[ExperimentResult]:
        """Train everything and write results.json, results.csv, costs.json and index.html into `directory`.

        A failed run is reported and has its `error` in the results; the others continue. Ctrl-C lets the runs save and
        returns the results so far.
        """
        comparison = self._comparison()
        self.directory.mkdir(parents=True, exist_ok=True)
        comparison.save()
        display = ComparisonDisplay(PlainConsole(), self.quiet)
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
                print(printable(f"{result.name} failed: {result.error}", keep="\n\t"))
        print(f"page: {self.directory / 'index.html'}")

    def get_best_result(self, metric: str = "mean_reward") -> ExperimentResult:
        """Return the result with the best `metric`. UserError if no result has one.

        For training_time, core_seconds and peak_memory the lowest is best, for others the highest.
        """
        self._require_results()
        if metric not in METRICS:
            raise UnknownName("metric", metric, METRICS, fix=f"known: {', '.join(METRICS)}")
        known = [(value, one) for one in self.results if (value := _value(one, metric)) is not None]
        if not known:
            raise UserError("no experiment has finished with a result", where=str(self.directory))
        choose = min if metric in _LESS_IS_BETTER else max
        return choose(known, key=lambda pair: pair[0])[1]

    def compare_algorithms(self) -> dict[str, dict[str, Any]]:
        """Return the numbers of each experiment by name, best first.

        They are those of `ExperimentResult.summary`, its costs, `steps_to` (steps to reach shares of the best score)
        and `probability_of_improvement` over each other experiment.
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
            raise UserError("no results yet", fix="call run_all() first")


def _value(result: ExperimentResult, metric: str) -> float | None:
    if not any(run.counts for run in result.runs):
        return None
    if metric == "iqm":
        return None if result.iqm is None else result.iqm.value
    value: float | None = getattr(result, metric)
    return value


def _new_directory() -> Path:
    return Path("comparisons") / f"{datetime.now():%Y%m%d-%H%M%S-%f}"

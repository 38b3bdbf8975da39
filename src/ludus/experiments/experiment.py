"""An experiment: one config, trained with several seeds, and its results."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, field_validator

from ludus.config.loading import LoadedConfig, plain_config
from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError, shortened
from ludus.reports.statistics import Estimate
from ludus.types import Array

CURVE_POINTS = 20
_MAX_RUNS = 10_000


class ExperimentConfig(TrainerConfig):
    """A `TrainerConfig` with `seeds`: their number, counted up from `seed`, or a list."""

    seeds: int | list[int] = Field(
        default=1, description="number of seeds, from `seed` on, or a list of seeds"
    )

    @field_validator("seeds")
    @classmethod
    def _some_seeds(cls, value: int | list[int]) -> int | list[int]:
        chosen = [value - 1] if isinstance(value, int) else value
        most = 2**31 if isinstance(value, list) else _MAX_RUNS
        if not chosen or min(chosen) < 0 or max(chosen) >= most or len(set(chosen)) < len(chosen):
            raise ConfigError(
                f"seeds must be a number from 1 to {_MAX_RUNS} or a list of different seeds, got {shortened(value)}",
                key="seeds",
                fix="for example seeds: 5, or [1, 2, 3]",
            )
        return value

    @property
    def seed_list(self) -> list[int]:
        if isinstance(self.seeds, list):
            return self.seeds
        return [self.seed + index for index in range(self.seeds)]

    def trainer_config(self) -> TrainerConfig:
        """Return the config for the run of each seed."""
        data = plain_config(self)
        del data["seeds"]
        return TrainerConfig.model_validate(data)


Config = TypeVar("Config", bound=TrainerConfig)


def spread_evaluations(config: Config, times: int) -> Config:
    """Return the config with `times` evaluations over its run; unchanged if its total is not in steps."""
    if config.total_timesteps.unit != "steps":
        return config
    config = config.model_copy()
    config.eval_freq = max(1, int(config.total_timesteps.amount) // times)
    return config


def says_when_to_evaluate(loaded: LoadedConfig) -> bool:
    """Return whether a file or the command line sets when to evaluate."""
    never = loaded.config.evaluation.every is None
    return never or loaded.place(("evaluation", "every")) != "default"


@dataclass(frozen=True)
class Curve:
    """Scores over env steps, and the training seconds at each of them."""

    steps: Array
    scores: Array
    seconds: Array


@dataclass(frozen=True)
class RunResult:
    """Result of one seed of an experiment. `score` is its last evaluation, or None."""

    seed: int
    status: str
    run: Path
    steps: int = 0
    episodes: int = 0
    score: float | None = None
    std: float | None = None
    best_score: float | None = None
    best_step: int | None = None
    seconds: float = 0.0
    core_seconds: float = 0.0
    peak_memory: int = 0
    error: str | None = None
    evaluation: Curve | None = field(default=None, repr=False)
    training: Curve | None = field(default=None, repr=False)

    @property
    def ended(self) -> bool:
        """True if it trained to its end, its total or an early stop."""
        return self.status in ("finished", "stopped")

    @property
    def counts(self) -> bool:
        """True if it is included in the statistics."""
        return self.ended and self.score is not None


@dataclass(frozen=True)
class ExperimentResult:
    """Results of an experiment: its runs, and their combined scores.

    `mean_reward`, `std_reward` and `iqm` are over the last evaluations of the runs that ended; with one run,
    `std_reward` is that of the episodes of its evaluation. None if no run has ended.
    """

    name: str
    algorithm: str
    env: str
    config: TrainerConfig = field(repr=False)
    runs: tuple[RunResult, ...] = field(repr=False)
    mean_reward: float | None
    std_reward: float | None
    best_reward: float | None
    iqm: Estimate | None = field(repr=False)

    @property
    def status(self) -> str:
        """finished, failed, interrupted or waiting: the worst status of its runs."""
        seen = {run.status for run in self.runs}
        for status in ("failed", "interrupted", "running", "waiting"):
            if status in seen:
                return status
        return "finished"

    @property
    def error(self) -> str | None:
        return next((run.error for run in self.runs if run.error), None)

    @property
    def training_time(self) -> float:
        """Seconds of training, all runs together."""
        return sum(run.seconds for run in self.runs)

    @property
    def fps(self) -> float:
        return sum(run.steps for run in self.runs) / max(self.training_time, 1e-9)

    @property
    def core_seconds(self) -> float:
        return sum(run.core_seconds for run in self.runs)

    @property
    def peak_memory(self) -> int:
        """Bytes, of the largest run."""
        return max((run.peak_memory for run in self.runs), default=0)

    @property
    def total_timesteps(self) -> int:
        return sum(run.steps for run in self.runs)

    @property
    def steps_per_run(self) -> int:
        """The mean env steps of the runs that ended; 0 if none has."""
        ended = [run.steps for run in self.runs if run.ended]
        return round(sum(ended) / len(ended)) if ended else 0

    def summary(self) -> dict[str, Any]:
        """Return plain numbers for `--json` and tables."""
        return {
            "name": self.name,
            "algorithm": self.algorithm,
            "env": self.env,
            "status": self.status,
            "runs": len(self.runs),
            "ended": sum(run.counts for run in self.runs),
            "steps": self.steps_per_run,
            "mean_reward": self.mean_reward,
            "std_reward": self.std_reward,
            "best_reward": self.best_reward,
            "iqm": None if self.iqm is None else self.iqm.plain(),
            "error": self.error,
        }

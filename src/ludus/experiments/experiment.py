"""An experiment: one config, trained from several seeds; and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, field_validator

from ludus.config.loading import LoadedConfig, plain_config
from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError
from ludus.reports.statistics import Estimate
from ludus.types import Array

CURVE_POINTS = 20


class ExperimentConfig(TrainerConfig):
    """A `TrainerConfig` with `seeds`: how many, counted up from `seed`, or which ones."""

    seeds: int | list[int] = Field(default=1, description="how many seeds, from `seed` on, or a list of them")

    @field_validator("seeds")
    @classmethod
    def _some_seeds(cls, value: int | list[int]) -> int | list[int]:
        chosen = [value - 1] if isinstance(value, int) else value
        if not chosen or min(chosen) < 0 or len(set(chosen)) < len(chosen):
            raise ConfigError(
                f"seeds must be a number above zero or different seeds, got {value!r}", key="seeds"
            )
        return value

    @property
    def seed_list(self) -> list[int]:
        if isinstance(self.seeds, list):
            return self.seeds
        return [self.seed + index for index in range(self.seeds)]

    def trainer_config(self) -> TrainerConfig:
        """The config that each seed's run is trained by."""
        data = plain_config(self)
        del data["seeds"]
        return TrainerConfig.model_validate(data)


Config = TypeVar("Config", bound=TrainerConfig)


def spread_evaluations(config: Config, times: int) -> Config:
    """The config with so many evaluations over its run; as it is where its total is not counted in steps."""
    if config.total_timesteps.unit != "steps":
        return config
    config = config.model_copy()
    config.eval_freq = max(1, int(config.total_timesteps.amount) // times)
    return config


def says_when_to_evaluate(loaded: LoadedConfig) -> bool:
    """Whether somebody wrote it down, in a file or on the command line."""
    never = loaded.config.evaluation.every is None
    return never or loaded.place(("evaluation", "every")) != "default"


@dataclass(frozen=True)
class Curve:
    """Scores over env steps, and the seconds of training at each of them."""

    steps: Array
    scores: Array
    seconds: Array


@dataclass(frozen=True)
class RunResult:
    """One seed of an experiment. `score` is its last evaluation; None where it has none yet."""

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
        """Whether it trained to its end, its total or an early stop."""
        return self.status in ("finished", "stopped")

    @property
    def counts(self) -> bool:
        """Whether it enters the statistics."""
        return self.ended and self.score is not None


@dataclass(frozen=True)
class ExperimentResult:
    """What came of an experiment: its runs, and their scores taken together.

    `mean_reward`, `std_reward` and `iqm` are over the runs that ended, each counted by its last evaluation;
    with one run, `std_reward` is that of its evaluation's episodes. None where no run has ended.
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
        """finished, failed, interrupted or waiting: the worst that can be said of any of its runs."""
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
        """Bytes, of the run that needed most."""
        return max((run.peak_memory for run in self.runs), default=0)

    @property
    def total_timesteps(self) -> int:
        return sum(run.steps for run in self.runs)

    def summary(self) -> dict[str, Any]:
        """For `--json` and tables: plain numbers."""
        return {
            "name": self.name,
            "algorithm": self.algorithm,
            "env": self.env,
            "status": self.status,
            "runs": len(self.runs),
            "ended": sum(run.counts for run in self.runs),
            "mean_reward": self.mean_reward,
            "std_reward": self.std_reward,
            "best_reward": self.best_reward,
            "iqm": None if self.iqm is None else self.iqm.plain(),
            "error": self.error,
        }

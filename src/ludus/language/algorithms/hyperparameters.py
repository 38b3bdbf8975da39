"""Hyperparameters that language learners share; each algorithm's own are in its file."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from ludus.config.hyperparameters import LayerSize, LearningHyperparameters, constant
from ludus.config.schedule import Fraction, LearningRate, NonNegative, Positive, Schedule
from ludus.config.schema import TrainerConfig
from ludus.language.algorithms.losses import LengthNorm
from ludus.language.algorithms.rewards import Transforms


def _schedule(value: float, meaning: str) -> Any:
    return Field(default=Schedule(value, value), description=meaning)


class LanguageHyperparameters(LearningHyperparameters):
    search_space: ClassVar[dict[str, Any]] = {
        "learning_rate": {"log": [1e-6, 1e-3]},
        "mini_batch_size": {"choice": [16, 32, 64, 128]},
        "kl_coef": {"log": [1e-4, 0.1]},
        "ent_coef": {"log": [1e-5, 0.1]},
    }

    learning_rate: LearningRate = constant(5e-5)
    gamma: Fraction = _schedule(1.0, "discount from one turn of a seat to its next")
    mini_batch_size: int = Field(
        default=64, ge=1, le=10**8, description="turns in one optimizer step; games.turns are one batch"
    )
    length_norm: LengthNorm = Field(
        default="constant",
        description="a turn's tokens count 1 / max_new_tokens each (constant) or 1 / their number (tokens)",
    )
    importance_cap: float = Field(
        default=2.0, ge=1, le=1e6, description="most that a token sampled by an earlier version may count"
    )
    max_staleness: int = Field(
        default=8,
        ge=0,
        le=1_000_000,
        description="turns sampled more updates ago than this are dropped, and counted",
    )
    kl_coef: NonNegative = _schedule(0.0, "weight of the KL divergence from the start; 0: none")
    ent_coef: NonNegative = constant(0.0)
    max_grad_norm: Positive | None = constant(1.0)


class ClippedHyperparameters(LanguageHyperparameters):
    search_space: ClassVar[dict[str, Any]] = {
        **LanguageHyperparameters.search_space,
        "n_epochs": {"choice": [1, 2, 4]},
        "clip_range": {"choice": [0.1, 0.2, 0.3]},
    }

    n_epochs: int = Field(default=1, ge=1, le=10_000, description="passes over each batch")
    clip_range: NonNegative = constant(0.2)
    clip_range_high: NonNegative | None = Field(
        default=None, description="how far an update may raise a token's probability; null: as clip_range"
    )


class ValuedHyperparameters(LanguageHyperparameters):
    gae_lambda: Fraction = constant(0.95)
    vf_coef: NonNegative = _schedule(
        0.5,
        "how much of the value loss's gradient reaches the model, where a turn's value counts like one token; "
        "the value head learns by all of it",
    )
    value_learning_rate: LearningRate = _schedule(1e-4, "step size of the value head")
    value_net_arch: tuple[LayerSize, ...] = Field(
        default=(), description="hidden layers of the value head; none: it is linear"
    )


def check(config: TrainerConfig, h: LanguageHyperparameters) -> None:
    """Raise ConfigError or UnknownName if a language config names something that does not exist."""
    Transforms(config.rewards)

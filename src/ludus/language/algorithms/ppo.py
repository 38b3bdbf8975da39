"""Proximal policy optimisation (Schulman et al., 2017) for turns: several clipped passes over a batch, advantages
from a value head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field

from ludus.language.algorithms.credit import turn_gae
from ludus.language.algorithms.hyperparameters import ClippedHyperparameters, ValuedHyperparameters
from ludus.language.algorithms.learner import Credit, LanguageLearner, register_learner
from ludus.language.turns import Turn


class LanguagePPOHyperparameters(ClippedHyperparameters, ValuedHyperparameters):
    search_space: ClassVar[dict[str, Any]] = ClippedHyperparameters.search_space

    n_epochs: int = Field(default=2, ge=1, le=10_000, description="passes over each batch")


class LanguagePPO(LanguageLearner[LanguagePPOHyperparameters]):
    def assign_credit(self, turns: Sequence[Turn], values: Sequence[float], fraction: float) -> Credit:
        return Credit(*turn_gae(turns, values, self.h.gamma(fraction), self.h.gae_lambda(fraction)))


register_learner("PPO", LanguagePPOHyperparameters, LanguagePPO)

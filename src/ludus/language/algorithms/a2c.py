"""Advantage actor-critic (Mnih et al., 2016) for turns: one pass over a batch, advantages from a value head."""

from __future__ import annotations

from collections.abc import Sequence

from ludus.config.registry import LANGUAGE, Algorithm, register_algorithm
from ludus.language.algorithms.credit import turn_gae
from ludus.language.algorithms.hyperparameters import ValuedHyperparameters, check
from ludus.language.algorithms.learner import Credit, LanguageContext, LanguageLearner
from ludus.language.turns import Turn


class LanguageA2CHyperparameters(ValuedHyperparameters):
    pass


class LanguageA2C(LanguageLearner[LanguageA2CHyperparameters]):
    def assign_credit(self, turns: Sequence[Turn], values: Sequence[float], fraction: float) -> Credit:
        return Credit(*turn_gae(turns, values, self.h.gamma(fraction), self.h.gae_lambda(fraction)))


register_algorithm(
    "A2C",
    Algorithm(
        "A2C", LanguageA2CHyperparameters, learner=LanguageA2C, check=check, context=LanguageContext.for_rank
    ),
    engine=LANGUAGE,
)

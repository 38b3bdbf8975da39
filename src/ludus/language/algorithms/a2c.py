"""Advantage actor-critic (Mnih et al., 2016) for turns: one pass over a batch, advantages from a value head."""

from __future__ import annotations

from collections.abc import Sequence

from ludus.language.algorithms.credit import turn_gae
from ludus.language.algorithms.hyperparameters import ValuedHyperparameters
from ludus.language.algorithms.learner import Credit, LanguageLearner, register_learner
from ludus.language.turns import Turn


class LanguageA2CHyperparameters(ValuedHyperparameters):
    pass


class LanguageA2C(LanguageLearner[LanguageA2CHyperparameters]):
    def assign_credit(self, turns: Sequence[Turn], values: Sequence[float], fraction: float) -> Credit:
        return Credit(*turn_gae(turns, values, self.h.gamma(fraction), self.h.gae_lambda(fraction)))


register_learner("A2C", LanguageA2CHyperparameters, LanguageA2C)

"""REINFORCE (Williams, 1992) for turns: the return of a turn times the gradient of its log-probabilities.

Reward transforms are the baseline: `role_advantage`, `center_by_env`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ludus.language.algorithms.credit import discounted_returns
from ludus.language.algorithms.hyperparameters import LanguageHyperparameters
from ludus.language.algorithms.learner import Credit, LanguageLearner, register_learner
from ludus.language.turns import Turn


class ReinforceHyperparameters(LanguageHyperparameters):
    pass


class Reinforce(LanguageLearner[ReinforceHyperparameters]):
    def assign_credit(self, turns: Sequence[Turn], values: Sequence[float], fraction: float) -> Credit:
        return Credit(discounted_returns(turns, self.h.gamma(fraction)))


register_learner("REINFORCE", ReinforceHyperparameters, Reinforce)

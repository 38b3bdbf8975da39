"""Group relative policy optimisation (Shao et al., 2024), by default without the biases that Dr. GRPO (Liu et al.,
2025) found: no division by the group's deviation, and a constant length.

A turn is compared with others sampled from the same state (`games.branch`), so no value function is needed.
`group_advantages` describes the later turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from ludus.language.algorithms.credit import discounted_returns, group_advantages
from ludus.language.algorithms.hyperparameters import ClippedHyperparameters
from ludus.language.algorithms.learner import Credit, LanguageLearner, register_learner
from ludus.language.turns import Turn


class GRPOHyperparameters(ClippedHyperparameters):
    divide_by_std: bool = Field(
        default=False, description="divide by the deviation within each group, as GRPO was published"
    )


class GRPO(LanguageLearner[GRPOHyperparameters]):
    usual_sampling: ClassVar[tuple[str, ...]] = ()  # a group without differences must stay at zero

    def assign_credit(self, turns: Sequence[Turn], values: Sequence[float], fraction: float) -> Credit:
        returns = discounted_returns(turns, self.h.gamma(fraction))
        advantages, groups, alike = group_advantages(turns, returns, divide_by_std=self.h.divide_by_std)
        figures = {"train/groups": float(groups)}
        if groups:
            figures["train/groups_alike"] = alike / groups
        return Credit(advantages, metrics=figures)


register_learner("GRPO", GRPOHyperparameters, GRPO)

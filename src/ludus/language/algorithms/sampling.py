"""Sampling transforms: change the advantages or weights of the turns of one batch relative to each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PrivateAttr

from ludus.language.algorithms.transform import Average, Transform, by_key, key_of
from ludus.language.turns import Turn
from ludus.types import Array


class SamplingTransform(Transform):
    """Transform of the advantages of a batch, or of the weights if `weighs` is set."""

    weighs: ClassVar[bool] = False

    def __call__(self, turns: Sequence[Turn]) -> None:
        raise NotImplementedError


class CenterByEnv(SamplingTransform):
    """Subtract the mean advantage of the turns of the same game."""

    def __call__(self, turns: Sequence[Turn]) -> None:
        for members in _grouped(turns, lambda turn: turn.game):
            _set_advantages(members, _centred(members))


class ZscoreByEnv(SamplingTransform):
    """Subtract the mean advantage and divide by the standard deviation, by game."""

    def __call__(self, turns: Sequence[Turn]) -> None:
        for members in _grouped(turns, lambda turn: turn.game):
            off = _centred(members)
            deviation = float(np.std(off))
            _set_advantages(members, off / deviation if deviation else off)


class WeightBySpread(SamplingTransform):
    """Weight turns by the spread of rewards in their group, or in their game without groups.

    Equal results teach nothing; different results teach most. The mean weight stays 1. `least` is added to every
    spread, so that no turn has weight 0.
    """

    weighs: ClassVar[bool] = True

    least: float = Field(default=0.0, ge=0, le=1e6)

    def __call__(self, turns: Sequence[Turn]) -> None:
        groups = _grouped(turns, lambda turn: turn.game if turn.group is None else (turn.group, turn.seat))
        weighed = [(turn, self.least + _spread(members)) for members in groups for turn in members]
        _multiply_weights(weighed)


class Certainty(SamplingTransform):
    """Lower the weight of turns whose rewards are random: 1 / (1 + variance). The mean weight stays 1.

    `ema`: the running variance of rewards by game and seat. `repeats`: the variance among turns of this batch with
    the same prompt and the same action, whose rewards differ by chance alone; a turn that was not repeated takes
    the mean of its game.
    """

    weighs: ClassVar[bool] = True

    by: Literal["ema", "repeats"] = "ema"
    decay: float = Field(default=0.99, ge=0, lt=1)
    _means: dict[str, Average] = PrivateAttr(default_factory=dict)
    _squares: dict[str, Average] = PrivateAttr(default_factory=dict)

    def __call__(self, turns: Sequence[Turn]) -> None:
        variances = self._running(turns) if self.by == "ema" else _among_repeats(turns)
        _multiply_weights(
            [(turn, 1 / (1 + variance)) for turn, variance in zip(turns, variances, strict=True)]
        )

    def _running(self, turns: Sequence[Turn]) -> list[float]:
        for members in _grouped(turns, lambda turn: (turn.match, turn.seat)):
            key = key_of(members[0].game, members[0].seat)
            reward = float(np.mean([turn.reward for turn in members]))
            self._means.setdefault(key, Average()).update(reward, self.decay)
            self._squares.setdefault(key, Average()).update(reward * reward, self.decay)
        return [self._variance(key_of(turn.game, turn.seat)) for turn in turns]

    def _variance(self, key: str) -> float:
        return max(self._squares[key].value - self._means[key].value ** 2, 0.0)

    def state_dict(self) -> dict[str, Any]:
        kept = {"means": self._means, "squares": self._squares}
        states = {
            name: {key: one.state() for key, one in averages.items()} for name, averages in kept.items()
        }
        return states if self._means else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._means, self._squares = by_key(state.get("means", {})), by_key(state.get("squares", {}))


SAMPLING: dict[str, type[SamplingTransform]] = {
    "center_by_env": CenterByEnv,
    "zscore_by_env": ZscoreByEnv,
    "weight_by_spread": WeightBySpread,
    "certainty": Certainty,
}


def _grouped(turns: Iterable[Turn], key: Callable[[Turn], Hashable]) -> list[list[Turn]]:
    groups: dict[Hashable, list[Turn]] = {}
    for turn in turns:
        groups.setdefault(key(turn), []).append(turn)
    return list(groups.values())


def _centred(members: Sequence[Turn]) -> Array:
    advantages = np.array([turn.advantage for turn in members], dtype=np.float64)
    if advantages.min() == advantages.max():  # exactly zero: a rounded mean would not be
        return np.zeros_like(advantages)
    return np.asarray(advantages - advantages.mean())


def _set_advantages(members: Sequence[Turn], advantages: Array) -> None:
    for turn, advantage in zip(members, advantages.tolist(), strict=True):
        turn.advantage = advantage


def _spread(members: Sequence[Turn]) -> float:
    rewards = [turn.reward for turn in members]
    return 0.0 if min(rewards) == max(rewards) else float(np.std(rewards))


def _multiply_weights(weighed: Sequence[tuple[Turn, float]]) -> None:
    """Multiply each turn's weight by its number divided by the mean; do nothing if all numbers are 0."""
    mean = float(np.mean([number for _, number in weighed]))
    if mean > 0:
        for turn, number in weighed:
            turn.weight *= number / mean


def _among_repeats(turns: Sequence[Turn]) -> list[float]:
    found: dict[int, float] = {}
    for members in _grouped(turns, lambda turn: (turn.game, turn.seat, turn.prompt, turn.action)):
        if len(members) > 1:
            variance = float(np.var([turn.reward for turn in members], ddof=1))
            found |= {id(turn): variance for turn in members}
    of_game: dict[str, list[float]] = {}
    for turn in turns:
        if id(turn) in found:
            of_game.setdefault(turn.game, []).append(found[id(turn)])
    usual = {game: float(np.mean(variances)) for game, variances in of_game.items()}
    return [found.get(id(turn), usual.get(turn.game, 0.0)) for turn in turns]

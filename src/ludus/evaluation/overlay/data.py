"""The content of a panel in one frame, as plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces

from ludus.envs.signals import Signals
from ludus.evaluation.episode_trace import End, TraceStep
from ludus.evaluation.policy_outputs import PolicyOutput
from ludus.types import Array

MAX_BARS = 8


@dataclass(frozen=True)
class Bar:
    """One action, or one part of it. The fill reaches from `start` to `end`, both between 0 and 1."""

    label: str
    value: float
    text: str
    start: float
    end: float
    chosen: bool


@dataclass(frozen=True)
class Reading:
    """The current value of a signal and its values in this episode so far, between `low` and `high`.

    Equality ignores the past values. `trail` has NaN for values that are not finite.
    """

    name: str
    value: float
    contact: bool = False
    trail: Array = field(default_factory=lambda: np.zeros(0), compare=False)
    low: float = field(default=0.0, compare=False)
    high: float = field(default=1.0, compare=False)
    whole: bool = field(default=False, compare=False)
    """True if all values so far were integers."""


@dataclass(frozen=True)
class PanelData:
    """The content of a panel. `value` is None if the policy has no value estimate, and at the end."""

    title: str
    subtitle: str
    step: int
    reward: float
    total: float
    value: float | None
    plots: tuple[Reading, ...]
    bars_title: str
    bars: tuple[Bar, ...]
    signals: tuple[Reading, ...]
    ended: End | None


class PanelFeed:
    """Converts the steps of episodes to the content of a panel."""

    def __init__(self, title: str, subtitle: str, signals: Signals, action_space: spaces.Space[Any]) -> None:
        self._title, self._subtitle = title, subtitle
        self._signals, self._space = signals, action_space
        self._reach = np.full(int(np.prod(action_space.shape or ())), 1e-6)  # of a Box without bounds
        self.begin("")

    def begin(self, note: str) -> None:
        """Start an episode; `note` names it."""
        self._note = note
        rows = 3 + len(self._signals.signals)
        self._trails = np.zeros((rows, 256))
        self._length = 0
        self._low, self._high = np.full(rows, np.nan), np.full(rows, np.nan)
        self._whole = np.ones(rows, bool)
        self._bars: tuple[str, tuple[Bar, ...]] = ("action", ())

    def take(self, trace_step: TraceStep) -> PanelData:
        """Return the content for `trace_step`. Call it for each step in order."""
        value = None if trace_step.output is None else trace_step.output.value
        self._append(
            (trace_step.reward, trace_step.total, np.nan if value is None else value, *trace_step.signals)
        )
        if trace_step.action is not None and trace_step.output is not None:
            self._bars = self._weigh(trace_step.action, trace_step.output)
        tells_value = not np.isnan(self._low[2])
        second = (
            self._reading("value", 2, np.nan if value is None else value)
            if tells_value
            else self._reading("return", 1, trace_step.total)
        )
        return PanelData(
            title=self._title,
            subtitle="  ·  ".join(part for part in (self._subtitle, self._note) if part),
            step=trace_step.step,
            reward=trace_step.reward,
            total=trace_step.total,
            value=value,
            plots=(self._reading("reward", 0, trace_step.reward), second),
            bars_title=self._bars[0],
            bars=self._bars[1],
            signals=tuple(
                self._reading(signal.name, 3 + index, value, signal.contact)
                for index, (signal, value) in enumerate(
                    zip(self._signals.signals, trace_step.signals, strict=True)
                )
            ),
            ended=trace_step.ended,
        )

    def _append(self, numbers: Sequence[float]) -> None:
        if self._length == self._trails.shape[1]:
            self._trails = np.concatenate([self._trails, np.zeros_like(self._trails)], axis=1)
        values = np.array(numbers, dtype=float)
        values[~np.isfinite(values)] = np.nan
        self._trails[:, self._length] = values
        self._low, self._high = np.fmin(self._low, values), np.fmax(self._high, values)
        self._whole &= values == np.rint(values)
        self._length += 1
        low, high = np.nan_to_num(self._low), np.nan_to_num(self._high)
        flat = high - low <= 1e-6 * np.maximum(1.0, np.abs(high))  # a flat line is drawn in the middle
        self._scales = list(
            zip((low - 0.5 * flat).tolist(), (high + 0.5 * flat).tolist(), self._whole.tolist(), strict=True)
        )

    def _reading(self, name: str, row: int, value: float, contact: bool = False) -> Reading:
        return Reading(name, value, contact, self._trails[row, : self._length], *self._scales[row])

    # The action

    def _weigh(self, action: Array, output: PolicyOutput) -> tuple[str, tuple[Bar, ...]]:
        space, weights = self._space, output.weights
        if isinstance(space, spaces.Discrete):
            return self._choices(int(action) - int(space.start), int(space.n), output)
        if isinstance(space, spaces.MultiDiscrete):
            return "action", self._several(np.ravel(action - space.start), space.nvec.ravel(), weights)
        if isinstance(space, spaces.MultiBinary):
            return "action", self._bits(np.ravel(action), weights)
        return "action", self._components(np.ravel(action).astype(float))

    def _choices(self, chosen: int, n: int, output: PolicyOutput) -> tuple[str, tuple[Bar, ...]]:
        """Return the indices of the best of n choices, or all that fit, in their own order."""
        if output.weights is None:
            return "action", (Bar(self._name(chosen), float(chosen), "", 0.0, 1.0, True),)
        weights = np.array(output.weights)
        shown: list[int] = list(range(n))
        if n > MAX_BARS:
            ranked = np.argsort(-np.nan_to_num(weights, nan=-np.inf), kind="stable")
            shown = ranked[:MAX_BARS].tolist()
            if chosen not in shown:
                shown[-1] = chosen
        if output.weighing == "probability":
            bars = (
                Bar(self._name(i), weights[i], f"{weights[i]:.1%}", 0.0, float(weights[i]), i == chosen)
                for i in shown
            )
            return "action probabilities", tuple(bars)
        low, high = np.nanmin(weights), np.nanmax(weights)
        lengths = np.nan_to_num((weights - low) / max(high - low, 1e-9) * 0.9 + 0.1)
        return "action values", tuple(
            Bar(self._name(i), weights[i], number(weights[i]), 0.0, float(lengths[i]), i == chosen)
            for i in shown
        )

    def _several(self, choices: Array, sizes: Array, weights: tuple[float, ...] | None) -> tuple[Bar, ...]:
        """Return a bar for every part of a MultiDiscrete space: the choice and its probability."""
        bars, first = [], 0
        for index, (choice, size) in enumerate(zip(choices, sizes, strict=True)):
            chance = 1.0 if weights is None else weights[first + int(choice)]
            text = f"{int(choice)} of {int(size)}" + ("" if weights is None else f"   {chance:.0%}")
            bars.append(Bar(self._name(index), float(choice), text, 0.0, float(chance), True))
            first += int(size)
        return tuple(bars)

    def _bits(self, bits: Array, weights: tuple[float, ...] | None) -> tuple[Bar, ...]:
        chances = bits if weights is None else weights
        return tuple(
            Bar(self._name(i), float(bit), f"{chance:.0%}", 0.0, float(chance), bool(bit))
            for i, (bit, chance) in enumerate(zip(bits, chances, strict=True))
        )

    def _components(self, action: Array) -> tuple[Bar, ...]:
        """Return a bar for every component of a Box, from zero (or its lower bound) to the action."""
        assert isinstance(self._space, spaces.Box)
        np.maximum(self._reach, np.abs(action), out=self._reach)
        low, high = np.ravel(self._space.low).astype(float), np.ravel(self._space.high).astype(float)
        bounded = np.isfinite(low) & np.isfinite(high)
        low, high = np.where(bounded, low, -self._reach), np.where(bounded, high, self._reach)
        span = np.maximum(high - low, 1e-9)
        zeros, ends = (np.clip((at - low) / span, 0.0, 1.0) for at in (np.zeros_like(action), action))
        return tuple(
            Bar(self._name(i), float(part), number(part), float(zeros[i]), float(ends[i]), True)
            for i, part in enumerate(action)
        )

    def _name(self, index: int) -> str:
        names = self._signals.actions
        return names[index] if index < len(names) else str(index)


def number(value: float | None) -> str:
    """Format a number in at most eight characters; a dash for None."""
    if value is None or not math.isfinite(value):
        return "-"
    size = abs(value)
    if size >= 1e6:
        return f"{value:.2e}".replace("e+0", "e")
    text = f"{value:.2f}" if size < 100 else f"{value:.1f}" if size < 1e4 else f"{value:,.0f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


def signal_number(signal: Reading) -> str:
    """Format a signal's value, without decimals if all values so far were whole numbers."""
    if signal.whole and abs(signal.value) < 1e7:
        return f"{int(signal.value):,}"
    return number(signal.value)

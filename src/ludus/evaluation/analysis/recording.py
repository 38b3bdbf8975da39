"""Records episodes as columns of numbers with one row per step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ludus.envs.signals import Signals, signals_of
from ludus.envs.user_code import build, close_env
from ludus.evaluation.episode_trace import End, EpisodeTrace, TraceStep
from ludus.evaluation.evaluate import Actor
from ludus.evaluation.policy_outputs import PolicyProbe
from ludus.types import Array

Env = gym.Env[Any, Any]
_FIXED = (
    "episode",
    "seed",
    "step",
    "reward",
    "return",
    "return_to_go",
    "discounted_return_to_go",
    "value",
    "probability",
    "terminated",
    "truncated",
)


@dataclass(frozen=True)
class RecordedEpisode:
    """One episode; `rows` are its steps within the columns."""

    seed: int
    reward: float
    length: int
    ended: End
    rows: slice


@dataclass(frozen=True)
class Recording:
    """Episodes of one policy.

    A row has the signals of a state, the outputs of the policy for it (`value`, in units of the env's reward, and the
    `probability` of its choice; NaN if it has none), its action, and the `reward` that followed. `return` is the sum of
    rewards including that one, `return_to_go` the sum from it on, and `discounted_return_to_go` the same with `gamma`,
    which a value estimates. Rewards after a time limit are not included.
    """

    columns: dict[str, Array]
    episodes: tuple[RecordedEpisode, ...]
    signals: Signals
    signal_columns: tuple[str, ...]
    action_columns: tuple[str, ...]
    action_space: spaces.Space[Any]
    gamma: float

    @property
    def rewards(self) -> list[float]:
        return [episode.reward for episode in self.episodes]

    @property
    def has_values(self) -> bool:
        return bool(np.isfinite(self.columns["value"]).any())


def record_episodes(
    actor: Actor,
    make_env: Callable[[], Env],
    seeds: Sequence[int],
    *,
    reward_scale: float | None = 1.0,
    gamma: float = 1.0,
    deterministic: bool = True,
    max_steps: int | None = None,
    on_episode: Callable[[int], None] | None = None,
) -> Recording:
    """Play one episode per seed and record every step; `on_episode` is called with the number of finished episodes.

    `max_steps` is as in `step_limit`.
    """
    env = build(make_env)
    try:
        signals, probe = signals_of(env), PolicyProbe(actor, reward_scale)
        tables, episodes, first = [], [], 0
        for number, seed in enumerate(seeds):
            trace = EpisodeTrace(
                actor, env, seed, signals, probe=probe, deterministic=deterministic, max_steps=max_steps
            )
            steps = list(trace)
            ended = steps[-1].ended
            assert ended is not None  # a trace always has an end
            rows = slice(first, first + len(steps) - 1)
            first = rows.stop
            episodes.append(RecordedEpisode(seed, trace.reward, len(steps) - 1, ended, rows))
            tables.append(_steps(number, seed, steps, env.action_space, gamma))
            if on_episode is not None:
                on_episode(number + 1)
        action_names = _action_names(env.action_space, signals)
        signal_names = tuple(_free(name, (*_FIXED, *action_names)) for name in signals.names)
        names = [*_FIXED, *action_names, *signal_names]
        columns = {name: np.concatenate([one[i] for one in tables]) for i, name in enumerate(names)}
        return Recording(
            columns, tuple(episodes), signals, signal_names, action_names, env.action_space, gamma
        )
    finally:
        close_env(env)


def _steps(
    number: int, seed: int, steps: Sequence[TraceStep], space: spaces.Space[Any], gamma: float
) -> list[Array]:
    """Return the columns of one episode, in the order of their names."""
    taken, length = steps[:-1], len(steps) - 1
    rewards = np.array([trace_step.reward for trace_step in steps[1:]])
    last = np.zeros(length, bool)
    last[-1:] = True
    actions = np.array([np.ravel(np.asarray(trace_step.action)) for trace_step in taken])
    signals = np.array([trace_step.signals for trace_step in taken]).reshape(length, -1)
    values = [np.nan if m.output is None or m.output.value is None else m.output.value for m in taken]
    return [
        np.full(length, number, np.int32),
        np.full(length, seed, np.int64),
        np.arange(length, dtype=np.int32),
        rewards,
        np.cumsum(rewards),
        to_go(rewards, 1.0),
        to_go(rewards, gamma),
        np.array(values, dtype=float),
        np.array([_chance(trace_step, space) for trace_step in taken], dtype=float),
        last & (steps[-1].ended == "terminated"),
        last & (steps[-1].ended != "terminated"),
        *actions.T,
        *signals.T,
    ]


def to_go(rewards: Array, gamma: float) -> Array:
    """Return the discounted sum of `rewards` from each step on."""
    sums = np.zeros(len(rewards))
    after = 0.0
    for index in range(len(rewards) - 1, -1, -1):
        after = sums[index] = rewards[index] + gamma * after
    return sums


def _chance(trace_step: TraceStep, space: spaces.Space[Any]) -> float:
    output = trace_step.output
    if output is None or output.weights is None or output.weighing != "probability":
        return np.nan
    if not isinstance(space, spaces.Discrete) or trace_step.action is None:
        return np.nan
    return output.weights[int(trace_step.action) - int(space.start)]


def _action_names(space: spaces.Space[Any], signals: Signals) -> tuple[str, ...]:
    """Return one column for a Discrete space, else one per component."""
    if isinstance(space, spaces.Discrete):
        return ("action",)
    size = int(np.prod(space.shape or ()))
    names = signals.actions if len(signals.actions) == size else tuple(str(i) for i in range(size))
    return tuple(f"action {name}" for name in names)


def _free(name: str, taken: Sequence[str]) -> str:
    return f"signal {name}" if name in taken else name

"""The experience that a collector returns and a learner consumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ludus.types import Array, BoolArray, EpisodeRecord, Observation


@dataclass(kw_only=True)
class Experience:
    """The number of env steps, and the episodes that ended in them."""

    steps: int
    episodes: list[EpisodeRecord]

    def arrays(self) -> dict[str, Array]:
        """Return what there is to learn from as flat arrays by name, for a file that shows it."""
        found: dict[str, Array] = {}
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                found[name] = value
            elif isinstance(value, dict):
                found |= {f"{name}.{key}": part for key, part in value.items()}
        return found


@dataclass(frozen=True)
class Cuts:
    """The next observations of K steps whose next observation is not in the rollout, as the network gets them.

    Step `times[k]` of env `envs[k]` was followed by `obs[k]`: a truncated episode, or the last step of the rollout.
    """

    times: Array
    envs: Array
    obs: Observation


@dataclass(kw_only=True)
class Rollout(Experience):
    """T consecutive steps of N envs under one policy; arrays are [T, N, ...].

    Observations are as the network gets them. `next_values` holds the value of each step's true next observation, so
    truncation is bootstrapped although the env was reset. `ends` marks the steps whose next row is another episode.
    `valid` is False for steps that crossed a reset or belong to a dropped episode: do not learn from them. `cuts` are
    given if an older policy may have acted; they are needed to compute the values of all steps again.
    """

    obs: Observation
    actions: Array
    log_probs: Array
    values: Array
    next_values: Array
    rewards: Array
    terminated: BoolArray
    ends: BoolArray
    valid: BoolArray
    masks: BoolArray | None
    cuts: Cuts | None = None


@dataclass(kw_only=True)
class Transitions(Experience):
    """Single steps for a replay buffer; arrays are [M, ...], observations and rewards are raw."""

    obs: Observation
    actions: Array
    rewards: Array
    next_obs: Observation
    terminated: BoolArray
    masks: BoolArray | None
    next_masks: BoolArray | None


def join_rollouts(parts: Sequence[Rollout]) -> Rollout:
    """Join rollouts of the same length along the env axis. All have cuts, or none."""

    def along_envs(name: str) -> Any:
        return _joined([getattr(part, name) for part in parts], axis=1)

    cuts = None
    given = [part.cuts for part in parts if part.cuts is not None]
    if given:
        firsts = np.cumsum([0, *(part.rewards.shape[1] for part in parts[:-1])])
        cuts = Cuts(
            times=np.concatenate([part.times for part in given]),
            envs=np.concatenate([part.envs + first for part, first in zip(given, firsts, strict=True)]),
            obs=_joined([part.obs for part in given], axis=0),
        )
    return Rollout(
        steps=sum(part.steps for part in parts),
        episodes=[episode for part in parts for episode in part.episodes],
        obs=along_envs("obs"),
        actions=along_envs("actions"),
        log_probs=along_envs("log_probs"),
        values=along_envs("values"),
        next_values=along_envs("next_values"),
        rewards=along_envs("rewards"),
        terminated=along_envs("terminated"),
        ends=along_envs("ends"),
        valid=along_envs("valid"),
        masks=_joined_masks([part.masks for part in parts], [part.valid.shape for part in parts], axis=1),
        cuts=cuts,
    )


def join_transitions(parts: Sequence[Transitions]) -> Transitions:
    """Concatenate transitions."""

    def concatenated(name: str) -> Any:
        return _joined([getattr(part, name) for part in parts], axis=0)

    shapes = [part.rewards.shape for part in parts]
    return Transitions(
        steps=sum(part.steps for part in parts),
        episodes=[episode for part in parts for episode in part.episodes],
        obs=concatenated("obs"),
        actions=concatenated("actions"),
        rewards=concatenated("rewards"),
        next_obs=concatenated("next_obs"),
        terminated=concatenated("terminated"),
        masks=_joined_masks([part.masks for part in parts], shapes, axis=0),
        next_masks=_joined_masks([part.next_masks for part in parts], shapes, axis=0),
    )


def _joined(arrays: list[Any], axis: int) -> Any:
    if isinstance(arrays[0], dict):
        return {key: np.concatenate([array[key] for array in arrays], axis) for key in arrays[0]}
    return np.concatenate(arrays, axis)


def _joined_masks(
    masks: list[BoolArray | None], shapes: list[tuple[int, ...]], axis: int
) -> BoolArray | None:
    """Join masks; a part without masks gets all-legal ones. None if no part has any."""
    known = next((mask for mask in masks if mask is not None), None)
    if known is None:
        return None
    filled = [
        np.ones((*shape, known.shape[-1]), dtype=bool) if mask is None else mask
        for mask, shape in zip(masks, shapes, strict=True)
    ]
    return np.concatenate(filled, axis)

"""What a collector returns and a learner consumes."""

from __future__ import annotations

from dataclasses import dataclass

from ludus.league.records import MatchRecord, Turn
from ludus.types import Array, BoolArray, EpisodeRecord, Observation


@dataclass(kw_only=True)
class Experience:
    """Base: how many env steps it holds, and which episodes ended on the way."""

    steps: int
    episodes: list[EpisodeRecord]


@dataclass(kw_only=True)
class Rollout(Experience):
    """T consecutive steps of N envs under one policy; arrays are [T, N, ...].

    Observations are as the network saw them. `next_values` holds the value of each step's true successor, so
    truncation is bootstrapped although the env was reset. `ends` marks steps whose successor in the array is
    not their successor in the episode. `valid` is False for steps that crossed a reset or belong to a dropped
    episode: they carry no experience.
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


@dataclass(kw_only=True)
class Turns(Experience):
    """Turns of language models, for those who played them to learn from, and the matches that ended meanwhile.

    All turns of one seat of one match are in the same experience. `turns` may leave out turns that are in `matches`,
    as those of opponents.
    """

    turns: list[Turn]
    matches: list[MatchRecord]

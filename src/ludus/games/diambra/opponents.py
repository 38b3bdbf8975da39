"""Policies of runs as opponents in a DIAMBRA game for two."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

from ludus.envs.make import EnvSpec
from ludus.envs.spaces import describe_space
from ludus.errors import UnknownName, UserError, nearest
from ludus.evaluation.load import LoadedPolicy, find_checkpoint, load
from ludus.games.diambra.bots import BOTS
from ludus.types import Array, Observation


@dataclass(frozen=True)
class RunOpponent:
    """The opponent of `opponent: RUN`: the path of a checkpoint, which is sent to the worker that loads it."""

    checkpoint: str

    def __call__(self, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> SeatedPolicy:
        """Load the policy for a seat with these spaces. UserError if it was trained with others."""
        torch.set_num_threads(1)  # one process per engine: more threads would only compete for cores
        policy = load(self.checkpoint)
        require_spaces(policy, observation_space, action_space)
        return SeatedPolicy(policy)


class SeatedPolicy:
    """Samples its actions as in training; `restart` sets the seed."""

    def __init__(self, policy: LoadedPolicy) -> None:
        self._policy = policy
        self._generator = torch.Generator()

    def restart(self, seed: int) -> None:
        self._generator.manual_seed(seed)

    def predict(self, obs: Observation) -> Array:
        actions: Array = self._policy.actor.predict(obs, deterministic=False, generator=self._generator)
        return actions


def seat_opponent(spec: EnvSpec, root: str | Path) -> EnvSpec:
    """Return `spec` with its `opponent`, the name of a run under `root`, resolved; other specs unchanged.

    UnknownName if it is neither a bot nor a run, and CheckpointError.
    """
    name = spec.kwargs.get("opponent")
    if not isinstance(name, str) or name in BOTS:
        return spec
    try:
        _, checkpoint = find_checkpoint(name, root)
    except UnknownName as error:
        error.where = "env.kwargs.opponent"
        if nearest(name, BOTS) is None:
            raise
        raise UnknownName("bot or run", name, BOTS, where=error.where) from None
    opponent = RunOpponent(str(checkpoint.path.absolute()))
    return replace(spec, kwargs={**spec.kwargs, "opponent": opponent})


def require_spaces(
    policy: LoadedPolicy, observation_space: gym.Space[Any], action_space: gym.Space[Any]
) -> None:
    """Raise UserError unless `policy` was trained with the spaces of a seat."""
    actor = policy.actor
    if actor.observation_space == observation_space and actor.action_space == action_space:
        return
    raise UserError(
        f"'{policy.name}' was trained with other observations or actions than this seat has",
        where=f"it observes {describe_space(actor.observation_space)}; the seat {describe_space(observation_space)}",
        fix="use runs with the same game, frame_shape, wrappers_settings and action_space, or a bot",
    )

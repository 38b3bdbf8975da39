"""Episodes of a game that steps many at once: all of an evaluation's seeds side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ludus.envs.episode_reports import REPORT
from ludus.envs.make import EnvSpec
from ludus.envs.vector import batched
from ludus.policies.base import RecurrentActor
from ludus.rollout.stepper import read_masks
from ludus.types import EpisodeRecord

MOST = 1024


def can_play_together(make_env: Callable[[], Any], actor: Any) -> bool:
    """Whether this is such a game, and an actor that needs no memory."""
    return (
        isinstance(make_env, EnvSpec)
        and make_env.support.batched_evaluation
        and batched.unsupported_reason(make_env) is None
        and not isinstance(actor, RecurrentActor)
    )


def play_together(
    actor: Any,
    spec: EnvSpec,
    seeds: Sequence[int],
    *,
    deterministic: bool = True,
    before_step: Callable[[], None] = lambda: None,
) -> list[EpisodeRecord]:
    """One episode per seed, each as it would go alone."""
    records: list[EpisodeRecord] = []
    for start in range(0, len(seeds), MOST):
        records += _play(actor, spec, list(seeds[start : start + MOST]), deterministic, before_step)
    return records


def _play(
    actor: Any, spec: EnvSpec, seeds: list[int], deterministic: bool, before_step: Callable[[], None]
) -> list[EpisodeRecord]:
    envs: Any = batched.make_batched(spec, len(seeds))
    records: list[EpisodeRecord | None] = [None] * len(seeds)
    try:
        obs, infos = envs.reset(seed=seeds)
        while any(record is None for record in records):
            before_step()
            actions = actor.predict(obs, read_masks(obs, infos), deterministic=deterministic)
            obs, _, terminated, truncated, infos = envs.step(actions)
            for index in np.flatnonzero(terminated | truncated):
                if records[index] is None:  # the games that follow are nobody's
                    records[index] = _record(infos["final_info"], int(index))
    finally:
        envs.close()
    return [record for record in records if record is not None]


def _record(info: dict[str, Any], index: int) -> EpisodeRecord:
    episode = info["episode"]
    return EpisodeRecord(
        float(episode["r"][index]),
        int(episode["l"][index]),
        bool(info["is_success"][index]),
        info[REPORT][index],
    )

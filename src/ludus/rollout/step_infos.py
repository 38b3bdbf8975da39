"""A vector step as callbacks and envs of Stable-Baselines3 have it: one info per env, with the ends of episodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.rollout.stepper import PendingStep, VectorStep, info_column, info_given, take
from ludus.types import Array, BoolArray, Observation

Info = dict[str, Any]
_ENDINGS = {"final_obs", "final_info"}


def step_locals(pending: PendingStep, step: VectorStep, new_obs: Observation) -> dict[str, Any]:
    """Return a step under the names that it has in the loop of Stable-Baselines3, for `callback.locals`.

    `rewards` are the env's own, also with `normalize_reward`; `actions` are as the envs got them.
    """
    dones = finished_episodes(pending, step)
    return {
        "obs": pending.obs_before,
        "actions": pending.actions,
        "new_obs": new_obs,
        "rewards": step.rewards,
        "dones": dones,
        "infos": step_infos(pending, step, dones),
    }


def finished_episodes(pending: PendingStep, step: VectorStep) -> BoolArray:
    """Return which envs have ended an episode: by themselves, or because the env was replaced after a fault."""
    infos = pending.infos
    if "dropped" not in infos or "_dropped" in infos:  # an info of the env may have that name
        return step.ended
    dropped: BoolArray = np.asarray(infos["dropped"], dtype=bool)
    return np.logical_or(step.ended, dropped)


def step_infos(pending: PendingStep, step: VectorStep, dones: BoolArray, *, own: bool = True) -> list[Info]:
    """Return the info of each env; where its episode ended, that of the last step, with `terminal_observation`,
    `TimeLimit.truncated` and `episode`. Without `own`, leave out what the envs put into it.
    """
    n = len(dones)
    infos: list[Info] = [{} for _ in range(n)]
    ended = np.flatnonzero(step.ended)
    if own:
        infos = infos_by_env(pending.infos, np.arange(n))
        if step.final_infos is not pending.infos:  # those of the observations that were reset away
            for index, last in zip(ended.tolist(), infos_by_env(step.final_infos, ended), strict=True):
                infos[index] = last
    for index in np.flatnonzero(dones).tolist():
        if not step.ended[index]:  # dropped
            last = take(pending.obs_before, index)
        else:
            last = step.final_obs[index] if index in step.final_obs else take(pending.obs, index)
        infos[index]["terminal_observation"] = last
        infos[index]["TimeLimit.truncated"] = not step.terminated[index]
    if len(step.episodes) == len(ended):  # else a wrapper cut only a part of an episode
        for index, episode in zip(ended.tolist(), step.episodes, strict=True):
            infos[index]["episode"] = {"r": episode.reward, "l": episode.length}
            if episode.success is not None:
                infos[index]["is_success"] = episode.success
    return infos


def infos_by_env(infos: dict[str, Any], indices: Array) -> list[Info]:
    """Return Gymnasium's vectorised infos as one dict for each env of `indices`."""
    rows: list[Info] = [{} for _ in indices]
    for name in infos:
        if name in _ENDINGS or (name.startswith("_") and name[1:] in infos):
            continue
        given = info_given(infos, name, indices)
        for row, value, there in zip(rows, info_column(infos, name, indices), given, strict=True):
            if there:
                row[name] = value
    return rows

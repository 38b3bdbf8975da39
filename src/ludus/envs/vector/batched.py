"""Vector envs that step all games in one compiled call: the classic ones, and those that plugins register."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from gymnasium.vector import VectorEnv

from ludus.envs.vector import classic
from ludus.errors import ConfigError
from ludus.plugins import load, plugins

if TYPE_CHECKING:
    from ludus.envs.make import EnvSpec


@cache
def _entry_points() -> dict[str, str]:
    entries = (entry for plugin in plugins() for entry in plugin.envs)
    return {entry.id: entry.vector_entry_point for entry in entries if entry.vector_entry_point is not None}


def unsupported_reason(spec: EnvSpec) -> str | None:
    """Return why no batched vector env can replace the envs of `spec`; None if one can."""
    if spec.id not in _entry_points():
        return classic.unsupported_reason(spec)
    return spec.support.batched_unsupported_reason(spec)


def make_batched(spec: EnvSpec, n_envs: int) -> VectorEnv[Any, Any, Any]:
    """Return the vector env of `spec`. Raises ConfigError where there is none."""
    entry_point = _entry_points().get(spec.id)
    if entry_point is None:
        return classic.BatchedVectorEnv(spec, n_envs)
    reason = unsupported_reason(spec)
    if reason is not None:
        raise ConfigError(f"vector: batched cannot be used: {reason}", key="vector", fix="use vector: auto")
    options: dict[str, Any] = dict(spec.kwargs)
    if spec.max_episode_steps is not None:
        options["max_episode_steps"] = spec.max_episode_steps
    if spec.curriculum is not None:
        options["curriculum"] = spec.curriculum
    envs: VectorEnv[Any, Any, Any] = load(entry_point)(num_envs=n_envs, **options)
    return envs

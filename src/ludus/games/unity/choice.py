"""Which envs are Unity's, and whether all of them can be played at once; light, since every worker reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from ludus.envs.make import EnvSpec

ENV_ID = "ludus/Unity-v0"


def is_unity(env_id: str) -> bool:
    return env_id.rpartition(":")[2] == ENV_ID


def unsupported_reason(spec: EnvSpec) -> str | None:
    """None when the envs of `spec` are Unity's and can be played all at once, else the reason."""
    if not is_unity(spec.id):
        return f"{spec.id} is not played by Unity simulators"
    if spec.wrappers or spec.frame_stack != 1 or spec.frame_skip != 1 or spec.curriculum is not None:
        return "wrappers are put around one env at a time; a use case has lags and a hook instead"
    return None


def make_endpoint(spec: EnvSpec, n_envs: int) -> VectorEnv[Any, Any, Any]:
    """All envs of `spec` as one; raises as `UnityVectorEnv`."""
    from ludus.games.unity.vector import (
        UnityVectorEnv,
    )  # brings pydantic and asyncio, which workers can do without

    return UnityVectorEnv(spec, n_envs)

"""How Ludus treats Unity envs: all simulators of a run are asked at once, by one endpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ludus.envs.support import EnvSupport

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from ludus.envs.make import EnvSpec

ENV_ID = "ludus/Unity-v0"
ENDPOINT = "endpoint"


class UnitySupport(EnvSupport):
    tied_to_simulator = True

    def copies(self, spec: EnvSpec, n_envs: int) -> list[EnvSpec]:
        return [replace(spec, kwargs={**spec.kwargs, "index": index}) for index in range(n_envs)]

    def choose_backend(self, spec: EnvSpec, n_envs: int) -> tuple[str, str]:
        reason = unsupported_reason(spec)
        return (ENDPOINT, "all simulators asked at once") if reason is None else ("serial", reason)

    def make_vector(
        self, spec: EnvSpec, n_envs: int, backend: str, **options: Any
    ) -> VectorEnv[Any, Any, Any] | None:
        if backend != ENDPOINT:
            return None
        from ludus.games.unity.vector import UnityVectorEnv  # imports asyncio, which workers do without

        return UnityVectorEnv(spec, n_envs, **options)

    def description(self) -> dict[str, str]:
        return {"observation": "as its use case says", "action": "as its use case says"}


SUPPORT = UnitySupport()


def is_unity(env_id: str) -> bool:
    return env_id.rpartition(":")[2] == ENV_ID


def unsupported_reason(spec: EnvSpec) -> str | None:
    """Return why the envs of `spec` cannot be stepped by one endpoint; None if they can."""
    if spec.wrappers or spec.frame_stack != 1 or spec.frame_skip != 1 or spec.curriculum is not None:
        return "wrappers are put around one env at a time; a use case has lags and a hook instead"
    return None

"""Env support of Unity: all simulators of a run are stepped at once, by one endpoint."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ludus.config.requests import ConsentRequest, is_loopback
from ludus.envs.support import EnvSupport

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from ludus.envs.make import EnvSpec

ENV_ID = "ludus/Unity-v0"
ENDPOINT = "endpoint"


class UnitySupport(EnvSupport):
    tied_to_simulator = True

    def requests(self, spec: EnvSpec) -> Iterator[ConsentRequest]:
        """Return the build with all its arguments, an address that other machines reach, and a use case's file."""
        from ludus.games.unity.builds import build_command
        from ludus.games.unity.settings import parse_settings
        from ludus.games.unity.use_case import shipped_use_cases

        own = ("index", "render_mode")  # of the env itself
        settings = parse_settings({name: value for name, value in spec.kwargs.items() if name not in own})
        build = settings.build
        if build is not None and build.launch is not False:
            command = shlex.join(build_command(build, settings.port, 0))
            yield ConsentRequest("start the program", command, "env.kwargs.build")
        if not is_loopback(settings.host):
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            yield ConsentRequest("listen at", f"{host}:{settings.port}", "env.kwargs.host")
        if settings.use_case not in shipped_use_cases():
            yield ConsentRequest("read the use case", settings.use_case, "env.kwargs.use_case")

    def copies(self, spec: EnvSpec, n_envs: int) -> list[EnvSpec]:
        return [replace(spec, kwargs={**spec.kwargs, "index": index}) for index in range(n_envs)]

    def choose_backend(self, spec: EnvSpec, n_envs: int) -> tuple[str, str]:
        reason = unsupported_reason(spec)
        return (ENDPOINT, "all simulators are stepped at once") if reason is None else ("serial", reason)

    def make_vector(
        self, spec: EnvSpec, n_envs: int, backend: str, **options: Any
    ) -> VectorEnv[Any, Any, Any] | None:
        if backend != ENDPOINT:
            return None
        from ludus.games.unity.vector import UnityVectorEnv  # imports asyncio, which workers do not need

        return UnityVectorEnv(spec, n_envs, **options)

    def description(self) -> dict[str, str]:
        return {"observation": "defined by its use case", "action": "defined by its use case"}


SUPPORT = UnitySupport()


def is_unity(env_id: str) -> bool:
    return env_id.rpartition(":")[2] == ENV_ID


def unsupported_reason(spec: EnvSpec) -> str | None:
    """Return why the envs of `spec` cannot be stepped by one endpoint; None if they can."""
    if spec.wrappers or spec.frame_stack != 1 or spec.frame_skip != 1 or spec.curriculum is not None:
        return "wrappers apply to one env at a time; use the lags and the hook of a use case instead"
    return None

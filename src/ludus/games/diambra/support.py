"""Env support of DIAMBRA: each env plays on an engine in its own process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ludus.config.requests import ConsentRequest, argument_requests
from ludus.envs.support import EnvSupport
from ludus.games.diambra.plugin import DIAMBRA

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from ludus.envs.make import EnvSpec

_SLACK_SECONDS = 5.0  # so that the env itself reports first that its engine did not answer


class DiambraSupport(EnvSupport):
    tied_to_simulator = True
    no_spare_simulator = True

    def check(self, spec: EnvSpec) -> None:
        from ludus.games.diambra.settings import settings_for

        plain = {name: value for name, value in spec.kwargs.items() if name != "rank" and not callable(value)}
        settings_for(spec.id.rpartition(":")[2].removeprefix(DIAMBRA), plain)

    def requests(self, spec: EnvSpec) -> Iterator[ConsentRequest]:
        """Return the folder of recordings, and the run at the other seat."""
        from ludus.games.diambra.bots import BOTS

        opponent = spec.kwargs.get("opponent")
        if isinstance(opponent, str) and opponent not in BOTS:
            yield ConsentRequest("play against", opponent, "env.kwargs.opponent")
        others = {name: value for name, value in spec.kwargs.items() if name != "opponent"}
        yield from argument_requests(others, "env.kwargs", known=True)

    def copies(self, spec: EnvSpec, n_envs: int) -> list[EnvSpec]:
        from ludus.games.diambra.engines import check_number

        check_number(n_envs)
        return [replace(spec, kwargs={**spec.kwargs, "rank": rank}) for rank in range(n_envs)]

    def bind(self, spec: EnvSpec, root: str | Path) -> EnvSpec:
        from ludus.games.diambra.opponents import seat_opponent

        return seat_opponent(spec, root)

    def plain_kwargs(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        from ludus.games.diambra.opponents import RunOpponent

        opponent = kwargs.get("opponent")
        if isinstance(opponent, RunOpponent):  # the exact checkpoint: `latest` may change
            return {**kwargs, "opponent": opponent.checkpoint}
        return dict(kwargs)

    def choose_backend(self, spec: EnvSpec, n_envs: int) -> tuple[str, str]:
        return "process", "one worker for each engine"

    def make_vector(
        self, spec: EnvSpec, n_envs: int, backend: str, **options: Any
    ) -> VectorEnv[Any, Any, Any] | None:
        if backend != "process":
            return None
        from ludus.envs.vector.remote import RemoteVectorEnv
        from ludus.games.diambra.engines import engines

        defaults: dict[str, Any] = {
            "names": [str(engine) for engine in engines()],
            "deadline": float(spec.kwargs.get("grpc_timeout", 60)) + _SLACK_SECONDS,
        }
        return RemoteVectorEnv(self.copies(spec, n_envs), env_id=spec.id, **(defaults | options))

    def description(self) -> dict[str, str]:
        return {"observation": "Dict: frame and states", "action": "MultiDiscrete or Discrete"}


SUPPORT = DiambraSupport()

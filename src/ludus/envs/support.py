"""`EnvSupport`: how Ludus treats a family of envs that needs more than `gymnasium.make`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.vector import VectorEnv

from ludus.config.requests import ConsentRequest, argument_requests
from ludus.plugins import match_env

if TYPE_CHECKING:
    from ludus.envs.make import EnvSpec

_KNOWN_CODE = ("gymnasium.envs.", "ale_py.", "ludus.")
"""Beginnings of entry points of envs that take plain words as the names of variants, and start nothing."""


class EnvSupport:
    """The defaults suit every Gymnasium env. A plugin names a subclass in `Plugin.env_support`."""

    tied_to_simulator = False
    """Each env talks to a running simulator: it is not rebuilt at a barrier, nor built in other processes."""
    no_spare_simulator = False
    """All simulators are needed for training: there are no evaluations or videos meanwhile."""
    batched_evaluation = False
    """An evaluation may step the episodes of all its seeds at once in the batched vector env."""

    def check(self, spec: EnvSpec) -> None:
        """Raise ConfigError if the keyword arguments of `spec` are invalid."""

    def requests(self, spec: EnvSpec) -> Iterable[ConsentRequest]:
        """Return the programs, addresses, URLs and files outside the run that an env of `spec` would use.

        A run from elsewhere gets them only with the user's consent. The default takes every argument that holds text;
        for envs of Gymnasium, ALE and Ludus, those that look like a path, a URL or an address. Raises ConfigError.
        """
        return argument_requests(spec.kwargs, "env.kwargs", known=_is_known(spec.id))

    def copies(self, spec: EnvSpec, n_envs: int) -> list[EnvSpec]:
        """Return what builds each of `n_envs` envs. Raises ConfigError."""
        return [spec] * n_envs

    def bind(self, spec: EnvSpec, root: str | Path) -> EnvSpec:
        """Return `spec` with names of runs under `root` replaced by what they stand for."""
        return spec

    def plain_kwargs(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return bound keyword arguments as `config.yaml` writes them."""
        return dict(kwargs)

    def choose_backend(self, spec: EnvSpec, n_envs: int) -> tuple[str, str] | None:
        """Return the backend that `vector: auto` means and why; None leaves the choice to Ludus."""
        return None

    def make_vector(
        self, spec: EnvSpec, n_envs: int, backend: str, **options: Any
    ) -> VectorEnv[Any, Any, Any] | None:
        """Return a vector env of its own for `backend`; None leaves it to Ludus."""
        return None

    def batched_unsupported_reason(self, spec: EnvSpec) -> str | None:
        """Return why the registered `vector_entry_point` cannot replace the envs of `spec`; None if it can."""
        if spec.wrappers or spec.frame_stack > 1 or spec.frame_skip > 1 or spec.curriculum is not None:
            return "the env has wrappers"
        return "it draws no pictures" if spec.render_mode is not None else None

    def description(self) -> dict[str, str] | None:
        """Return what `ludus envs` says of observation and action where the env cannot be built to look at it."""
        return None


def _is_known(env_id: str) -> bool:
    """Return True if Gymnasium, ALE or Ludus provides the env; False for `module:Id`, which its module registers."""
    registered = gym.registry.get(env_id)
    return registered is not None and str(registered.entry_point).startswith(_KNOWN_CODE)


@cache
def support_for(env_id: str) -> EnvSupport:
    """Return the support of the plugin that has this env, or the default."""
    found: EnvSupport | None = match_env("env_support", env_id)
    return found or EnvSupport()

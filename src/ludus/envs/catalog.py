"""Catalog of envs: the ids that gymnasium can make here, in groups, and clear errors for the others."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec as GymSpec
from gymnasium.envs.registration import parse_env_id

from ludus.config.registry import ENTRY_POINT_GROUP as ALGORITHMS
from ludus.envs.registration import register_envs
from ludus.errors import MissingExtra, UnknownName, UserError
from ludus.plugins import ENTRY_POINT_GROUP as PLUGINS
from ludus.plugins import plugins

register_envs()

# group -> the modules of its entry points, the package it needs, the extra that installs that package
_GROUPS: dict[str, tuple[str, str | None, str | None]] = {
    "classic control": ("gymnasium.envs.classic_control", None, None),
    "box2d": ("gymnasium.envs.box2d", "Box2D", "box2d"),
    "toy text": ("gymnasium.envs.toy_text", None, None),
    "mujoco": ("gymnasium.envs.mujoco", "mujoco", "mujoco"),
    "atari": ("ale_py", "ale_py", "atari"),
}
_OTHER = "other"
_JAX_MODULES = ("gymnasium.envs.phys2d", "gymnasium.envs.tabular")


def known_env_ids() -> list[str]:
    """Return all ids that gymnasium has registered in this process, sorted, without removed ids that only raise."""
    _register_atari()
    return sorted(env_id for env_id, spec in gym.registry.items() if not _is_tombstone(spec))


def env_groups() -> dict[str, list[str]]:
    """Known ids by group: those of plugins, classic control, box2d, toy text, mujoco, atari, other.

    A group is listed even if its package is not installed (see `missing_extra`); Atari's ids are
    registered by its package, so that group is empty without it.
    """
    groups: dict[str, list[str]] = {group: [] for group in [*_plugin_groups(), *_GROUPS, _OTHER]}
    for env_id in known_env_ids():
        groups[_group_of(gym.registry[env_id])].append(env_id)
    return groups


def missing_extra(group: str) -> str | None:
    """The extra a group of `env_groups` still needs here, or None when its envs can be made."""
    _, package, extra = _GROUPS.get(group, ("", *_plugin_groups().get(group, (None, None))))
    return extra if package is not None and importlib.util.find_spec(package) is None else None


def check_env_exists(env_id: str) -> None:
    """Return when `env_id` can be made here.

    Raises UnknownName (with the newest version or the nearest id), MissingExtra when the id is known but its
    package is not installed, and UserError when the module of `module:Env-v0` cannot be found.
    """
    find_gym_spec(env_id)


def find_gym_spec(env_id: str) -> GymSpec:
    """The registry entry of `env_id`; raises as `check_env_exists`."""
    module, _, name = env_id.rpartition(":")
    if module:
        import_registering_module(module, env_id)
    if name.startswith("ALE/") and missing_extra("atari"):
        raise MissingExtra(f"the env '{env_id}'", "atari")
    if name not in gym.registry:
        register_envs()
        _register_atari()
    spec = gym.registry.get(name)
    if spec is None or _is_tombstone(spec):
        newest = _newest_version(name)
        raise UnknownName(
            "env",
            env_id,
            [newest] if newest else known_env_ids(),
            where="env.id",
            fix="`ludus envs` lists the known ids; an env of your own is named 'module:MyEnv-v0'",
        )
    group = _group_of(spec)
    extra = missing_extra(group)
    if extra:
        apart = any(plugin.extra == extra and plugin.own_environment for plugin in plugins())
        raise MissingExtra(f"the env '{env_id}'", extra, own_environment=apart)
    if _module_of(spec).startswith(_JAX_MODULES) and importlib.util.find_spec("jax") is None:
        raise UserError(
            f"the env '{env_id}' needs the package jax, which is not installed",
            where="this Python environment",
            fix='pip install "gymnasium[jax]"',
        )
    return spec


def import_registering_module(module: str, env_id: str) -> ModuleType:
    """Import the module that registers `env_id`. UserError when it cannot be found, or needs consent."""
    from ludus.config.own_modules import import_own_module

    # a module that is loaded already has no import effects left
    known = _registering_modules() | ({module} & sys.modules.keys())
    try:
        return import_own_module(module, env_id, where=f"env id '{env_id}'", known=known)
    except ModuleNotFoundError as error:
        # a module missing further down is a fault in the user's module, and shows its own traceback
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise
        raise UserError(
            f"the module '{module}' of env '{env_id}' cannot be found",
            where=f"env id '{env_id}'",
            fix="install it, or run from the folder that holds it",
        ) from None


@cache
def _registering_modules() -> frozenset[str]:
    """Return the modules by which installed packages register envs: those in entry points, with their packages."""
    groups = ("gymnasium.envs", PLUGINS, ALGORITHMS)
    modules = {entry.module for group in groups for entry in entry_points(group=group)} | {"ale_py"}
    return frozenset(modules | {module.partition(".")[0] for module in modules})


def _register_atari() -> None:
    if importlib.util.find_spec("ale_py") is not None:
        gym.register_envs(importlib.import_module("ale_py"))


def _newest_version(name: str) -> str | None:
    """The id of the newest registered version of the env called `name`, whatever version `name` asks for."""
    try:
        namespace, stem, _ = parse_env_id(name)
    except gym.error.Error:
        return None
    versions = [
        spec
        for spec in gym.registry.values()
        if spec.namespace == namespace and spec.name == stem and not _is_tombstone(spec)
    ]
    return max(versions, key=lambda spec: spec.version or -1).id if versions else None


def _is_tombstone(spec: GymSpec) -> bool:
    """Return True if the id is registered only to raise when made (MuJoCo v2/v3, the shimmy ids)."""
    entry = spec.entry_point
    return callable(entry) and getattr(entry, "__name__", "").startswith("_raise_")


def _module_of(spec: GymSpec) -> str:
    if isinstance(spec.entry_point, str):
        return spec.entry_point.partition(":")[0]
    return str(getattr(spec.entry_point, "__module__", ""))


@cache
def _plugin_groups() -> dict[str, tuple[str | None, str | None]]:
    """Return the groups of plugins' envs, each with the package it needs and the extra that brings it."""
    found: dict[str, tuple[str | None, str | None]] = {}
    for plugin in plugins():
        if plugin.envs:
            found.setdefault(plugin.env_group or plugin.name, (plugin.package, plugin.extra))
    return found


@cache
def _plugin_entry_points() -> dict[str, str]:
    return {e.entry_point: plugin.env_group or plugin.name for plugin in plugins() for e in plugin.envs}


def _group_of(spec: GymSpec) -> str:
    if isinstance(spec.entry_point, str) and spec.entry_point in _plugin_entry_points():
        return _plugin_entry_points()[spec.entry_point]
    module = _module_of(spec)
    for group, (prefix, _, _) in _GROUPS.items():
        if module == prefix or module.startswith(f"{prefix}."):
            return group
    return _OTHER

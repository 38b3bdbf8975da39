"""Wrappers by name, as a config lists them under `wrappers:`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from ludus.config.requests import ConsentRequest, argument_requests
from ludus.envs.masks import ActionMaskWrapper
from ludus.envs.wrappers import ClipAction, Env, FrameSkip, FrameStack, RewardScalingWrapper, mujoco_preset
from ludus.errors import ConfigError, UnknownName, UserError, require_types
from ludus.plugins import load

WrapperFactory = Callable[..., Env]
WrapperEntry = str | Mapping[str, Any]
"""`"Name"`, `"module:Class"`, or either as the one key of a mapping to its arguments."""

# gymnasium's wrappers whose arguments can be written in YAML and that keep no state a checkpoint would lose
_FROM_GYMNASIUM = (
    "AddRenderObservation",
    "AtariPreprocessing",
    "ClipReward",
    "DelayObservation",
    "DiscretizeAction",
    "DiscretizeObservation",
    "FilterObservation",
    "FlattenObservation",
    "GrayscaleObservation",
    "MaxAndSkipObservation",
    "RepeatAction",
    "RescaleAction",
    "RescaleObservation",
    "ReshapeObservation",
    "ResizeObservation",
    "StickyAction",
    "TimeAwareObservation",
    "TimeLimit",
)
_OWN_MODULES = {"ludus.envs.atari", "ludus.envs.curriculum", "ludus.envs.masks", "ludus.envs.wrappers"}
_TRAINER_NORMALISES = {"NormalizeObservation": "normalize_obs", "NormalizeReward": "normalize_reward"}

_FOR_ATARI = {
    "EpisodicLife": "ludus.envs.atari:EpisodicLife",
    "FireReset": "ludus.envs.atari:FireReset",
    "atari": "ludus.envs.atari:atari_preset",
}
_registry: dict[str, WrapperFactory] = {
    "ActionMask": ActionMaskWrapper,
    "ClipAction": ClipAction,
    "FrameSkip": FrameSkip,
    "FrameStack": FrameStack,
    "RewardScaling": RewardScalingWrapper,
    "mujoco": mujoco_preset,
}
_registry.update(
    # gymnasium grew its wrappers over the 1.x versions
    {name: getattr(gym.wrappers, name) for name in _FROM_GYMNASIUM if hasattr(gym.wrappers, name)}
)


_BUNDLED = frozenset({*_registry, *_FOR_ATARI})


@dataclass(frozen=True)
class NamedWrapper:
    """A wrapper looked up: its name for messages, the factory itself, and the arguments after `env`."""

    name: str
    factory: WrapperFactory
    kwargs: Mapping[str, Any]
    where: str

    @classmethod
    def checked(
        cls, name: str, factory: WrapperFactory, kwargs: Mapping[str, Any], where: str
    ) -> NamedWrapper:
        """Return the wrapper. Raises ConfigError if `factory` does not accept these arguments."""
        try:
            inspect.signature(factory).bind(None, **kwargs)
        except TypeError as error:
            raise ConfigError(
                f"wrong arguments for the wrapper '{name}': {error}",
                where=where,
                fix=f"it accepts: {_accepted(factory)}",
            ) from None
        return cls(name, factory, kwargs, where)

    def __call__(self, env: Env) -> Env:
        try:
            return self.factory(env, **self.kwargs)
        except gym.error.DependencyNotInstalled as error:
            raise UserError(str(error), where=self.where, fix="install what is named above") from error
        except (TypeError, ValueError, AssertionError) as error:
            if not self.factory.__module__.startswith("gymnasium."):
                raise  # the user's own wrapper: its traceback helps
            # gymnasium's wrappers refuse wrong values and spaces with these
            raise ConfigError(
                f"the wrapper '{self.name}' cannot be put on {env}: {error}",
                where=self.where,
                fix=f"it accepts: {_accepted(self.factory)}",
            ) from error


def register_wrapper(name: str, factory: WrapperFactory) -> None:
    """Register `factory(env, **kwargs) -> env` as `name` in configs; replaces an earlier one."""
    require_types("register_wrapper", name=(name, (str,)), factory=(factory, (Callable,)))  # type: ignore[arg-type]
    _registry[name] = factory


def known_wrappers() -> list[str]:
    """Return the registered wrapper names, sorted."""
    return sorted({*_FOR_ATARI, *_registry})


def find_wrapper(entry: WrapperEntry) -> NamedWrapper:
    """Return the wrapper of a config entry, its arguments checked against the factory's signature.

    Raises UnknownName for a name nobody registered, ConfigError for a malformed entry, a `module:Class` that
    is not there, or arguments the wrapper does not accept.
    """
    name, kwargs = _name_and_kwargs(entry)
    factory = _import_wrapper(name) if ":" in name else _registry.get(name)
    if factory is None and name in _FOR_ATARI:
        factory = load(_FOR_ATARI[name])
    if factory is None:
        if name in _TRAINER_NORMALISES:
            raise ConfigError(
                f"the wrapper '{name}' keeps statistics that a checkpoint could not save",
                where="env.wrappers",
                fix=f"remove it and set {_TRAINER_NORMALISES[name]}: true",
            )
        raise UnknownName(
            "wrapper", name, known_wrappers(), where="env.wrappers", fix="your own is named 'module:Class'"
        )
    return NamedWrapper.checked(name, factory, kwargs, f"env.wrappers, {name}")


def wrapper_requests(entries: Iterable[WrapperEntry]) -> Iterator[ConsentRequest]:
    """Return the arguments that a run may not pass to wrappers without consent. Raises ConfigError.

    Ludus's own wrappers and those of Gymnasium that it lists take no file, program or address.
    """
    for entry in entries:
        name, kwargs = _name_and_kwargs(entry)
        module, colon, attribute = name.partition(":")
        if not (_is_harmless(module, attribute) if colon else name in _BUNDLED):
            yield from argument_requests(kwargs, f"env.wrappers.{name}")


def _is_harmless(module: str, attribute: str) -> bool:
    listed = f"{module}.".startswith("gymnasium.wrappers.") and attribute in _FROM_GYMNASIUM
    return listed or module in _OWN_MODULES


def _name_and_kwargs(entry: WrapperEntry) -> tuple[str, dict[str, Any]]:
    if isinstance(entry, str):
        return entry, {}
    if isinstance(entry, Mapping) and len(entry) == 1:
        name, kwargs = next(iter(entry.items()))
        if isinstance(name, str) and (kwargs is None or isinstance(kwargs, Mapping)):
            # YAML writes tuples as lists, and gymnasium insists on tuples
            return name, {k: tuple(v) if isinstance(v, list) else v for k, v in (kwargs or {}).items()}
    raise ConfigError(
        f"a wrapper is a name or one name with its arguments, not {entry!r}",
        where="env.wrappers",
        fix="write it as: wrappers: [atari, {RewardScaling: {scale: 0.1}}]",
    )


def _import_wrapper(name: str) -> WrapperFactory:
    from ludus.config.own_modules import import_own_module

    module_name, _, attribute = name.partition(":")
    known = {module_name} if _is_harmless(module_name, attribute) else set()
    try:
        module = import_own_module(module_name, name, where="env.wrappers", known=known)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise  # the user's module exists, but not one that it imports
        raise ConfigError(
            f"the module of the wrapper '{name}' cannot be found",
            where="env.wrappers",
            fix="install it, or run from the folder that holds it",
        ) from None
    factory = getattr(module, attribute, None)
    # only wrapper classes: a config must not call arbitrary functions
    if not (isinstance(factory, type) and issubclass(factory, gym.Wrapper)):
        raise ConfigError(
            f"the module '{module_name}' has no wrapper class '{attribute}'",
            where="env.wrappers",
            fix="name a subclass of gymnasium.Wrapper as 'module:Class', or register a function with register_wrapper",
        )
    return factory


def _accepted(factory: WrapperFactory) -> str:
    parameters = list(inspect.signature(factory).parameters.values())[1:]
    texts = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters]
    return ", ".join(texts) or "no arguments"

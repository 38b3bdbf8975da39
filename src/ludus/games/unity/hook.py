"""Hooks: Python code of a use case for what its YAML cannot express."""

from __future__ import annotations

from typing import Any

from ludus.config.own_modules import import_own_module
from ludus.errors import ConfigError
from ludus.games.unity.cdr import Message
from ludus.types import Array


class UseCaseHook:
    """Base class of hooks; one instance per env. `message` is the simulator's answer, `values` the quantities.

    Every method gets the result of the YAML and returns the value to use instead.
    """

    def begin(self, message: Message, values: dict[str, Any]) -> None:
        """Handle the start of an episode."""

    def request(self, action: Array, request: Message) -> Message:
        """Return the step request for `action`."""
        return request

    def observation(self, message: Message, values: dict[str, Any], numbers: Array) -> Array:
        """Return the numbers of one frame, before lags; `observation.size` of them."""
        return numbers

    def reward(self, message: Message, values: dict[str, Any], action: Array, reward: float) -> float:
        return reward

    def terminated(self, message: Message, values: dict[str, Any], terminated: bool) -> bool:
        return terminated

    def info(self, message: Message, values: dict[str, Any]) -> dict[str, Any]:
        """Return more entries for `info`."""
        return {}


def load_hook(name: str | None) -> type[UseCaseHook]:
    """Load the class named `module:Class`. ConfigError if it is not found or not a UseCaseHook."""
    if name is None:
        return UseCaseHook
    module, _, attribute = name.partition(":")
    try:
        found = None
        if module and attribute:
            found = getattr(import_own_module(module, name, where="hook"), attribute, None)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise  # an error in the user's module: show its own traceback
        found = None
    # only subclasses of UseCaseHook: a config must not be able to call arbitrary code
    if not (isinstance(found, type) and issubclass(found, UseCaseHook)):
        raise ConfigError(
            f"the hook '{name}' is not a subclass of ludus.games.unity.hook.UseCaseHook",
            key="hook",
            fix="write module:Class, and run from the folder that contains the module",
        )
    return found

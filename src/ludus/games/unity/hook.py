"""What YAML cannot say about a use case, in Python: a class with the methods it wants to change."""

from __future__ import annotations

from typing import Any

from ludus.config.own_modules import import_own_module
from ludus.errors import ConfigError
from ludus.games.unity.cdr import Message
from ludus.types import Array


class UseCaseHook:
    """To be subclassed; one instance per env. `message` is the simulator's answer, `values` the quantities.

    Every method gets what the YAML made of the answer and returns what shall take its place.
    """

    def begin(self, message: Message, values: dict[str, Any]) -> None:
        """A new episode has begun."""

    def request(self, action: Array, request: Message) -> Message:
        """The step request for `action`."""
        return request

    def observation(self, message: Message, values: dict[str, Any], numbers: Array) -> Array:
        """The numbers of one frame, before lags; as many as `observation.size` says."""
        return numbers

    def reward(self, message: Message, values: dict[str, Any], action: Array, reward: float) -> float:
        return reward

    def terminated(self, message: Message, values: dict[str, Any], terminated: bool) -> bool:
        return terminated

    def info(self, message: Message, values: dict[str, Any]) -> dict[str, Any]:
        """More to tell in `info`."""
        return {}


def load_hook(name: str | None) -> type[UseCaseHook]:
    """The class called `module:Class`; ConfigError when it is not there or no UseCaseHook."""
    if name is None:
        return UseCaseHook
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_own_module(module), attribute, None) if module and attribute else None
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise  # a fault in the user's module, which shows its own traceback
        found = None
    # only classes written to be hooks: a config must not be able to call just anything
    if not (isinstance(found, type) and issubclass(found, UseCaseHook)):
        raise ConfigError(
            f"the hook '{name}' is not a subclass of ludus.games.unity.hook.UseCaseHook",
            key="hook",
            fix="write module:Class, and run from the folder that holds the module",
        )
    return found

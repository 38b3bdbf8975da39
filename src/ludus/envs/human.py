"""Key bindings for `ludus play --human`.

A binding maps the keys held down, by name (`left`, `right`, `up`, `down`, `space`, `enter`, letters), to an
action. The empty tuple is the action while no key is held; without it the game waits for a key (or, where
time runs on by itself, keeps the last action).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from ludus.envs.wrappers import Env
from ludus.types import Array

KeyBindings = dict[tuple[str, ...], Any]


def _drive(steer: float, gas: float, step_gate: float) -> Array:
    return np.array([steer, gas, step_gate], dtype=np.float32)


_LEFT_RIGHT_OR_COAST: KeyBindings = {("left",): 0, (): 1, ("right",): 2}
_LANDER: KeyBindings = {(): 0, ("left",): 1, ("up",): 2, ("right",): 3}
_CAR: KeyBindings = {
    (): _drive(0, 0, 0),
    ("left",): _drive(-1, 0, 0),
    ("right",): _drive(1, 0, 0),
    ("up",): _drive(0, 1, 0),
    ("down",): _drive(0, 0, 0.8),
    ("left", "up"): _drive(-1, 1, 0),
    ("right", "up"): _drive(1, 1, 0),
    ("down", "left"): _drive(-1, 0, 0.8),
    ("down", "right"): _drive(1, 0, 0.8),
}
_CAR_DISCRETE: KeyBindings = {(): 0, ("right",): 1, ("left",): 2, ("up",): 3, ("down",): 4}
_CLIFF: KeyBindings = {("up",): 0, ("right",): 1, ("down",): 2, ("left",): 3}
_LAKE: KeyBindings = {("left",): 0, ("down",): 1, ("right",): 2, ("up",): 3}

# by the env's name without version; the first table whose actions fit the action space is used
_TABLES: dict[str, list[KeyBindings]] = {
    "CartPole": [{("left",): 0, ("right",): 1}],
    "MountainCar": [_LEFT_RIGHT_OR_COAST],
    "Acrobot": [_LEFT_RIGHT_OR_COAST],
    "LunarLander": [_LANDER],
    "CarRacing": [_CAR, _CAR_DISCRETE],
    "FrozenLake": [_LAKE],
    "FrozenLake8x8": [_LAKE],
    "CliffWalking": [_CLIFF],
    "CliffWalkingSlippery": [_CLIFF],
    "Taxi": [{("down",): 0, ("up",): 1, ("right",): 2, ("left",): 3, ("space",): 4, ("enter",): 5}],
    "Blackjack": [{("s",): 0, ("h",): 1}],
}
# pygame 1's codes of the arrow keys, still used by envs with get_keys_to_action
_OLD_ARROW_CODES = {273: "up", 274: "down", 275: "right", 276: "left"}
_CHARACTER_NAMES = {" ": "space", "\r": "enter", "\n": "enter"}


def key_bindings(env: Env) -> KeyBindings | None:
    """Return the key bindings of `env`: its own `get_keys_to_action`, else Ludus's table; None if neither fits.

    The keys of a binding are sorted by name.
    """
    if env.has_wrapper_attr("get_keys_to_action"):
        offered = env.get_wrapper_attr("get_keys_to_action")()
        return {tuple(sorted(_key_name(key) for key in keys)): action for keys, action in offered.items()}
    name = env.spec.name if env.spec is not None else ""
    for table in _TABLES.get(name, []):
        if all(_fits(action, env.action_space) for action in table.values()):
            return dict(table)
    return None


def _fits(action: Any, space: spaces.Space[Any]) -> bool:
    return isinstance(space, spaces.Box) == isinstance(action, np.ndarray) and space.contains(action)


def _key_name(key: int | str) -> str:
    if isinstance(key, int):
        if key in _OLD_ARROW_CODES:
            return _OLD_ARROW_CODES[key]
        key = chr(key)
    return _CHARACTER_NAMES.get(key, key.lower())

"""Signals: named quantities of an env that videos draw next to the frame and `ludus analyze` records at every step.

Built in for common envs; `register_signals` adds those of any other. An env that is not
registered shows the components of its observation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ludus.errors import UserError, require_types
from ludus.plugins import match_env

Env = gym.Env[Any, Any]
Reader = Callable[[Any, Any, dict[str, Any]], float]
"""From the env without its wrappers, what the policy observes, and the newest info, to a number."""
ActionNames = Sequence[str] | Callable[[Any], Sequence[str]]

MAX_COMPONENTS = 24  # of an observation without named components


@dataclass(frozen=True)
class Signal:
    """One quantity. A `contact` is on (not 0) or off; `rate_of` names the signal whose speed this one is."""

    name: str
    read: Reader
    unit: str = ""
    contact: bool = False
    rate_of: str | None = None


@dataclass(frozen=True)
class Signals:
    """The signals of one env, and the names of its actions: of each choice, or of each component of a Box.

    `actions` is empty where they have no names.
    """

    signals: tuple[Signal, ...] = ()
    actions: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(signal.name for signal in self.signals)

    def read(self, env: Env, obs: Any, info: dict[str, Any]) -> tuple[float, ...]:
        """The values now, in the order of `names`."""
        bare = env.unwrapped
        return tuple(float(signal.read(bare, obs, info)) for signal in self.signals)


@dataclass(frozen=True)
class _Registered:
    pattern: str
    signals: tuple[Signal, ...]
    actions: ActionNames


_registry: list[_Registered] = []


def register_signals(pattern: str, signals: Iterable[Signal], actions: ActionNames = ()) -> None:
    """Register the signals, and optionally the action names, of every env whose id matches `pattern` (`MyEnv-v*`).

    The newest matching registration is used. An env without an id is matched by the name of its class. `actions` may
    be a function of the env. UserError when two signals share a name.
    """
    require_types("register_signals", pattern=(pattern, (str,)), signals=(signals, (Iterable,)))
    given = tuple(signals)
    for signal in given:
        require_types("register_signals", signals=(signal, (Signal,)))
    names = [signal.name for signal in given]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"two signals are called '{twice}'", where=f"register_signals({pattern!r}, …)")
    _registry.append(_Registered(pattern, given, actions))


def signals_of(env: Env) -> Signals:
    """Return the signals registered for `env`, else the components of its observation."""
    name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    for entry in reversed(_registry):
        if fnmatchcase(name, entry.pattern):
            return _named(entry.signals, entry.actions, env)
    own = match_env("signals", name)
    if own is not None:
        signals, actions = own()
        return _named(signals, actions, env)
    return Signals(tuple(_components(env.observation_space))[:MAX_COMPONENTS])


def _named(signals: Iterable[Signal], actions: ActionNames, env: Env) -> Signals:
    names = actions(env.unwrapped) if callable(actions) else actions
    return Signals(tuple(signals), tuple(names))


def _components(space: spaces.Space[Any]) -> Iterable[Signal]:
    """A signal for every number of an observation; pictures have none."""
    parts = space.spaces.items() if isinstance(space, spaces.Dict) else [("", space)]
    for key, part in parts:
        shape = part.shape
        if shape is None or len(shape) > 1 or key == "action_mask":
            continue
        if not shape:
            yield Signal(key or "obs", partial(_component, key=key, index=0))
            continue
        for index in range(shape[0]):
            yield Signal(f"{key or 'obs'}[{index}]", partial(_component, key=key, index=index))


def _component(env: Any, obs: Any, info: dict[str, Any], *, key: str, index: int) -> float:
    return float(np.ravel(obs[key] if key else obs)[index])


# ---- built in. They read the physics, so wrappers do not change them.


def _state(index: int) -> Reader:
    return lambda env, obs, info: env.state[index]


def _walker() -> list[Signal]:
    signals = [
        Signal("hull angle", lambda env, obs, info: env.hull.angle, "rad"),
        Signal("hull spin", lambda env, obs, info: env.hull.angularVelocity, "rad/s", rate_of="hull angle"),
        Signal("hull velocity x", lambda env, obs, info: env.hull.linearVelocity.x, "m/s"),
        Signal("hull velocity y", lambda env, obs, info: env.hull.linearVelocity.y, "m/s"),
    ]
    for index, joint in enumerate(("hip 1", "knee 1", "hip 2", "knee 2")):
        signals += [
            Signal(f"{joint} angle", partial(_joint_angle, index=index), "rad"),
            Signal(f"{joint} speed", partial(_joint_speed, index=index), "rad/s", rate_of=f"{joint} angle"),
        ]
    return signals + [
        Signal("contact 1", lambda env, obs, info: env.legs[1].ground_contact, contact=True),
        Signal("contact 2", lambda env, obs, info: env.legs[3].ground_contact, contact=True),
    ]


def _joint_angle(env: Any, obs: Any, info: dict[str, Any], *, index: int) -> float:
    return float(env.joints[index].angle)


def _joint_speed(env: Any, obs: Any, info: dict[str, Any], *, index: int) -> float:
    return float(env.joints[index].speed)


def _lander_actions(env: Any) -> Sequence[str]:
    if isinstance(env.action_space, spaces.Box):
        return ("main engine", "side engines")
    return ("nothing", "left engine", "main engine", "right engine")


_LANDER = [
    Signal("x", lambda env, obs, info: env.lander.position.x - 10.0, "m"),  # the pad is in the middle of 20 m
    Signal("altitude", lambda env, obs, info: env.lander.position.y - env.helipad_y, "m"),
    Signal("velocity x", lambda env, obs, info: env.lander.linearVelocity.x, "m/s", rate_of="x"),
    Signal("velocity y", lambda env, obs, info: env.lander.linearVelocity.y, "m/s", rate_of="altitude"),
    Signal("angle", lambda env, obs, info: env.lander.angle, "rad"),
    Signal("spin", lambda env, obs, info: env.lander.angularVelocity, "rad/s", rate_of="angle"),
    Signal("left leg", lambda env, obs, info: env.legs[0].ground_contact, contact=True),
    Signal("right leg", lambda env, obs, info: env.legs[1].ground_contact, contact=True),
]
_CART_POLE = [
    Signal("cart position", _state(0), "m"),
    Signal("cart velocity", _state(1), "m/s", rate_of="cart position"),
    Signal("pole angle", _state(2), "rad"),
    Signal("pole spin", _state(3), "rad/s", rate_of="pole angle"),
]
_PENDULUM = [
    # counted from upright, within half a turn
    Signal("angle", lambda env, obs, info: (env.state[0] + np.pi) % (2 * np.pi) - np.pi, "rad"),
    Signal("spin", _state(1), "rad/s", rate_of="angle"),
]
_ACROBOT = [
    Signal("joint 1 angle", _state(0), "rad"),
    Signal("joint 1 speed", _state(2), "rad/s", rate_of="joint 1 angle"),
    Signal("joint 2 angle", _state(1), "rad"),
    Signal("joint 2 speed", _state(3), "rad/s", rate_of="joint 2 angle"),
    Signal("tip height", lambda env, obs, info: -np.cos(env.state[0]) - np.cos(env.state[0] + env.state[1])),
]
_MOUNTAIN_CAR = [Signal("position", _state(0)), Signal("velocity", _state(1), rate_of="position")]


register_signals("BipedalWalker*", _walker(), ("hip 1", "knee 1", "hip 2", "knee 2"))
register_signals("LunarLander*", _LANDER, _lander_actions)
register_signals("CartPole*", _CART_POLE, ("push left", "push right"))
register_signals("Pendulum*", _PENDULUM, ("torque",))
register_signals("Acrobot*", _ACROBOT, ("torque -1", "torque 0", "torque +1"))
register_signals("MountainCar-*", _MOUNTAIN_CAR, ("left", "coast", "right"))
register_signals("MountainCarContinuous*", _MOUNTAIN_CAR, ("force",))

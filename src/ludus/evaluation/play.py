"""Shows a policy in a window, or lets a person play with the keyboard."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ludus.envs.human import KeyBindings
from ludus.envs.seeds import EpisodeSeed
from ludus.errors import EnvFault, LudusError, UserError
from ludus.evaluation.evaluate import Actor, EpisodeState, play_episodes
from ludus.types import EpisodeRecord

Env = gym.Env[Any, Any]

_MIN_WINDOW = 480  # pixels on the longer side; smaller pictures are enlarged
_TURN_FPS = 30  # how often the keyboard is read while a game waits for a move
_NAMES = {"return": "enter"}


class WindowClosed(LudusError):
    """The user closed the window or pressed Escape."""


def watch(
    actor: Actor,
    env: Env,
    seeds: Sequence[EpisodeSeed],
    *,
    deterministic: bool = True,
    max_steps: int | None = None,
) -> list[EpisodeRecord]:
    """Play one episode per seed on `env`, whose render mode is human; stops when the window is closed."""
    records: list[EpisodeRecord] = []
    watched = _Watched(env)
    try:
        for seed in seeds:
            records += play_episodes(
                actor, [watched], [seed], deterministic=deterministic, max_steps=max_steps
            )
    except WindowClosed:
        pass
    except EnvFault as fault:
        if not _is_pygame_error(fault.__cause__):
            raise
        raise _no_window(fault.__cause__) from None
    return records


class _Watched(gym.Wrapper[Any, Any, Any, Any]):
    """Raises if there is no window, or when the user closes it. Only for envs that draw with pygame."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        result = self.env.reset(seed=seed, options=options)
        pygame = sys.modules.get("pygame")
        if pygame is not None and pygame.display.get_init():
            _check_driver(pygame)
        return result

    def step(self, action: Any) -> Any:
        result = self.env.step(action)
        pygame = sys.modules.get("pygame")
        if pygame is not None and pygame.display.get_init() and pygame.event.get(pygame.QUIT):
            raise WindowClosed
        return result


def play_by_hand(
    env: Env, bindings: KeyBindings, seeds: Sequence[EpisodeSeed], say: Callable[[str], None] = print
) -> list[EpisodeRecord]:
    """Play `env`, whose render mode is rgb_array, by keyboard: one episode per seed until Escape.

    A game with an action for "no key" runs in real time. Other games wait for keys: at every move if its observations
    are discrete, otherwise only for the first key, after which the last action is repeated.
    """
    import pygame

    try:
        pygame.display.init()
    except pygame.error as error:
        raise _no_window(error) from None
    _check_driver(pygame)
    keyboard, screen = _Keyboard(pygame, bindings), _Screen(pygame, env)
    turns = () not in bindings and not isinstance(env.observation_space, spaces.Box)
    records: list[EpisodeRecord] = []
    try:
        for seed in seeds:
            record = _play_episode(env, seed, keyboard, screen, turns)
            records.append(record)
            say(f"episode {len(records)}: reward {record.reward:g} in {record.length} steps")
    except WindowClosed:
        pass
    finally:
        pygame.quit()
    return records


def _play_episode(
    env: Env, seed: EpisodeSeed, keyboard: _Keyboard, screen: _Screen, turns: bool
) -> EpisodeRecord:
    game = EpisodeState(env, seed)
    action, record = keyboard.idle, None
    while record is None:
        screen.draw()
        pressed = keyboard.read()
        while not pressed and (turns or (action is None and not keyboard.held)):
            screen.wait(_TURN_FPS)
            pressed = keyboard.read()
        action = keyboard.action(pressed, action)
        if action is not None:
            record = game.step(action)
    screen.draw()
    return record


class _Keyboard:
    """The bound keys that are held, and their action."""

    def __init__(self, pygame: Any, bindings: KeyBindings) -> None:
        self._pygame = pygame
        self._bindings = bindings
        self._known = {key for keys in bindings for key in keys}
        self.idle = bindings.get(())
        self.held: list[str] = []

    def read(self) -> list[str]:
        """Read the keyboard. Returns the bound keys that were pressed since the last call."""
        pressed = []
        for event in self._pygame.event.get():
            if event.type == self._pygame.QUIT:
                raise WindowClosed
            if event.type not in (self._pygame.KEYDOWN, self._pygame.KEYUP):
                continue
            name = self._pygame.key.name(event.key)
            name = _NAMES.get(name, name)
            if name == "escape":
                raise WindowClosed
            if name in self.held:
                self.held.remove(name)
            if event.type == self._pygame.KEYDOWN and name in self._known:
                self.held.append(name)
                pressed.append(name)
        return pressed

    def action(self, pressed: Sequence[str], last: Any) -> Any:
        """Return the action of the held keys together, else of the newest one; without any, idle or the last."""
        keys = self.held or list(pressed[-1:])  # also a key that was pressed and released between two reads
        together = tuple(sorted(keys))
        for combination in (together, tuple(keys[-1:])):
            if combination and combination in self._bindings:
                return self._bindings[combination]
        return last if self.idle is None else self.idle


class _Screen:
    """A window that shows the env at its own frame rate."""

    def __init__(self, pygame: Any, env: Env) -> None:
        self._pygame = pygame
        self._env = env
        self._window: Any = None
        self._fps = int(env.metadata.get("render_fps") or 30)
        self._clock = pygame.time.Clock()

    def draw(self) -> None:
        """Draw the env and wait until the next frame is due."""
        try:
            frame = np.asarray(self._env.render())
        except NotImplementedError:
            frame = np.zeros(0)
        if frame.ndim != 3:
            raise UserError(
                "this env does not render pictures, so it cannot be played by hand",
                where="env.render()",
                fix="give the env a render mode 'rgb_array'",
            )
        height, width = frame.shape[:2]
        if self._window is None:
            scale = max(1, round(_MIN_WINDOW / max(height, width)))
            self._window = self._pygame.display.set_mode((width * scale, height * scale))
            self._pygame.display.set_caption("Ludus: Escape ends the game")
        picture = self._pygame.surfarray.make_surface(frame[:, :, :3].swapaxes(0, 1))
        self._window.blit(self._pygame.transform.scale(picture, self._window.get_size()), (0, 0))
        self._pygame.display.flip()
        self.wait(self._fps)

    def wait(self, fps: int) -> None:
        self._clock.tick(fps)


def _is_pygame_error(error: BaseException | None) -> bool:
    pygame = sys.modules.get("pygame")
    return pygame is not None and isinstance(error, pygame.error)


def _check_driver(pygame: Any) -> None:
    """Raise UserError if SDL draws without a screen, which it does silently, unless the user chose that."""
    driver = pygame.display.get_driver()
    if driver in ("dummy", "offscreen") and not os.environ.get("SDL_VIDEODRIVER"):
        raise _no_window(f"SDL found only its '{driver}' driver")


def _no_window(error: object) -> UserError:
    return UserError(
        f"cannot open a window ({error})",
        where="this machine's screen",
        fix="check DISPLAY; or record a video instead: --video FILE.mp4",
    )

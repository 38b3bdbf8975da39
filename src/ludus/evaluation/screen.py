"""Detection of a screen and of render modes, and quiet settings for pygame without a screen."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ludus.envs.user_code import build, close_env
from ludus.errors import UserError

if TYPE_CHECKING:
    from ludus.envs.make import EnvSpec


def has_screen() -> bool:
    """Return whether a window can be opened on this machine."""
    always = sys.platform in ("darwin", "win32")
    return always or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def prepare_pygame() -> None:
    """Configure pygame before an env draws: no greeting, no sound device, no warning about a missing screen."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    if not has_screen():
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def render_modes(spec: EnvSpec) -> list[str]:
    """Return the render modes of the env."""
    env = build(spec)
    try:
        return list(env.metadata.get("render_modes") or [])
    finally:
        close_env(env)


def check_drawable(env_id: str, modes: list[str]) -> None:
    """Raise UserError unless the env renders pictures."""
    if "rgb_array" not in modes:
        raise UserError(
            f"the env '{env_id}' does not render pictures",
            where=f"its metadata, render_modes: {modes}",
            fix='give the env a render mode "rgb_array" that returns pictures',
        )

"""Is there a screen, can an env be drawn, and how pygame is kept quiet where there is no screen."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ludus.errors import UserError

if TYPE_CHECKING:
    from ludus.envs.make import EnvSpec


def has_screen() -> bool:
    """Whether a window can be opened here."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def prepare_pygame() -> None:
    """Before an env draws: no greeting, no search for a sound card, and no complaint about a missing screen."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    if not has_screen():
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def render_modes(spec: EnvSpec) -> list[str]:
    """How the env can show itself."""
    env = spec()
    try:
        return list(env.metadata.get("render_modes") or [])
    finally:
        env.close()


def check_drawable(env_id: str, modes: list[str]) -> None:
    """UserError unless the env draws pictures."""
    if "rgb_array" not in modes:
        raise UserError(
            f"the env '{env_id}' cannot be drawn",
            where=f"its metadata, whose render_modes are {modes}",
            fix='give the env a render mode "rgb_array" that returns pictures',
        )

"""Is there a screen, and how pygame is kept quiet where there is none."""

from __future__ import annotations

import os
import sys


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

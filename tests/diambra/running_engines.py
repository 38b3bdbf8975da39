"""Type of the fixture `start`."""

from __future__ import annotations

from collections.abc import Callable

from ludus.games.diambra.standin.server import Serving

Start = Callable[..., list[Serving]]

"""The plugin `sb3`: see `ludus.plugins`."""

from __future__ import annotations

from ludus.plugins import Plugin

PLUGIN = Plugin(name="sb3")

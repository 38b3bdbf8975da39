"""Registers the envs of all plugins with Gymnasium, which calls this through its own plugin mechanism."""

from __future__ import annotations

import gymnasium as gym

from ludus.plugins import plugins


def register_envs() -> None:
    """Register what is not registered yet."""
    for plugin in plugins():
        for entry in plugin.envs:
            if entry.id not in gym.registry:
                gym.register(
                    entry.id,
                    entry.entry_point,
                    kwargs=dict(entry.kwargs),
                    vector_entry_point=entry.vector_entry_point,
                    disable_env_checker=True,
                )


register_envs()

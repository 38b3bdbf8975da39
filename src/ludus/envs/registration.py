"""Ludus's own envs in Gymnasium's registry: by `import ludus.envs.registration`, or by Gymnasium's plugin mechanism."""

from __future__ import annotations

import gymnasium as gym

_OWN = {"ludus/Balatro-v0": "ludus.envs.balatro.env:BalatroEnv"}


def register_envs() -> None:
    """Registers what is not registered yet."""
    for env_id, entry_point in _OWN.items():
        if env_id not in gym.registry:
            gym.register(env_id, entry_point, disable_env_checker=True, order_enforce=True)


register_envs()

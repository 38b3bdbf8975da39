"""Stable-Baselines3 and sb3-contrib as learners. Importing this package registers them for `engine: sb3`.

SB3 keeps its own two beats, `collect_rollouts` and `train`; Ludus's loop calls them in turn, so that checkpoints,
resume, evaluation and metrics are those of every other run.
"""

from __future__ import annotations

from ludus.errors import MissingExtra

try:
    import sb3_contrib  # noqa: F401
    import stable_baselines3  # noqa: F401
except ImportError:
    raise MissingExtra("engine: sb3", "sb3") from None

from ludus.sb3 import catalog

__all__ = ["catalog"]

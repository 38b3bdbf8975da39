"""The native algorithms. Importing this package registers them; each one's hyperparameters stand beside it."""

from __future__ import annotations

from ludus.algorithms import a2c, dqn, ppo, sac

__all__ = ["a2c", "dqn", "ppo", "sac"]

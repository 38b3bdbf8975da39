"""The algorithms for language models. Importing this package registers them; each one's hyperparameters are
in its file.
"""

from __future__ import annotations

from ludus.language.algorithms import a2c, grpo, ppo, reinforce

__all__ = ["a2c", "grpo", "ppo", "reinforce"]

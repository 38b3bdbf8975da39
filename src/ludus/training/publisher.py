"""Publishing: bring what was learnt to the processes that play."""

from __future__ import annotations

from ludus.algorithms.learner import AnyLearner


class Publisher:
    """Publisher of a session that plays in its own process: it plays with the learner's policy itself."""

    def start(self, learner: AnyLearner) -> None:
        """Give the players the weights that the session starts from."""

    def publish(self, learner: AnyLearner) -> None:
        """Give the players the weights of the last update. Ranks that hold parts of the weights gather them."""
        learner.publish()

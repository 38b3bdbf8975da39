"""Publishing: bring what was learned to the processes that play."""

from __future__ import annotations

from ludus.algorithms.learner import AnyLearner


class Publisher:
    """Publisher of a session that plays in its own process, with the learner's own policy."""

    def publish(self, learner: AnyLearner) -> None:
        """Give the players the weights of the last update. Ranks that hold parts of the weights gather them first."""
        learner.publish()
        self.send(learner)

    def send(self, learner: AnyLearner) -> None:
        """Send the weights as they are to the players; here there are no others."""

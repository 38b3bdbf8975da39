"""The training loop: collect, credit, learn, publish. Everything Ludus trains goes through it."""

from __future__ import annotations

from ludus.algorithms.learner import AnyLearner
from ludus.evaluation.evaluate import EvaluationStopped
from ludus.rollout.collector import CollectionStopped, Collector
from ludus.training.session import Session


class Publisher:
    """Publisher of a session that plays in its own process, with the learner's own policy."""

    def publish(self, learner: AnyLearner) -> None:
        """Give the players the weights of the last update. Ranks that hold parts of the weights gather them first."""
        learner.publish()
        self.send(learner)

    def send(self, learner: AnyLearner) -> None:
        """Send the weights as they are to the players; here there are no others."""


def train_loop(session: Session, collector: Collector, learner: AnyLearner, publisher: Publisher) -> str:
    """Train until the session is done or asked to stop; return how it ended, as `run.json` names it."""
    publisher.send(learner)
    try:
        while not session.done:
            experience = collector.collect(learner.policy)
            session.count(experience)  # steps and episodes, which schedules depend on
            session.after_collect(experience)
            batch = learner.credit(experience, session.fraction_done)
            metrics = learner.learn(batch, session.fraction_done)
            metrics = session.after_learn(metrics)
            publisher.publish(learner)
            session.record(experience, metrics)
            session.run_due_work()  # evaluation, video, checkpoint
            if session.stop_requested:
                return session.preempt()
        return session.finish()
    except (CollectionStopped, EvaluationStopped):
        return session.preempt()

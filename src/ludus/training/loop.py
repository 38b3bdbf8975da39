"""The training loop: collect, credit, learn, publish. Everything Ludus trains goes through it."""

from __future__ import annotations

from ludus.algorithms.learner import AnyLearner, UpdateStopped
from ludus.evaluation.evaluate import EvaluationStopped
from ludus.rollout.collector import CollectionStopped, Collector
from ludus.runs.signals import StopRequested
from ludus.training.base import Publisher
from ludus.training.session import Session


def train_loop(session: Session, collector: Collector, learner: AnyLearner, publisher: Publisher) -> str:
    """Train until the session is done or asked to stop; return how it ended, as `run.json` names it."""
    publisher.send(learner)
    try:
        while not session.done:
            session.before_collect()
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
    except (CollectionStopped, UpdateStopped, EvaluationStopped, StopRequested):
        return session.preempt()

"""The loop. Everything Ludus trains goes through it."""

from __future__ import annotations

from ludus.algorithms.learner import AnyLearner
from ludus.evaluation.evaluate import EvaluationStopped
from ludus.rollout.collector import CollectionStopped, Collector
from ludus.training.session import Session


def train_loop(run: Session, collector: Collector, learner: AnyLearner) -> str:
    """Train until the run is done or asked to stop; returns how it ended, as `run.json` names it."""
    try:
        while not run.done:
            experience = collector.collect(learner.policy)
            run.count(experience)
            fraction = run.fraction_done
            batch = learner.credit(experience, fraction)
            metrics = learner.learn(batch, fraction)
            learner.publish()
            run.record(metrics)
            run.evaluate_if_due()
            run.checkpoint_if_due()
            if run.stopping:
                return run.preempted()
        return run.finished()
    except (CollectionStopped, EvaluationStopped):
        return run.preempted()

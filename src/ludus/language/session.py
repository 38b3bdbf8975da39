"""A language run while it trains: what is published, written down and watched after every update."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import torch

from ludus.language.algorithms.guard import CollapseGuard
from ludus.language.algorithms.learner import LanguageLearner
from ludus.language.collector import MatchCollector
from ludus.language.evaluation import MatchEvaluation
from ludus.language.game_files import GameTracker, component_log
from ludus.language.roster import Roster
from ludus.language.turns import Turns
from ludus.league.league import League
from ludus.rollout.experience import Experience
from ludus.runs.checkpoints import Checkpoint
from ludus.training.session import Session, require_finite
from ludus.types import Metrics

_log = logging.getLogger("ludus.training")
AGREEMENT_TURNS = 16  # enough to see a sampler that does not play the learner's policy
DISAGREEMENT = 0.05  # nats per token; two computations of one policy in bfloat16 are 0.005 apart


class SelfPlaySession(Session):
    """Beside what every run does: the league and its frozen versions, the games on disk, the guard."""

    league: League
    roster: Roster
    guard: CollapseGuard | None
    warm_up: Callable[[], None] | None = None
    """What comes before the first game of a new run."""

    def prepare(
        self,
        league: League,
        roster: Roster,
        guard: CollapseGuard | None,
        warm_up: Callable[[], None] | None,
        rescale: Callable[[], None],
    ) -> None:
        """Take up the parts that other runs do not have; `rescale` is called where players and learners may change."""
        self.league, self.roster, self.guard, self.warm_up = league, roster, guard, warm_up
        self._rescale = rescale
        self.tracker = GameTracker(self.directory)
        roster.folder = self.directory.path / "league"
        self._experience: Turns | None = None
        self._agreement: Metrics = {}
        self._evaluation: Metrics = {}
        self._learning_since = 0.0
        self._sampled = roster.sampling_time()

    @property
    def _learner(self) -> LanguageLearner[Any]:
        learner: Any = self.crew.learner
        return learner  # type: ignore[no-any-return]

    def begin(self, checkpoint: Checkpoint | None = None) -> None:
        if checkpoint is None:
            if self.warm_up is not None:
                self.warm_up()
            self._publish()
            # where the run started: what rollbacks and divergences are measured from
            self._freeze(anchor=True)
        super().begin(checkpoint)
        for trouble in self.tracker.damage():
            _log.warning("%s; training does not need it", trouble)
        self.tracker.forget_after(self.progress.updates)

    def count(self, experience: Experience) -> None:
        assert isinstance(experience, Turns)
        self._experience = experience
        self._agreement = self._compare(experience)
        component_log("collector").info(
            "%d turns of the learners in %d matches", experience.steps, len(experience.matches)
        )
        super().count(experience)
        self._learning_since = time.perf_counter()

    def record(self, metrics: Metrics) -> None:
        """After an update: its games go to disk, its weights to whoever plays next, its figures to the guard."""
        collector: Any = self.crew.collector
        assert isinstance(collector, MatchCollector) and self._experience is not None
        metrics = metrics | collector.metrics | self._agreement | self._shares()
        update = self.progress.updates + 1
        self.tracker.log_learner(metrics)
        with self.storage.tolerating("games", f"the games of update {update} could not be written"):
            self.tracker.add_trajectory(update, self._experience.matches)
        metrics |= self._guard(metrics | self._evaluation)
        self._evaluation = {}
        self._publish()
        if update % self.crew.config.league.version_every == 0:
            self._freeze()
        super().record(metrics)

    def checkpoint_if_due(self) -> None:
        super().checkpoint_if_due()
        if not self.done and not self.stopping:
            self._rescale()

    def _evaluate(self) -> None:
        super()._evaluate()
        result = self.last_evaluation
        if isinstance(result, MatchEvaluation):
            self._evaluation = result.metrics()
            for played in result.results:
                component_log("evaluation").info(
                    "update %d: %s against %s at %s: %d won, %d drawn, %d lost",
                    self.progress.updates,
                    played.first,
                    played.second,
                    played.game,
                    played.total.wins,
                    played.total.draws,
                    played.total.losses,
                )
                for record in played.records:
                    self.league.record(record)
            with self.storage.tolerating("games", "the games of this evaluation could not be written"):
                records = [record for played in result.results for record in played.records]
                self.tracker.add_eval_episode(self.progress.updates, records)

    def _training_state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        tensors, state = super()._training_state()
        state["guard"] = None if self.guard is None else self.guard.state_dict()
        state["waiting_evaluation"] = self._evaluation
        return tensors, state

    def _restore(self, checkpoint: Checkpoint) -> None:
        super()._restore(checkpoint)
        state = checkpoint.state()
        if self.guard is not None and state["guard"] is not None:
            self.guard.load_state_dict(state["guard"])
        self._evaluation = dict(state["waiting_evaluation"])
        self._publish()

    # Within

    def _shares(self) -> Metrics:
        """Where the time of this update went, beside `time/collecting` and `time/sampling`."""
        before, self._sampled = self._sampled, self.roster.sampling_time()
        prefill, decoding = (now - then for now, then in zip(self._sampled, before, strict=True))
        return {
            "time/prefill": prefill,
            "time/decoding": decoding,
            "time/learning": time.perf_counter() - self._learning_since,
        }

    def _publish(self) -> None:
        for name in self.roster.learners:
            self.roster.publish(name, self._learner.version(name))
            self.league.members[name].version = self._learner.version(name)

    def _freeze(self, anchor: bool = False) -> None:
        require_finite(self.crew.learner)
        for name in self.roster.learners:
            version = self._learner.version(name)
            if f"{name}@{version}" in self.league.members:
                continue  # nothing was learnt since
            member, gone = self.league.freeze(name, version, anchor=anchor)
            with self.storage.requiring(f"the frozen version {member.name}"):
                self.roster.freeze(name, member.name)
            for one in gone:
                self.roster.drop(one.name)
            component_log("league").info("frozen: %s; gone: %s", member.name, [one.name for one in gone])
        self.roster.prune(self._versions_in_checkpoints())

    def _versions_in_checkpoints(self) -> set[str]:
        return {
            name for one in self.checkpoints.list() if one.resumable for name in one.state().get("roster", {})
        }

    def _compare(self, experience: Turns) -> Metrics:
        """How far the learner's log-probabilities lie from those of the sampler that just played its weights."""
        found: Metrics = {}
        for name in self.roster.learners:
            version = self._learner.version(name)
            turns = [
                t for t in experience.turns if t.player == name and t.version == version and t.completion
            ]
            gaps = self._learner.agreement(name, turns[:AGREEMENT_TURNS])
            found |= {key: max(value, found.get(key, 0.0)) for key, value in gaps.items()}
        if found.get("train/log_prob_gap", 0.0) > DISAGREEMENT:
            _log.warning(
                "the sampler does not play the learner's policy: log-probabilities are %.3f apart on average",
                found["train/log_prob_gap"],
            )
        return found

    def _guard(self, metrics: Metrics) -> Metrics:
        """Let the guard see `metrics`; on collapse go back to the newest version it had found healthy."""
        if self.guard is None:
            return {}
        verdict = self.guard.watch(metrics)
        if verdict.state == "suspicious" and verdict.reason:  # without one, nothing new was measured
            _log.warning("the guard is suspicious: %s", verdict.reason)
        elif verdict.state == "collapsed":
            self._go_back(verdict.reason)
        return {
            "guard/rollbacks": float(self.guard.rollbacks),
            "guard/suspicious": float(verdict.state != "healthy"),
        }

    def _go_back(self, reason: str) -> None:
        assert self.guard is not None
        for name in self.roster.learners:
            # a version frozen since things were last well may be as bad as this one, and those who played that update
            # were one version behind
            limit = self._learner.version(name) - self.guard.bad_for - 1
            versions = self.league.versions(name)
            healthy = next(
                (one for one in versions if (one.version or 0) <= limit and not one.spoilt), versions[-1]
            )
            for one in versions[: versions.index(healthy)]:
                one.spoilt = True
            self._learner.go_back(name, self.roster.weights(healthy.name))
            self.league.ratings[name] = self.league.ratings[healthy.name].inherited()
            _log.warning("collapsed (%s): %s goes back to %s", reason, name, healthy.name)
        self._learner.rate_scale *= self.guard.settings.slow_down
        if not self.guard.rolled_back():
            self.stop_reason = (
                f"collapsed once more after {self.guard.settings.rollbacks} rollbacks: {reason}"
            )
        _log.warning("learning rates are multiplied by %g from here on", self._learner.rate_scale)

"""A self-play training in progress: the steps in addition to those of every session.

Between collecting and learning it checks that sampler and learner agree. Between learning and publishing the collapse
guard may roll back the learners. Every `league.version_every` updates the weights are frozen as a version.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ludus.language.algorithms.guard import CollapseGuard
from ludus.language.algorithms.learner import LanguageLearner
from ludus.language.collector import MatchCollector
from ludus.language.evaluation import MatchEvaluation
from ludus.language.game_files import GameTracker, component_log
from ludus.language.player_pool import PlayerPool
from ludus.language.turns import Turns
from ludus.league.league import League
from ludus.rollout.collector import CollectionStopped
from ludus.rollout.experience import Experience
from ludus.runs.checkpoints import Checkpoint
from ludus.tracking.logs import run_log
from ludus.training.checkpointing import require_finite
from ludus.training.session import Session
from ludus.types import Metrics

_log = logging.getLogger("ludus.training")
AGREEMENT_TURNS = 16  # enough to notice a sampler that does not play the learner's policy
DISAGREEMENT = 0.05  # nats per token; two computations of one policy in bfloat16 are 0.005 apart


@dataclass(kw_only=True, eq=False)
class SelfPlaySession(Session):
    """A session with a league of frozen versions, games on disk and a collapse guard.

    `warm_up` runs before the first game of a new run. `rescale` is called where samplers and learners may change.
    """

    learner: LanguageLearner[Any]
    collector: MatchCollector
    league: League
    pool: PlayerPool
    guard: CollapseGuard | None
    warm_up: Callable[[], None] | None
    rescale: Callable[[], None]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tracker = GameTracker(self.directory)
        self.pool.folder = self.directory.path / "league"
        self._agreement: Metrics = {}
        self._evaluation: Metrics = {}
        """Metrics of an evaluation that the guard has not seen yet."""
        self._learning_since = 0.0
        self._sampled = self.pool.sampling_time()

    def begin(self, checkpoint: Checkpoint | None = None) -> None:
        if checkpoint is None:
            if self.warm_up is not None:
                self.warm_up()
            self.freeze_version(anchor=True)  # rollbacks and divergences are measured from the start
        super().begin(checkpoint)
        for damage in self.tracker.damage():
            _log.warning("%s; training does not need it", damage)
        self.tracker.forget_after(self.progress.updates)

    def after_collect(self, experience: Experience) -> None:
        super().after_collect(experience)
        assert isinstance(experience, Turns)
        component_log("collector").info(
            "%d turns of the learners in %d matches", experience.steps, len(experience.matches)
        )
        self.check_agreement(experience)
        self._learning_since = time.perf_counter()

    def after_learn(self, metrics: Metrics) -> Metrics:
        metrics = metrics | self.collector.metrics | self._agreement | self._time_shares()
        evaluation, self._evaluation = self._evaluation, {}
        return metrics | self.check_for_collapse(metrics | evaluation)

    def record(self, experience: Experience, metrics: Metrics) -> None:
        assert isinstance(experience, Turns)
        self.write_games(experience)
        self.tracker.log_learner(metrics)
        self._log_update(experience, metrics)
        if (self.progress.updates + 1) % self.config.league.version_every == 0:
            self.freeze_version()
        super().record(experience, metrics)

    def run_due_work(self) -> None:
        """Do what every session does, then change the number of samplers and learners where asked."""
        super().run_due_work()
        if not self.done and not self.stop_requested:
            self.rescale()

    def raise_if_sampling_stops(self) -> None:
        """Called between tokens: CollectionStopped or EvaluationStopped if a stop signal may end the sampling here."""
        self.raise_if_stopping()
        if self.stop_requested and self.collecting and self._return_point is not None:
            raise CollectionStopped

    def check_agreement(self, experience: Turns) -> None:
        """Compare the learner's log-probabilities with those of the sampler that just played its weights."""
        found: Metrics = {}
        for name in self.pool.learners:
            version = self.learner.version(name)
            turns = [
                t for t in experience.turns if t.player == name and t.version == version and t.completion
            ]
            gaps = self.learner.agreement(name, turns[:AGREEMENT_TURNS])
            found |= {key: max(value, found.get(key, 0.0)) for key, value in gaps.items()}
        if found.get("train/log_prob_gap", 0.0) > DISAGREEMENT:
            _log.warning(
                "the sampler does not play the learner's policy: log-probabilities are %.3f apart on average",
                found["train/log_prob_gap"],
            )
        self._agreement = found

    def check_for_collapse(self, metrics: Metrics) -> Metrics:
        """Let the guard inspect `metrics`; roll back when it finds that the learners have collapsed."""
        if self.guard is None:
            return {}
        verdict = self.guard.watch(metrics)
        if verdict.state == "suspicious" and verdict.reason:  # without a reason, nothing new was measured
            _log.warning("the guard is suspicious: %s", verdict.reason)
        elif verdict.state == "collapsed":
            self.roll_back(self.guard, verdict.reason)
        return {
            "guard/rollbacks": float(self.guard.rollbacks),
            "guard/suspicious": float(verdict.state != "healthy"),
        }

    def roll_back(self, guard: CollapseGuard, reason: str) -> None:
        """Return every learner to its newest healthy version, with a lower learning rate."""
        for name in self.pool.learners:
            # a version frozen after the last healthy update may be as bad as this one, and the samplers of that update
            # were one version behind
            limit = self.learner.version(name) - guard.bad_for - 1
            versions = self.league.versions(name)
            healthy = next(
                (one for one in versions if (one.version or 0) <= limit and not one.spoilt), versions[-1]
            )
            for one in versions[: versions.index(healthy)]:
                one.spoilt = True
            self.learner.go_back(name, self.pool.weights(healthy.name))
            self.league.ratings[name] = self.league.ratings[healthy.name].inherited()
            _log.warning("collapsed (%s): %s goes back to %s", reason, name, healthy.name)
        self.learner.rate_scale *= guard.settings.slow_down
        if not guard.rolled_back():
            self.stop_reason = f"collapsed once more after {guard.settings.rollbacks} rollbacks: {reason}"
        _log.warning("learning rates are multiplied by %g from here on", self.learner.rate_scale)

    def write_games(self, experience: Turns) -> None:
        """Write the games that the update learned from."""
        update = self.progress.updates + 1
        with self.storage.tolerating("games", f"the games of update {update} could not be written"):
            self.tracker.add_trajectory(update, experience.matches)

    def freeze_version(self, anchor: bool = False) -> None:
        """Keep the weights of every learner as a player of the league, and drop versions that are no longer needed."""
        require_finite(self.learner)
        for name in self.pool.learners:
            version = self.learner.version(name)
            if f"{name}@{version}" in self.league.members:
                continue  # nothing was learned since the last version
            member, gone = self.league.freeze(name, version, anchor=anchor)
            with self.storage.requiring(f"the frozen version {member.name}"):
                self.pool.freeze(name, member.name)
            for one in gone:
                self.pool.drop(one.name)
            for log in (component_log("league"), run_log):
                log.info("frozen: %s; gone: %s", member.name, ", ".join(one.name for one in gone) or "none")
        resumable = [one for one in self.checkpoints.manager.list() if one.resumable]
        self.pool.prune({name for one in resumable for name in one.state().get("roster", {})})

    def run_evaluation(self) -> None:
        super().run_evaluation()
        result = self.last_evaluation
        assert isinstance(result, MatchEvaluation)
        self._evaluation = result.metrics()
        for played in result.results:
            for log in (component_log("evaluation"), run_log):
                log.info(
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
            for name, use in zip((played.first, played.second), played.token_use, strict=True):
                if use is not None:
                    self.league.count_requests(name, **asdict(use))
        with self.storage.tolerating("games", "the games of this evaluation could not be written"):
            records = [record for played in result.results for record in played.records]
            self.tracker.add_eval_episode(self.progress.updates, records)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "guard": None if self.guard is None else self.guard.state_dict(),
            "waiting_evaluation": self._evaluation,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if self.guard is not None and state["guard"] is not None:
            self.guard.load_state_dict(state["guard"])
        self._evaluation = dict(state["waiting_evaluation"])

    def _log_update(self, experience: Turns, metrics: Metrics) -> None:
        """Write one line about the update to `train.log`."""
        rewards = [episode.reward for episode in experience.episodes]
        run_log.info(
            "update %d at step %s: %d turns in %d games, mean reward %.4g, %.0f %% of answers well formed, "
            "%.0f %% refused by the game, policy loss %.4g",
            self.progress.updates + 1,
            f"{self.progress.steps:,}",
            experience.steps,
            len(experience.matches),
            sum(rewards) / len(rewards) if rewards else float("nan"),
            100 * metrics.get("games/well_formed", float("nan")),
            100 * metrics.get("games/invalid_rate", float("nan")),
            metrics.get("train/policy_loss", float("nan")),
        )

    def _time_shares(self) -> Metrics:
        """Return how the update's time was spent, in addition to `time/collecting` and `time/sampling`."""
        before, self._sampled = self._sampled, self.pool.sampling_time()
        prefill, decoding = (now - then for now, then in zip(self._sampled, before, strict=True))
        return {
            "time/prefill": prefill,
            "time/decoding": decoding,
            "time/learning": time.perf_counter() - self._learning_since,
        }

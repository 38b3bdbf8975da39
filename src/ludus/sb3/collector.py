"""Collects with SB3's own loop. An SB3 callback reports every step to Ludus and can end the collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stable_baselines3.common.callbacks import BaseCallback

from ludus.rollout.collector import CollectionStopped, EnvCollector
from ludus.rollout.experience import Experience
from ludus.rollout.stepper import Stepper
from ludus.runs.signals import StopRequested

if TYPE_CHECKING:
    from ludus.sb3.learner import SB3Learner


class SB3Collector(EnvCollector):
    """One `collect_rollouts` of the learner's model at a time. The model keeps what was collected.

    `listener`, a user's callback, gets the local variables of SB3's loop, as SB3 callbacks expect.
    """

    saves_games = False  # the model keeps its last observation, and starts new episodes at every barrier

    def __init__(self, learner: SB3Learner, stepper: Stepper) -> None:
        super().__init__(
            stepper,
            n_steps=1,
            generator=learner.context.streams.torch("actions"),
            reward_normalizer=learner.context.reward_normalizer,
        )
        self.listener: Any = None
        self._learner = learner
        self._bridge = _Bridge(self)
        self._began_at = 0

    def collect(self, policy: Any) -> Experience:
        learner = self._learner
        self._began_at = learner.model.num_timesteps
        learner.envs.episodes.clear()
        try:
            learner.collect(self._bridge, self.vector_steps)
        except (CollectionStopped, StopRequested):
            learner.model.num_timesteps = self._began_at  # discarded steps do not count
            raise
        return Experience(
            steps=learner.model.num_timesteps - self._began_at, episodes=list(learner.envs.episodes)
        )

    def barrier(self, number: int) -> None:
        self._learner.begin(number, self._bridge)

    def step_locals(self) -> dict[str, Any]:
        return {}  # the listener has those of SB3's loop

    def after_step(self) -> None:
        """Called by SB3's loop after every vector step; CollectionStopped ends it."""
        self._call_hook(self._learner.model.num_timesteps - self._began_at)


class _Bridge(BaseCallback):
    def __init__(self, collector: SB3Collector) -> None:
        super().__init__()
        self._collector = collector

    def update_locals(self, locals_: dict[str, Any]) -> None:
        super().update_locals(locals_)
        if self._collector.listener is not None:
            self._collector.listener.update_locals(locals_)

    def _on_step(self) -> bool:
        self._collector.after_step()  # raises to stop: some SB3 algorithms ignore the return value
        return True

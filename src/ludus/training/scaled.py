"""The native trainer with its envs on Ray: the same learner and loop, with a collector over shards."""

from __future__ import annotations

from functools import partial
from typing import Any

from gymnasium.vector import VectorEnv

from ludus.algorithms.learner import AnyLearner, Learner
from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError
from ludus.policies.base import Policy
from ludus.rollout.collector import Collector
from ludus.scale.cluster import RaySession
from ludus.scale.collectors import ShardedCollector
from ludus.scale.planning import EnvShare, choose_collectors, cores_to_learn, make_collector, open_session
from ludus.training.base import Publisher
from ludus.training.native import NativeTrainer


class ScaledTrainer(NativeTrainer):
    """Trains with Ludus's own algorithms on envs that collectors on Ray step."""

    _ray: RaySession | None = None
    _cpus = 0.0

    def create_model(self) -> Policy:
        if self.learner is not None:
            return super().create_model()
        if self._source.is_bound_here:
            raise ConfigError(
                "these envs cannot be built in other processes: they belong to this one",
                key="scale",
                fix="give the env's id or a function that returns one, or leave scale out",
            )
        scale = self.config.scale
        assert scale is not None
        self._ray, self._cpus = open_session(scale)
        try:
            policy = super().create_model()
        except BaseException:
            self._ray.close()
            raise
        assert self.config.scale is not None
        count = self.config.scale.collectors
        env, about = self._header[0]
        self._header[0] = (
            env,
            f"{about}, {count} collectors on Ray ({self._ray.address}), {scale.mode}",
        )
        return policy

    def _adapt(self, config: TrainerConfig) -> TrainerConfig:
        assert config.scale is not None
        count = choose_collectors(config, config.scale, self._cpus)
        return config.model_copy(update={"scale": config.scale.model_copy(update={"collectors": count})})

    def _cores(self) -> int:
        assert self.config.scale is not None
        return cores_to_learn(self.config.scale, super()._cores())

    def _choose_backend(self, config: TrainerConfig) -> tuple[str, str]:
        backend, reason = super()._choose_backend(config)
        if config.vector == "auto" and backend == "process":
            return "serial", "each collector is a process"
        return backend, reason

    def _make_envs(self, backend: str) -> VectorEnv[Any, Any, Any]:
        return self._source.make_vector(backend, 1)

    def _make_collector(self, learner: Learner[Any, Any], envs: VectorEnv[Any, Any, Any]) -> Collector:
        envs.close()  # they were needed for the spaces only; shards have their own
        assert self.config.scale is not None and self._ray is not None
        share = EnvShare(
            make=partial(self._source.make_vector, self.config.vector),
            reports_episodes=self._source.reports_episodes,
            rebuild=self._source.rebuild,
        )
        collector = make_collector(self.config, self.config.scale, share, learner, self._ray)
        self.publisher = ShardPublisher(collector)
        return collector


class ShardPublisher(Publisher):
    """Sends the policy to the collectors on Ray."""

    def __init__(self, collector: ShardedCollector) -> None:
        self._collector = collector

    def send(self, learner: AnyLearner) -> None:
        self._collector.publish(learner.policy)

"""Plan the shards of a config: their number, the envs of each, and the collector over them."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gymnasium.vector import VectorEnv

from ludus.algorithms.learner import Learner
from ludus.algorithms.off_policy import OffPolicyHyperparameters
from ludus.config.schema import TrainerConfig
from ludus.config.sections import ScaleConfig
from ludus.errors import ConfigError
from ludus.scale.cluster import RaySession, connect, import_ray
from ludus.scale.collectors import AsyncCollector, ShardedCollector, SyncCollector
from ludus.scale.fleet import Fleet
from ludus.scale.shard import ShardPlan

# as in nice(1): all wait for a learner that waits for a core; other work should not come first by far
_MAKES_WAY = 5


@dataclass(frozen=True)
class EnvShare:
    """Env settings that the shards need."""

    make: Callable[[int], VectorEnv[Any, Any, Any]]
    reports_episodes: bool
    rebuild: bool


def choose_collectors(config: TrainerConfig, scale: ScaleConfig, cpus: float) -> int:
    """Return the number of collectors, which share the envs evenly. ConfigError if the envs do not divide."""
    if scale.collectors == "auto":
        room = max(1, min(int(cpus / scale.cpus_per_collector), config.n_envs))
        return next(count for count in range(room, 0, -1) if config.n_envs % count == 0)
    if config.n_envs % scale.collectors:
        raise ConfigError(
            f"{scale.collectors} collectors cannot share {config.n_envs} envs evenly",
            key="scale.collectors",
            fix=f"n_envs: {-(-config.n_envs // scale.collectors) * scale.collectors}",
        )
    return scale.collectors


def open_session(scale: ScaleConfig) -> tuple[RaySession, float]:
    """Connect to Ray as the config says; return the connection and the cluster's CPUs."""
    wanted = 1 if scale.collectors == "auto" else scale.collectors
    session = connect(scale.ray, cpus=wanted * scale.cpus_per_collector)
    return session, float(import_ray().cluster_resources().get("CPU", 1.0))


def cores_to_learn(scale: ScaleConfig, cores: int) -> int:
    """Return how many of this machine's `cores` the learner may use; `scale` is resolved.

    While collectors play, a second core of the learner would be one of theirs, and two threads that have to wait
    for each other get less done than one. Ray spreads collectors out: a machine gets about its part of them.
    """
    if scale.mode == "sync":
        return cores
    assert isinstance(scale.collectors, int)
    nodes = [node for node in import_ray().nodes() if node["Alive"]]
    here = [node for node in nodes if node["NodeManagerHostname"] == socket.gethostname()]
    cpus, of = (sum(node["Resources"].get("CPU", 0.0) for node in some) for some in (here, nodes))
    playing: float = scale.collectors * _threads(scale) * cpus / max(of, 1.0)
    return max(1, cores - math.ceil(playing))


def make_collector(
    config: TrainerConfig,
    scale: ScaleConfig,
    share: EnvShare,
    learner: Learner[Any, Any],
    session: RaySession,
) -> ShardedCollector:
    """Create the shards of a run and the collector over them; `config` and `scale` are resolved."""
    fleet = Fleet(plan_shards(config, scale, share, learner), session, scale.cpus_per_collector)
    rewards = learner.context.reward_normalizer
    if scale.mode == "sync":
        return SyncCollector(fleet, rewards, scale.max_failures)
    away = 2 if isinstance(learner.h, OffPolicyHyperparameters) else 1
    return AsyncCollector(fleet, rewards, scale.max_failures, scale.max_staleness, away)


def plan_shards(
    config: TrainerConfig, scale: ScaleConfig, share: EnvShare, learner: Learner[Any, Any]
) -> list[ShardPlan]:
    """Return the plan of each shard of a run."""
    assert isinstance(scale.collectors, int)
    count, together = scale.collectors, scale.mode == "sync"
    h = learner.h
    if isinstance(h, OffPolicyHyperparameters):  # random actions first: the number is the total of all shards
        h = h.model_copy(update={"learning_starts": -(-h.learning_starts // count)})
    each = config.n_envs // count
    return [
        ShardPlan(
            index=index,
            first_env=index * each,
            n_envs=each,
            make_envs=share.make,
            learner=config.algorithm_entry().learner,  # type: ignore[arg-type]
            hyperparams=h,
            policy=config.policy,
            seed=config.seed,
            normalize_obs=config.normalize_obs,
            normalize_reward=config.normalize_reward,
            kernels=config.kernels,
            reports_episodes=share.reports_episodes,
            rebuild=share.rebuild,
            threads=_threads(scale),
            keeps_cuts=not together,
            keeps_diary=together,
            niceness=0 if together else _MAKES_WAY,
        )
        for index in range(count)
    ]


def _threads(scale: ScaleConfig) -> int:
    """Return the number of threads of a collector."""
    return max(1, int(scale.cpus_per_collector))

"""A share of a run's envs, and a policy of its own that plays them: a collector without its Ray process.

A shard is a function of its inputs: the plan, the barrier, the versions it plays with. Nothing about it depends
on where or when it runs, so that placing it elsewhere, or building it again after a loss, changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv

from ludus.algorithms.learner import Learner, LearnerContext
from ludus.config.hyperparameters import Hyperparameters
from ludus.config.schema import PolicyConfig
from ludus.policies.base import Policy
from ludus.policies.observations import Moments, RewardNormalizer, RunningMoments
from ludus.policies.q_network import QPolicy
from ludus.rollout.collector import RolloutCollector
from ludus.rollout.experience import Experience
from ludus.rollout.stepper import Stepper
from ludus.runs.streams import Streams
from ludus.types import Array


@dataclass(frozen=True)
class ShardPlan:
    """Everything a shard is built from; the same for all shards except `index` and `first_env`."""

    index: int
    first_env: int
    n_envs: int
    make_envs: Callable[[int], VectorEnv[Any, Any, Any]]
    learner: Callable[[LearnerContext, Any], Learner[Any, Any]]
    hyperparams: Hyperparameters
    policy: PolicyConfig
    seed: int
    normalize_obs: bool
    normalize_reward: bool
    kernels: bool
    reports_episodes: bool
    rebuild: bool
    threads: int = 1
    keeps_cuts: bool = False
    """True if the learner may have a newer policy by the time it gets the experience."""
    keeps_diary: bool = True
    """True if results contain the actions, for `Shard.replay`."""
    niceness: int = 0
    """Niceness of the shard's process, as in nice(1)."""


@dataclass(frozen=True)
class Version:
    """A published policy: its weights and statistics, enough to act exactly as the learner would."""

    number: int
    arrays: dict[str, Array]
    epsilon: float | None
    rewards: Moments | None

    @classmethod
    def of(cls, number: int, policy: Policy, rewards: RewardNormalizer | None) -> Version:
        return cls(
            number,
            {name: tensor.detach().cpu().numpy() for name, tensor in policy.state_dict().items()},
            policy.epsilon if isinstance(policy, QPolicy) else None,
            None if rewards is None else rewards.moments.moments(),
        )

    def load_into(self, policy: Policy, rewards: RewardNormalizer | None) -> None:
        """Make `policy`, which is on the CPU, this version; in place, because kernels work on its memory."""
        for name, tensor in policy.state_dict().items():
            tensor.numpy()[...] = self.arrays[name]
        if isinstance(policy, QPolicy) and self.epsilon is not None:
            policy.epsilon = self.epsilon
        if rewards is not None and self.rewards is not None:
            rewards.moments.set_to(self.rewards)


@dataclass(frozen=True)
class Memory:
    """State of a shard between two collections, apart from its games."""

    streams: dict[str, Any]
    stream_states: dict[str, Array]
    counters: dict[str, Any]
    wrappers: list[Any]
    returns: Array | None
    """Running returns of its envs, for the scale of rewards; None at a barrier, where they are zero."""

    def copied(self) -> Memory:
        """Return a copy in separate memory: the original keeps the whole result in Ray's object store."""
        return replace(
            self,
            stream_states={name: state.copy() for name, state in self.stream_states.items()},
            returns=None if self.returns is None else self.returns.copy(),
        )


@dataclass(frozen=True)
class ShardResult:
    """Result of a collection: experience, current statistics, and the shard's memory."""

    shard: int
    version: int
    experience: Experience
    statistics: dict[str, Moments]
    memory: Memory
    actions: Array | None
    seconds: float


class Shard:
    """Plays its envs with the version it is given. Errors of envs and models are raised unchanged."""

    def __init__(self, plan: ShardPlan) -> None:
        torch.set_num_threads(plan.threads)
        self.plan = plan
        run = Streams(plan.seed)
        # the first one draws what a run without shards draws
        self.streams = run if plan.index == 0 else Streams(run.derive("collector", plan.index))
        self.streams.seed_globals()
        envs = plan.make_envs(plan.n_envs)
        try:
            h: Any = plan.hyperparams
            self._rewards = RewardNormalizer(plan.n_envs, h.gamma(0.0)) if plan.normalize_reward else None
            place = LearnerContext(
                observation_space=envs.single_observation_space,
                action_space=envs.single_action_space,
                n_envs=plan.n_envs,
                hyperparams=plan.hyperparams,
                policy=plan.policy,
                normalize_obs=plan.normalize_obs,
                device=torch.device("cpu"),
                streams=self.streams,
                reward_normalizer=self._rewards,
                kernels=plan.kernels,
                threads=plan.threads,
                to_play=True,
            )
            learner = plan.learner(place, plan.hyperparams)
            self._stepper = _DiaryStepper(
                envs,
                lambda barrier, index: run.derive("env", barrier, plan.first_env + index),
                reports_episodes=plan.reports_episodes,
                rebuild=plan.rebuild,
                first_env=plan.first_env,
            )
            self._collector = learner.make_collector(self._stepper)
        except BaseException:
            envs.close()
            raise
        self.policy: Policy = learner.policy
        if isinstance(self._collector, RolloutCollector):
            self._collector.keeps_cuts = plan.keeps_cuts
        self._wrappers_remember = any(self._collector.wrapper_states())

    def barrier(self, number: int) -> None:
        """Bring the games to the common point of checkpoint `number`."""
        self._collector.begin(number)  # open games are not saved here: a lost shard begins and plays again

    def restart_episodes(self, losses: int) -> None:
        """Begin new episodes: those that were open are lost. `losses` gives them new seeds."""
        run = Streams(self.plan.seed)
        first = self.plan.first_env
        # "anew" is the name of a random stream: another name would change results
        seeds = [run.derive("anew", losses, first + index) for index in range(self.plan.n_envs)]
        self._stepper.restart(seeds)
        if self._rewards is not None:
            self._rewards.reset_returns()

    def collect(self, version: Version, steps_left: int | None = None) -> ShardResult:
        """Play with `version` until there is enough for this shard's part of an update, or of what is left."""
        started = time.monotonic()
        self._collector.steps_left = None if steps_left is None else lambda: steps_left
        version.load_into(self.policy, self._rewards)
        self._stepper.log = [] if self.plan.keeps_diary else None
        experience = self._collector.collect(self.policy)
        return ShardResult(
            shard=self.plan.index,
            version=version.number,
            experience=experience,
            statistics={
                name: moments.moments() for name, moments in statistics(self.policy, self._rewards).items()
            },
            memory=self.memory(),
            actions=None if self._stepper.log is None else np.stack(self._stepper.log),
            seconds=time.monotonic() - started,
        )

    def replay(self, actions: list[Array]) -> None:
        """Replay the actions since the barrier, one collection at a time."""
        self._stepper.log = None
        for part in actions:
            for chosen in part:
                self._stepper.step(chosen)

    def memory(self) -> Memory:
        """Return the state for `load`: a shard built from the same plan then continues as this one would."""
        plain, tensors = self.streams.named_state_dict()
        return Memory(
            streams=plain,
            stream_states={name: tensor.numpy() for name, tensor in tensors.items()},
            counters=self._collector.counters(),
            wrappers=self._collector.wrapper_states() if self._wrappers_remember else [],
            returns=None if self._rewards is None else self._rewards.returns.copy(),
        )

    def load(self, memory: Memory) -> None:
        """Restore the state that `memory` returned, here or in another process."""
        states = {name: torch.tensor(array) for name, array in memory.stream_states.items()}
        self.streams.load_named_state_dict(memory.streams, states)
        self._collector.load_counters(memory.counters)
        self._collector.load_wrapper_states(memory.wrappers)
        if self._rewards is not None and memory.returns is not None:
            self._rewards.returns[:] = memory.returns

    def close(self) -> None:
        self._collector.close()


def statistics(policy: Policy, rewards: RewardNormalizer | None) -> dict[str, RunningMoments]:
    """Return the running statistics that playing updates, by name."""
    found = {} if rewards is None else {"rewards": rewards.moments}
    if policy.obs_normalizer is not None:
        for key in policy.obs_normalizer.keys:
            found[f"obs/{key}"] = policy.obs_normalizer.moments_of(key)
    return found


class _DiaryStepper(Stepper):
    """A stepper that records its actions while it has a log."""

    log: list[Array] | None = None

    def step_async(self, actions: Array) -> None:
        if self.log is not None:
            self.log.append(np.array(actions))
        super().step_async(actions)

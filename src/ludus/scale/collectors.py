"""The collectors of a run whose envs are spread over shards: they publish versions and merge the shards' results.

`SyncCollector` waits for every shard, so that what it collects depends on nothing but the config. `AsyncCollector`
takes what is there, within a bound on how old it may be.
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ludus.errors import CheckpointError
from ludus.policies.base import Policy
from ludus.policies.observations import Moments, RewardNormalizer
from ludus.rollout.collector import Collector
from ludus.rollout.experience import Experience, Rollout, join_rollouts, join_transitions
from ludus.runs.signals import StopRequested, stop_requested_at
from ludus.scale.fleet import Fleet, ShardLost
from ludus.scale.losses import Losses
from ludus.scale.shard import Memory, ShardResult, Version, statistics
from ludus.types import Metrics

_log = logging.getLogger("ludus.scale")
_STOP_SECONDS = 2.0  # for shards to answer after a stop signal
_POLL_SECONDS = 0.2  # between two checks of signals and callbacks while shards play
REPLAY_SECONDS = 10.0
"""A lost shard plays again what it had played since the barrier if that took no longer; else its episodes are lost."""
_REWARDS = "reward_normalizer."


class ShardedCollector(Collector):
    """Base of both collectors: publishing, statistics, losses, and the shards' part of a checkpoint."""

    def __init__(self, fleet: Fleet, rewards: RewardNormalizer | None, max_failures: int) -> None:
        super().__init__()
        self.fleet = fleet
        self.losses = Losses(max_failures)
        self._rewards = rewards
        self._memories: list[Memory | None] = [None] * len(fleet)
        self._number = 0
        self._version: Any = None
        """Handle of the published policy in the fleet."""
        self._lost: dict[int, list[Any] | None] = {}
        """Shards that are being replaced; once they are there, the tickets of what brings them up."""

    @property
    def reward_scale(self) -> float:  # type: ignore[override]  # it moves while rewards are normalised
        return 1.0 if self._rewards is None else self._rewards.unit

    def publish(self, policy: Policy) -> None:
        """Give the shards the policy that they play from here on."""
        self._version = self.fleet.publish(Version.of(self._number, policy, self._rewards))

    def close(self) -> None:
        self.fleet.close()

    def tensors(self) -> dict[str, torch.Tensor]:
        found: dict[str, torch.Tensor] = {}
        if self._rewards is not None:
            moments = self._rewards.moments
            found |= {f"{_REWARDS}{name}": buffer.clone() for name, buffer in moments.named_buffers()}
        for index, memory in enumerate(self._memories):
            if memory is not None:
                states = memory.stream_states
                found |= {f"collectors.{index}.{name}": torch.tensor(state) for name, state in states.items()}
        return found

    def values(self) -> dict[str, Any]:
        remembered = [
            None
            if memory is None
            else {"streams": memory.streams, "counters": memory.counters, "wrappers": memory.wrappers}
            for memory in self._memories
        ]
        return {"collectors": remembered}

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        if len(values["collectors"]) != len(self.fleet):
            raise CheckpointError(
                f"the checkpoint has {len(values['collectors'])} collectors, this run {len(self.fleet)}",
                where="scale.collectors",
                fix="resume with the number that the run was started with",
            )
        if self._rewards is not None:
            moments = {
                name.removeprefix(_REWARDS): tensor
                for name, tensor in tensors.items()
                if name.startswith(_REWARDS)
            }
            self._rewards.moments.load_state_dict(moments)
        self._memories = [
            None if plain is None else _memory(plain, f"collectors.{index}.", tensors)
            for index, plain in enumerate(values["collectors"])
        ]

    def take_metrics(self) -> Metrics:
        return {"time/collectors_lost": float(self.losses.total)}

    @abstractmethod
    def _restore_shard(self, index: int) -> list[Any]:
        """Send a new shard the state of the lost one, or a new start. Return the tickets of the requests."""

    def _lose(self, index: int, lost: ShardLost) -> None:
        """Request a replacement for a lost shard. CollectorsLost if too many were lost."""
        self.losses.count(str(lost))
        self.fleet.replace(index)
        self._lost[index] = None

    def _restored_shards(self) -> list[int]:
        """Restore the replacements of lost shards that are ready, without waiting; return their indices."""
        return [index for index in list(self._lost) if self._is_restored(index)]

    def _is_restored(self, index: int) -> bool:
        try:
            if not self.fleet.is_there(index):
                return False
            tickets = self._lost[index]
            if tickets is None:
                tickets = self._lost[index] = self._restore_shard(index)
            if not self.fleet.wait(tickets[-1:], 0):  # a shard answers requests in order
                return False
            for ticket in tickets:
                self.fleet.answer(index, ticket)
        except ShardLost as again:
            self._lose(index, again)
            return False
        del self._lost[index]
        _log.info("collector %d continues (%s)", index, self.fleet.location(index))
        return True

    def _call_all(self, method: str, *args: Any) -> None:
        """Call a method of all available shards, and wait until it is done."""
        self._wait_for_answers({index: self.fleet.ask(index, method, *args) for index in self._available()})

    def _load_shards(self) -> None:
        """Restore the memory of every available shard."""
        known = {
            index: memory for index in self._available() if (memory := self._memories[index]) is not None
        }
        self._wait_for_answers(
            {index: self.fleet.ask(index, "load", memory) for index, memory in known.items()}
        )

    def _available(self) -> list[int]:
        """Return the shards that can take requests. A lost shard gets its state when it is replaced."""
        self._lost = dict.fromkeys(self._lost)  # requests already sent to new shards are out of date
        return [index for index in range(len(self.fleet)) if index not in self._lost]

    def _wait_for_answers(self, tickets: dict[int, Any]) -> None:
        """Wait for all answers. StopRequested some seconds after a stop signal: an env of a shard may hang."""
        asked = time.monotonic()
        for index, ticket in tickets.items():
            while not self.fleet.wait([ticket], _POLL_SECONDS):
                signalled = stop_requested_at()
                if signalled is not None and time.monotonic() > max(signalled, asked) + _STOP_SECONDS:
                    raise StopRequested
            try:
                self.fleet.answer(index, ticket)
            except ShardLost as lost:
                self._lose(index, lost)


class SyncCollector(ShardedCollector):
    """Every update learns from a collection of every shard, played with the version before it."""

    def __init__(self, fleet: Fleet, rewards: RewardNormalizer | None, max_failures: int) -> None:
        super().__init__(fleet, rewards, max_failures)
        self._barrier = 0
        self._at_barrier = list(self._memories)
        self._action_logs = [ActionLog() for _ in range(len(fleet))]

    def barrier(self, number: int) -> None:
        self._barrier = number
        self._memories = [
            None if memory is None else replace(memory, returns=None) for memory in self._memories
        ]
        self._at_barrier = list(self._memories)
        self._action_logs = [ActionLog() for _ in range(len(self.fleet))]
        self._call_all("barrier", number)

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        super().load(tensors, values)
        self._at_barrier = list(self._memories)
        self._load_shards()

    def collect(self, policy: Policy) -> Experience:
        there = [index for index in range(len(self.fleet)) if index not in self._lost]
        # every shard has as many envs as the others
        left = () if self.steps_left is None else (-(-self.steps_left() // len(self.fleet)),)
        pending = {self.fleet.ask(index, "collect", self._version, *left): index for index in there}
        results: dict[int, ShardResult] = {}
        while pending or self._lost:
            for ticket in self.fleet.wait(list(pending), _POLL_SECONDS):
                index = pending.pop(ticket)
                try:
                    results[index] = self.fleet.answer(index, ticket)
                except ShardLost as lost:
                    self._lose(index, lost)
            for index in self._restored_shards():
                pending[self.fleet.ask(index, "collect", self._version, *left)] = index
            self._call_hook(sum(result.experience.steps for result in results.values()))
        self._number += 1
        in_order = [results[index] for index in range(len(self.fleet))]
        for index, result in enumerate(in_order):
            self._memories[index] = result.memory.copied()
            self._action_logs[index].write(result)
        self._merge_statistics(policy, in_order)
        return join([result.experience for result in in_order])

    def _merge_statistics(self, policy: Policy, results: list[ShardResult]) -> None:
        """Merge the statistics of all shards. The first shard's are copied, so that one shard alone is exact."""
        for name, running in statistics(policy, self._rewards).items():
            before = running.moments()
            running.set_to(results[0].statistics[name])
            for result in results[1:]:
                running.merge(result.statistics[name].since(before))

    def _restore_shard(self, index: int) -> list[Any]:
        memory, log, latest = self._at_barrier[index], self._action_logs[index], self._memories[index]
        tickets = [] if memory is None else [self.fleet.ask(index, "load", memory)]
        tickets.append(self.fleet.ask(index, "barrier", self._barrier))
        if log.seconds > REPLAY_SECONDS:
            _log.warning(
                "collector %d had played %.0f s since the last checkpoint: its episodes start again",
                index,
                log.seconds,
            )
            tickets.append(self.fleet.ask(index, "restart_episodes", self.losses.total))
        elif log.actions:
            tickets.append(self.fleet.ask(index, "replay", log.actions))
        if latest is not None:
            tickets.append(self.fleet.ask(index, "load", latest))
        return tickets


class AsyncCollector(ShardedCollector):
    """Shards keep playing while the learner learns. An update takes N collections for N shards, from any of them.

    `max_staleness` bounds how many updates old the version of a collection may be when it is learnt from: an update
    waits for one that would be too old at the next. No experience is discarded. `in_flight` is the
    number of collections that are requested from a shard at a time: two if they are short, so that it never waits for
    the driver. While a lost shard is replaced, the others play its share.
    """

    seeded = False

    def __init__(
        self,
        fleet: Fleet,
        rewards: RewardNormalizer | None,
        max_failures: int,
        max_staleness: int,
        in_flight: int = 1,
    ) -> None:
        super().__init__(fleet, rewards, max_failures)
        self._max_staleness = max_staleness
        self._in_flight = max(1, min(in_flight, max_staleness))
        self._pending: list[PendingCollection] = []
        self._moments_before: dict[int, dict[str, Moments]] = {}
        self._playing = False
        self._staleness: list[int] = []

    def barrier(self, number: int) -> None:
        """Start the games, at first or after `load`. Later calls do nothing: games continue across barriers."""
        if not self._playing:
            self._playing = True
            self._call_all("barrier", number)

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        super().load(tensors, values)
        self._playing = False
        self._pending = []
        self._load_shards()

    def collect(self, policy: Policy) -> Experience:
        number = self._number
        running = statistics(policy, self._rewards)
        self._moments_before[number] = {name: moments.moments() for name, moments in running.items()}
        while True:
            for index in range(len(self.fleet)):
                while self._may_collect(index):
                    ticket = self.fleet.ask(index, "collect", self._version)
                    self._pending.append(PendingCollection(index, number, ticket))
            taken = self._ready_collections(number)
            if taken is not None:
                break
            self._receive_results()
        results = [pending.result for pending in taken if pending.result is not None]
        self._pending = [pending for pending in self._pending if pending not in taken]
        for result in results:
            self._staleness.append(number - result.version)
            for name, moments in running.items():
                moments.merge(result.statistics[name].since(self._moments_before[result.version][name]))
        self._number += 1
        oldest = min((pending.version for pending in self._pending), default=self._number)
        self._moments_before = {key: value for key, value in self._moments_before.items() if key >= oldest}
        return join([result.experience for result in results])

    def rest(self) -> None:
        """Wait until no shard plays; what was played is kept."""
        while any(pending.result is None for pending in self._pending):
            self._receive_results()

    def take_metrics(self) -> Metrics:
        ages, self._staleness = self._staleness, []
        if not ages:
            return super().take_metrics()
        staleness = {
            "rollout/staleness_mean": sum(ages) / len(ages),
            "rollout/staleness_max": float(max(ages)),
        }
        return super().take_metrics() | staleness

    def _may_collect(self, index: int) -> bool:
        """Return True if shard `index` may start another collection before its last one is learnt from."""
        if index in self._lost:
            return False
        of_shard = [pending for pending in self._pending if pending.shard == index]
        in_flight = sum(pending.result is None for pending in of_shard)
        # more if other shards are lost
        updates = self._max_staleness + 1 if len(of_shard) <= self._max_staleness else 1
        return in_flight < self._in_flight and len(self._pending) < updates * len(self.fleet)

    def _ready_collections(self, number: int) -> list[PendingCollection] | None:
        """Return the collections that update `number` learns from; None while some are missing."""
        due = [pending for pending in self._pending if pending.version <= number - self._max_staleness]
        if any(pending.result is None for pending in due):
            return None
        finished = [pending for pending in self._pending if pending.result is not None and pending not in due]
        taken = due + finished[: max(0, len(self.fleet) - len(due))]
        return taken if len(taken) >= len(self.fleet) else None

    def _receive_results(self) -> None:
        """Wait for a result, and receive all that are ready."""
        in_flight = {pending.ticket: pending for pending in self._pending if pending.result is None}
        for ticket in self.fleet.wait(list(in_flight), _POLL_SECONDS):
            pending = in_flight[ticket]
            if pending not in self._pending:  # its shard was lost with an earlier collection
                continue
            try:
                pending.result = self.fleet.answer(pending.shard, ticket)
                self._memories[pending.shard] = pending.result.memory.copied()
            except ShardLost as lost:
                self._pending = [
                    other
                    for other in self._pending
                    if other.shard != pending.shard or other.result is not None
                ]
                self._lose(pending.shard, lost)
        self._restored_shards()
        self._call_hook(
            sum(pending.result.experience.steps for pending in self._pending if pending.result is not None)
        )

    def _restore_shard(self, index: int) -> list[Any]:
        memory = self._memories[index]
        tickets = [] if memory is None else [self.fleet.ask(index, "load", memory)]
        return [*tickets, self.fleet.ask(index, "restart_episodes", self.losses.total)]


@dataclass(eq=False)
class PendingCollection:
    """A collection requested from a shard: the version it plays with, and its result once there is one."""

    shard: int
    version: int
    ticket: Any
    result: ShardResult | None = None


class ActionLog:
    """Actions of a shard since the barrier, kept while they are few enough to be replayed."""

    def __init__(self) -> None:
        self.actions: list[Any] = []
        self.seconds = 0.0

    def write(self, result: ShardResult) -> None:
        self.seconds += result.seconds
        if self.seconds > REPLAY_SECONDS:
            self.actions = []
        else:
            self.actions.append(np.array(result.actions))  # a view would keep the result in Ray's store


def join(parts: Sequence[Any]) -> Experience:
    """Concatenate the experience of several shards."""
    return join_rollouts(parts) if isinstance(parts[0], Rollout) else join_transitions(parts)


def _memory(plain: dict[str, Any], prefix: str, tensors: dict[str, torch.Tensor]) -> Memory:
    states = {
        name.removeprefix(prefix): tensor.numpy()
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
    return Memory(plain["streams"], states, plain["counters"], plain["wrappers"], returns=None)

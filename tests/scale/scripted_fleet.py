"""A fleet without Ray: what it answers and whom it loses, and when, is written by the test."""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.rollout.experience import Transitions
from ludus.scale.fleet import ShardLost
from ludus.scale.shard import Memory, ShardResult


class ScriptedFleet:
    """Shards whose collections end when a script says so: shard i needs `slowness[i]` waits for each."""

    def __init__(self, slowness: list[int]) -> None:
        self.slowness = slowness
        self.left: dict[int, int] = {}
        self.asked: dict[int, tuple[int, Any]] = {}
        self.calls: list[tuple[int, str]] = []
        self.queues: list[list[int]] = [[] for _ in slowness]
        self.serial = 0
        self.dies: set[int] = set()
        self.absence = 0
        """Number of checks until a lost shard is replaced."""
        self.absent: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.slowness)

    def publish(self, thing: Any) -> Any:
        return thing

    def ask(self, index: int, method: str, *args: Any) -> Any:
        self.serial += 1
        self.calls.append((index, method))
        self.asked[self.serial] = (index, args[0].number if method == "collect" else None)
        self.left[self.serial] = self.slowness[index] if method == "collect" else 0
        if method == "collect":
            self.queues[index].append(self.serial)
        return self.serial

    def wait(self, tickets: list[int], seconds: float) -> list[int]:
        for queue in self.queues:
            if queue:
                self.left[queue[0]] -= 1
                if self.left[queue[0]] <= 0:
                    queue.pop(0)
        return [ticket for ticket in tickets if self.left[ticket] <= 0]

    def answer(self, index: int, ticket: int) -> Any:
        if ticket in self.dies:
            raise ShardLost("by the script")
        _, version = self.asked[ticket]
        if version is None:
            return None
        one = np.array([float(ticket)])
        experience = Transitions(
            steps=1,
            episodes=[],
            obs=one,
            actions=one,
            rewards=one,
            next_obs=one,
            terminated=np.zeros(1, dtype=bool),
            masks=None,
            next_masks=None,
        )
        memory = Memory({}, {}, {}, [], None)
        return ShardResult(index, version, experience, {}, memory, None, 0.0)

    def replace(self, index: int) -> None:
        self.queues[index] = []
        self.absent[index] = self.absence

    def is_there(self, index: int) -> bool:
        self.absent[index] -= 1
        return self.absent[index] < 0

    def location(self, index: int) -> str:
        return "nowhere"


class NoPolicy:
    obs_normalizer = None

    def state_dict(self) -> dict[str, Any]:
        return {}


def collected(collector: Any) -> Any:
    """Return the next collection after a publication, as in the training loop."""
    policy = NoPolicy()
    collector.publish(policy)
    return collector.collect(policy)

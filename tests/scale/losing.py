"""An injector: kills collectors and nodes of a run at random moments, and keeps count."""

from __future__ import annotations

import os
import random
import signal
import threading
from contextlib import suppress
from typing import Any

from ludus.scale.collectors import ShardedCollector
from ludus.training.callbacks import BaseCallback


def pid_of(place: str) -> int:
    """The process in what a fleet says about a place."""
    return int(place.rpartition(" ")[2])


class Injector(BaseCallback):
    """Kills a random collector within some seconds after each collection in `at` was begun, counted from 1.

    With a `cluster` it takes a node of it down instead, with everything there.
    """

    def __init__(self, at: list[int], seed: int, cluster: Any = None, within: float = 0.05) -> None:
        super().__init__()
        self.killed = 0
        self._at = set(at)
        self._random = random.Random(seed)
        self._cluster = cluster
        self._within = within
        self._rollouts = 0
        self._threads: list[threading.Timer] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        self._rollouts += 1
        if self._rollouts in self._at and self._within == 0:
            self._strike()
        elif self._rollouts in self._at:
            timer = threading.Timer(self._random.random() * self._within, self._strike)
            timer.start()
            self._threads.append(timer)

    def _on_training_end(self) -> None:
        for timer in self._threads:
            timer.join()

    def _strike(self) -> None:
        self.killed += 1
        if self._cluster is not None:
            node = self._random.choice(sorted(self._cluster.worker_nodes, key=lambda node: node.unique_id))
            self._cluster.remove_node(node, allow_graceful=False)
            return
        collector = self.model.collector
        assert isinstance(collector, ShardedCollector)
        index = self._random.randrange(len(collector.fleet))
        with suppress(ProcessLookupError):
            os.kill(pid_of(collector.fleet.location(index)), signal.SIGKILL)

"""How long a loss holds a run up: collectors, samplers, learners and whole nodes killed at random moments.

python benchmarks/losses.py                           # two of each, on four nodes of one CPU each on this machine
python benchmarks/losses.py --tries 5 --runs async self-play

The workers of a run take up all four nodes, so that a lost node leaves no room. The time of a loss is counted from the
blow to the end of the first update that ends after the run has noticed it; a node is put back when that has happened.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from ludus.config.schema import TrainerConfig
from ludus.scale.cluster import import_ray
from ludus.training.factory import create_trainer

MEMORY = {"object_store_memory": 100 * 2**20}
NODES = 4
VICTIMS = {
    "sync": ("collector", "node"),
    "async": ("collector", "node"),
    "self-play": ("sampler", "learner", "node"),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tries", type=int, default=2, help="of each kind of loss")
    parser.add_argument("--runs", nargs="+", choices=list(VICTIMS), default=list(VICTIMS))
    parser.add_argument("--env", default="BipedalWalker-v3")
    given = parser.parse_args()
    ray = import_ray()
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **MEMORY}
    )
    try:
        for _ in range(NODES):
            cluster.add_node(num_cpus=1, **MEMORY)
        ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
        print(
            "| run | lost | tries | an update | until the run goes on, worst | all | until all are back, worst |"
        )
        print("|---|---|---|---|---|---|---|", flush=True)
        for kind in given.runs:
            with tempfile.TemporaryDirectory() as folder:
                trainer: Any = create_trainer(None, config_for(kind, given.env, folder))
                injector = Injector(trainer, cluster, list(VICTIMS[kind]) * given.tries)
                try:
                    trainer.create_model()
                    trainer.train(callback=injector)
                finally:
                    trainer.close()
            for victim in VICTIMS[kind]:
                found = [blow for blow in injector.blows if blow.victim == victim]
                times = [blow.went_on - blow.struck for blow in found]
                whole = max(blow.whole - blow.struck for blow in found)
                print(
                    f"| {kind} | {victim} | {len(found)} | {injector.usual:.1f} s | {max(times):.1f} s "
                    f"| {', '.join(f'{seconds:.1f}' for seconds in times)} | {whole:.1f} s |",
                    flush=True,
                )
    finally:
        ray.shutdown()
        cluster.shutdown()


def config_for(kind: str, env: str, folder: str) -> TrainerConfig:
    common: dict[str, Any] = {"save_dir": folder, "tracking": {"tensorboard": False}}
    if kind == "self-play":
        return TrainerConfig(
            algorithm="REINFORCE",
            language={"model": "tiny", "sampler": {"max_new_tokens": 4}},
            games={"train": ["TicTacToe-v0"], "open": 8, "turns": 32},
            total_timesteps="100000 updates",
            checkpoint={"every": "4 updates"},
            evaluation={"every": None},
            guard=None,
            scale={"num_actors": NODES - 1, "num_learners": 2, "max_failures": 1000},
            **common,
        )
    return TrainerConfig(
        env=env,
        n_envs=2 * NODES,
        hyperparams={"n_steps": 256, "batch_size": 64, "n_epochs": 10},
        total_timesteps=10**9,
        checkpoint={"every": "4 updates"},
        evaluation={"every": None},
        scale={"collectors": NODES, "mode": kind, "max_failures": 1000},
        **common,
    )


class Blow:
    """Something that was killed: when, when the run went on, and when it had all its workers again."""

    def __init__(self, victim: str) -> None:
        self.victim = victim
        self.struck = self.went_on = self.whole = 0.0


class Injector:
    """A callback that strikes again and again, each time when the run is whole and has gone on for a while."""

    def __init__(self, trainer: Any, cluster: Any, victims: list[str]) -> None:
        self.blows: list[Blow] = []
        self.usual = 0.0
        self._trainer, self._cluster, self._victims = trainer, cluster, victims
        self._chance = random.Random(0)
        self._updates = -1
        self._ends: list[float] = []
        self._lost = 0
        self._noticed = False

    def __call__(self, local: dict[str, Any], everything: dict[str, Any]) -> bool:
        now, updates = time.monotonic(), self._trainer.session.progress.updates
        ended, self._updates = updates != self._updates, updates
        if ended:
            self._ends.append(now)
        blow = self.blows[-1] if self.blows else None
        if blow is not None and not blow.whole:
            return self._follow(blow, now, ended)
        if len(self._ends) < 6:
            return True
        if not self.usual:
            self.usual = statistics.median(
                b - a for a, b in zip(self._ends[1:], self._ends[2:], strict=False)
            )
        if not self._victims:
            return False
        self._lost, self._noticed = self._count(), False
        self.blows.append(Blow(self._victims.pop(0)))
        threading.Timer(self._chance.random() * self.usual, self._strike, (self.blows[-1],)).start()
        return True

    def _follow(self, blow: Blow, now: float, ended: bool) -> bool:
        if self._noticed and ended and not blow.went_on:
            blow.went_on = now
            while len(self._cluster.worker_nodes) < NODES:
                self._cluster.add_node(num_cpus=1, **MEMORY)
        self._noticed = self._noticed or (blow.struck > 0 and self._count() > self._lost)
        if blow.went_on and self._is_whole():
            blow.whole = max(now, blow.went_on)
            print(
                f"{blow.victim}: went on after {blow.went_on - blow.struck:.1f} s, "
                f"whole after {blow.whole - blow.struck:.1f} s",
                file=sys.stderr,
                flush=True,
            )
            self._ends = []
        return True

    def _strike(self, blow: Blow) -> None:
        engine, collector = getattr(self._trainer, "_engine", None), self._trainer.collector
        places = {
            "collector": []
            if engine is not None
            else [collector.fleet.location(index) for index in range(NODES)],
            "sampler": [] if engine is None else engine.locations,
            "learner": self._trainer.ranks.locations,
        }
        hit = (
            [place for where in places.values() for place in where]
            if blow.victim == "node"
            else places[blow.victim]
        )
        pid = int(self._chance.choice(hit).rpartition(" ")[2])
        blow.struck = time.monotonic()
        if blow.victim == "node":
            self._cluster.remove_node(self._node_of(pid), allow_graceful=False)
        else:
            os.kill(pid, signal.SIGKILL)

    def _node_of(self, pid: int) -> Any:
        """The node that a worker runs on: its raylet is the worker's parent."""
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        for node in self._cluster.worker_nodes:
            if any(process.process.pid == parent for process in node.all_processes["raylet"]):
                return node
        raise LookupError(f"process {pid} is on no node")

    def _count(self) -> int:
        """Losses that the run has noticed so far."""
        collectors = getattr(self._trainer.collector, "losses", None)
        engine = getattr(self._trainer, "_engine", None)
        learners = self._trainer.ranks._losses
        return (
            (0 if collectors is None else collectors.total)
            + (0 if engine is None else engine.lost)
            + (0 if learners is None else learners.total)
        )

    def _is_whole(self) -> bool:
        engine = getattr(self._trainer, "_engine", None)
        return not (engine._starting if engine is not None else self._trainer.collector._lost)


if __name__ == "__main__":
    main()

"""What collectors and GPUs would give beyond this machine: a model from the costs of the parts, checked here.

python benchmarks/scale_model.py                      # measures, predicts, and checks 1, 2 and 4 collectors here
python benchmarks/scale_model.py --rounds 5 --network-gbit 25 --no-check

Measured: the seconds a collector takes per step, alone and with all cores at it, the bytes a sample takes on its way,
what the driver pays to read and join it, what a version costs to publish and to load, what a call of Ray costs and each
further one, the update per sample, and what it takes to hand a byte to another learner. Predicted from them: steps per
second with one collector per core on other machines, and which part is the bottleneck. The check measures parts and
whole by turns, round by round, so that other work on the machine meets both; its figure is the ratio within a round.

What is assumed can be set: the networks, and what GPUs do, which defaults to what docs/reference/performance.md and
docs/reference/results.md say of one H200. Synchronous parts follow each other; asynchronous ones overlap where
other hardware does them.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import pickle
import socket
import statistics
import tempfile
import time
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch.distributed as dist

from ludus.config.schema import TrainerConfig
from ludus.config.sections import ScaleConfig
from ludus.scale.cluster import connect, import_ray
from ludus.scale.collectors import join
from ludus.scale.planning import EnvShare, plan_shards
from ludus.scale.processes import ShardProcess
from ludus.scale.shard import Version
from ludus.training.env_source import EnvSource
from ludus.training.factory import create_trainer
from ludus.training.native import NativeTrainer

EPOCHS = 10
COUNTS = (1, 2, 4)


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes of the parts of one collection and one update."""

    step: float  # a collector, per env step, the network included
    busy_step: float  # the same while all cores are at it
    sample_bytes: float
    take: float  # the driver, per sample: out of the store, and joined
    version_bytes: float
    publish: float  # the driver, per version
    load: float  # a collector, per version
    call: float  # there and back, with nothing to do
    next_call: float  # one more at the same time
    update: float  # the learner, per env step


@dataclass(frozen=True)
class Setup:
    """A run on so many collectors: what each does for one update, and what runs where."""

    collectors: int
    samples_each: int
    cores: int  # of each machine
    machines: float
    network: float = math.inf  # bytes per second into and out of the learner's machine


def parts(costs: Costs, setup: Setup) -> dict[str, float]:
    """Seconds of each part of one round, each alone."""
    samples = setup.collectors * setup.samples_each
    crowded = max(1.0, setup.collectors / (setup.cores * setup.machines))
    step = costs.step if setup.collectors == 1 else costs.busy_step
    return {
        "env steps": crowded * (setup.samples_each * step + costs.load),
        "network": (samples * costs.sample_bytes + setup.machines * costs.version_bytes) / setup.network,
        "reading experience": samples * costs.take,
        "calls": costs.call + (setup.collectors - 1) * costs.next_call,
        "publishing": costs.publish,
        "update": samples * costs.update,
    }


def rate(costs: Costs, setup: Setup, *, overlap: bool) -> tuple[float, str]:
    """Env steps per second, and the longest part. With `overlap` collectors, network and learner work at once."""
    found = parts(costs, setup)
    beside = {"env steps", "network"} if overlap else set()
    in_turn = {name: seconds for name, seconds in found.items() if name not in beside}
    seconds = max([sum(in_turn.values()), *(found[name] for name in beside)])
    longest = found if seconds > sum(in_turn.values()) else in_turn
    return setup.collectors * setup.samples_each / seconds, max(longest, key=lambda name: longest[name])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", default="BipedalWalker-v3")
    parser.add_argument("--envs-each", type=int, default=4, help="envs of each collector")
    parser.add_argument("--n-steps", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7, help="of measuring parts, then whole")
    parser.add_argument("--cores", type=int, default=32, help="of each machine with collectors")
    parser.add_argument("--network-gbit", type=float, default=10.0, help="of the learner's machine")
    parser.add_argument(
        "--gpu-steps", type=float, default=30.4e6 / EPOCHS, help="env steps/s a GPU learns from"
    )
    parser.add_argument("--image-samples", type=float, default=1.2e6, help="samples/s of images on one GPU")
    parser.add_argument("--image-epochs", type=int, default=4)
    parser.add_argument("--image-parameters", type=float, default=1.7e6)
    parser.add_argument("--image-minibatch", type=int, default=4096, help="of each GPU")
    parser.add_argument("--gpu-link-gbit", type=float, default=400.0, help="between machines of 8 GPUs")
    parser.add_argument("--sample-ms", type=float, default=1.9e3 / 795, help="self-play: a sampler, per turn")
    parser.add_argument(
        "--play-ms", type=float, default=0.7e3 / 795, help="the first learner, per turn: games, bots"
    )
    parser.add_argument("--learn-ms", type=float, default=1.8e3 / 795, help="a learner, per turn")
    parser.add_argument("--no-check", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(given, folder)
        try:
            found, ratios, speeds = [], {count: [] for count in COUNTS}, {count: [] for count in COUNTS}
            for _ in range(given.rounds):
                costs = bench.measure()
                found.append(costs)
                for count in () if given.no_check else COUNTS:
                    predicted, _ = rate(costs, bench.here(count), overlap=False)
                    measured = bench.run(count)
                    ratios[count].append(predicted / measured)
                    speeds[count].append((predicted, measured))
        finally:
            bench.close()
    costs = Costs(*(statistics.median(getattr(one, field.name) for one in found) for field in fields(Costs)))
    per_byte = hand_over_seconds()
    print_costs(costs, per_byte)
    if not given.no_check:
        print_check(ratios, speeds)
    print_collectors(costs, given)
    print_learners(given, per_byte)
    print_self_play(given)


class Bench:
    """The parts and the wholes, all there at once, so that they can be measured by turns."""

    def __init__(self, given: argparse.Namespace, folder: str) -> None:
        self.given = given
        self.cores = len(os.sched_getaffinity(0))
        self.session = connect("local", cpus=4)
        self.ray = import_ray()
        self.wholes: dict[int, NativeTrainer] = {}
        try:
            self.trainer = self._trainer(folder, None)
            learner = self.learner = self.trainer.learner
            config = self.trainer.config
            source = EnvSource(None, config)
            share = EnvShare(partial(source.make_vector, "serial"), source.reports_episodes, source.rebuild)
            scaled = config.model_copy(update={"scale": scale_for(1), "n_envs": given.envs_each})
            plan = plan_shards(scaled, scaled.scale, share, learner)[0]  # type: ignore[arg-type]
            self.actors = [
                self.ray.remote(ShardProcess).options(num_cpus=0.1).remote() for _ in range(self.cores)
            ]
            self.ray.get([actor.build.remote(plan) for actor in self.actors])
            self.ray.get([actor.ask.remote("barrier", 0) for actor in self.actors])
            for count in () if given.no_check else COUNTS:
                self.wholes[count] = self._trainer(folder, count)
                self.run(count)  # warm
            self.measure()
        except BaseException:
            self.close()
            raise

    def here(self, collectors: int) -> Setup:
        """So many collectors on this machine."""
        return Setup(collectors, self.given.envs_each * self.given.n_steps, self.cores, 1)

    def measure(self) -> Costs:
        """The costs of the parts, each alone on this machine."""
        ray, learner = self.ray, self.learner
        version = Version.of(0, learner.policy, learner.context.reward_normalizer)
        put = ray.put(version)
        first = self.actors[0]
        alone = [ray.get(first.ask.remote("collect", put)) for _ in range(3)]
        together = [
            harvest.seconds
            for _ in range(3)
            for harvest in ray.get([actor.ask.remote("collect", put) for actor in self.actors])
        ]
        samples = alone[0].experience.steps
        taken = []
        for _ in range(5):
            ticket = first.ask.remote("collect", put)
            ray.wait([ticket], fetch_local=True)
            taken.append(timed(lambda ticket=ticket: join([ray.get(ticket).experience] * 2), 1) / 2)
        call = timed(lambda: ray.get(first.location.remote()))
        calls = timed(lambda: ray.get([self.actors[i % self.cores].location.remote() for i in range(21)]), 5)
        update = [timed(partial(learner.update, join([harvest.experience]), 0.0), 1) for harvest in alone]
        return Costs(
            step=statistics.median(harvest.seconds for harvest in alone) / samples,
            busy_step=statistics.median(together) / samples,
            sample_bytes=size_of(alone[0]) / samples,
            take=statistics.median(taken) / samples,
            version_bytes=size_of(version),
            publish=timed(lambda: ray.put(Version.of(0, learner.policy, learner.context.reward_normalizer))),
            load=timed(lambda: version.load_into(learner.policy, learner.context.reward_normalizer)),
            call=call,
            next_call=max(0.0, calls - call) / 20,
            update=statistics.median(update) / samples,
        )

    def run(self, count: int) -> float:
        """Env steps per second of the whole, with so many collectors."""
        trainer = self.wholes[count]
        collector, learner = trainer.collector, trainer.learner
        assert collector is not None and learner is not None
        seconds = timed(lambda: learner.update(collector.collect(learner.policy), 0.0), 3)
        return count * self.given.envs_each * self.given.n_steps / seconds

    def close(self) -> None:
        for trainer in self.wholes.values():
            trainer.close()
        self.session.close()

    def _trainer(self, folder: str, collectors: int | None) -> NativeTrainer:
        config = TrainerConfig(
            env=self.given.env,
            n_envs=self.given.envs_each * (collectors or 1),
            vector="serial",
            hyperparams={"n_steps": self.given.n_steps, "batch_size": 64, "n_epochs": EPOCHS},
            save_dir=folder,
            scale=None if collectors is None else scale_for(collectors),
        )
        trainer = create_trainer(None, config)
        assert isinstance(trainer, NativeTrainer)
        trainer.create_model()
        if collectors is not None:
            assert trainer.collector is not None
            trainer.collector.barrier(0)
        return trainer


def scale_for(collectors: int) -> Any:
    # a share of a CPU each, on Ray's books: all are there at a time, and some of them play
    return ScaleConfig(ray="local", collectors=collectors, cpus_per_collector=0.25)


def timed(call: Any, repeats: int = 20) -> float:
    """Median seconds of a call."""
    found = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        found.append(time.perf_counter() - started)
    return statistics.median(found)


def size_of(thing: Any) -> int:
    """Bytes of what Ray moves: the pickle, and the arrays beside it."""
    arrays: list[pickle.PickleBuffer] = []
    return len(pickle.dumps(thing, protocol=5, buffer_callback=arrays.append)) + sum(
        array.raw().nbytes for array in arrays
    )


def hand_over_seconds(megabytes: int = 64) -> float:
    """Seconds per byte to hand experience to another learner, as `DistributedPeers.tell` does.

    Processor time of the one that hands over: other work on the machine would count for more than the copies.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    other = multiprocessing.get_context("spawn").Process(target=hand_over, args=(address, 1, megabytes))
    other.start()
    try:
        return hand_over(address, 0, megabytes)
    finally:
        other.join()


def hand_over(address: str, rank: int, megabytes: int) -> float:
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    thing = [np.zeros(megabytes * 10**6, dtype=np.uint8) if rank == 0 else None]

    found = []
    for _ in range(4):
        started = time.process_time()
        dist.broadcast_object_list(thing, src=0)
        found.append(time.process_time() - started)
        dist.barrier()
    dist.destroy_process_group()
    return min(found) / (megabytes * 1e6)


def print_costs(costs: Costs, per_byte: float) -> None:
    print("| part | cost |\n|---|---|")
    print(f"| a collector's step, alone | {costs.step * 1e6:,.0f} us |")
    print(f"| the same, all cores at it | {costs.busy_step * 1e6:,.0f} us |")
    print(f"| a sample on its way | {costs.sample_bytes:,.0f} bytes |")
    print(f"| the driver reads a sample | {costs.take * 1e6:.2f} us |")
    print(f"| a version | {costs.version_bytes / 1e3:,.0f} kB |")
    print(f"| publishing it, loading it | {costs.publish * 1e3:.2f} ms, {costs.load * 1e3:.2f} ms |")
    print(f"| a call of Ray, each further one | {costs.call * 1e3:.2f} ms, {costs.next_call * 1e3:.2f} ms |")
    print(f"| the update, per env step | {costs.update * 1e6:,.0f} us |")
    print(f"| handing experience to another learner | {1e-9 / per_byte:.2f} GB/s |")


def print_check(ratios: dict[int, list[float]], speeds: dict[int, list[tuple[float, float]]]) -> None:
    print(f"\nChecked on this machine, {len(os.sched_getaffinity(0))} cores, synchronous:\n")
    print(
        "| collectors | predicted, steps/s | measured, steps/s | predicted / measured | lowest to highest |"
    )
    print("|---|---|---|---|---|")
    for count, found in ratios.items():
        predicted, measured = (statistics.median(column) for column in zip(*speeds[count], strict=True))
        print(
            f"| {count} | {predicted:,.0f} | {measured:,.0f} | {statistics.median(found):.2f} "
            f"| {min(found):.2f} to {max(found):.2f} |"
        )


def print_collectors(costs: Costs, given: argparse.Namespace) -> None:
    on_gpu = replace(costs, update=1 / given.gpu_steps)
    print(
        f"\nPredicted for {given.env}, a core per collector, {given.network_gbit:g} Gbit/s, steps/s (bottleneck):\n"
    )
    print("| collectors | sync | async | async, the learner on a GPU |\n|---|---|---|---|")
    for count in (10, 100, 1000):
        setup = Setup(
            count,
            given.envs_each * given.n_steps,
            given.cores,
            machines=math.ceil(count / given.cores),
            network=given.network_gbit * 1e9 / 8,
        )
        cells = [
            rate(costs, setup, overlap=False),
            rate(costs, setup, overlap=True),
            rate(on_gpu, setup, overlap=True),
        ]
        print(f"| {count:,} | " + " | ".join(f"{speed:,.0f} ({name})" for speed, name in cells) + " |")


def print_learners(given: argparse.Namespace, per_byte: float) -> None:
    """PPO on images: each GPU computes its share, gradients are added up in a ring, all see the whole experience."""
    link = given.gpu_link_gbit * 1e9 / 8
    print(
        f"\nPredicted for PPO on images of 4x84x84, {given.image_samples:,.0f} samples/s on one GPU, minibatches of "
        f"{given.image_minibatch:,} for each, {given.image_epochs} epochs, {given.gpu_link_gbit:g} Gbit/s:\n"
    )
    print(
        "| GPUs | env steps/s | against one GPU | bottleneck | gradient steps alone, of perfect |\n"
        "|---|---|---|---|---|"
    )
    for count in (8, 16, 64, 256):
        machines = max(1, count // 8)
        computing = given.image_minibatch / given.image_samples
        ring = 2 * (machines - 1) / machines * given.image_parameters * 4 / link
        latency = 2 * 10e-6 * math.log2(count)  # some microseconds per hop, up and down a tree
        fresh = (
            count * given.image_minibatch / given.image_epochs * 4 * 84 * 84
        )  # bytes that this step first needs
        hops = math.ceil(math.log2(count))  # each hands it on to another
        found = {
            "computing": computing,
            "gradients": ring + latency,
            "experience to every learner": hops * fresh * max(per_byte, 1 / link),
        }
        steps = count * given.image_minibatch / given.image_epochs / sum(found.values())
        one = given.image_samples / given.image_epochs
        alone = computing / (computing + ring + latency)
        print(
            f"| {count} | {steps:,.0f} | {steps / one:.2f}x | {max(found, key=lambda name: found[name])} "
            f"| {alone:.0%} |"
        )


def print_self_play(given: argparse.Namespace) -> None:
    """Turns are answered by samplers side by side, games are played in one process, then learners learn."""
    print("\nPredicted for self-play, SmolLM2-135M, seven samplers for a learner:\n")
    print("| GPUs | turns/s | against one GPU | bottleneck |\n|---|---|---|---|")
    one = given.sample_ms + given.play_ms + given.learn_ms
    for count in (8, 16, 64, 256):
        found = {
            "sampling": given.sample_ms / (count * 7 / 8),
            "games, in one process": given.play_ms,
            "learning": given.learn_ms / (count / 8),
        }
        total = sum(found.values())
        print(
            f"| {count} | {1e3 / total:,.0f} | {one / total:.1f}x | {max(found, key=lambda name: found[name])} |"
        )


if __name__ == "__main__":
    main()

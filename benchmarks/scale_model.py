"""What collectors and GPUs would give beyond this machine: a model from the costs of the parts, checked here.

python benchmarks/scale_model.py                      # measures, predicts, and checks 1, 2 and 4 collectors here
python benchmarks/scale_model.py --network-gbit 25 --no-check

Measured: the seconds a collector takes per step, the bytes a sample takes on its way, what the driver pays to read and
join it, what a version costs to publish and to load, a call of Ray, and the update per sample. Predicted from them:
steps per second with one collector per core on other machines, and which part is the bottleneck. What is assumed, and
can be set: the network of the learner's machine, and for GPUs the samples per second of one, its links and the size of
the network. GPU figures default to those of docs/performance.md (4x84x84 images, batches of 4,096 on an H200).
"""

from __future__ import annotations

import argparse
import math
import os
import pickle
import statistics
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from ludus.config.schema import TrainerConfig
from ludus.scale.cluster import connect, import_ray
from ludus.scale.collectors import join
from ludus.scale.planning import EnvShare, plan_shards
from ludus.scale.shard import Shard, Version
from ludus.trainers.env_source import EnvSource
from ludus.trainers.factory import create_trainer
from ludus.trainers.native import NativeTrainer


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes of the parts of one collection and one update."""

    step: float  # a collector, per env step, the network included
    sample_bytes: float
    take: float  # the driver, per sample: out of the store, and joined
    version_bytes: float
    publish: float  # the driver, per version
    load: float  # a collector, per version
    call: float  # there and back, with nothing to do
    update: float  # the learner, per sample


@dataclass(frozen=True)
class Setup:
    """A run on so many collectors: what each does for one update, and what runs where."""

    collectors: int
    samples_each: int
    cores: float = math.inf  # of the machine, where all run on one
    network: float = math.inf  # bytes per second into and out of the learner's machine


def parts(costs: Costs, setup: Setup) -> dict[str, float]:
    """Seconds of each part of one synchronous round."""
    samples = setup.collectors * setup.samples_each
    crowded = max(1.0, setup.collectors / setup.cores)
    return {
        "env steps": crowded * (setup.samples_each * costs.step + costs.load),
        "experience": samples * (costs.take + costs.sample_bytes / setup.network),
        "publishing": costs.publish + setup.collectors * costs.version_bytes / setup.network,
        "calls": costs.call
        * (1 + 0.1 * (setup.collectors - 1)),  # they overlap but for what the driver does itself
        "update": samples * costs.update,
    }


def rate(costs: Costs, setup: Setup, overlap: bool) -> tuple[float, str]:
    """Env steps per second, and the part that takes longest. With `overlap` the learner and the envs work at once."""
    found = parts(costs, setup)
    playing = found["env steps"] + found["calls"]
    driving = found["experience"] + found["publishing"] + found["update"]
    seconds = max(playing, driving) if overlap else playing + driving
    return setup.collectors * setup.samples_each / seconds, max(found, key=lambda name: found[name])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", default="BipedalWalker-v3")
    parser.add_argument("--envs-each", type=int, default=4, help="envs of each collector")
    parser.add_argument("--n-steps", type=int, default=256)
    parser.add_argument("--network-gbit", type=float, default=10.0, help="of the learner's machine")
    parser.add_argument("--gpu-samples", type=float, default=1.2e6, help="samples/s that one GPU learns from")
    parser.add_argument("--gpu-parameters", type=float, default=1.7e6, help="of the network on GPUs")
    parser.add_argument("--gpu-minibatch", type=int, default=4096, help="of all GPUs together, per GPU")
    parser.add_argument("--gpu-link-gbit", type=float, default=400.0, help="between machines of 8 GPUs")
    parser.add_argument("--no-check", action="store_true")
    given = parser.parse_args()
    costs = measure(given)
    print_costs(costs)
    print_collectors(costs, given)
    print_gpus(given)
    if not given.no_check:
        check(costs, given)


def config_for(given: argparse.Namespace, folder: str, collectors: int, mode: str = "sync") -> TrainerConfig:
    return TrainerConfig(
        env=given.env,
        n_envs=given.envs_each * collectors,
        vector="serial",
        hyperparams={"n_steps": given.n_steps, "batch_size": 64, "n_epochs": 10},
        save_dir=folder,
        scale={"ray": "local", "collectors": collectors, "mode": mode},
    )


def measure(given: argparse.Namespace) -> Costs:
    """The costs of the parts, each alone on this machine."""
    with tempfile.TemporaryDirectory() as folder:
        config = config_for(given, folder, 1)
        trainer = create_trainer(None, config.model_copy(update={"scale": None}))
        assert isinstance(trainer, NativeTrainer)
        policy = trainer.create_model()
        learner: Any = trainer.learner
        source = EnvSource(None, config)
        share = EnvShare(partial(source.make_vector, "serial"), source.reports_episodes, source.rebuild)
        shard = Shard(plan_shards(trainer.config, config.scale, share, learner)[0])  # type: ignore[arg-type]
        shard.barrier(0)
        rewards = learner.place.reward_normalizer
        version = Version.of(0, policy, rewards)
        shard.collect(version)
        harvests = [shard.collect(version) for _ in range(4)]
        samples = harvests[0].experience.steps
        load = timed(lambda: version.load_into(shard.policy, rewards))
        update = statistics.median(
            timed(partial(learner.update, join([harvest.experience]), 0.0), 1) for harvest in harvests
        )
        shard.close()
        trainer.close()
    session = connect("local", cpus=2)
    ray = import_ray()

    @ray.remote(num_cpus=0.1)
    class Source:
        def nothing(self) -> None:
            return None

        def harvest(self) -> Any:
            return harvests[0]

    actor = Source.remote()
    ray.get(actor.harvest.remote())
    taken = []
    for _ in range(20):
        ticket = actor.harvest.remote()
        ray.wait([ticket], fetch_local=True)
        taken.append(timed(lambda ticket=ticket: join([ray.get(ticket).experience] * 2), 1) / 2)
    costs = Costs(
        step=statistics.median(harvest.seconds for harvest in harvests) / samples,
        sample_bytes=size_of(harvests[0]) / samples,
        take=statistics.median(taken) / samples,
        version_bytes=size_of(version),
        publish=timed(lambda: ray.put(version)),
        load=load,
        call=timed(lambda: ray.get(actor.nothing.remote())),
        update=update / samples,
    )
    session.close()
    return costs


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


def print_costs(costs: Costs) -> None:
    print("| part | cost |\n|---|---|")
    print(f"| a collector's step | {costs.step * 1e6:,.0f} us |")
    print(f"| a sample on its way | {costs.sample_bytes:,.0f} bytes |")
    print(f"| the driver takes a sample | {costs.take * 1e6:.2f} us |")
    print(f"| a version | {costs.version_bytes / 1e3:,.0f} kB |")
    print(f"| publishing it | {costs.publish * 1e3:.2f} ms |")
    print(f"| loading it | {costs.load * 1e3:.2f} ms |")
    print(f"| a call of Ray | {costs.call * 1e3:.2f} ms |")
    print(f"| the update, per sample | {costs.update * 1e6:,.0f} us |")


def print_collectors(costs: Costs, given: argparse.Namespace) -> None:
    network = given.network_gbit * 1e9 / 8
    print(f"\nPredicted for {given.env}, one core per collector, {given.network_gbit:g} Gbit/s:\n")
    print("| collectors | sync, steps/s | async, steps/s | bottleneck |\n|---|---|---|---|")
    for count in (10, 100, 1000):
        setup = Setup(count, given.envs_each * given.n_steps, network=network)
        (together, bottleneck), (apart, _) = rate(costs, setup, False), rate(costs, setup, True)
        print(f"| {count:,} | {together:,.0f} | {apart:,.0f} | {bottleneck} |")


def print_gpus(given: argparse.Namespace) -> None:
    """Data-parallel learners: each step is a share of the minibatch, then gradients are added up in a ring."""
    link = given.gpu_link_gbit * 1e9 / 8
    print(f"\nPredicted for learners, {given.gpu_samples:,.0f} samples/s on one GPU, minibatches of ")
    print(
        f"{given.gpu_minibatch:,} per GPU, {given.gpu_parameters:,.0f} parameters, {given.gpu_link_gbit:g} Gbit/s:\n"
    )
    print("| GPUs | samples/s | of perfect | bottleneck |\n|---|---|---|---|")
    for count in (8, 16, 64, 256):
        machines = max(1, count // 8)
        computing = given.gpu_minibatch / given.gpu_samples
        ring = 2 * (machines - 1) / machines * given.gpu_parameters * 4 / link
        latency = 2 * 10e-6 * math.log2(count)  # a few microseconds per hop, up and down a tree
        seconds = computing + ring + latency
        bottleneck = max(
            {"update": computing, "gradients": ring + latency}.items(), key=lambda item: item[1]
        )[0]
        achieved = count * given.gpu_minibatch / seconds
        print(f"| {count} | {achieved:,.0f} | {achieved / count / given.gpu_samples:.0%} | {bottleneck} |")


def check(costs: Costs, given: argparse.Namespace) -> None:
    """Predictions for this machine beside what it does."""
    cores = len(os.sched_getaffinity(0))
    print(f"\nChecked on this machine, {cores} cores:\n")
    print("| collectors | predicted, steps/s | measured, steps/s | predicted / measured |\n|---|---|---|---|")
    for count in (1, 2, 4):
        predicted, _ = rate(costs, Setup(count, given.envs_each * given.n_steps, cores=cores), False)
        with tempfile.TemporaryDirectory() as folder:
            trainer = create_trainer(None, config_for(given, folder, count))
            assert isinstance(trainer, NativeTrainer)
            trainer.create_model()
            collector, learner = trainer.collector, trainer.learner
            assert collector is not None and learner is not None
            collector.barrier(0)

            def round_trip(collector: Any = collector, learner: Any = learner) -> None:
                learner.update(collector.collect(learner.policy), 0.0)

            round_trip()
            measured = given.envs_each * given.n_steps * count / timed(round_trip, 5)
            trainer.close()
        print(f"| {count} | {predicted:,.0f} | {measured:,.0f} | {predicted / measured:.2f} |")


if __name__ == "__main__":
    main()

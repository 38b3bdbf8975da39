"""How much faster eight simulators are than one when each takes 10 ms for an answer.

    python benchmarks/unity.py [--n 8] [--latency-ms 10] [--rounds 15] [--steps 60]

The simulators are stand-ins in processes of their own, over TCP on loopback. One and many play in turn, so that other
work on the machine meets both; the figure is the median of the rounds, its range stands beside it. Ideal is a factor
of N; what is missing is the time that Ludus and the stand-ins need for themselves.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from ludus.envs.make import EnvSpec
from ludus.envs.unity.vector import UnityVectorEnv


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=8)
    parser.add_argument("--latency-ms", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=60, help="vector steps of each in a round")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with envs_of(1, given.latency_ms) as one, envs_of(given.n, given.latency_ms) as many:
        for envs in (one, many):
            steps_per_second(envs, 20)  # to warm up
            envs.take_metrics()
        rounds = [[steps_per_second(envs, given.steps) for envs in (one, many)] for _ in range(given.rounds)]
        metrics = [envs.take_metrics() for envs in (one, many)]
    factors = [fast / slow for slow, fast in rounds]
    rates = [statistics.median(column) for column in zip(*rounds, strict=True)]
    factor = statistics.median(factors)
    if given.json:
        print(
            json.dumps({"steps_per_second": rates, "factor": factor, "factors": factors, "metrics": metrics})
        )
        return
    for n, rate, row in zip((1, given.n), rates, metrics, strict=True):
        print(
            f"{n:>3} at {given.latency_ms:g} ms: {rate:7.1f} steps/s   an answer takes {row['time/sim_ms']:.1f} ms"
            f" (p99 {row['time/sim_ms_p99']:.1f})"
        )
    print(f"factor {factor:.2f} of {given.n} (lowest {min(factors):.2f}, highest {max(factors):.2f})")


def steps_per_second(envs: UnityVectorEnv, steps: int) -> float:
    """Env steps in a second, with random actions."""
    rng = np.random.default_rng(0)
    started = time.perf_counter()
    for _ in range(steps):
        envs.step(rng.uniform(-1.0, 1.0, (envs.num_envs, 2)).astype(np.float32))
    return envs.num_envs * steps / (time.perf_counter() - started)


@contextlib.contextmanager
def envs_of(n: int, latency_ms: float) -> Iterator[UnityVectorEnv]:
    """`n` envs in an episode, with simulators of their own."""
    with simulators(n, latency_ms) as port:
        envs = UnityVectorEnv(EnvSpec("ludus/Unity-v0", kwargs={"use_case": "uc1", "port": port}), n)
        try:
            envs.reset()
            yield envs
        finally:
            envs.close()


@contextlib.contextmanager
def simulators(n: int, latency_ms: float) -> Iterator[int]:
    """Stand-ins that connect to the ports from the one given on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    command = [sys.executable, "-m", "ludus", "unity", "simulator", "--n", str(n), "--port", str(port)]
    process = subprocess.Popen([*command, "--latency-ms", str(latency_ms)], stdout=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()

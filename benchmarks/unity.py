"""How much faster eight simulators are than one when each takes 10 ms for an answer.

    python benchmarks/unity.py [--n 8] [--latency-ms 10] [--steps 300]

The simulators are stand-ins in a process of their own, over TCP on loopback. Ideal is a factor of N; what is missing is
the time that Ludus and the stand-ins need for themselves, and simulators that wait for another's next episode.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
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
    parser.add_argument("--steps", type=int, default=300, help="vector steps to time")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with simulators(given.n, given.latency_ms) as port:
        one = measure(port, 1, given.steps)
        many = measure(port, given.n, given.steps)
    factor = many["steps_per_second"] / one["steps_per_second"]
    if given.json:
        print(json.dumps({"one": one, "many": many, "factor": factor}))
        return
    for row in (one, many):
        print(
            f"{row['n']:>3} simulators at {given.latency_ms:g} ms: {row['steps_per_second']:8.1f} steps/s"
            f"   an answer takes {row['sim_ms']:.1f} ms (p99 {row['sim_ms_p99']:.1f})"
        )
    print(f"factor {factor:.2f} of {given.n}")


def measure(port: int, n: int, steps: int) -> dict[str, float]:
    """Steps per second of `n` envs with random actions, after a few to warm up."""
    envs = UnityVectorEnv(EnvSpec("ludus/Unity-v0", kwargs={"use_case": "uc1", "port": port}), n)
    rng = np.random.default_rng(0)

    def play(count: int) -> float:
        started = time.perf_counter()
        for _ in range(count):
            envs.step(rng.uniform(-1.0, 1.0, (n, 2)).astype(np.float32))
        return time.perf_counter() - started

    try:
        envs.reset()
        play(20)
        envs.take_metrics()
        seconds = play(steps)
        metrics = envs.take_metrics()
    finally:
        envs.close()
    return {
        "n": n,
        "steps_per_second": n * steps / seconds,
        "sim_ms": metrics["time/sim_ms"],
        "sim_ms_p99": metrics["time/sim_ms_p99"],
    }


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

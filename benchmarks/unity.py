"""Unity on stand-in simulators: how much eight give over one, and what PPO learns against them.

python benchmarks/unity.py speed                      # simulators that take 10 ms for an answer, one and eight
python benchmarks/unity.py learn --use-case uc2       # train, kill, resume, and rate beside a scripted driver

The simulators are processes of their own, over TCP on loopback. `learn` writes its runs below --folder and prints a
table: mean return and share of successes over --episodes, as many on each simulator.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ludus.envs.make import EnvSpec
from ludus.evaluation.load import load
from ludus.games.unity.vector import UnityVectorEnv

SIMULATORS = 8
Choose = Callable[[Any], Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_subparsers(dest="what", required=True)
    fast = what.add_parser("speed")
    fast.add_argument("--latency-ms", type=float, default=10.0)
    fast.add_argument("--rounds", type=int, default=15)
    fast.add_argument("--steps", type=int, default=60, help="vector steps of each in a round")
    good = what.add_parser("learn")
    good.add_argument("--use-case", choices=["uc1", "uc2", "uc3"], default="uc1")
    good.add_argument("--steps", type=lambda text: int(text.replace("_", "")), help="default: the preset's")
    good.add_argument("--episodes", type=int, default=80)
    good.add_argument("--folder", type=Path, default=Path(".benchmarks/unity"))
    good.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    given = parser.parse_args()
    if given.what == "speed":
        speed(given.latency_ms, given.rounds, given.steps)
    else:
        learn(given.use_case, given.steps, given.episodes, given.folder, given.overrides)


def speed(latency_ms: float, rounds: int, steps: int) -> None:
    """Steps per second of one and of eight, in turn, so that other work on the machine meets both."""
    with playing(1, latency_ms) as one, playing(SIMULATORS, latency_ms) as many:
        for envs in (one, many):
            steps_per_second(envs, 20)  # to warm up
            envs.take_metrics()
        rates = [[steps_per_second(envs, steps) for envs in (one, many)] for _ in range(rounds)]
        metrics = [envs.take_metrics() for envs in (one, many)]
    factors = [fast / slow for slow, fast in rates]
    for n, column, row in zip((1, SIMULATORS), zip(*rates, strict=True), metrics, strict=True):
        print(
            f"{n:>3} at {latency_ms:g} ms: {statistics.median(column):7.1f} steps/s"
            f"   an answer takes {row['time/sim_ms']:.1f} ms (p99 {row['time/sim_ms_p99']:.1f})"
        )
    factor = statistics.median(factors)
    print(
        f"factor {factor:.2f} of {SIMULATORS}, median of {rounds} rounds"
        f" (lowest {min(factors):.2f}, highest {max(factors):.2f})"
    )


def steps_per_second(envs: UnityVectorEnv, steps: int) -> float:
    """Env steps in a second, with random actions."""
    rng = np.random.default_rng(0)
    started = time.perf_counter()
    for _ in range(steps):
        envs.step(rng.uniform(-1.0, 1.0, (envs.num_envs, 2)).astype(np.float32))
    return envs.num_envs * steps / (time.perf_counter() - started)


def learn(use_case: str, steps: int | None, episodes: int, folder: Path, overrides: list[str]) -> None:
    """PPO on eight simulators: killed on the way, resumed, and rated beside a driver by hand and one by chance."""
    folder = folder / use_case
    with simulators(use_case, SIMULATORS, 0.0) as port:
        command = [sys.executable, "-m", "ludus", "train", f"unity-{use_case}", "--resume", *overrides]
        command += [f"save_dir={folder}", f"env.kwargs.port={port}"]
        command += [] if steps is None else [f"total_timesteps={steps}"]
        rate(use_case, port, train_through_a_kill(command, folder), episodes)


def rate(use_case: str, port: int, run: Path, episodes: int) -> None:
    """Print how the best policy of `run` fares beside the two others."""
    envs = UnityVectorEnv(EnvSpec("ludus/Unity-v0", kwargs={"use_case": use_case, "port": port}), SIMULATORS)
    rng = np.random.default_rng(0)
    size = (SIMULATORS, *envs.single_action_space.shape)
    players: dict[str, Choose] = {
        "random": lambda obs: rng.uniform(-1.0, 1.0, size).astype(np.float32),
        "scripted": scripted,
        f"PPO ({run.name})": load(str(run)).predict,
    }
    print(f"\n{use_case}, {episodes} episodes each:")
    try:
        for name, choose in players.items():
            returns, successes = play(envs, choose, episodes // SIMULATORS)
            spread = f"{np.mean(returns):7.2f} ± {np.std(returns):.2f}"
            print(f"  {name:<44} {spread}   {np.mean(successes):.0%} succeed", flush=True)
    finally:
        envs.close()


def scripted(obs: Any) -> Any:
    """Heads for the target, past no obstacle; with a turret, aims at it and fires when it points there."""
    bearing = np.arctan2(-obs[:, 0], obs[:, 1])
    drive = [np.cos(bearing), np.clip(bearing, -1.0, 1.0)]
    if obs.shape[1] > 25:
        turret = np.arctan2(obs[:, 26], obs[:, 27])
        off = np.angle(np.exp(1j * (bearing - turret)))
        drive += [np.clip(off / 0.55, -1.0, 1.0), np.where(np.abs(off) < 0.1, 1.0, -1.0)]
    return np.stack(drive, axis=1).astype(np.float32)


def play(envs: UnityVectorEnv, choose: Choose, each: int) -> tuple[list[float], list[bool]]:
    """Returns and successes of the first `each` episodes of every env: as many short ones as long ones."""
    obs, _ = envs.reset()
    returns: list[list[float]] = [[] for _ in range(envs.num_envs)]
    successes: list[bool] = []
    running = np.zeros(envs.num_envs)
    while min(map(len, returns)) < each:
        obs, rewards, terminated, truncated, infos = envs.step(choose(np.asarray(obs)))
        running += rewards
        for index in np.flatnonzero(terminated | truncated):
            if len(returns[index]) < each:
                returns[index].append(float(running[index]))
                successes.append(bool(infos["final_info"]["is_success"][index]))
            running[index] = 0.0
    return [one for of_env in returns for one in of_env], successes


def train_through_a_kill(command: list[str], folder: Path) -> Path:
    """Train, kill -9 after the first checkpoint, train on to the end; the run."""
    running = subprocess.Popen(command)
    while running.poll() is None and not list(folder.glob("*/*/*/checkpoints/latest.json")):
        time.sleep(0.2)
    if running.poll() is None:
        running.send_signal(signal.SIGKILL)
        print("killed; going on", flush=True)
    running.wait()
    subprocess.run(command, check=True)
    run = max(folder.glob("*/*/*"), key=os.path.getmtime)
    info = json.loads((run / "run.json").read_text("utf-8"))
    print(f"{run}: {info['status']} at step {info['steps']:,}")
    return run


@contextlib.contextmanager
def playing(n: int, latency_ms: float) -> Iterator[UnityVectorEnv]:
    """`n` envs in an episode, with simulators of their own."""
    with simulators("uc1", n, latency_ms) as port:
        envs = UnityVectorEnv(EnvSpec("ludus/Unity-v0", kwargs={"port": port}), n)
        try:
            envs.reset()
            yield envs
        finally:
            envs.close()


@contextlib.contextmanager
def simulators(use_case: str, n: int, latency_ms: float) -> Iterator[int]:
    """Stand-ins that connect to the ports from the one given on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    command = [sys.executable, "-m", "ludus", "unity", "simulator", "--use-case", use_case]
    command += ["--n", str(n), "--port", str(port), "--latency-ms", str(latency_ms)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()

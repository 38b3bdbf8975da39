"""DIAMBRA on stand-in engines: how much eight engines give over one, and what PPO learns against them.

python benchmarks/diambra.py speed             # engines that take 10 ms a step, one and eight of them
python benchmarks/diambra.py learn             # train, kill, resume, and rate beside the bots

Run it where the extra diambra is installed. `learn` writes its runs below --folder and prints a table.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ludus.envs.make import EnvSpec, make_vectorized_env
from ludus.evaluation.evaluate import evaluate
from ludus.evaluation.load import load
from ludus.games.diambra.bots import BOTS, make_bot

GAME = "diambra/sfiii3n"
ENGINES = 8
STEP_MS = 10.0
PRESET = "diambra-standin"
EPISODES = 20


def main() -> None:
    # this file's own folder would have it imported in place of the client, which is called the same
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).resolve().parent]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["speed", "learn"])
    parser.add_argument("--folder", type=Path, default=Path(".benchmarks/diambra"), help="of learn")
    parser.add_argument("--repeats", type=int, default=5, help="of speed")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="of learn")
    asked = parser.parse_args()
    if asked.what == "speed":
        speed(asked.repeats)
    else:
        learn(asked.folder, asked.overrides)


def speed(repeats: int) -> None:
    """Steps per second through the official client, one worker for each engine."""
    rates: dict[int, list[float]] = {1: [], ENGINES: []}
    with engines(ENGINES, STEP_MS) as addresses:
        for _ in range(repeats):  # in turn, so that whatever else the machine does meets both
            for number, found in rates.items():
                os.environ["DIAMBRA_ENVS"] = " ".join(addresses[:number])
                found.append(_rate(number))
    one, many = (statistics.median(found) for found in rates.values())
    print(f"engines that take {STEP_MS:g} ms a step, {os.cpu_count()} cores, median of {repeats}:")
    print(f"  1 engine   {one:7.1f} steps/s")
    print(f"  {ENGINES} engines  {many:7.1f} steps/s: {many / one:.1f} times as many")


def _rate(number: int, seconds: float = 4.0) -> float:
    wrappers = {"scale": True, "exclude_image_scaling": True, "role_relative": True, "filter_keys": "auto"}
    spec = EnvSpec(GAME, {"frame_shape": [84, 84, 1], "wrappers_settings": wrappers})
    envs = make_vectorized_env(spec, number, "process")
    try:
        envs.reset(seed=1)
        actions = np.zeros((number, 2), dtype=np.int64)
        for _ in range(20):
            envs.step(actions)
        steps, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            envs.step(actions)
            steps += number
        return steps / (time.perf_counter() - began)
    finally:
        envs.close()


def learn(folder: Path, overrides: list[str]) -> None:
    """PPO on eight engines: killed on the way, resumed, and rated beside the bots on the same seeds."""
    command = [sys.executable, "-m", "ludus", "train", PRESET, "--resume", f"save_dir={folder}", *overrides]
    with engines(ENGINES, 0.0) as addresses:
        os.environ["DIAMBRA_ENVS"] = " ".join(addresses)
        run = _train_through_a_kill(command, folder)
        policy = load(str(run), folder)
        spec = policy.env_spec().resolve()
        env = spec()
        spaces = env.observation_space, env.action_space
        env.close()
        print(f"\nmean return over {EPISODES} episodes, from the same seeds:")
        players = {name: make_bot(name, *spaces, seed=1) for name in BOTS} | {f"PPO ({run.name})": policy}
        for name, player in players.items():
            result = evaluate(player, spec, range(1000, 1000 + EPISODES), deterministic=False)
            length = f"{result.mean_length:,.0f} steps"
            print(f"  {name:<40} {result.mean_reward:7.2f} ± {result.std_reward:.2f}   {length}", flush=True)


def _train_through_a_kill(command: list[str], folder: Path) -> Path:
    """Train, kill -9 after the first checkpoint, train on to the end; the run."""
    running = subprocess.Popen(command)
    while running.poll() is None and not list(folder.glob("*/*/*/checkpoints/latest.json")):
        time.sleep(1.0)
    if running.poll() is None:
        running.send_signal(signal.SIGKILL)
        print("killed; going on", flush=True)
    running.wait()
    subprocess.run(command, check=True)
    (run,) = folder.glob("*/*/*")
    info = json.loads((run / "run.json").read_text("utf-8"))
    print(f"{run}: {info['status']} at step {info['steps']:,}")
    return run


@contextmanager
def engines(number: int, step_ms: float) -> Iterator[list[str]]:
    """So many stand-in engines, each a process; their addresses."""
    command = [sys.executable, "-m", "ludus", "diambra", "engine", "--port", "0", "--until-eof"]
    command += ["--step-ms", str(step_ms)]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(number)
    ]
    try:
        yield [one.stdout.readline().split(" at ")[1].split(",")[0] for one in started if one.stdout]
    finally:
        for one in started:
            one.terminate()
            one.wait()


if __name__ == "__main__":
    main()

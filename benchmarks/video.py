"""What the overlay of a video costs, on BipedalWalker: `python benchmarks/video.py [RUN] [--rounds 7]`.

Plays the same steps three ways, in turn, several times: rendered and thrown away, written as a plain video, and
written with the overlay. Prints the median time of a frame each way and the ratios within each round.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from ludus.config.schema import TrainerConfig
from ludus.envs.make import EnvSpec
from ludus.envs.signals import Signals
from ludus.evaluation.load import load, new_learner
from ludus.evaluation.moments import Telling
from ludus.evaluation.screen import prepare_pygame
from ludus.evaluation.video import Scene, record_scenes

ENV = "BipedalWalker-v3"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", nargs="?", help="a run on BipedalWalker; default: an untrained PPO policy")
    parser.add_argument("--frames", type=int, default=600, help="of each way, over several episodes")
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    prepare_pygame()
    spec = EnvSpec(ENV, render_mode="rgb_array").resolve()
    env = spec()
    if asked.run is None:
        torch.manual_seed(0)
        learner = new_learner(TrainerConfig(env=ENV), env.observation_space, env.action_space)
        actor = learner.policy
    else:
        actor = load(asked.run)
    env.close()
    scene = Scene(actor, spec, "benchmark", ENV)

    def rendered() -> None:
        env, frames, seed = spec(), 0, 0
        while frames < asked.frames:
            for _ in Telling(actor, env, seed, Signals(), deterministic=False):
                env.render()
                frames += 1
                if frames == asked.frames:
                    break
            seed += 1
        env.close()

    def filmed(overlay: bool) -> None:
        with tempfile.TemporaryDirectory() as folder:
            record_scenes(
                [scene],
                Path(folder) / "film.mp4",
                episodes=asked.frames,
                max_frames=asked.frames,
                deterministic=False,
                overlay=overlay,
            )

    ways = {"rendered": rendered, "plain": lambda: filmed(False), "overlay": lambda: filmed(True)}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for round_number in range(asked.rounds + 1):
        for name, way in ways.items():
            torch.manual_seed(round_number)
            start = time.perf_counter()
            way()
            if round_number:  # the first warms up
                times[name].append((time.perf_counter() - start) / asked.frames * 1e3)
    for name, taken in times.items():
        print(
            f"{name:10s} {statistics.median(taken):6.2f} ms a frame   ({min(taken):.2f} to {max(taken):.2f})"
        )
    for base in ("plain", "rendered"):
        ratios = [over / under for over, under in zip(times["overlay"], times[base], strict=True)]
        print(
            f"overlay / {base:9s} {statistics.median(ratios):5.2f}   ({min(ratios):.2f} to {max(ratios):.2f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

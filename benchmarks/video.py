"""What the overlay of a video costs, on BipedalWalker: `python benchmarks/video.py [RUN] [--rounds 7]`.

Plays the same steps three ways, in turn, several times: rendered and thrown away, written as a plain video, and
written with the overlay. Prints the median time of a frame each way, by the clock and in processor time, and the
ratios within each round.
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
from ludus.evaluation.episode_trace import EpisodeTrace
from ludus.evaluation.load import load, new_learner
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
        actor = learner.policy.eval()
    else:
        actor = load(asked.run)
    env.close()
    scene = Scene(actor, spec, "benchmark", ENV)

    def rendered() -> None:
        env, frames, seed = spec(), 0, 0
        while frames < asked.frames:
            for _ in EpisodeTrace(actor, env, seed, Signals(), deterministic=False):
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
    clocks = {"wall": time.perf_counter, "cpu": time.process_time}
    times: dict[tuple[str, str], list[float]] = {(clock, name): [] for clock in clocks for name in ways}
    for round_number in range(asked.rounds + 1):
        for name, way in ways.items():
            torch.manual_seed(round_number)
            start = {clock: read() for clock, read in clocks.items()}
            way()
            for clock, read in clocks.items():
                if round_number:  # the first warms up
                    times[clock, name].append((read() - start[clock]) / asked.frames * 1e3)
    for clock in clocks:
        for name in ways:
            print(f"{clock:5s}{name:20s} {_spread(times[clock, name])} ms a frame")
        for base in ("plain", "rendered"):
            pairs = zip(times[clock, "overlay"], times[clock, base], strict=True)
            print(f"{clock:5s}{'overlay / ' + base:20s} {_spread([over / under for over, under in pairs])}")
    return 0


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):6.2f}   ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())

"""Hours of training in one process: whether memory, file descriptors, threads and processes stay what they were.

    python benchmarks/soak.py [--minutes 60] [--plot soak.png] [--json]

Short trainings follow one another, round after round: all native algorithms, with fused kernels and in torch, envs in
the same process and in workers, Balatro's batched games, a league of language models in self-play; each is
checkpointed, evaluated and closed, and its files are deleted. Twice a second the process and its workers are weighed;
after each training, when its workers are gone and the garbage is collected, the process alone.

What grows is told by the weights after trainings: a line is fitted through them, with a level of its own for every
kind of training, from the end of the warm-up (two rounds) on. The verdict is "flat" where memory grows by less than
ALLOWED an hour, or by nothing that can be told from the scatter, and descriptors, threads and processes never exceed
what they were after the warm-up. A soak of minutes cannot tell a slow leak: the uncertainty beside the slope says what
it can tell.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ALLOWED = 16.0  # MiB an hour
WARM_UP_ROUNDS = 2
EVERY_S = 0.5
_WEIGHING = threading.Lock()  # to weigh takes descriptors, which the other would count
_PAGE = os.sysconf("SC_PAGE_SIZE")
_QUICK = ["tracking.tensorboard=true", "evaluation.episodes=2", "checkpoint.keep=2"]


@dataclass(frozen=True)
class Training:
    name: str
    source: str
    """A preset."""
    overrides: list[str]


def _training(name: str, source: str, overrides: str) -> Training:
    return Training(name, source, [one.strip() for one in overrides.split(";")])


TRAININGS = [
    _training("PPO, kernels", "cartpole-ppo", "total_timesteps=8_192; vector=serial"),
    _training("PPO, torch, workers", "cartpole-ppo", "total_timesteps=1_024; vector=process; kernels=false"),
    _training("A2C, kernels", "cartpole-a2c", "total_timesteps=5_000"),
    _training("DQN, kernels", "cartpole-dqn", "total_timesteps=2_500"),
    _training("SAC, kernels", "pendulum-sac", "total_timesteps=800; hyperparams.learning_starts=500"),
    _training(
        "SAC, torch", "pendulum-sac", "total_timesteps=600; hyperparams.learning_starts=500; kernels=false"
    ),
    _training("PPO, Balatro", "balatro", "total_timesteps=4_096; n_envs=64; evaluation.episodes=4"),
    _training("PPO, text game", "tictactoe-ppo", "total_timesteps=1_024"),
    _training(
        "self-play, league",
        "tictactoe-tiny",
        "total_timesteps=2 updates; warmup=null; games.open=32; games.turns=64; checkpoint.every=1 updates; "
        "evaluation.every=1 updates; league.eval_games=4; league.opponents=lagged; league.train=[]; "
        "league.mirror_share=0.5; hyperparams.mini_batch_size=32",
    ),
]


@dataclass(frozen=True)
class Weight:
    """What a process, or it with all below it, takes."""

    seconds: float
    memory: float
    """MiB resident."""
    descriptors: int
    threads: int
    processes: int


@dataclass
class Soak:
    """All that was weighed: `after[name]` when a training of that name had ended, `during` at all times."""

    began: float = field(default_factory=time.monotonic)
    after: dict[str, list[Weight]] = field(default_factory=dict)
    during: list[Weight] = field(default_factory=list)
    trainings: int = 0
    rounds: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--plot", type=Path, default=Path("soak.png"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", help="names of trainings, with | between them")
    arguments = parser.parse_args()
    if not sys.platform.startswith("linux"):
        sys.exit("this reads /proc")
    wanted = [one for one in TRAININGS if arguments.only is None or one.name in arguments.only.split("|")]
    soak = run(wanted, arguments.minutes * 60, say=lambda text: print(text, file=sys.stderr, flush=True))
    found = judge(soak)
    if arguments.json:
        print(json.dumps(found))
    else:
        print(table(found))
    draw(soak, found, arguments.plot)
    print(f"plot: {arguments.plot}", file=sys.stderr)
    sys.exit(0 if found["verdict"] == "flat" else 1)


def run(trainings: list[Training], seconds: float, say: Callable[[str], None]) -> Soak:
    """Train by turns until the time is over, at least three rounds."""
    soak = Soak()
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(soak, over), daemon=True)
    watcher.start()
    with tempfile.TemporaryDirectory(prefix="ludus-soak-") as folder:
        while soak.rounds < WARM_UP_ROUNDS + 1 or time.monotonic() - soak.began < seconds:
            for training in trainings:
                train(training, Path(folder))
                gc.collect()
                with _WEIGHING:
                    weight = weigh([os.getpid()], time.monotonic() - soak.began)
                soak.after.setdefault(training.name, []).append(weight)
                soak.trainings += 1
            soak.rounds += 1
            say(
                f"round {soak.rounds}, {weight.seconds / 60:.1f} min: {weight.memory:.0f} MiB, {weight.descriptors} "
                f"descriptors, {weight.threads} threads, {len(family())} processes"
            )
    over.set()
    watcher.join()
    return soak


def train(training: Training, folder: Path) -> None:
    from ludus.config.loading import load_config
    from ludus.training.factory import create_trainer

    place = folder / "runs"
    config = load_config(training.source, [*_QUICK, *training.overrides, f"save_dir={place}"]).config
    trainer = create_trainer(None, config)
    try:
        result = trainer.train()
    finally:
        trainer.close()
        shutil.rmtree(place, ignore_errors=True)
    if result.exit_code:  # the training was asked to stop, and who asked meant all of them
        sys.exit(result.exit_code)


def _watch(soak: Soak, over: threading.Event) -> None:
    while not over.wait(EVERY_S):
        with _WEIGHING:
            soak.during.append(weigh(family(), time.monotonic() - soak.began))


def family() -> list[int]:
    """This process and all below it."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                parent = int(Path(entry.path, "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue  # it has ended
            children.setdefault(parent, []).append(int(entry.name))
    found, pending = [], [os.getpid()]
    while pending:
        found.append(pending.pop())
        pending += children.get(found[-1], [])
    return found


def weigh(processes: list[int], seconds: float) -> Weight:
    memory, descriptors, threads, counted = 0, 0, 0, 0
    for pid in processes:
        try:
            memory += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
            descriptors += len(os.listdir(f"/proc/{pid}/fd"))
            threads += len(os.listdir(f"/proc/{pid}/task"))
            counted += 1
        except (OSError, IndexError):
            continue  # it has ended
    return Weight(seconds, memory / 2**20, descriptors, threads, counted)


def judge(soak: Soak) -> dict[str, Any]:
    """The slope of memory in MiB an hour with twice its standard error, and by how much the rest grew at the most."""
    kept = {name: weights[WARM_UP_ROUNDS:] for name, weights in soak.after.items()}
    slope, error = _slope(kept)
    warm = {name: weights[:WARM_UP_ROUNDS] for name, weights in soak.after.items()}
    grown = {
        what: max(
            max(getattr(weight, what) for weight in kept[name])
            - max(getattr(weight, what) for weight in warm[name])
            for name in kept
        )
        for what in ("descriptors", "threads", "processes")
    }
    flat = (slope < ALLOWED or slope - error < 0) and all(more <= 0 for more in grown.values())
    return {
        "minutes": round(max(w[-1].seconds for w in soak.after.values()) / 60, 1),
        "rounds": soak.rounds,
        "trainings": soak.trainings,
        "verdict": "flat" if flat else "it grows",
        "memory_slope_mib_per_hour": round(slope, 1),
        "memory_slope_uncertainty": round(error, 1),
        "peak_memory_mib_with_workers": round(max((w.memory for w in soak.during), default=0.0)),
        "grown": grown,
        "trainings_by_name": {
            name: {
                "times": len(weights),
                "memory_mib": [round(weights[WARM_UP_ROUNDS - 1].memory, 1), round(weights[-1].memory, 1)],
                "descriptors": [weights[WARM_UP_ROUNDS - 1].descriptors, weights[-1].descriptors],
                "threads": [weights[WARM_UP_ROUNDS - 1].threads, weights[-1].threads],
            }
            for name, weights in soak.after.items()
        },
    }


def _slope(kept: dict[str, list[Weight]]) -> tuple[float, float]:
    """MiB an hour through the weights of all trainings, each kind on a level of its own; and two standard errors."""
    rows = [(number, weight) for number, weights in enumerate(kept.values()) for weight in weights]
    levels = np.zeros((len(rows), len(kept) + 1))
    for row, (number, weight) in enumerate(rows):
        levels[row, number] = 1.0
        levels[row, -1] = weight.seconds / 3600
    memory = np.array([weight.memory for _, weight in rows])
    fitted = np.linalg.lstsq(levels, memory, rcond=None)[0]
    freedom = len(rows) - len(kept) - 1
    if freedom < 1:
        return float(fitted[-1]), float("inf")
    variance = float(((memory - levels @ fitted) ** 2).sum()) / freedom
    return float(fitted[-1]), 2 * float(np.sqrt(variance * np.linalg.pinv(levels.T @ levels)[-1, -1]))


def table(found: dict[str, Any]) -> str:
    lines = [
        f"{'training':22} {'times':>5}  {'MiB, warm':>9} {'MiB, end':>9}  {'descriptors':>11}  {'threads':>7}"
    ]
    for name, one in found["trainings_by_name"].items():
        (warm, end), (before, after), (few, many) = one["memory_mib"], one["descriptors"], one["threads"]
        lines.append(
            f"{name:22} {one['times']:5}  {warm:9.1f} {end:9.1f}  {f'{before} -> {after}':>11}  {f'{few} -> {many}':>7}"
        )
    grown = ", ".join(f"{what} {more:+d}" for what, more in found["grown"].items())
    lines += [
        "",
        f"{found['minutes']} minutes, {found['rounds']} rounds, {found['trainings']} trainings in one process",
        f"memory: {found['memory_slope_mib_per_hour']:+.1f} MiB an hour (± {found['memory_slope_uncertainty']:.1f}) "
        f"after the warm-up; at most {found['peak_memory_mib_with_workers']} MiB with all workers",
        f"most beyond the warm-up: {grown}",
        f"verdict: {found['verdict']}",
    ]
    return "\n".join(lines)


def draw(soak: Soak, found: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (memory, counts) = plt.subplots(2, 1, figsize=(10, 7), sharex=True, layout="constrained")
    minutes = [weight.seconds / 60 for weight in soak.during]
    memory.plot(
        minutes,
        [w.memory for w in soak.during],
        color="0.8",
        linewidth=0.6,
        label="with workers, at all times",
    )
    for name, weights in soak.after.items():
        memory.plot(
            [w.seconds / 60 for w in weights],
            [w.memory for w in weights],
            marker=".",
            linewidth=1,
            label=name,
        )
    memory.set(ylabel="MiB resident", ylim=(0, None), title=(
        f"{found['trainings']} trainings in one process: {found['memory_slope_mib_per_hour']:+.1f} MiB an hour "
        f"(± {found['memory_slope_uncertainty']:.1f}), {found['verdict']}"))  # fmt: skip
    memory.legend(fontsize=7, ncols=3, loc="lower right")
    ends = sorted((weight for weights in soak.after.values() for weight in weights), key=lambda w: w.seconds)
    for what in ("descriptors", "threads", "processes"):
        counts.plot(minutes, [getattr(w, what) for w in soak.during], linewidth=0.5, alpha=0.35, color="0.5")
        counts.plot(
            [w.seconds / 60 for w in ends],
            [getattr(w, what) for w in ends],
            marker=".",
            linewidth=1,
            label=what,
        )
    counts.set(xlabel="minutes", ylabel="after each training (grey: with workers)", ylim=(0, None))
    counts.legend(fontsize=8)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()

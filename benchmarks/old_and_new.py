"""Time two source trees against each other, alternating between them in one call.

git worktree add ../before ebb3eb2
python benchmarks/old_and_new.py ../before . --times 9
python benchmarks/old_and_new.py ../before . --times 3 --only dqn-start balatro

Each measurement is a process of its own that imports Ludus from one of the trees. Before the ones that count, each tree
has one that compiles its kernels. Old and new alternate, and each goes first in turn, so that load from elsewhere hits
both. A ratio is old / new, of medians: above 1 the new tree is faster. `process` is a whole process with its imports,
`work` only what follows the imports; both as wall time and as CPU time, which a busy machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _training(env: str, algorithm: str, steps: int, n_envs: int, **hyperparams: Any) -> Callable[[], None]:
    from ludus import TrainerConfig, create_trainer

    def work() -> None:
        config = TrainerConfig(
            algorithm=algorithm, n_envs=n_envs, total_timesteps=steps, seed=1, hyperparams=hyperparams
        )
        create_trainer(env, config).train()

    return work


def _balatro() -> Callable[[], None]:
    try:
        from ludus.games.balatro.speed import engine_speed
    except ImportError:  # before games were plugins
        from ludus.experiments.balatro_speed import engine_speed

    def work() -> None:
        engine_speed(64, 12, 400_000)

    return work


# every default that has changed between trees is given, so that both do the same
WORK: dict[str, Callable[[], Callable[[], None]]] = {
    "ppo": lambda: _training("CartPole-v1", "PPO", 60_000, 8),
    "sac": lambda: _training("Pendulum-v1", "SAC", 5_000, 1, gradient_steps=1),
    "dqn": lambda: _training("CartPole-v1", "DQN", 80_000, 8, gradient_steps=8),
    "dqn-start": lambda: _training("CartPole-v1", "DQN", 1_500, 8, gradient_steps=8),
    "balatro": _balatro,
}
NAMES = {
    "ppo": "PPO on CartPole, 60,000 steps",
    "sac": "SAC on Pendulum, 5,000 steps",
    "dqn": "DQN on CartPole, 80,000 steps",
    "dqn-start": "DQN on CartPole, 1,500 steps",
    "balatro": "Balatro engine, 400,000 steps in compiled calls",
}
KINDS = ("process wall", "process cpu", "work wall", "work cpu")


def measure_here(name: str) -> None:
    """Do the work once in this process and print its seconds."""
    work = WORK[name]()
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    print(json.dumps({"work wall": time.perf_counter() - wall, "work cpu": time.process_time() - cpu}))


def measure(tree: Path, name: str) -> dict[str, float]:
    """Do the work once in a process that imports Ludus from `tree`; the seconds by kind."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), "--measure", name],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
    wall = time.perf_counter() - started
    if ended.returncode:
        sys.exit(f"{tree}: {name} failed\n{ended.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"process wall": wall, "process cpu": cpu} | json.loads(ended.stdout.splitlines()[-1])


def compare(old: Path, new: Path, name: str, times: int) -> dict[str, tuple[float, float]]:
    """The medians of both trees by kind."""
    found: dict[Path, list[dict[str, float]]] = {old: [], new: []}
    for tree in (old, new):
        measure(tree, name)  # compiles
    for number in range(times):
        for tree in (old, new) if number % 2 == 0 else (new, old):
            found[tree].append(measure(tree, name))
    return {
        kind: (
            statistics.median(run[kind] for run in found[old]),
            statistics.median(run[kind] for run in found[new]),
        )
        for kind in KINDS
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="*", type=Path, help="the old and the new source tree")
    parser.add_argument("--times", type=int, default=5, help="measurements of each tree")
    parser.add_argument("--only", nargs="+", choices=list(WORK), default=list(WORK))
    parser.add_argument("--measure", choices=list(WORK), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure_here(given.measure)
        return
    if len(given.trees) != 2 or not all((tree / "src" / "ludus").is_dir() for tree in given.trees):
        parser.error("expected two source trees, each with src/ludus")
    old, new = (tree.resolve() for tree in given.trees)
    for name in given.only:
        print(NAMES[name], flush=True)
        for kind, (before, after) in compare(old, new, name, given.times).items():
            print(
                f"  {kind:<13} old {before:8.2f} s  new {after:8.2f} s  ratio {before / after:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

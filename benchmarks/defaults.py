"""Compare Ludus without a preset with Stable-Baselines3's defaults: same algorithm, env and number of env steps.

    python benchmarks/defaults.py --who ludus sb3 [--jobs 16] [--time-limit 540] [--seeds 101 102 103 104 105]
    python benchmarks/defaults.py --algo PPO --env CartPole-v1 --steps 100_000
    python benchmarks/defaults.py --table

`ludus` is `ludus train --algo A --env E --steps N`, `sb3` is `A("MlpPolicy", E).learn(N)`. `preset` is the preset for
that budget and `random` takes random actions: the share of the preset's gain needs both. Every training is a process
of its own and is evaluated with deterministic actions on the same episodes. Each result is added to `--results` when
it is there, and a result in that file is not measured again, so that a long measurement can be built up over several
calls. Cheap rows come first. No training starts after `--time-limit` seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).with_suffix(".json")
SEEDS = [101, 102, 103, 104, 105]  # no default was chosen with these
WHO = ("random", "ludus", "preset", "sb3")
FIRST_EPISODE_SEED = 1_000_000
STEPS_WITHOUT_LIMIT = 1_000  # an episode of an env without a time limit is cut here
Act = Callable[[Any, dict[str, Any]], Any]
_PACKAGES = ("gymnasium", "numba", "numpy", "stable-baselines3", "torch")


@dataclass(frozen=True)
class Row:
    """One comparison. `preset` names the preset with this budget, `seconds` the cost of a training of SB3, roughly."""

    algo: str
    env: str
    steps: int
    seconds: float
    episodes: int = 100
    preset: str | None = None
    sb3: bool = True

    @property
    def name(self) -> str:
        return f"{self.algo} {self.env} {self.steps}"


ROWS = [
    Row("PPO", "CartPole-v1", 100_000, 70, preset="cartpole-ppo"),
    Row("A2C", "CartPole-v1", 500_000, 300, preset="cartpole-a2c"),
    Row("DQN", "CartPole-v1", 50_000, 40, preset="cartpole-dqn"),
    Row("PPO", "Acrobot-v1", 100_000, 80),
    Row("DQN", "Acrobot-v1", 100_000, 90),
    Row("PPO", "MountainCar-v0", 200_000, 130),
    Row("DQN", "MountainCar-v0", 120_000, 100, preset="mountaincar-dqn"),
    Row("PPO", "FrozenLake-v1", 100_000, 80, episodes=500),
    Row("DQN", "FrozenLake-v1", 100_000, 90, episodes=500),
    Row("PPO", "CliffWalking-v1", 100_000, 80),
    Row("DQN", "CliffWalking-v1", 100_000, 90),
    Row("PPO", "Taxi-v4", 200_000, 160),
    Row("DQN", "Taxi-v4", 200_000, 200),
    Row("PPO", "Pendulum-v1", 100_000, 80),
    Row("SAC", "Pendulum-v1", 10_000, 130),
    Row("SAC", "Pendulum-v1", 20_000, 260, preset="pendulum-sac"),
    Row("PPO", "LunarLander-v3", 200_000, 170, episodes=50),
    Row("DQN", "LunarLander-v3", 100_000, 110, episodes=50),
    Row("PPO", "LunarLanderContinuous-v3", 200_000, 170, episodes=50),
    Row("SAC", "LunarLanderContinuous-v3", 30_000, 400, episodes=50),
    Row("PPO", "BipedalWalker-v3", 500_000, 450, episodes=30),
    Row("PPO", "Blackjack-v1", 100_000, 10, episodes=2_000, sb3=False),
    Row("DQN", "Blackjack-v1", 100_000, 10, episodes=2_000, sb3=False),
]


# One training, in a process of its own


def measure(row: Row, who: str, seed: int) -> dict[str, Any]:
    """Train and evaluate. Returns the result as it stands in the results file."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        act = {"ludus": _train_ludus, "preset": _train_ludus, "sb3": _train_sb3, "random": _act_randomly}[
            who
        ](row, who, seed, Path(folder))
        seconds = time.perf_counter() - started
        rewards = play(row, act)
    return {
        "row": row.name,
        "who": who,
        "seed": seed,
        "reward": round(float(np.mean(rewards)), 4),
        "std": round(float(np.std(rewards)), 4),
        "episodes": row.episodes,
        "seconds": round(seconds, 1),
        "versions": _versions(),
    }


def _train_ludus(row: Row, who: str, seed: int, folder: Path) -> Act:
    from ludus.config.loading import load_config
    from ludus.training.factory import create_trainer

    overrides = [f"run_dir={folder}/run", "tracking.tensorboard=false", "threads=1", "device=cpu"]
    overrides += ["evaluation.every=null", "checkpoint.every=null"]
    flags: dict[str, Any] = {"seed": seed}
    if who == "ludus":
        flags |= {"algorithm": row.algo, "env.id": row.env, "total_timesteps": row.steps}
    config = load_config(row.preset if who == "preset" else None, overrides, flags).config
    if config.total_timesteps.amount != row.steps:
        raise ValueError(f"{row.preset} trains {config.total_timesteps}, not {row.steps} steps")
    trainer: Any = create_trainer(None, config)
    trainer.train()
    # Taxi's infos have action masks, which Ludus uses in training and in `ludus eval`
    return lambda observation, info: trainer.predict(
        observation, deterministic=True, action_masks=info.get("action_mask")
    )[0]


def _train_sb3(row: Row, who: str, seed: int, folder: Path) -> Act:
    import stable_baselines3
    import torch

    torch.set_num_threads(1)
    model = getattr(stable_baselines3, row.algo)("MlpPolicy", row.env, seed=seed, device="cpu")
    model.learn(row.steps)
    return lambda observation, info: model.predict(observation, deterministic=True)[0]


def _act_randomly(row: Row, who: str, seed: int, folder: Path) -> Act:
    import gymnasium as gym

    space = gym.make(row.env).action_space
    space.seed(seed)
    return lambda observation, info: space.sample()


def play(row: Row, act: Act) -> list[float]:
    """Return the return of each evaluation episode."""
    import gymnasium as gym

    limit = {} if gym.spec(row.env).max_episode_steps else {"max_episode_steps": STEPS_WITHOUT_LIMIT}
    env = gym.make(row.env, **limit)
    rewards = []
    for episode in range(row.episodes):
        observation, info = env.reset(seed=FIRST_EPISODE_SEED + episode)
        total, done = 0.0, False
        while not done:
            action = np.asarray(act(observation, info))
            is_scalar = action.ndim == 0
            observation, reward, terminated, truncated, info = env.step(int(action) if is_scalar else action)
            total, done = total + float(reward), terminated or truncated
        rewards.append(total)
    env.close()
    return rewards


def _versions() -> dict[str, str]:
    import ludus

    found = {"ludus": ludus.__version__, "python": sys.version.split()[0]}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


# Many trainings


class Results:
    """The results file. It is written again after each result."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self.rows: list[dict[str, Any]] = json.loads(path.read_text("utf-8")) if path.exists() else []

    def find(self, row: Row, who: str) -> dict[int, float]:
        """Return the rewards by seed."""
        return {
            result["seed"]: result["reward"]
            for result in self.rows
            if (result["row"], result["who"]) == (row.name, who)
        }

    def add(self, result: dict[str, Any]) -> None:
        def key(of: dict[str, Any]) -> tuple[Any, ...]:
            return of["row"], WHO.index(of["who"]), of["seed"]

        with self._lock:
            self.rows = [other for other in self.rows if key(other) != key(result)] + [result]
            self.rows.sort(key=key)
            lines = ",\n".join(map(json.dumps, self.rows))
            temporary = self.path.with_suffix(".tmp")
            temporary.write_text(f"[\n{lines}\n]\n", "utf-8")
            temporary.replace(self.path)


def run_job(job: tuple[Row, str, int], results: Results, deadline: float) -> str | None:
    """Train in a process of its own and keep the result. Returns what failed."""
    row, who, seed = job
    if time.monotonic() > deadline:
        return None
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, __file__, "--one", json.dumps([vars(row), who, seed])],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | one_thread,
    )
    if done.returncode:
        return f"{row.name}, {who}, seed {seed} failed:\n{done.stderr[-2000:]}"
    result = json.loads(done.stdout.splitlines()[-1])
    results.add(result)
    print(
        f"{row.name:42} {who:6} seed {seed}: {result['reward']:9.2f}  {result['seconds']:6.1f} s", flush=True
    )
    return None


def interval(values: np.ndarray, others: np.ndarray | None = None) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the mean over seeds, or of the difference of two means."""
    rng = np.random.default_rng(0)
    means = rng.choice(values, (10_000, len(values))).mean(1)
    if others is not None:
        means = means - rng.choice(others, (10_000, len(others))).mean(1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def table(results: Results, rows: list[Row]) -> str:
    """Return the table of docs/reference/results.md, and which rows are below."""
    lines = [
        "| algorithm, env, steps | random | Ludus | SB3 | Ludus − SB3 | of the preset's gain | below |",
        "|---|---|---|---|---|---|---|",
    ]
    below = []
    for row in rows:
        ludus, sb3, preset, random = (
            np.array([reward for _, reward in sorted(results.find(row, who).items())])
            for who in ("ludus", "sb3", "preset", "random")
        )
        if not len(ludus):
            continue
        difference, share, reasons = "", "", []
        if len(sb3):
            low, high = interval(ludus, sb3)
            difference = f"{ludus.mean() - sb3.mean():+.2f} ({low:+.2f} … {high:+.2f})"
            if high < 0:
                reasons.append("SB3")
        if len(preset) and len(random):
            gain = (ludus.mean() - random.mean()) / (preset.mean() - random.mean())
            share = f"{gain:.2f}"
            if gain < 0.9:
                reasons.append("preset")
        below += [f"{row.name}: below {' and '.join(reasons)}"] if reasons else []
        shown = f"{random.mean():.2f}" if len(random) else ""
        lines.append(
            f"| {row.algo} {row.env}, {row.steps:,} | {shown} | {_mean(ludus)} | {_mean(sb3)}"
            f" | {difference} | {share} | {', '.join(reasons) or 'no'} |"
        )
    return "\n".join([*lines, "", *(below or ["no row is below"])])


def _mean(values: np.ndarray) -> str:
    if not len(values):
        return ""
    low, high = interval(values)
    return f"{values.mean():.2f} ({low:.2f} … {high:.2f})"


def chosen_rows(options: argparse.Namespace) -> list[Row]:
    """Return the rows that match the options; a row of its own where none of them does."""
    rows = [
        row
        for row in ROWS
        if options.algo in (None, row.algo)
        and options.env in (None, row.env)
        and options.steps in (None, row.steps)
    ]
    if rows or None in (options.algo, options.env, options.steps):
        return sorted(rows, key=lambda row: row.seconds)
    return [Row(options.algo, options.env, options.steps, 0)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--algo", metavar="NAME", type=str.upper, help="only rows of this algorithm")
    parser.add_argument("--env", metavar="ID", help="only rows of this env")
    parser.add_argument("--steps", type=int, help="only rows of this budget")
    parser.add_argument("--who", nargs="+", choices=WHO, default=list(WHO))
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="then no new training starts")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file that results are added to")
    parser.add_argument("--again", action="store_true", help="measure again what is in the file")
    parser.add_argument("--table", action="store_true", help="print the table only")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        row, who, seed = json.loads(options.one)
        print(json.dumps(measure(Row(**row), who, seed)))
        return
    results, rows = Results(options.results), chosen_rows(options)
    failures: list[str] = []
    if not options.table:
        jobs = [
            (row, who, seed)
            for row in rows
            for who in options.who
            for seed in options.seeds
            if not (who == "sb3" and not row.sb3) and not (who == "preset" and row.preset is None)
            if options.again or seed not in results.find(row, who)
        ]
        # what a training of Ludus costs is a small part of SB3's; a replay algorithm takes as many steps, though
        jobs.sort(key=lambda job: job[0].seconds * {"sb3": 1.0, "random": 0.0}.get(job[1], 0.2))
        deadline = time.monotonic() + (options.time_limit or float("inf"))
        with ThreadPoolExecutor(options.jobs) as pool:
            outcomes = pool.map(lambda job: run_job(job, results, deadline), jobs)
            failures = [failure for failure in outcomes if failure is not None]
    print("\n" + table(results, rows))
    if failures:
        raise SystemExit("\n".join(failures))


if __name__ == "__main__":
    main()

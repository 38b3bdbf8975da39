"""How long the presets take to reach their aims on Ludus, Stable-Baselines3 and SBX; prints the table of docs/results.md.

    python benchmarks/time_to_reach.py [--only acrobot-ppo …] [--libraries ludus sb3 sbx] [--seeds 1 2 3]
                                       [--workers 2] [--limit 1500] [--root runs/reach]

Every training has one core and one thread for itself and the preset's hyperparameters, and ends at the first
evaluation that is at or above the aim, with its steps, or after `--limit` seconds. Evaluations are in the times,
compiling is not. Ludus runs as `ludus train PRESET`, the peers by their own code (`experiments/peers/baselines.py`), in
the environments that `ludus bench` takes. Results under the same root are not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from learning import AIMS, ludus

from ludus.errors import UserError
from ludus.experiments.libraries import peer_libraries
from ludus.experiments.workloads import Workload

LIBRARIES = {"ludus": "Ludus", "sb3": "Stable-Baselines3", "sbx": "SBX"}


def run_ludus(preset: str, seed: int, limit: float, folder: Path) -> dict[str, Any]:
    """A short training compiles what the other then finds compiled."""
    aim = AIMS[preset].reward
    answer: dict[str, Any] = {}
    for total in (["total_timesteps=1"], []):
        shutil.rmtree(folder, ignore_errors=True)
        answer = ludus(
            "train",
            preset,
            f"seed={seed}",
            f"run_dir={folder}",
            "threads=1",
            "device=cpu",
            "checkpoint=null",
            "tracking.tensorboard=false",
            f"early_stopping.reward_threshold={aim}",
            f"early_stopping.time={limit:.0f} s",
            *total,
            "-q",
        )
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    means = [row["eval/mean_reward"] for row in rows if "eval/mean_reward" in row]
    return {"steps": answer["steps"], "seconds": answer["seconds"], "best": max(means, default=None)}


def run_peer(peer: str, preset: str, seed: int, limit: float) -> dict[str, Any]:
    """The preset as its peer is told it: what it does not set is the peer's own default."""
    told = ludus("config", preset)
    config, origins = told["config"], told["origins"]
    given = {
        name: value
        for name, value in config["hyperparams"].items()
        if not name.endswith("_net_arch") and origins[f"hyperparams.{name}"].startswith("preset")
    }
    activation = config["policy"]["activation"]
    if activation == "auto":  # as Ludus takes it, and the peers by default
        activation = "Tanh" if config["algorithm"] in {"PPO", "A2C"} else "ReLU"
    workload = Workload(
        preset,
        config["algorithm"],
        config["env"]["id"],
        config["n_envs"],
        config["total_timesteps"],
        tuple(config["hyperparams"]["policy_net_arch"]),
        activation,
        given,
    )
    more = {
        "seed": seed,
        "normalize_obs": config["normalize_obs"],
        "normalize_reward": config["normalize_reward"],
        "evaluate_every": config["evaluation"]["every"],
        "episodes": config["evaluation"]["episodes"],
        "aim": AIMS[preset].reward,
        "limit": limit,
    }
    answer = peer_libraries([peer])[0].run("reach", workload, **more)
    means = [mean for _, _, mean in answer["evaluations"]]
    return {"steps": answer["steps"], "seconds": answer["seconds"], "best": max(means, default=None)}


def one(library: str, preset: str, seed: int, options: argparse.Namespace, cores: queue.Queue) -> dict:
    """The result of one training, from its file where it stands."""
    path = options.root / preset / f"{library}-{seed}.json"
    if path.exists():
        return json.loads(path.read_text())
    path.parent.mkdir(parents=True, exist_ok=True)
    core = cores.get()
    limit = min(options.limit, options.until - time.monotonic())
    try:
        if limit < 5:
            raise RuntimeError(f"no time was left for {preset} {library} {seed}")
        os.sched_setaffinity(0, {core})  # of this thread, and so of what it starts
        if library == "ludus":
            row = run_ludus(preset, seed, limit, options.root / preset / f"run-{seed}")
        else:
            row = run_peer(library, preset, seed, limit)
    finally:
        cores.put(core)
    best = row["best"]
    row |= {"library": library, "preset": preset, "seed": seed, "limit": limit}
    row["reached"] = best is not None and best >= AIMS[preset].reward
    path.write_text(json.dumps(row))
    told = "reached" if row["reached"] else f"not reached (best {'none' if best is None else f'{best:.1f}'})"
    print(f"{preset} {library} {seed}: {told}, {row['steps']:,} steps, {row['seconds']:,.1f} s", flush=True)
    return row


def table(rows: list[dict]) -> str:
    """As it stands in docs/results.md: by seed, the seconds until the aim was reached, or what was best instead."""
    used = [library for library in LIBRARIES if any(row["library"] == library for row in rows)]
    lines = [
        "| preset | aim | " + " | ".join(LIBRARIES[library] for library in used) + " |",
        "|---|---|" + "---|" * len(used),
    ]
    for preset in dict.fromkeys(row["preset"] for row in rows):
        cells = [f"`{preset}`", f"{AIMS[preset].reward:g}"]
        for library in used:
            mine = [row for row in rows if (row["preset"], row["library"]) == (preset, library)]
            cells.append(_cell(sorted(mine, key=lambda row: row["seed"])))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(rows: list[dict]) -> str:
    if not rows:
        return ""
    seconds = ", ".join(
        f"{row['seconds']:,.1f} s" if row["reached"] else f"no ({row['seconds']:,.0f} s)" for row in rows
    )
    missed = [row for row in rows if not row["reached"]]
    steps = f"{np.median([row['steps'] for row in rows]):,.0f} steps"
    if not missed:
        return f"{seconds} ({steps})"
    best = max((row["best"] for row in missed if row["best"] is not None), default=None)
    return f"{seconds} ({steps}; {'no evaluation' if best is None else f'best of those {best:.1f}'})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="PRESET", choices=list(AIMS), default=list(AIMS))
    parser.add_argument("--libraries", nargs="+", choices=list(LIBRARIES), default=list(LIBRARIES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--workers", type=int, default=2, help="trainings at a time, a core each")
    parser.add_argument("--limit", type=float, default=1500.0, help="seconds after which a training ends")
    parser.add_argument("--all-within", type=float, default=float("inf"), help="seconds for all together")
    parser.add_argument("--root", type=Path, default=Path("runs/reach"))
    options = parser.parse_args()
    options.until = time.monotonic() + options.all_within
    cores: queue.Queue[int] = queue.Queue()
    for core in sorted(os.sched_getaffinity(0))[: options.workers]:
        cores.put(core)
    jobs = [
        (library, preset, seed)
        for seed in options.seeds
        for preset in options.only
        for library in options.libraries
        if (library, preset) != ("sbx", "cartpole-a2c")  # it has no A2C
    ]
    rows, failures = [], []
    with ThreadPoolExecutor(cores.qsize()) as pool:
        for future in [pool.submit(one, *job, options, cores) for job in jobs]:
            try:
                rows.append(future.result())
            except (RuntimeError, UserError) as error:  # the others go on
                failures.append(str(error))
    print("\n" + table(rows))
    if failures:
        raise SystemExit("\n".join(failures))


if __name__ == "__main__":
    main()

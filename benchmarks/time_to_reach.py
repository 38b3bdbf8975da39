"""How long the presets take to reach their aims on Ludus, Stable-Baselines3 and SBX.

    python benchmarks/time_to_reach.py [--only acrobot-ppo …] [--libraries ludus sb3 sbx] [--seeds 1 2 3]
                                       [--workers 2] [--limit 1500] [--all-within SECONDS] [--device cuda]
                                       [--root runs/reach]

Every training has one core and one thread for itself and the preset's hyperparameters. It ends at the first of the
preset's evaluations that is at or above the aim, after all its steps, or after `--limit` seconds. Evaluations are in
the times, compiling is not. Ludus runs as `ludus train PRESET`; the peers run by their own code, as their users run
them (`experiments/peers/baselines.py`), in the environments that `ludus bench` takes. Two things differ: Ludus
evaluates after an update, the peers where the steps are due; and Ludus stops stepping an env of an evaluation whose
episode is over.

With `--device cuda` all trainings share one GPU; SBX takes it where its JAX can.

Finished trainings under the same root are not repeated, but for those that `--all-within` cut short. The first cores
that may be used are taken: start several of it at a time under `taskset`.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import time
from pathlib import Path
from typing import Any

import yaml
from learning import AIMS, do_all, ludus

from ludus import __version__
from ludus.errors import UserError
from ludus.experiments.libraries import Library, peer_libraries
from ludus.experiments.workloads import Workload

LIBRARIES = {"ludus": "Ludus", "sb3": "Stable-Baselines3", "sbx": "SBX"}


def run_ludus(preset: str, seed: int, limit: float, device: str, folder: Path) -> dict[str, Any]:
    """A short training compiles what the other then finds compiled."""
    answer: dict[str, Any] = {}
    for total in (["total_timesteps=1"], []):
        shutil.rmtree(folder, ignore_errors=True)
        answer = ludus(
            "train",
            preset,
            f"seed={seed}",
            f"run_dir={folder}",
            "threads=1",
            f"device={device}",
            "checkpoint=null",
            "tracking.tensorboard=false",
            f"early_stopping.reward_threshold={AIMS[preset].reward}",
            f"early_stopping.time={limit:.0f} s",
            *total,
            "-q",
        )
    config = yaml.safe_load((folder / "config.yaml").read_text())
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    found = [(row["step"], row["eval/mean_reward"]) for row in rows if "eval/mean_reward" in row]
    return {
        "steps": answer["steps"],
        "seconds": answer["seconds"],
        "best": max(due(found, config["evaluation"]["every"]), default=None),
        "version": f"{__version__}, envs {config['vector']}",
    }


def due(evaluations: list[tuple[int, float]], every: int) -> list[float]:
    """The means of those evaluations that were due: a training ends with one that may not have been."""
    means, next_at = [], every
    for step, mean in evaluations:
        if step >= next_at:
            means.append(mean)
            next_at = (step // every + 1) * every
    return means


def run_peer(peer: Library, preset: str, seed: int, limit: float, device: str) -> dict[str, Any]:
    """The preset as its peer is told it, with Ludus's defaults; what the peer does not know is left out there."""
    config = ludus("config", preset)["config"]
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
        config["hyperparams"],
    )
    more = {
        "seed": seed,
        "normalize_obs": config["normalize_obs"],
        "normalize_reward": config["normalize_reward"],
        "evaluate_every": config["evaluation"]["every"],
        "episodes": config["evaluation"]["episodes"],
        "aim": AIMS[preset].reward,
        "limit": limit,
        "device": device,
    }
    answer = peer.run("reach", workload, **more)
    return {
        "steps": answer["steps"],
        "seconds": answer["seconds"],
        "best": max((mean for _, _, mean in answer["evaluations"]), default=None),
        "version": answer["version"],
    }


def one(library: str, preset: str, seed: int, options: argparse.Namespace, cores: queue.Queue) -> dict:
    """The result of one training, from its file where it stands."""
    path = options.root / preset / f"{library}-{seed}-{options.device}.json"
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
            row = run_ludus(preset, seed, limit, options.device, path.with_suffix(""))
        else:
            row = run_peer(options.peers[library], preset, seed, limit, options.device)
    finally:
        cores.put(core)
    row |= {"library": library, "preset": preset, "seed": seed, "limit": limit}
    row["reached"] = row["best"] is not None and row["best"] >= AIMS[preset].reward
    if row["reached"] or limit == options.limit:  # else another call may give it more
        path.write_text(json.dumps(row))
    print(f"{preset} {library} {seed}: {_in_words(row)}", flush=True)
    return row


def table(rows: list[dict]) -> str:
    """A line for each preset, a column for each library, its seeds in order."""
    used = [library for library in LIBRARIES if any(row["library"] == library for row in rows)]
    lines = [
        "| preset | aim | " + " | ".join(LIBRARIES[library] for library in used) + " |",
        "|---|---|" + "---|" * len(used),
    ]
    for preset in dict.fromkeys(row["preset"] for row in rows):
        cells = [f"`{preset}`", f"{AIMS[preset].reward:g}"]
        for library in used:
            mine = [row for row in rows if (row["preset"], row["library"]) == (preset, library)]
            cells.append("; ".join(_in_words(row) for row in sorted(mine, key=lambda row: row["seed"])))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _in_words(row: dict) -> str:
    spent = f"{row['seconds']:,.1f} s ({row['steps']:,} steps)"
    if row["reached"]:
        return spent
    over = "not in that time" if row["seconds"] >= row["limit"] else "not in its steps"
    best = "not evaluated" if row["best"] is None else f"{row['best']:.1f} at best"
    return f"{over}: {spent}, {best}"


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
    parser.add_argument(
        "--device", choices=["cpu", "cuda"], default="cpu", help="a GPU is shared by all workers"
    )
    parser.add_argument("--root", type=Path, default=Path("runs/reach"))
    options = parser.parse_args()
    peers = [library for library in options.libraries if library != "ludus"]
    try:
        options.peers = dict(zip(peers, peer_libraries(peers), strict=True))
    except UserError as error:
        raise SystemExit(str(error)) from None
    options.until = time.monotonic() + options.all_within
    cores: queue.Queue[int] = queue.Queue()
    for core in sorted(os.sched_getaffinity(0))[: options.workers]:
        cores.put(core)
    jobs = [
        (library, preset, seed, options, cores)
        for seed in options.seeds
        for preset in options.only
        for library in options.libraries
        if not (library == "sbx" and preset == "cartpole-a2c")  # SBX has no A2C
    ]
    do_all(one, jobs, cores.qsize(), table)


if __name__ == "__main__":
    main()

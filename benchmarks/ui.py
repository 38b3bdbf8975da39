"""How fast `ludus ui` is with many runs: 1,000 of them with 10 million metric rows in all.

    python benchmarks/ui.py [--runs 1000] [--rows 10_000_000] [--folder DIR]

Writes the runs (about 3 GB, kept in DIR if given), starts the real server on loopback, and prints how long indexing
took, how long the table of runs and a comparison of ten runs take over HTTP and in a browser, and how much memory
the server needed. The bounds it is held to stand in docs/how-to/dashboard.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

_ENVS = {
    "CartPole-v1": (20, 500),
    "LunarLander-v3": (-180, 260),
    "BipedalWalker-v3": (-110, 290),
    "Pendulum-v1": (-1400, -150),
}
_ALGORITHMS = ("PPO", "A2C", "SAC", "DQN")
_STATUSES = ("finished", "finished", "finished", "stopped", "interrupted", "failed")
_EVERY = 2048  # steps between two rows
_CHROMIUM = "/usr/bin/chromium"


def write_runs(root: Path, runs: int, rows: int) -> None:
    """Make `runs` synthetic runs of `rows` rows each below `root`, as Ludus writes them."""
    for number in range(runs):
        write_run(root, number, rows)


def write_run(root: Path, number: int, rows: int) -> Path:
    """One synthetic run: a learning curve with noise, an evaluation every tenth row, eleven metrics."""
    rng = np.random.default_rng(number)
    env = list(_ENVS)[number % len(_ENVS)]
    algorithm = _ALGORITHMS[number // len(_ENVS) % len(_ALGORITHMS)]
    created = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(minutes=17 * number)
    path = root / env / algorithm / f"{env.split('-')[0].lower()}-{algorithm.lower()}_{created:%Y%m%d-%H%M%S}"
    (path / "logs").mkdir(parents=True, exist_ok=True)
    total = rows * _EVERY
    info = {
        "name": path.name.rpartition("_")[0],
        "env_id": env,
        "algorithm": algorithm,
        "created": created.isoformat(timespec="microseconds"),
        "status": _STATUSES[number % len(_STATUSES)],
        "seed": number % 5,
        "device": "cpu",
        "steps": total,
        "tags": [
            tag for tag, every in (("baseline", 4), ("paper", 9), ("lr-sweep", 7)) if number % every == 0
        ],
    }
    (path / "run.json").write_text(json.dumps(info, indent=2))
    rate = 10 ** rng.uniform(-4, -3)
    (path / "config.yaml").write_text(
        f"name: {info['name']}\nalgorithm: {algorithm}\nenv:\n  id: {env}\nn_envs: 8\nseed: {info['seed']}\n"
        f"total_timesteps: {total}\nhyperparams:\n  learning_rate: {rate:.2e}\n"
        f"  gamma: {0.99 if number % 2 else 0.995}\n  n_steps: 2048\n  batch_size: 64\n"
    )
    (path / "metrics.jsonl").write_bytes(_rows(rng, env, rows))
    return path


def _rows(rng: np.random.Generator, env: str, rows: int) -> bytes:
    low, high = _ENVS[env]
    time_done = np.arange(1, rows + 1) / rows
    skill = 1 / (1 + np.exp(-rng.uniform(8, 16) * (time_done - rng.uniform(0.2, 0.6))))
    noise = np.cumsum(rng.normal(0, 1, rows))
    noise = (noise - np.linspace(0, noise[-1], rows)) / (np.abs(noise).max() + 1e-9)
    reward = low + (high - low) * np.clip(
        skill * rng.uniform(0.75, 1) + 0.08 * noise + rng.normal(0, 0.02, rows), 0, 1
    )
    columns = {
        "rollout/ep_len_mean": 80 + 300 * skill + rng.normal(0, 6, rows),
        "rollout/ep_rew_mean": reward,
        "time/fps": np.round(rng.normal(9000, 700, rows), 1),
        "time/seconds": np.round(np.arange(1, rows + 1) * _EVERY / 9000, 3),
        "train/approx_kl": np.abs(rng.normal(0.012, 0.004, rows)),
        "train/clip_fraction": np.abs(rng.normal(0.11, 0.03, rows)),
        "train/entropy": 1.3 * (1 - 0.8 * skill) + rng.normal(0, 0.01, rows),
        "train/explained_variance": np.clip(0.95 * skill + rng.normal(0, 0.03, rows), -1, 1),
        "train/learning_rate": 3e-4 * (1 - time_done),
        "train/policy_loss": -np.abs(rng.normal(0.015, 0.004, rows)),
        "train/value_loss": 60 * np.exp(-4 * time_done) + np.abs(rng.normal(0, 3, rows)),
    }
    names = list(columns)
    form = "{" + ", ".join(["%s", *(f'"{name}": %.9g' for name in names)]) + "}\n"
    lines = []
    for i, values in enumerate(zip(*(columns[name].tolist() for name in names), strict=True), start=1):
        clock = f'"step": {i * _EVERY}, "updates": {i}, "episodes": {i * 9}'
        lines.append(form % (clock, *values))
        if i % 10 == 0:
            lines.append(
                f'{{{clock}, "eval/mean_reward": {reward[i - 1] * 1.02:.6f}, "eval/std_reward": 9.5}}\n'
            )
    return "".join(lines).encode()


@contextmanager
def _server(root: Path, cache: Path) -> Iterator[tuple[str, int]]:
    """`ludus ui` on `root`: its address and process id."""
    command = [sys.executable, "-m", "ludus", "ui", "--root", str(root), "--port", "0", "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"XDG_CACHE_HOME": str(cache)}
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"], process.pid
    finally:
        process.terminate()
        process.wait(20)


def _get(url: str) -> Any:
    with urllib.request.urlopen(url) as response:
        return json.loads(response.read())


def _memory(pid: int) -> tuple[float, float]:
    """Megabytes that the process has now, and that it had at most."""
    found = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(found["VmRSS"].split()[0]) / 1024, int(found["VmHWM"].split()[0]) / 1024


def _seconds(function: Any, repeats: int = 5) -> float:
    """The median time of a call."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return sorted(times)[repeats // 2]


def _wait_until_indexed(url: str) -> list[dict[str, Any]]:
    while True:
        found = _get(url + "api/runs")
        if found["runs"] and not found["indexing"] and all(run["rows"] for run in found["runs"]):
            return list(found["runs"])
        time.sleep(0.5)


def _in_browser(url: str, ten: list[str]) -> dict[str, float]:
    """Seconds from asking for a page until what it is for is drawn, in a fresh headless browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM)
        page = browser.new_page()
        page.goto(url + "static/icon.svg")  # the browser's own start does not count

        def table() -> None:
            page.goto(url)
            page.wait_for_selector("table.runs tbody tr")

        def comparison() -> None:
            page.goto(f"{url}compare?runs={','.join(ten)}")
            # ten curves of 500 points
            page.wait_for_selector("section[data-metric='rollout/ep_rew_mean'] canvas[data-points='5000']")

        found = {
            "first page, in a browser": _seconds(table),
            "comparison of 10 runs, in a browser": _seconds(comparison),
        }
        browser.close()
    return found


def measure(root: Path, cache: Path) -> dict[str, float]:
    """All figures: seconds, and megabytes."""
    figures: dict[str, float] = {}
    started = time.perf_counter()
    with _server(root, cache) as (url, pid):
        _get(url + "api/runs")
        figures["first answer while indexing, s"] = time.perf_counter() - started
        runs = _wait_until_indexed(url)
        figures["indexing, s"] = time.perf_counter() - started
        figures["rows indexed"] = sum(run["rows"] for run in runs)
        figures["memory after indexing, MB"] = _memory(pid)[0]
    started = time.perf_counter()
    with _server(root, cache) as (url, pid):
        _wait_until_indexed(url)
        figures["started again with the index there, s"] = time.perf_counter() - started
        ten = [run["id"] for run in runs[:10]]
        page = _get(url + "api/runs/" + ten[0])
        figures["table of runs, s"] = _seconds(lambda: _get(url + "api/runs"))
        chosen = "&".join(f"runs={run}" for run in ten)
        one = f"{url}api/series?{chosen}&metrics=rollout/ep_rew_mean"
        every = f"{url}api/series?{chosen}&" + "&".join(f"metrics={name}" for name in page["metrics"])
        figures["comparison of 10 runs, one metric, s"] = _seconds(lambda: _get(one))
        figures[f"comparison of 10 runs, {len(page['metrics'])} metrics, s"] = _seconds(lambda: _get(every))
        if Path(_CHROMIUM).exists():
            figures |= {f"{name}, s": value for name, value in _in_browser(url, ten).items()}
        figures["memory at most, MB"] = _memory(pid)[1]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of all runs together")
    parser.add_argument("--folder", type=Path, default=None, help="kept, and used again when it is there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = given.folder or Path(scratch) / "runs"
        if not root.exists():
            started = time.perf_counter()
            write_runs(root, given.runs, given.rows // given.runs)
            print(f"wrote {given.runs} runs in {time.perf_counter() - started:.0f} s", flush=True)
        for name, value in measure(root, Path(scratch) / "cache").items():
            print(f"{name:48}{value:14,.3f}" if value < 1000 else f"{name:48}{value:14,.0f}")


if __name__ == "__main__":
    main()

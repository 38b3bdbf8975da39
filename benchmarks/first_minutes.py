"""The first minutes of a new user: size of the installation, seconds to the first progress line and to the first curve.

    python benchmarks/first_minutes.py [--repeats 3] [--torch SPEC] [--keep DIR]

Builds the wheel, installs it with the extras `box2d` and `video` into an empty environment (packages may come from
pip's cache), and trains the quickstart with an empty kernel cache, N times. Prints the best of N in seconds, and the
CPU seconds that were spent until then, which do not depend on what else the machine does. The first curve: two points
of `rollout/ep_rew_mean` in metrics.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_PROGRESS = re.compile(r"\d+%\s+step")
_ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LUDUS"))}


def install(folder: Path, torch: str) -> Path:
    """Build the wheel and install it. Returns the environment."""
    pip = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(pip, check=True, env=_ENVIRONMENT)
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    wheel = next(folder.glob("ludus_rl-*.whl"))
    packages = [torch, f"{wheel}[box2d,video]", "--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([venv / "bin/pip", "install", "--quiet", *packages], check=True, env=_ENVIRONMENT)
    return venv


def size(folder: Path) -> float:
    """Return the size of the files in `folder` in MB."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def first_training(venv: Path, folder: Path) -> dict[str, float]:
    """Train the quickstart with an empty kernel cache. Returns seconds since its start."""
    environment = _ENVIRONMENT | {"NUMBA_CACHE_DIR": str(folder / "kernels"), "PYTHONUNBUFFERED": "1"}
    started, spent = time.perf_counter(), _children_cpu()
    output = folder / "output.txt"
    with output.open("w") as file:
        process = subprocess.Popen(
            [venv / "bin/ludus", "train", "quickstart"], cwd=folder, env=environment, stdout=file, stderr=file
        )
    found: dict[str, float] = {}
    while process.poll() is None and len(found) < 4:
        shown, now = output.read_text(), time.perf_counter() - started
        if shown.strip():
            found.setdefault("first line", now)
        if _PROGRESS.search(shown) and "first progress line" not in found:
            found |= {"first progress line": now, "CPU until the first progress line": _cpu(process.pid)}
        if _points(folder) >= 2:
            found.setdefault("first curve", now)
        time.sleep(0.05)
    process.terminate()
    process.wait()
    found["CPU in all"] = _children_cpu() - spent
    return found


def _points(folder: Path) -> int:
    lines = [
        line for file in folder.glob("runs/*/*/*/metrics.jsonl") for line in file.read_text().splitlines()
    ]
    return sum("rollout/ep_rew_mean" in json.loads(line) for line in lines if line.endswith("}"))


def _cpu(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--torch", default="torch", help="as pip is to install it")
    parser.add_argument("--keep", type=Path, help="a folder for the environment, used again if it is there")
    chosen = parser.parse_args()
    folder = chosen.keep or Path(tempfile.mkdtemp(prefix="ludus-first-"))
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    venv = folder / "venv"
    if not (venv / "bin/ludus").exists():
        install(folder, chosen.torch)
        print(f"installed in {time.perf_counter() - started:.0f} s")
    packages = next(venv.glob("lib/python*/site-packages"))
    whole, torch, ludus = size(venv), size(packages / "torch"), size(packages / "ludus")
    print(f"installation: {whole:,.0f} MB, of it torch {torch:,.0f} MB, Ludus {ludus:,.0f} MB")
    measured = []
    for number in range(chosen.repeats):
        work = folder / f"work-{number}"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        measured.append(first_training(venv, work))
        print(", ".join(f"{name} {seconds:.1f} s" for name, seconds in measured[-1].items()), flush=True)
    for name in measured[0]:
        print(
            f"best of {chosen.repeats}: {name} {min(one.get(name, float('inf')) for one in measured):.1f} s"
        )
    if chosen.keep is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

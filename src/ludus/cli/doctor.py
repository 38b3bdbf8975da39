"""`ludus doctor`: list what is installed, the devices, and what each missing extra provides."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path
from typing import Any

import typer

import ludus
from ludus.cli.commands import Json, Root, examples
from ludus.cli.output import Output, plain_table
from ludus.errors import DISTRIBUTION, EXIT_FAULT, install_command
from ludus.plugins import plugins

_PACKAGES = ("torch", "gymnasium", "numpy", "numba", "pydantic", "safetensors", "tensorboard")
# extra -> the module that shows its presence, and what it gives
_EXTRAS = {
    "box2d": ("Box2D", "LunarLander, BipedalWalker, CarRacing"),
    "atari": ("ale_py", "the Atari games"),
    "mujoco": ("mujoco", "MuJoCo robots: Ant, Humanoid, …"),
    "envpool": ("envpool", "`vector: envpool`: several classic and Box2D envs, two to three times as fast"),
    "video": ("av", "videos of a policy, `ludus play` without a screen"),
    "wandb": ("wandb", "tracking with Weights & Biases"),
    "sweep": ("optuna", "`ludus sweep`: search for hyperparameters"),
    "export": ("onnx", "`ludus export RUN --to onnx`"),
    "web": ("starlette", "`ludus ui`: the dashboard in a browser"),
    "cloud": ("s3fs", "`mirror:` to S3, Google Cloud Storage and Google Drive"),
    "ray": ("ray", "`scale:` collectors on many processes and machines"),
    "parquet": ("pyarrow", "`ludus analyze --export parquet`"),
    "plots": ("matplotlib", "`ludus analyze --png`"),
}


@dataclass(frozen=True)
class _Extra:
    name: str
    installed: bool
    gives: str
    install: str


EXAMPLES = examples(
    "ludus doctor",
)


def doctor(root: Root = "runs", json: Json = False) -> None:
    """List what is installed and what is missing."""
    from rich.text import Text

    output = Output(json, listing=True)
    packages = {name: _version(name) for name in _PACKAGES}
    devices = _devices() if packages["torch"] else []
    folder, writable = _writable(Path(root))
    extras = _extras()
    screen = _has_screen()
    output.pairs(
        [
            ("ludus", f"{ludus.__version__}, Python {platform.python_version()}"),
            ("platform", f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"),
            ("devices", ", ".join(devices) or "none: torch is missing"),
            ("screen", "yes" if screen else "no: `ludus play` writes a video instead of opening a window"),
            ("runs", f"{root}/ " + ("can be written" if writable else f"cannot be written: check {folder}")),
            *zip(["packages", "", ""], _in_lines(packages), strict=False),
        ]
    )
    output.print("")
    table = plain_table("extra", "", "gives", "install", wrap=("gives",))
    for extra in extras:
        table.add_row(
            extra.name,
            Text("yes", "green") if extra.installed else Text("no", "yellow"),
            extra.gives,
            "" if extra.installed else Text(extra.install),
        )
    output.print(table)
    healthy = writable and all(packages.values())
    output.result(
        {
            "ludus": ludus.__version__,
            "python": platform.python_version(),
            "executable": sys.executable,
            "platform": platform.platform(),
            "cpus": os.cpu_count(),
            "devices": devices,
            "screen": screen,
            "runs": {"root": root, "writable": writable},
            "packages": packages,
            "extras": [asdict(extra) for extra in extras],
            "healthy": healthy,
        }
    )
    if not healthy:
        raise typer.Exit(EXIT_FAULT)


def _in_lines(packages: dict[str, str | None]) -> list[str]:
    """Packages with their versions, three on a line."""
    shown = [f"{name} {found or 'MISSING'}" for name, found in packages.items()]
    return [", ".join(shown[start : start + 3]) for start in range(0, len(shown), 3)]


def _extras() -> list[_Extra]:
    """The extras this package declares, whether each is here, and how to get it."""
    try:
        declared: list[Any] = metadata(DISTRIBUTION).get_all("Provides-Extra") or []
    except PackageNotFoundError:
        declared = list(_EXTRAS)
    own = {name: row for plugin in plugins() for name, row in plugin.extras.items()}
    found = []
    for name in declared:
        if name == "dev":
            continue
        module, gives = (_EXTRAS | own).get(name, (name, ""))
        installed = importlib.util.find_spec(module) is not None
        found.append(_Extra(name, installed, gives, install_command(name)))
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices() -> list[str]:
    import torch

    devices = ["cpu"]
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        devices.append(f"cuda:{index} ({torch.cuda.get_device_name(index)})")
    if torch.backends.mps.is_available():
        devices.append("mps")
    return devices


def _has_screen() -> bool:
    from ludus.evaluation.screen import has_screen

    return has_screen()


def _writable(folder: Path) -> tuple[Path, bool]:
    """The folder, or the nearest one above it that exists, and whether something can be written there."""
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    return folder, folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)

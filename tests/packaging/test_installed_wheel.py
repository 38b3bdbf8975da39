"""The built distributions: what they contain, and the wheel at work in an empty environment outside the repository.

Needs `build`, `twine` and a package index that has torch: `make test-wheel`. LUDUS_WHEEL_PYTHON names the interpreter
of the empty environment; without it that is the one that runs the tests.
"""

from __future__ import annotations

import email
import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("build", reason="needs the package build: make test-wheel")
pytest.importorskip("twine", reason="needs the package twine: make test-wheel")
pytestmark = pytest.mark.wheel

_ROOT = Path(__file__).parents[2]
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
_ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PYTHON", "LUDUS", "VIRTUAL_ENV"))
}

Ludus = Callable[..., str]


def _run(*command: object, folder: Path) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=_ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel built from it."""
    folder = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--outdir", folder, _ROOT, folder=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    return next(distributions.glob("ludus_rl-*.whl"))


@pytest.fixture(scope="module")
def ludus(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Ludus:
    """The command `ludus` of an environment that holds the wheel and its dependencies, run in an empty folder."""
    place = tmp_path_factory.mktemp("elsewhere")
    venv = place / "venv"
    _run(os.environ.get("LUDUS_WHEEL_PYTHON", sys.executable), "-m", "venv", venv, folder=place)
    install = [venv / "bin/python", "-m", "pip", "install", "--quiet", "--no-compile"]
    install += ["--constraint", _ROOT / "constraints.txt"]
    _run(*install, "torch", folder=place)
    _run(*install, wheel, folder=place)
    work = place / "work"
    work.mkdir()
    return lambda *words: _run(venv / "bin/ludus", *words, folder=work)


@pytest.fixture(scope="module")
def played(ludus: Ludus) -> Iterator[dict[str, Future[str]]]:
    """A preset that trains and a shipped agent that plays, in parallel: both spend most of their time compiling."""
    with ThreadPoolExecutor(2) as pool:
        yield {
            "preset": pool.submit(
                ludus, "train", "cartpole-ppo", "total_timesteps=2048", "evaluation.every=2048"
            ),
            "agent": pool.submit(ludus, "eval", "balatro-ppo", "--episodes", "2", "--json"),
        }


def test_twine_accepts_sdist_and_wheel(distributions: Path) -> None:
    built = sorted(distributions.iterdir())
    assert [path.suffix for path in built] == [".whl", ".gz"]
    _run(sys.executable, "-m", "twine", "check", "--strict", *built, folder=distributions)


def test_wheel_contains_the_package_with_presets_and_agents_and_nothing_else(wheel: Path) -> None:
    expected = {f"ludus/{name}" for name in _files(_ROOT / "src/ludus")}
    for folder in ("configs", "agents"):
        expected |= {f"ludus/{folder}/{name}" for name in _files(_ROOT / folder)}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == expected
    assert {"ludus/py.typed", "ludus/games/balatro/facts.json", "ludus/configs/quickstart.yaml"} <= packed


def test_sdist_contains_the_tests_and_no_hidden_folder(distributions: Path) -> None:
    with tarfile.open(next(distributions.glob("ludus_rl-*.tar.gz"))) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}
    assert {"src", "configs", "agents", "tests", "docs", "LICENSE", "README.md", "pyproject.toml"} <= tops
    assert {name for name in tops if name.startswith(".")} <= {".gitignore"}


def test_metadata_names_licence_addresses_and_python_versions(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata: Message = email.message_from_bytes(archive.read(name))
    assert metadata["Name"] == "ludus-rl"
    assert metadata["License-Expression"] == "MIT" and metadata["License-File"] == "LICENSE"
    addresses = {line.split(", ")[0] for line in metadata.get_all("Project-URL", [])}
    assert addresses == {"Homepage", "Documentation", "Changelog", "Issues", "Source"}
    classifiers = metadata.get_all("Classifier", [])
    assert "Typing :: Typed" in classifiers
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} <= {*classifiers}


def test_help_and_presets_of_the_installed_command(ludus: Ludus) -> None:
    assert "train" in ludus("--help")
    presets = [preset["name"] for preset in json.loads(ludus("presets", "--json"))["presets"]]
    assert presets == sorted(path.stem for path in (_ROOT / "configs").glob("*.yaml"))


def test_doctor_finds_the_installed_package_healthy_and_names_its_extras(ludus: Ludus) -> None:
    report: dict[str, Any] = json.loads(ludus("doctor", "--json"))
    assert report["healthy"]
    extras = {extra["name"]: extra["install"] for extra in report["extras"]}
    assert set(extras) == {*_PROJECT["optional-dependencies"]} - {"dev"}
    assert extras["text"] == 'pip install "ludus-rl[text]"'


def test_preset_trains_and_its_run_is_evaluated(ludus: Ludus, played: dict[str, Future[str]]) -> None:
    played["preset"].result()
    assert json.loads(ludus("eval", "latest", "--episodes", "2", "--json"))["episodes"] == 2


def test_shipped_agent_plays(played: dict[str, Future[str]]) -> None:
    assert json.loads(played["agent"].result())["episodes"] == 2

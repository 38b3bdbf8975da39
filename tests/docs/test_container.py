"""The Dockerfile and the dev container name only what is there; what they run is what `make install` runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_dev_container_is_valid_and_uses_files_that_exist() -> None:
    described = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    assert described["postCreateCommand"].endswith("make install")
    for schema in described["customizations"]["vscode"]["settings"]["yaml.schemas"]:
        assert (ROOT / schema).is_file()


def test_the_image_installs_with_make_and_takes_along_what_that_needs() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    commands = re.findall(r"^(FROM|RUN|ARG|WORKDIR|COPY|ENV|EXPOSE|ENTRYPOINT|CMD) ", text, re.MULTILINE)
    assert commands == ["FROM", "RUN", "ARG", "WORKDIR", "COPY", "RUN", "ENV", "EXPOSE", "ENTRYPOINT", "CMD"]
    assert "make install" in text and re.search(
        r"^install:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE
    )
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    for needed in ("Makefile", "pyproject.toml", "constraints.txt", "README.md", "LICENSE", "src", "configs"):
        assert (ROOT / needed).exists() and needed not in ignored


def test_the_presets_that_the_image_is_shown_with_exist() -> None:
    for name in re.findall(r"ludus train ([a-z0-9-]+)", (ROOT / "Dockerfile").read_text("utf-8")):
        assert (ROOT / "configs" / f"{name}.yaml").is_file()

"""Ludus is installed as `ludus-rl`, imported as `ludus`: on the package index, `ludus` is another project."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from ludus.errors import DISTRIBUTION, MissingExtra, install_command

_ROOT = Path(__file__).parents[2]
_TEXT = {".cfg", ".css", ".html", ".ipynb", ".js", ".json", ".md", ".py", ".toml", ".yaml", ".yml"}
_OTHER_PROJECT = re.compile(r"pip install\s+(?:-\S+\s+)*[\"']?ludus(?!-rl)|\bludus\[[a-z{]")


def _pages() -> list[Path]:
    folders = [_ROOT / name for name in ("benchmarks", "configs", "docs", "src", "tests", ".devcontainer")]
    found = [path for folder in folders for path in folder.rglob("*") if path.suffix in _TEXT]
    return [*found, *_ROOT.glob("*.md"), _ROOT / "Dockerfile", _ROOT / "Makefile", _ROOT / "pyproject.toml"]


def test_messages_use_the_name_that_pyproject_declares() -> None:
    assert tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]["name"] == DISTRIBUTION
    assert install_command("text") == 'pip install "ludus-rl[text]"'
    assert install_command("text") in MissingExtra("a text game", "text").fix


def test_no_page_or_message_installs_the_other_project() -> None:
    lines = [
        f"{path.relative_to(_ROOT)}:{number}: {line.strip()}"
        for path in _pages()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if _OTHER_PROJECT.search(line)
    ]
    assert lines == []


def test_the_readme_names_every_extra_and_its_pictures_by_address() -> None:
    """A package index shows the page without the other files of the repository."""
    readme = (_ROOT / "README.md").read_text("utf-8")
    extras = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert [extra for extra in extras if f"`{extra}`" not in readme] == []
    address = "https://raw.githubusercontent.com/ludus-rl/ludus/main/"
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", readme)
    assert pictures and all(picture.startswith(address) for picture in pictures)
    assert all((_ROOT / picture.removeprefix(address)).is_file() for picture in pictures)

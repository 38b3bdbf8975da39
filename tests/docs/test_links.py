"""Links, anchors and names of pages are true: in the documentation, and in messages and comments of the code."""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

import ludus

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
_SOURCE = re.compile(r'<img src="([^"]+)"')
_HERE = "https://github.com/ludus-rl/ludus/blob/main/"
_RAW = "https://raw.githubusercontent.com/ludus-rl/ludus/main/"
_NAMED = re.compile(r"(?<![\w./-])docs/[\w./-]+\.(?:md|py|png|svg|gif|txt)")


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    text = _FENCE.sub("", page.read_text("utf-8"))
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_to_files_and_headings_that_exist(page: Path) -> None:
    text = _FENCE.sub("", page.read_text("utf-8"))
    for target, anchor in _LINK.findall(text) + [(source, "") for source in _SOURCE.findall(text)]:
        inside = target.removeprefix(_HERE).removeprefix(_RAW)
        if re.match(r"[a-z]+:", inside):
            continue
        base = ROOT if inside != target else page.parent
        file = Path(os.path.normpath(base / inside)) if inside else page
        assert file.exists(), f"{target} is not there"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{target}#{anchor}: no such heading"


def test_every_file_of_docs_that_anything_names_exists() -> None:
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            "*.py",
            "*.md",
            "*.yaml",
            "*.yml",
            "*.toml",
            "*.txt",
            "*.json",
            "Makefile",
            "Dockerfile",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    missing = [
        f"{file}: {named}"
        for file in listed.stdout.splitlines()
        if (ROOT / file).is_file()
        for named in _NAMED.findall((ROOT / file).read_text("utf-8"))
        if not (ROOT / named).is_file()
    ]
    assert not missing


def test_decisions_are_numbered_without_gaps_and_listed_in_order() -> None:
    files = sorted(path.name for path in (DOCS / "adr").glob("[0-9]*.md"))
    assert [int(name[:4]) for name in files] == list(range(1, len(files) + 1))
    for number, name in enumerate(files, 1):
        assert (DOCS / "adr" / name).read_text("utf-8").startswith(f"# {number}. ")
    index = (DOCS / "adr" / "README.md").read_text("utf-8")
    assert re.findall(r"\]\((\d{4}-.*\.md)\)", index) == files


def test_every_page_is_in_a_part_in_the_index_and_in_the_site() -> None:
    pages = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    parts = {"tutorials", "how-to", "reference", "explanation", "adr"}
    assert {page.split("/")[0] for page in pages if "/" in page} == parts
    assert [page for page in pages if "/" not in page] == ["README.md"]
    site = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert sorted(re.findall(r"[\w./-]+\.md$", site, re.MULTILINE)) == pages
    index = (DOCS / "README.md").read_text("utf-8")
    for page in pages:
        if page.split("/")[0] in parts - {"adr"}:
            assert f"]({page})" in index


def test_the_reference_of_the_python_api_has_every_public_name() -> None:
    page = (DOCS / "reference" / "api.md").read_text("utf-8")
    described = {line.rpartition(".")[2] for line in page.splitlines() if line.startswith("::: ")}
    assert {*ludus.__all__} - {"__version__"} <= described


def test_the_files_that_the_architecture_names_exist() -> None:
    page = (DOCS / "explanation" / "architecture.md").read_text("utf-8")
    source = ROOT / "src" / "ludus"
    named = set(re.findall(r"(?<![\w./])[\w/]+/[\w/]*(?:\.py\b|(?<=/)(?=[`<\n]))", page))
    assert len(named) > 40
    missing = [name for name in named if not (source / name).exists() and not (ROOT / name).exists()]
    assert not missing


def test_pictures_of_the_readme_are_small() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    pictures = re.findall(r"docs/images/[\w.-]+", text)
    assert len(pictures) >= 5
    for picture in pictures:
        assert (ROOT / picture).stat().st_size < 500_000

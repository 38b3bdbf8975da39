"""`make install-locked`: every package by hash, from nowhere in particular, and all that is constrained."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_package_is_pinned_with_its_hashes_and_no_address() -> None:
    text = (_ROOT / "requirements.lock").read_text("utf-8")
    blocks = re.split(r"\n(?=[A-Za-z0-9])", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).strip())
    assert len(blocks) > 150
    for block in blocks:
        assert _PIN.match(block), block.splitlines()[0]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), block.splitlines()[0]
    assert "://" not in text and "index-url" not in text and "find-links" not in text


def test_lock_file_pins_what_the_constraints_pin() -> None:
    locked = {_canonical(n): v for n, v in _PIN.findall((_ROOT / "requirements.lock").read_text("utf-8"))}
    constrained = {_canonical(n): v for n, v in _PIN.findall((_ROOT / "constraints.txt").read_text("utf-8"))}
    differing = {
        name: (version, constrained[name])
        for name, version in locked.items()
        if name in constrained and version.partition("+")[0] != constrained[name]
    }
    assert differing == {}


def test_lock_file_has_every_direct_dependency() -> None:
    import tomllib

    project = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    made = (_ROOT / "Makefile").read_text("utf-8")
    extras = re.search(r"^WITH\s*:= (\S+)$", made, re.MULTILINE)
    assert extras is not None
    asked = [*project["dependencies"]]
    for extra in extras[1].split(","):
        asked += project["optional-dependencies"][extra]
    names = {_canonical(re.match(r"[A-Za-z0-9._-]+", one)[0]) for one in asked}  # type: ignore[index]
    locked = {_canonical(n) for n, _ in _PIN.findall((_ROOT / "requirements.lock").read_text("utf-8"))}
    assert names - locked == set()

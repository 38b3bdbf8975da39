"""A dashboard of an empty runs folder, and a page of a real browser that tolerates no error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dashboard_site import Site, serving


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def site(root: Path) -> Iterator[Site]:
    with serving(root) as found:
        yield found


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A fresh page whose errors, and requests to anywhere else, fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    found = context.new_page()
    found.set_default_timeout(60_000)
    problems: list[str] = []
    found.on("console", lambda message: message.type == "error" and problems.append(message.text))
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.on(
        "request",
        lambda request: (
            request.url.startswith("http://127.0.0.1:") or problems.append(f"asked for {request.url}")
        ),
    )
    found.problems = problems
    yield found
    context.close()
    assert problems == []

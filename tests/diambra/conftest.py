"""Stand-in engines on loopback, at ports the system chooses; the official client finds them by DIAMBRA_ENVS."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from running_engines import Start

# these need the extra diambra, which lives in an environment of its own: make test-extras
collect_ignore_glob = [] if importlib.util.find_spec("diambra") else ["test_*.py"]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts engines, one for each stand-in given (or so many plain ones), and says where they are."""
    from ludus.games.diambra.standin.server import EngineStandIn, Serving

    running: list[Serving] = []

    def start_engines(*standins: EngineStandIn | int) -> list[Serving]:
        for standin in standins:
            several = [EngineStandIn() for _ in range(standin)] if isinstance(standin, int) else [standin]
            running.extend(Serving(one) for one in several)
        monkeypatch.setenv("DIAMBRA_ENVS", " ".join(one.address for one in running))
        return running

    yield start_engines
    for one in running:
        one.close()

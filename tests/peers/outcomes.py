"""Which of a peer's tests build the class that was replaced, and what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

_built: set[str] = set()
_running = ""


def begin(not_applicable: Mapping[str, str]) -> None:
    """Note that the running test builds the replaced class; skip it if its name is among `not_applicable`."""
    _built.add(_running)
    test = _running.partition("[")[0].rpartition("::")[2]
    if test in not_applicable:
        pytest.skip(not_applicable[test])


class Outcomes:
    """Writes {test: [outcome, reason]} of the tests that built the replaced class, after each test."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._outcomes: dict[str, tuple[str, str]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        global _running
        _running = item.nodeid
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.nodeid not in _built or (report.passed and report.when != "call"):
            return
        reason = ""
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
        elif report.failed:
            reason = str(report.longrepr).splitlines()[-1]
        self._outcomes[report.nodeid] = (str(report.outcome), reason)
        self._path.write_text(json.dumps(self._outcomes, indent=1))

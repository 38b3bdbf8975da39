"""What fault tests tried, told at the end as one table: fault, tries, survived, lost.

Each of them calls `record_fault`; tests of the same fault are added up. The table is printed wherever one of them
ran, and written as JSON where the variable LUDUS_FAULTS_JSON names a file.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

_PROPERTY = "fault"
_HERE = Path(__file__).parent / "tests"

# what tests train is not to be remembered in the home of the one who runs them
_state = tempfile.TemporaryDirectory(prefix="ludus-tests-")
os.environ["XDG_STATE_HOME"] = _state.name

RecordFault = Callable[..., None]
"""`record_fault(fault, tries, survived, lost="nothing")`."""


@pytest.fixture
def record_fault(request: pytest.FixtureRequest) -> RecordFault:
    """Tell the table of faults what was tried; call it before the assertions, so that a failure counts too.

    `fault`: what was done to the run, in a few words; `tries`: how often; `survived`: how often the promise was
    kept; `lost`: the most that any survivor lost, in words or as a number with its unit.
    """

    def record(fault: str, tries: int, survived: int, lost: str = "nothing") -> None:
        # user_properties travel with the test's report, also from the processes of pytest-xdist
        row = {"fault": fault, "tries": int(tries), "survived": int(survived), "lost": str(lost)}
        request.node.user_properties.append((_PROPERTY, row))

    return record


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What hostile files made a test print may hold half characters, which pytest-xdist cannot send."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode("utf-8")) for name, text in report.sections
    ]
    return report


class _FaultTable:
    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.untried: list[dict[str, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            for name, found in report.user_properties:
                if name == _PROPERTY and isinstance(found, dict):
                    self._add(found)
        if (
            {"faults", "trust"} & set(report.keywords)
            and report.skipped
            and isinstance(report.longrepr, tuple)
        ):
            self.untried.append({"test": report.nodeid, "why": report.longrepr[2].removeprefix("Skipped: ")})

    def _add(self, found: dict[str, Any]) -> None:
        row = self.rows.setdefault(
            found["fault"], {"fault": found["fault"], "tries": 0, "survived": 0, "lost": []}
        )
        row["tries"] += found["tries"]
        row["survived"] += found["survived"]
        if found["lost"] not in row["lost"]:
            row["lost"].append(found["lost"])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        table = [row | {"lost": "; ".join(row["lost"])} for row in self.rows.values()]
        if table:
            width = max(len("fault"), *(len(row["fault"]) for row in table))
            terminalreporter.section("faults")
            terminalreporter.write_line(f"{'fault':{width}} {'tries':>9} {'survived':>9}  lost")
            for row in table:
                terminalreporter.write_line(
                    f"{row['fault']:{width}} {row['tries']:9,} {row['survived']:9,}  {row['lost']}"
                )
            for test in self.untried:
                terminalreporter.write_line(f"not tried: {test['test']} ({test['why']})")
        if (table or self.untried) and os.environ.get("LUDUS_FAULTS_JSON"):
            text = json.dumps({"faults": table, "untried": self.untried}, indent=1)
            Path(os.environ["LUDUS_FAULTS_JSON"]).write_text(text + "\n", "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # in the one process that hears every report
        config.pluginmanager.register(_FaultTable(), "ludus-fault-table")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make faults` also runs what of these two folders is quick enough for `make test`."""
    for item in items:
        if item.path.is_relative_to(_HERE / "faults") or item.path.is_relative_to(_HERE / "security"):
            item.add_marker("trust")

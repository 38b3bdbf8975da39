"""The page about the tests of peers says what results.json says, and nothing in it failed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import run  # a script next to this file

RESULTS = json.loads(run.RESULTS.read_text())


def test_the_page_shows_the_recorded_results() -> None:
    assert run.PAGE.read_text() == run.page(RESULTS)


def test_no_applicable_test_of_a_peer_failed_and_every_other_has_a_reason() -> None:
    assert set(RESULTS["outcomes"]) == {*run.GYMNASIUM_TESTS, "sb3"}
    for tests in RESULTS["outcomes"].values():
        assert tests
        for one in tests.values():
            assert "failed" not in one and all(one.get("not applicable", {"reason": 1}))

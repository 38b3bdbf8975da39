"""Threads that share out one call's parts."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from ludus.envs.vector import threads
from ludus.envs.vector.threads import PartThreads, on_rows


def test_results_are_in_the_order_of_the_parts() -> None:
    def work(seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    assert PartThreads(3).begin(work, [0.05, 0.0, 0.02, 0.01])() == [0.05, 0.0, 0.02, 0.01]


def test_caller_continues_meanwhile() -> None:
    go_on = threading.Event()
    wait = PartThreads(2).begin(lambda part: go_on.wait(10), [0, 1])
    go_on.set()  # would never be reached, if `begin` waited
    assert wait() == [True, True]


def test_an_error_is_raised_when_all_parts_have_ended() -> None:
    ended = []

    def work(part: int) -> None:
        if part == 1:
            raise ValueError("part 1")
        time.sleep(0.05)
        ended.append(part)

    with pytest.raises(ValueError, match="part 1"):
        PartThreads(2).begin(work, [0, 1, 2])()
    assert sorted(ended) == [0, 2]


def test_several_callers_get_their_own_results() -> None:
    two = PartThreads(2)
    one = two.begin(lambda part: part + 1, [1, 2, 3])
    other = two.begin(lambda part: part * 10, [1, 2, 3])
    assert other() == [10, 20, 30]
    assert one() == [2, 3, 4]


def test_rows_of_a_large_array_are_each_worked_on_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "LARGE", 1)
    monkeypatch.setattr(threads, "usable_cores", lambda: 3)
    array, seen = np.arange(10), np.zeros(10, dtype=int)

    def work(rows: slice) -> int:
        seen[rows] += 1
        return int(array[rows].sum())

    parts = on_rows(array, work)
    assert len(parts) == 3
    assert sum(parts) == array.sum()
    assert seen.tolist() == [1] * 10

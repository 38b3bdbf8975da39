"""Which number of cores the kernels pick, on made-up times."""

from __future__ import annotations

from itertools import pairwise

from ludus.algorithms.backends.numba import CALLS_KEPT, MAX_RETRY_AFTER_CALLS, RETRY_AFTER_CALLS, CoreChoice


def picks(choice: CoreChoice, seconds: dict[int, float], calls: int) -> list[int]:
    """The cores of so many calls, each of which takes what `seconds` says."""
    picked = []
    for _ in range(calls):
        picked.append(choice.cores)
        choice.took(choice.cores, seconds[choice.cores])
    return picked


def test_the_faster_number_is_kept_and_the_other_tried_ever_more_seldom() -> None:
    picked = picks(CoreChoice(2), {1: 2.0, 2: 1.0}, 6 * MAX_RETRY_AFTER_CALLS)
    assert picked[:3] == [2, 1, 2]
    tries = [call for call, cores in enumerate(picked) if cores == 1]
    waits = [later - earlier for earlier, later in pairwise(tries)]
    start, rest = waits[:3], waits[3:]
    assert start == [RETRY_AFTER_CALLS - 1, 2 * RETRY_AFTER_CALLS, 4 * RETRY_AFTER_CALLS]
    assert rest == [MAX_RETRY_AFTER_CALLS] * 5


def test_after_a_change_the_other_is_tried_soon_again() -> None:
    choice = CoreChoice(2)
    picks(choice, {1: 2.0, 2: 1.0}, 4 * MAX_RETRY_AFTER_CALLS)
    busy = picks(choice, {1: 2.0, 2: 9.0}, RETRY_AFTER_CALLS)
    assert busy[-1] == 1
    assert 2 in picks(choice, {1: 2.0, 2: 1.0}, RETRY_AFTER_CALLS)
    assert choice.cores == 2


def test_one_slow_call_changes_nothing() -> None:
    choice = CoreChoice(2)
    picks(choice, {1: 2.0, 2: 1.0}, 2 + CALLS_KEPT)
    assert choice.cores == 2
    choice.took(2, 50.0)
    assert choice.cores == 2


def test_a_machine_that_stays_busy_gets_one_core_and_a_second_one_when_it_is_free_again() -> None:
    choice = CoreChoice(2)
    picks(choice, {1: 2.0, 2: 1.0}, 2 + CALLS_KEPT)
    busy = picks(choice, {1: 2.0, 2: 9.0}, RETRY_AFTER_CALLS // 2)
    assert busy == [2] * CALLS_KEPT + [1] * (RETRY_AFTER_CALLS // 2 - CALLS_KEPT)
    free = picks(choice, {1: 2.0, 2: 1.0}, RETRY_AFTER_CALLS)
    assert free[-1] == 2
    assert free.index(2) <= RETRY_AFTER_CALLS // 2


def test_one_core_is_one_core() -> None:
    choice = CoreChoice(1)
    for _ in range(3):
        with choice.choose() as cores:
            assert cores == 1

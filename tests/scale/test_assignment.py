"""Turns go to the sampler that has their adapter, and no sampler has more than its share."""

from __future__ import annotations

from collections import Counter

from ludus.language.assignment import Assignment
from ludus.language.models.sampling import Request


def of(*samplers: int) -> Assignment:
    assignment = Assignment()
    for sampler in samplers:
        assignment.join(sampler)
    return assignment


def requests(*adapters: str) -> list[Request]:
    return [Request((1,), adapter, f"{number}/0") for number, adapter in enumerate(adapters)]


def who(assignment: Assignment, asked: list[Request]) -> list[int]:
    """The sampler of each request, in order."""
    parts = assignment.deal(asked)
    owners = {index: sampler for sampler, part in parts.items() for index in part.indices}
    return [owners[place] for place in range(len(asked))]


def test_an_adapter_that_many_ask_for_comes_to_be_everywhere() -> None:
    assignment = of(0, 1, 2)
    assert Counter(who(assignment, requests(*["new"] * 9))) == {0: 3, 1: 3, 2: 3}
    assert assignment.holders("new") == [0, 1, 2]


def test_an_adapter_that_few_ask_for_stays_with_one() -> None:
    assignment = of(0, 1, 2)
    asked = requests("new", "new", "old", "new", "new", "new")
    for _ in range(5):
        parts = assignment.deal(asked)
        assert max(len(part.indices) for part in parts.values()) == 2
    assert len(assignment.holders("old")) == 1


def test_adapters_are_loaded_once_and_before_they_are_asked_for() -> None:
    assignment = of(0, 1)
    first = assignment.deal(requests("a", "b", "a", "b"))
    assert sorted(name for part in first.values() for name in part.load) == ["a", "b"]
    assert not any(part.load for part in assignment.deal(requests("a", "b", "a", "b")).values())


def test_a_seat_stays_with_its_sampler() -> None:
    assignment = of(0, 1)
    asked = requests("a", "a", "a", "a")
    before = dict(zip([one.key for one in asked], who(assignment, asked), strict=True))
    turned = list(reversed(asked))
    assert who(assignment, turned) == [before[one.key] for one in turned]


def test_what_a_lost_sampler_held_goes_to_others() -> None:
    assignment = of(0, 1)
    assignment.deal(requests("a", "b"))
    (lost,) = assignment.holders("b")
    assignment.leave(lost)
    parts = assignment.deal(requests("a", "b"))
    assert list(parts) == [1 - lost]
    assert parts[1 - lost].load == ["b"]


def test_the_base_needs_no_loading_and_dropped_names_are_gone() -> None:
    assignment = of(0, 1)
    parts = assignment.deal([Request((1,), None, "0/0"), Request((1,), "a", "1/0")])
    assert [part.load for part in parts.values()].count([]) == 1
    held = assignment.holders("a")
    assert assignment.drop("a") == held
    assert assignment.holders("a") == []


def test_after_forgetting_the_same_requests_are_dealt_as_at_first() -> None:
    assignment, asked = of(0, 1, 2), requests("a", "b", "a", "c", "a", "a")
    first = assignment.deal(asked)
    assignment.deal(requests("c", "c", "a", "b"))
    assignment.forget()
    assert assignment.deal(asked) == first

"""A prompt continues from its longest prefix in the cache, in any slot."""

from __future__ import annotations

import numpy as np

from ludus.language.models.slots import BLOCK, Place, Slots

RULES = list(range(100, 100 + 3 * BLOCK))


def held(count: int, *sequences: tuple[list[int], str]) -> Slots:
    """Slots that hold these sequences from a call before, the first in slot 0."""
    slots = Slots(count)
    slots.begin()
    for i, (tokens, key) in enumerate(sequences):
        assert slots.place(tokens, "w", key) is not None
        slots.hold(i, tokens, "w", key)
    slots.begin()
    return slots


def test_next_turn_continues_in_its_own_slot() -> None:
    slots = held(4, (RULES + [1, 2, 3], "0/0"), (RULES + [4, 5], "1/0"))
    assert slots.place(RULES + [4, 5, 6, 7], "w", "1/0") == Place(1, len(RULES) + 2, None, False)
    assert slots.place(RULES + [1, 9], "w", "0/0") == Place(0, len(RULES) + 1, None, False)


def test_the_last_token_is_always_computed() -> None:
    slots = held(2, (RULES, "0/0"))
    place = slots.place(RULES, "w", "0/0")
    assert place == Place(0, len(RULES) - 1, None, False)


def test_a_new_match_copies_the_beginning_it_shares() -> None:
    slots = held(4, (RULES + [1, 2, 3], "0/0"))
    assert slots.place(RULES + [7, 8], "w", "5/0") == Place(1, 3 * BLOCK, 0, False)
    # the owner continues in its slot: copies are made before anything is written
    assert slots.place(RULES + [1, 2, 3, 4], "w", "0/0") == Place(0, len(RULES) + 3, None, False)


def test_prompts_of_one_call_wait_for_the_first_of_them() -> None:
    slots = Slots(4)
    slots.begin()
    assert slots.place(RULES + [1], "w", "0/0") == Place(0, 0, None, False)
    assert slots.place(RULES + [2], "w", "1/0") == Place(1, 3 * BLOCK, 0, True)
    assert slots.place([5, 6], "w", "2/0") == Place(2, 0, None, False)


def test_what_a_row_of_this_call_holds_already_can_be_copied_at_once() -> None:
    slots = held(4, (RULES + [1, 2], "0/0"))
    assert slots.place(RULES + [1, 2, 3], "w", "0/0") == Place(0, len(RULES) + 2, None, False)
    assert slots.place(RULES + [8], "w", "9/0") == Place(1, 3 * BLOCK, 0, False)


def test_other_weights_share_nothing() -> None:
    slots = held(4, (RULES + [1, 2, 3], "0/0"))
    assert slots.place(RULES + [1, 2, 3, 4], "other", "0/0") == Place(1, 0, None, False)


def test_no_slot_is_given_twice_in_a_call_and_the_oldest_goes_first() -> None:
    slots = held(2, ([1], "0/0"), ([2], "1/0"))
    assert slots.place([1, 1], "w", "0/0") == Place(0, 0, None, False)
    slots.begin()
    assert slots.place([3], "w", "3/0") == Place(1, 0, None, False)
    assert slots.place([4], "w", "4/0") == Place(0, 0, None, False)
    assert slots.place([5], "w", "5/0") is None


def test_a_single_slot_serves_any_prompt_in_turn() -> None:
    slots = Slots(1)
    for tokens in (RULES + [1], RULES + [2], [7], RULES + [1]):
        slots.begin()
        place = slots.place(tokens, "w", "")
        assert place is not None and place.slot == 0 and place.source is None
        slots.hold(0, tokens, "w", "")


def test_random_requests_keep_exactly_the_cached_tokens() -> None:
    """Plays cache and prompts against each other: contents are simulated, and checked after every call."""
    rng = np.random.default_rng(0)
    slots, contents = Slots(6), [[-1] * 400 for _ in range(6)]
    texts = [rng.integers(0, 3, size=40 * BLOCK).tolist() for _ in range(2)]
    for _ in range(300):
        slots.begin()
        rows = []
        for _ in range(int(rng.integers(1, 9))):
            text = texts[int(rng.integers(2))]
            n = int(rng.integers(1, 200))
            prompt = text[:n] + rng.integers(0, 3, size=int(rng.integers(0, 50))).tolist()
            key = ["", *(f"{i}/0" for i in range(5))][int(rng.integers(6))]
            weights = ["a", "b"][int(rng.integers(2))]
            place = slots.place([hash(weights) % 1000 + t for t in prompt], weights, key)
            if place is not None:
                rows.append(([hash(weights) % 1000 + t for t in prompt], place, weights, key))
        assert rows and len({place.slot for _, place, _, _ in rows}) == len(rows)
        for waits in (False, True):
            now = [row for row in rows if row[1].waits == waits]
            before = [list(content) for content in contents]
            for _, place, _, _ in now:
                if place.source is not None:
                    contents[place.slot][: place.kept] = before[place.source][: place.kept]
            for prompt, place, _, _ in now:
                assert place.kept < len(prompt)
                assert contents[place.slot][: place.kept] == prompt[: place.kept]
            for prompt, place, _, _ in now:
                contents[place.slot][: len(prompt)] = prompt
        for prompt, place, weights, key in rows:
            slots.hold(place.slot, prompt, weights, key)

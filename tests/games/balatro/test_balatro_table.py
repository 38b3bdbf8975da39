"""Play by a person: the effect of keys, and a screen of at most 80 by 24."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

from ludus.errors import UserError
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.cards import HIDDEN
from ludus.games.balatro.screen import HEIGHT, WIDTH, screen
from ludus.games.balatro.settings import BalatroSettings
from ludus.games.balatro.table import HumanTable
from ludus.games.balatro.terminal import _pressed, play_in_terminal


def at_cards(seed: int = 1) -> HumanTable:
    table = HumanTable(seed=seed)
    table.press("1")  # the first in the list is to take the blind
    assert table.s[st.PHASE] == n.SELECTING_HAND
    return table


def test_cards_are_chosen_and_score_what_was_announced() -> None:
    table = at_cards()
    for key in ("1", "right", "right", "space"):
        table.press(key)
    assert table.chosen == {0, 2}
    _, expected = table.preview((0, 2))
    table.press("p")
    assert float(table.f[st.HAND_SCORE]) == expected
    assert table.scored.endswith(f"= {expected:,.0f}")
    assert table.chosen == set() and table.steps == 2  # the blind was taken before


def test_no_more_than_five_cards_are_chosen() -> None:
    table = at_cards()
    for key in "123456":
        table.press(key)
    assert table.chosen == {0, 1, 2, 3, 4}
    assert "five cards" in table.message


def test_a_hint_chooses_the_cards_that_score_most() -> None:
    table = at_cards()
    table.press("h")
    _, most = table.preview(tuple(sorted(table.chosen)))
    for one in range(8):
        for other in range(one + 1, 8):
            assert table.preview((one, other))[1] <= most


def test_hint_ignores_face_down_cards() -> None:
    table = at_cards()
    for at in range(4):
        table.s[st.CARD + table.s[st.HAND + at]] |= HIDDEN
    table.press("h")
    assert table.chosen and min(table.chosen) >= 4
    assert "?" in screen(table, colours=False)


@pytest.mark.parametrize("colours", [False, True])
def test_screen_fits_80_by_24_for_any_keys(colours: bool) -> None:
    rng = np.random.default_rng(4)
    keys = ["1", "2", "3", "4", "5", "p", "d", "h", "enter", "tab", "down", "left", "a", "b", "space"]
    phases = set()
    for seed in range(3):
        table = HumanTable(BalatroSettings(deck="Plasma Deck"), seed)
        table.f[st.TARGET] = 1.0
        for _ in range(150):
            table.press(str(rng.choice(keys)))
            if table.s[st.PHASE] == n.SELECTING_HAND:
                table.f[st.TARGET] = min(table.f[st.TARGET], 10.0)  # to get past the first shop
            phases.add(int(table.s[st.PHASE]))
            lines = screen(table, colours=colours).split("\n")
            assert len(lines) <= HEIGHT
            assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in lines) <= WIDTH
            if table.over:
                break
    assert {n.CHOOSING_BLIND, n.SELECTING_HAND, n.CASHING_OUT, n.SHOPPING} <= phases


def test_shop_shows_unaffordable_items() -> None:
    table = at_cards()
    table.f[st.TARGET] = 1.0
    for key in ("1", "p", "1"):  # a card, played; cash out
        table.press(key)
    assert table.s[st.PHASE] == n.SHOPPING
    table.s[st.MONEY] = 0
    voucher = next(offer for offer in table.offers() if offer.endswith("$10"))
    assert voucher in " ".join(screen(table, colours=False).split())


def test_same_seed_gives_the_same_run_as_the_env() -> None:
    from ludus.games.balatro.env import BalatroEnv

    env = BalatroEnv()
    env.reset(seed=7)
    assert (env.games.s[0] == HumanTable(seed=7).s).all()


def test_keys_of_a_terminal_have_names() -> None:
    read, write = os.pipe()
    os.write(write, b"3\x1b[C\x1b[A \rP\t\x04")
    os.close(write)
    keys = _pressed(read)
    assert [next(keys) for _ in range(8)] == ["3", "right", "up", "space", "enter", "p", "tab", "q"]
    assert next(keys) == "q"  # the terminal has gone
    os.close(read)


def test_play_without_a_terminal_raises() -> None:
    with pytest.raises(UserError, match="terminal"):
        play_in_terminal(BalatroSettings(), [0])

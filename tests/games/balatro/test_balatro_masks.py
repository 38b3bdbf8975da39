"""The mask is exact: it equals the legal actions of the reference rules in `rulebook.py`."""

from __future__ import annotations

import numpy as np
import pytest
from rulebook import permitted
from tabletop import Game

from ludus.games.balatro import actions as act
from ludus.games.balatro import chance
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.facts import ITEM_NAMES
from ludus.games.balatro.score import put_joker
from ludus.games.balatro.settings import BalatroSettings
from ludus.games.balatro.vector import BalatroVectorEnv
from ludus.types import Array

EASY = 60
EACH_KIND = [
    *(
        act.TAKE_BLIND,
        act.SKIP_BLIND,
        act.REROLL_BOSS,
        act.CASH_OUT,
        act.REROLL,
        act.NEXT_ROUND,
        act.SKIP_PACK,
    ),
    *(act.BUY, act.BUY_AND_USE, act.REDEEM, act.OPEN, act.PICK, act.USE, act.SELL_CONSUMABLE, act.SELL_JOKER),
    *(act.SWAP_JOKERS, act.MOVE_CARD + 1, act.CARDS, act.CARDS + 1),
]


def disturb(games: st.Games, rng: np.random.Generator) -> None:
    """Change the games at random to reach edge cases: debts, full slots, rare consumables, large hands."""
    games.f[:, st.TARGET] = np.minimum(games.f[:, st.TARGET], EASY)
    for i in np.flatnonzero(rng.random(len(games.s)) < 0.25):
        s, f = games.s[i], games.f[i]
        if s[st.PHASE] in (n.GAME_OVER, n.TARGETING):
            continue
        what = rng.integers(7)
        if what == 0:
            s[st.MONEY] = rng.integers(-25, 60)
        elif what == 1 and s[st.N_CONSUMABLES] < s[st.CONSUMABLE_SLOTS]:
            s[st.CONSUMABLE + s[st.N_CONSUMABLES]] = rng.integers(n.C_FOOL, n.PLAYING_CARD)
            s[st.N_CONSUMABLES] += 1
        elif what == 2 and s[st.N_JOKERS] < 7:
            edition = ["Base", "Foil", "Polychrome", "Negative"][rng.integers(4)]
            put_joker(s, f, {"name": ITEM_NAMES[int(rng.integers(1, 151))], "edition": edition})
            s[st.J_STICKERS + s[st.N_JOKERS] - 1] |= rng.choice([0, st.ETERNAL, st.RENTAL])
        elif what == 3:
            s[st.VOUCHER + rng.integers(1, 33)] = 1
        elif what == 4:
            s[st.HAND_SIZE] = rng.integers(3, 16)
        elif what == 5 and s[st.PHASE] == n.CHOOSING_BLIND:
            s[st.BLIND_ON_DECK], s[st.BOSS] = 2, rng.integers(n.BL_HOOK, n.BL_FINAL_BELL + 1)
        elif what == 6 and s[st.PHASE] == n.CHOOSING_BLIND:
            s[st.BLIND_ON_DECK], s[st.BOSS] = 2, n.BL_FINAL_BELL


def any_actions(mask: Array, rng: np.random.Generator) -> Array:
    """Return random legal actions, half of them other than sets of cards."""
    chosen = np.empty(len(mask), dtype=np.int64)
    for i, row in enumerate(mask):
        legal = np.flatnonzero(row)
        others = legal[legal < act.CARDS]
        chosen[i] = rng.choice(others if len(others) and rng.random() < 0.5 else legal)
    return chosen


@pytest.mark.parametrize(
    ("deck", "stake", "max_hand"), [("Red", 1, 12), ("Ghost", 8, 8), ("Magic", 4, 5), ("Painted", 7, 9)]
)
def test_mask_equals_the_actions_that_the_rules_permit(deck: str, stake: int, max_hand: int) -> None:
    rng = np.random.default_rng(max_hand)
    envs = BalatroVectorEnv(12, BalatroSettings(deck=deck, stake=stake, max_ante=None, max_hand=max_hand))
    envs.reset(seed=3)
    phases, seen = set(), np.zeros(act.n_actions(max_hand), dtype=bool)
    for _ in range(450):
        disturb(envs.games, rng)
        _, infos = envs.restore(envs.snapshot())
        mask = infos["action_mask"]
        for s, row in zip(envs.games.s, mask, strict=True):
            allowed, legal = set(np.flatnonzero(row).tolist()), permitted(s, max_hand)
            assert allowed == legal, (
                f"phase {s[st.PHASE]}: forbidden {[act.describe(a) for a in sorted(legal - allowed)][:5]}, "
                f"allowed {[act.describe(a) for a in sorted(allowed - legal)][:5]}"
            )
            assert legal, f"nothing can be done in phase {s[st.PHASE]}"
            phases.add(int(s[st.PHASE]))
        seen |= mask.any(axis=0)
        envs.step(any_actions(mask, rng))
    assert phases >= {0, 1, 2, 3, 4, 5}
    assert seen[EACH_KIND].all(), "the games did not reach every kind of action"


def test_card_forced_by_cerulean_bell_can_always_be_moved_into_reach() -> None:
    # 8 + 5 + 1 cards, the last of them forced: out of reach of the sets of 12, and of Death
    game = Game(
        "AS KS QS JS TS 9S 8S 7S 6S 5S 4S 3S 2S 2H",
        ["Turtle Bean", "Juggler"],
        blind=n.BL_FINAL_BELL,
        consumables=[n.C_DEATH],
        given=[(chance.GIVEN_POSITION, 13)],
    )
    assert game[st.N_HAND] == 14
    game[st.HAND_MOVES] = 0
    cards = np.flatnonzero(game.legal[0, act.MOVE_CARD :]) + act.MOVE_CARD
    assert cards.tolist() == [act.MOVE_CARD + 13]
    assert not game.can(act.USE)
    game.do(act.MOVE_CARD + 13)
    assert game.can(act.USE)
    assert game.can(act.play_action((0,)))
    assert not game.can(act.play_action((1,)))


def test_new_hand_is_drawn_after_its_last_card_is_destroyed() -> None:
    # three Stuntmen leave two cards
    game = Game("KS KH", ["Stuntman"] * 3, consumables=[n.C_HANGED_MAN])
    assert game[st.N_HAND] == 2
    game.use(0, 0, 1)
    assert (game[st.N_HAND], game[st.N_CARDS], game[st.PHASE]) == (2, 50, n.SELECTING_HAND)


def test_empty_hand_ends_the_round() -> None:
    game = Game("KS KH", ["Stuntman"] * 3)
    game[st.HAND_SIZE] = 0
    assert game.play(0, 1)[st.PHASE] == n.GAME_OVER


@pytest.mark.parametrize("name", ["Raised Fist", "Shoot the Moon", "Photograph", "Hanging Chad"])
def test_hand_can_be_reordered_if_a_joker_depends_on_its_order(name: str) -> None:
    assert not Game("KS KH 2C").can(act.MOVE_CARD + 1)
    game = Game("KS KH 2C", [name])
    assert game.can(act.MOVE_CARD + 1)
    assert game.do(act.MOVE_CARD + 2).hand[:3] == ["2C", "KS", "KH"]


def test_order_of_held_cards_changes_the_score_of_steel_and_shoot_the_moon() -> None:
    # held: a steel queen (+13, x1.5) and a queen (+13). (1 x 1.5 + 13) + 13, or ((1 + 13) x 1.5) + 13
    first = Game("2S QH:steel QC 3C 3D 4C 4D 5C", ["Shoot the Moon"])
    assert first.play(0).mult == 1 * 1.5 + 13 + 13
    other = Game("2S QH:steel QC 3C 3D 4C 4D 5C", ["Shoot the Moon"]).do(act.MOVE_CARD + 2)
    assert other.play(1).mult == (1 + 13) * 1.5 + 13

"""`score`: compute the score of a hand from a plain description.

answer = score({"cards": [...], "jokers": [...], "money": 4, "discards": 3, "hands_left_after": 3})
print(answer.hand, answer.chips, answer.mult, answer.score)
print(answer)                       # the same, step by step
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ludus.errors import UnknownName, UserError
from ludus.games.balatro import facts, tally
from ludus.games.balatro import state as st
from ludus.games.balatro.cards import packed
from ludus.games.balatro.jokers import add_joker
from ludus.games.balatro.scoring import evaluate

_NO_QUEUE = np.zeros(0, dtype=np.int64)
_LOG_ROWS = 1000


@dataclass(frozen=True)
class ScoreStep:
    """One change of chips or mult: its source, its effect, and chips and mult afterwards."""

    source: str
    effect: str
    chips: float
    mult: float


@dataclass(frozen=True)
class HandScore:
    """The score of a hand. `str()` lists the steps that led to it."""

    hand: str
    chips: float
    mult: float
    score: float
    money: int
    steps: list[ScoreStep] = field(repr=False)

    def __str__(self) -> str:
        wide = max((len(step.source) for step in self.steps), default=0)
        lines = [
            f"  {step.source:<{wide}}  {step.effect:<12} {step.chips:>10,.10g} x {step.mult:,.10g}"
            for step in self.steps
        ]
        total = f"{self.hand}: {self.chips:,.10g} x {self.mult:,.10g} = {self.score:,.10g}"
        return "\n".join([*lines, total])


def score(state: Mapping[str, Any]) -> HandScore:
    """Score the cards with `played: true`, as playing them in the game would.

    `state` has `cards` (left to right; `rank`, `suit`, and if they are not plain `enhancement`, `edition`, `seal`,
    `bonus` chips, `debuffed`), `jokers` (left to right; `name`, and if they differ `edition`, `value`, `count`,
    `sell_extra`, `debuffed`), `money`, `discards`, `hands_left_after`, `jokerSlots`, and by poker hand the `levels`
    that are not 1. Jokers that count money see `money`, without what this hand earns; the `money` of the result
    includes it. UserError if `state` is invalid.
    """
    games = st.Games.empty(1)
    s, f = games.s[0], games.f[0]
    s[st.LEVEL : st.LEVEL + st.N_HANDS] = 1
    s[st.STARTING_CARDS] = 52
    s[st.JOKER_SLOTS] = state.get("jokerSlots", 5)
    s[st.CONSUMABLE_SLOTS] = 2
    s[st.STAKE] = 1
    s[st.MONEY_FIXED] = 1
    names = _lay_out_cards(s, state.get("cards", ()))
    if s[st.N_PLAY] == 0:
        raise UserError(
            "no card is played", where="state.cards", fix='set "played": true for one to five cards'
        )
    s[st.MONEY] = state.get("money", 0)
    for entry in state.get("jokers", ()):
        put_joker(s, f, entry)
    s[st.DISCARDS_LEFT] = state.get("discards", 0)
    s[st.HANDS_LEFT] = state.get("hands_left_after", 0)
    for hand, level in dict(state.get("levels", {})).items():
        s[st.LEVEL + choice(facts.HANDS, hand, "poker hand")] = level
    jokers = [facts.ITEM_NAMES[int(j)] for j in s[st.JOKER : st.JOKER + s[st.N_JOKERS]]]
    log = np.zeros((_LOG_ROWS, 6))
    evaluate(s, f, _NO_QUEUE, log)
    steps = [_step(row, names, jokers) for row in log[1 : int(log[0, 0]) + 1]]
    return HandScore(
        facts.HANDS[s[st.W_HAND]],
        float(f[st.W_CHIPS]),
        float(f[st.W_MULT]),
        float(f[st.HAND_SCORE]),
        int(s[st.MONEY]),
        steps,
    )


def choice(names: tuple[str, ...], name: str, kind: str) -> int:
    """Return the position of a name, ignoring case. UnknownName if it is not there."""
    for index, known in enumerate(names):
        if known.lower() == str(name).lower():
            return index
    raise UnknownName(kind, str(name), names)


def joker_number(name: str) -> int:
    """Return the number of a joker by its name or key. UnknownName if it is not a joker."""
    number = facts.number_of(facts.ITEM_NAMES, name) or facts.number_of(facts.ITEM_KEYS, name)
    if number is None or number > 150:
        raise UnknownName("joker", name, [facts.ITEM_NAMES[j] for j in range(1, 151)])
    return number


def put_joker(s: Any, f: Any, entry: Mapping[str, Any]) -> None:
    """Add a joker, described by a mapping (see `score`), at the right end."""
    number = joker_number(entry["name"])
    edition = _edition(entry.get("edition"))
    at = add_joker(s, f, _NO_QUEUE, number, edition, st.DEBUFFED if entry.get("debuffed") else 0)
    if at < 0:
        raise UserError(f"more than {st.MAX_JOKERS} jokers", where="state.jokers")
    if "value" in entry:
        f[st.J_VALUE + at] = entry["value"]
    if "count" in entry:
        s[st.J_COUNT + at] = entry["count"]
    s[st.J_EXTRA + at] = entry.get("sell_extra", 0)


def _edition(name: str | None) -> int:
    short = {None: "Base", "none": "Base", "holo": "Holographic", "poly": "Polychrome"}
    key = name if name is None else name.lower()
    return choice(facts.EDITIONS, short.get(key, name or "Base"), "edition")


def _lay_out_cards(s: Any, cards: Any) -> list[str]:
    names = []
    for slot, card in enumerate(cards):
        rank = 2 + choice(facts.RANKS, card["rank"], "rank")
        s[st.CARD + slot] = packed(
            rank,
            choice(facts.SUITS, card["suit"], "suit"),
            choice(facts.ENHANCEMENTS, card.get("enhancement") or "None", "enhancement"),
            _edition(card.get("edition")),
            choice(facts.SEALS, card.get("seal") or "None", "seal"),
        ) | (1 << 16 if card.get("debuffed") else 0)
        s[st.CARD_BONUS + slot] = card.get("bonus", 0)
        s[st.N_CARDS] += 1
        s[st.CARD_TOP] = slot + 1
        names.append(f"{card['rank']} of {card['suit']}")
        if card.get("played"):
            if s[st.N_PLAY] >= 5:
                raise UserError("more than 5 cards are played", where="state.cards")
            s[st.PLAY + s[st.N_PLAY]] = slot
            s[st.N_PLAY] += 1
        else:
            if s[st.N_HAND] >= st.MAX_HAND:
                raise UserError(f"more than {st.MAX_HAND} cards are held", where="state.cards")
            s[st.HAND + s[st.N_HAND]] = slot
            s[st.N_HAND] += 1
    return names


def _step(row: Any, cards: list[str], jokers: list[str]) -> ScoreStep:
    source, index, what, amount = int(row[0]), int(row[1]), int(row[2]), float(row[3])
    name = {
        tally.FROM_HAND: facts.HANDS[index] if source == tally.FROM_HAND else "",
        tally.FROM_CARD: cards[index] if source == tally.FROM_CARD else "",
        tally.FROM_HELD: f"{cards[index]} in hand" if source == tally.FROM_HELD else "",
        tally.FROM_JOKER: jokers[index] if source == tally.FROM_JOKER else "",
        tally.FROM_CONSUMABLE: "Observatory",
        tally.FROM_BLIND: "the boss",
        tally.FROM_DECK: "Plasma Deck",
    }[source]
    effect = {
        tally.ADD_CHIPS: f"+{amount:g} chips",
        tally.ADD_MULT: f"+{amount:g} mult",
        tally.TIMES_MULT: f"x{amount:g} mult",
        tally.ADD_MONEY: f"${amount:g}",
        tally.SET_BOTH: "",
    }[what]
    return ScoreStep(name, effect, float(row[4]), float(row[5]))

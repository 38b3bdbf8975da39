"""A run played by a person: the state of the table, and the effect of each key.

`HumanTable` does not depend on a terminal: `press(key)` gets the name of a key, and `screen.py` draws the table. Cards
are selected by number or with the arrow keys; all other actions are in a list of the legal ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import actions as act
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro import tally
from ludus.games.balatro.action_words import action_words
from ludus.games.balatro.engine import begin, observe, step
from ludus.games.balatro.env import NO_LOG, NO_QUEUE
from ludus.games.balatro.facts import (
    BOOSTER_NAMES,
    HANDS,
    ITEM_NAMES,
    VOUCHER_NAMES,
)
from ludus.games.balatro.observation import observation_size
from ludus.games.balatro.render import card_text, item_text, short
from ludus.games.balatro.report import episode_report
from ludus.games.balatro.scoring import evaluate
from ludus.games.balatro.seeds import seed_code
from ludus.games.balatro.settings import BalatroSettings
from ludus.games.balatro.shop import booster_price, shop_price, voucher_price
from ludus.types import Array, BoolArray

_LOG_ROWS = 400
KEYS = "123456789abcefgijklmnorstuvwxyz"  # keys that choose from a list; d, h, p and q have other meanings
PLAYING = (n.SELECTING_HAND, n.TARGETING)


class HumanTable:
    """One run, played key by key. `over` is True once it has ended, `left` once the player has quit."""

    def __init__(self, settings: BalatroSettings | None = None, seed: int | str = 0) -> None:
        self.settings = settings or BalatroSettings()
        self.left = False
        self.reward, self.steps = 0.0, 0
        self._games = st.Games.empty(1)
        self.settings.write_rewards(self._games)
        max_hand = self.settings.max_hand
        self._obs: Array = np.zeros((1, observation_size(max_hand)), dtype=np.float32)
        self._legal: BoolArray = np.zeros((1, act.n_actions(max_hand)), dtype=bool)
        self.chosen: set[int] = set()
        self.cursor = 0
        self.listing = False
        self.scored = ""
        self.message = "Beat the blinds. Press h for a hint, q to leave."
        begin(
            self.s,
            self.f,
            NO_QUEUE,
            seed_code(seed),
            self.settings.deck_number,
            self.settings.stake_number,
            self.settings.last_ante,
        )
        observe(self._games.s, self._games.f, self._obs, self._legal, max_hand)

    @property
    def s(self) -> Any:
        return self._games.s[0]

    @property
    def f(self) -> Any:
        return self._games.f[0]

    @property
    def over(self) -> bool:
        return bool(self.s[st.PHASE] == n.GAME_OVER)

    @property
    def report(self) -> dict[str, Any]:
        """Return the report of the run so far; see `episode_report`."""
        return episode_report(self.s, self.f)

    # keys

    def press(self, key: str) -> None:
        """Handle a key: a digit or letter, `left`, `right`, `up`, `down`, `space`, `enter`, `tab`, `escape`."""
        if key in ("q", "escape"):
            self.left = True
        elif self.over:
            self.left = key == "enter"
        elif self.s[st.PHASE] in PLAYING and not self.listing:
            self._press_at_cards(key)
        else:
            self._press_in_list(key)

    def _press_at_cards(self, key: str) -> None:
        held = self._reachable()
        if key in ("left", "right"):
            self.cursor = (self.cursor + (1 if key == "right" else -1)) % max(1, held)
        elif key == "space":
            self._toggle(self.cursor)
        elif key.isdigit() and len(key) == 1:
            self._toggle(9 if key == "0" else int(key) - 1)
        elif key in ("p", "enter"):
            self._try_cards(act.play_action, "played")
        elif key == "d" and self.s[st.PHASE] == n.SELECTING_HAND:
            self._try_cards(act.discard_action, "discarded")
        elif key == "h":
            self._hint()
        elif key == "tab" and self.options():
            self.listing, self.cursor = True, 0

    def _press_in_list(self, key: str) -> None:
        options = self.options()
        if key in ("up", "down"):
            self.cursor = (self.cursor + (1 if key == "down" else -1)) % max(1, len(options))
        elif key == "tab":
            self.listing, self.cursor = False, 0
        elif key in ("enter", "space") and options:
            self._do(options[min(self.cursor, len(options) - 1)][1])
        elif len(key) == 1 and key in KEYS and KEYS.index(key) < len(options):
            self._do(options[KEYS.index(key)][1])
        elif key == "h":
            self.scored, self.message = "", "Jokers first: multipliers are best at the right end."

    def _toggle(self, at: int) -> None:
        if not 0 <= at < self._reachable():
            return
        self.cursor, self.scored, self.message = at, "", ""
        if at in self.chosen:
            self.chosen.discard(at)
        elif len(self.chosen) < 5:
            self.chosen.add(at)
        else:
            self.message = "Select at most five cards."

    def _try_cards(self, action_of: Any, what: str) -> None:
        if not self.chosen:
            self.message = "Select cards first: with their numbers, or the arrow keys and space."
            return
        action = action_of(sorted(self.chosen))
        if action >= self._legal.shape[1] or not self._legal[0, action]:
            self.message = f"These cards cannot be {what} now."
            return
        self._do(action)

    def _do(self, action: int) -> None:
        """Apply a legal action and set the message about its result."""
        done, reward = np.zeros(1, dtype=np.uint8), np.zeros(1)
        log = np.zeros((_LOG_ROWS, 6))
        before, words = int(self.s[st.MONEY]), action_words(self.s, action)
        cards = {int(p): card_text(int(self.s[st.CARD + p])) for p in self.s[st.HAND : st.HAND + st.MAX_HAND]}
        jokers = [ITEM_NAMES[int(j)] for j in self.s[st.JOKER : st.JOKER + int(self.s[st.N_JOKERS])]]
        step(
            self._games.s,
            self._games.f,
            NO_QUEUE,
            np.array([action]),
            self._obs,
            reward,
            done,
            self._legal,
            self._legal,
            self.settings.max_hand,
            self.settings.max_steps,
            0,
            self._games.s,
            self._games.f,
            self._obs,
            self._legal,
            log,
        )
        self.reward += float(reward[0])
        self.steps += 1
        self.chosen.clear()
        self.scored = ""
        self.listing, self.cursor = False, 0
        notes = int(log[0, 0])
        if notes:
            self.scored, self.message = self._sum_up(log[1 : notes + 1], cards, jokers)
        else:
            earned = int(self.s[st.MONEY]) - before
            sign = "-" if earned < 0 else "+"
            self.message = words[0].upper() + words[1:] + (f": {sign}${abs(earned)}" if earned else "")

    def _sum_up(self, notes: Array, cards: dict[int, str], jokers: list[str]) -> tuple[str, str]:
        """Return the score of a hand, and the contributions of cards and jokers."""
        parts: list[str] = []
        for source, index, what, amount, _, _ in notes:
            name = {
                tally.FROM_CARD: cards.get(int(index), ""),
                tally.FROM_HELD: cards.get(int(index), "") + " held",
                tally.FROM_JOKER: jokers[int(index)] if int(index) < len(jokers) else "",
                tally.FROM_CONSUMABLE: "Observatory",
            }.get(int(source), "")
            effect = {
                tally.ADD_CHIPS: f"+{amount:g}",
                tally.ADD_MULT: f"+{amount:g} mult",
                tally.TIMES_MULT: f"x{amount:g}",
                tally.ADD_MONEY: f"+${amount:g}",
            }.get(int(what))
            if effect is not None and name:
                parts.append(f"{name} {effect}")
        chips, mult = float(notes[-1][4]), float(notes[-1][5])
        hand = HANDS[int(self.s[st.W_HAND])]
        total = f"{hand}: {short(chips)} x {short(mult)} = {short(float(self.f[st.HAND_SCORE]))}"
        return total, ", ".join(parts)

    def _hint(self) -> None:
        """Select the cards that score most, using only visible information."""
        best: tuple[int, ...] = ()
        most = -1.0
        hand = range(min(self._reachable(), 8))
        for bits in act.SETS[: act.N_SETS[len(hand)]]:
            positions = tuple(p for p in hand if bits >> p & 1)
            if self._legal[0, act.play_action(positions)] and not any(map(self.hidden, positions)):
                _, score = self.preview(positions)
                if score > most or (score == most and len(positions) < len(best)):
                    best, most = positions, score
        self.chosen = set(best)
        self.message = "These cards score most of all that can be played now."

    def preview(self, positions: tuple[int, ...]) -> tuple[int, float]:
        """Return poker hand and score of cards before they are played.

        It uses other random numbers than the game, and leaves out face-down cards of the hand.
        """
        copy = self._games.copy()
        s, f = copy.s[0], copy.f[0]
        s[st.SEED_LOW], s[st.DRAWS], s[st.FAST_RANDOM] = 1, 0, 1
        slots = [int(p) for p in s[st.HAND : st.HAND + int(s[st.N_HAND])]]
        played = [slots[p] for p in positions]
        held = [slot for at, slot in enumerate(slots) if at not in positions and not self.hidden(at)]
        s[st.PLAY : st.PLAY + len(played)] = played
        s[st.HAND : st.HAND + len(held)] = held
        s[st.N_PLAY], s[st.N_HAND] = len(played), len(held)
        s[st.HANDS_LEFT] -= 1
        evaluate(s, f, NO_QUEUE, NO_LOG)
        return int(s[st.W_HAND]), float(f[st.HAND_SCORE])

    # legal actions other than cards

    def options(self) -> list[tuple[str, int]]:
        """Return the legal actions that do not select cards: in words, and the action."""
        legal = np.flatnonzero(self._legal[0, : act.CARDS])
        return [(action_words(self.s, int(action)), int(action)) for action in legal]

    def offers(self) -> list[str]:
        """Return the items of the shop with their prices, affordable or not; empty outside the shop."""
        s = self.s
        if s[st.PHASE] != n.SHOPPING:
            return []
        cards = [(self._offer(k), int(shop_price(s, k))) for k in range(st.SHOP_SLOTS) if s[st.SHOP + k]]
        vouchers = [
            (VOUCHER_NAMES[int(v)], int(voucher_price(s)))
            for v in s[st.SHOP_VOUCHER : st.SHOP_VOUCHER + st.VOUCHER_SLOTS]
            if v
        ]
        packs = [
            (BOOSTER_NAMES[int(s[st.SHOP_BOOSTER + k])], int(booster_price(s, k)))
            for k in range(st.BOOSTER_SLOTS)
            if s[st.SHOP_BOOSTER + k]
        ]
        return [f"{name} ${price}" for name, price in (*cards, *vouchers, *packs)]

    def _offer(self, k: int) -> str:
        s = self.s
        return item_text(s[st.SHOP + k], s[st.SHOP_EDITION + k], s[st.SHOP_CARD + k])

    def hidden(self, at: int) -> bool:
        """Return whether the card at this position is face down."""
        return bool(int(self.s[st.CARD + int(self.s[st.HAND + at])]) >> 17 & 1)

    def _reachable(self) -> int:
        return min(int(self.s[st.N_HAND]), self.settings.max_hand)

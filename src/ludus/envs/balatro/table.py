"""A person at the table: the game on a screen of 80 by 24, and what each key does.

`Table` knows nothing of terminals: `screen()` is text to show, `press(key)` takes a key by its name. In a hand, cards
are chosen by number or with the arrows; everything else is a list of what is legal now.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ludus.envs.balatro import actions as act
from ludus.envs.balatro import names as n
from ludus.envs.balatro import state as st
from ludus.envs.balatro import tally
from ludus.envs.balatro.engine import begin, look, step
from ludus.envs.balatro.env import NO_LOG, NO_QUEUE, SEED_LIMIT
from ludus.envs.balatro.facts import (
    BLIND_NAMES,
    BOOSTER_NAMES,
    HANDS,
    ITEM_NAMES,
    TAG_NAMES,
    VOUCHER_NAMES,
)
from ludus.envs.balatro.lineup import consumable_limit, joker_limit, joker_sell_value
from ludus.envs.balatro.observation import observation_size
from ludus.envs.balatro.render import blind_name, card_text, card_words, joker_text, short, target_of
from ludus.envs.balatro.report import episode_report
from ludus.envs.balatro.scoring import evaluate
from ludus.envs.balatro.settings import Settings
from ludus.envs.balatro.shop import booster_price, reroll_cost, shop_price, voucher_price
from ludus.types import Array, BoolArray

WIDTH, HEIGHT = 80, 24
_RANKS = ("", "", "2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K", "A")
_SUITS, _INK = "♠♥♣♦", ("97", "91", "92", "93")
_LOG_ROWS = 400
_KEYS = "123456789abcefgijklmnorstuvwxyz"  # what chooses from a list; d, h, p and q mean something already
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PLAYING = (n.SELECTING_HAND, n.TARGETING)


class Table:
    """One run, played key by key. `over` once it has ended, `left` once the player has gone."""

    def __init__(self, settings: Settings | None = None, seed: int = 0, *, colours: bool = True) -> None:
        self.settings = settings or Settings()
        self.colours = colours
        self.left = False
        self.reward, self.steps = 0.0, 0
        self._games = st.Games.empty(1)
        self.settings.write_rewards(self._games)
        max_hand = self.settings.max_hand
        self._obs: Array = np.zeros((1, observation_size(max_hand)), dtype=np.float32)
        self._legal: BoolArray = np.zeros((1, act.n_actions(max_hand)), dtype=bool)
        self._chosen: set[int] = set()
        self._cursor = 0
        self._listing = False
        self._told = "Beat the blinds. Press h for a hint, q to leave."
        rng = np.random.default_rng(seed)
        begin(
            self._s,
            self._f,
            NO_QUEUE,
            int(rng.integers(SEED_LIMIT)),
            self.settings.deck_number,
            self.settings.stake_number,
            self.settings.last_ante,
        )
        look(self._games.s, self._games.f, self._obs, self._legal, max_hand)

    @property
    def _s(self) -> Any:
        return self._games.s[0]

    @property
    def _f(self) -> Any:
        return self._games.f[0]

    @property
    def over(self) -> bool:
        return bool(self._s[st.PHASE] == n.GAME_OVER)

    @property
    def report(self) -> dict[str, Any]:
        """How far the run has come; see `episode_report`."""
        return episode_report(self._s, self._f)

    # keys

    def press(self, key: str) -> None:
        """A key: a digit or letter, `left`, `right`, `up`, `down`, `space`, `enter`, `tab`, `escape`."""
        if key in ("q", "escape"):
            self.left = True
        elif self.over:
            self.left = key == "enter"
        elif self._s[st.PHASE] in _PLAYING and not self._listing:
            self._press_at_cards(key)
        else:
            self._press_in_list(key)

    def _press_at_cards(self, key: str) -> None:
        held = self._reachable()
        if key in ("left", "right"):
            self._cursor = (self._cursor + (1 if key == "right" else -1)) % max(1, held)
        elif key == "space":
            self._toggle(self._cursor)
        elif key.isdigit() and len(key) == 1:
            self._toggle(9 if key == "0" else int(key) - 1)
        elif key in ("p", "enter"):
            self._try_cards(act.play_action, "played")
        elif key == "d" and self._s[st.PHASE] == n.SELECTING_HAND:
            self._try_cards(act.discard_action, "discarded")
        elif key == "h":
            self._hint()
        elif key == "tab" and self._options():
            self._listing, self._cursor = True, 0

    def _press_in_list(self, key: str) -> None:
        options = self._options()
        if key in ("up", "down"):
            self._cursor = (self._cursor + (1 if key == "down" else -1)) % max(1, len(options))
        elif key == "tab":
            self._listing, self._cursor = False, 0
        elif key in ("enter", "space") and options:
            self._do(options[min(self._cursor, len(options) - 1)][1])
        elif len(key) == 1 and key in _KEYS and _KEYS.index(key) < len(options):
            self._do(options[_KEYS.index(key)][1])
        elif key == "h":
            self._told = "Jokers first: multipliers stand best at the right end."

    def _toggle(self, at: int) -> None:
        if not 0 <= at < self._reachable():
            return
        self._cursor, self._told = at, ""
        if at in self._chosen:
            self._chosen.discard(at)
        elif len(self._chosen) < 5:
            self._chosen.add(at)
        else:
            self._told = "Five cards at most."

    def _try_cards(self, action_of: Any, what: str) -> None:
        if not self._chosen:
            self._told = "Choose cards first: their numbers, or the arrows and space."
            return
        action = action_of(sorted(self._chosen))
        if action >= self._legal.shape[1] or not self._legal[0, action]:
            self._told = f"These cards cannot be {what} now."
            return
        self._do(action)

    def _do(self, action: int) -> None:
        """Carries out a legal action and tells what came of it."""
        done, reward = np.zeros(1, dtype=np.uint8), np.zeros(1)
        log = np.zeros((_LOG_ROWS, 6))
        before = int(self._s[st.MONEY])
        cards = {
            int(p): card_text(int(self._s[st.CARD + p])) for p in self._s[st.HAND : st.HAND + st.MAX_HAND]
        }
        jokers = [ITEM_NAMES[int(j)] for j in self._s[st.JOKER : st.JOKER + int(self._s[st.N_JOKERS])]]
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
            log,
        )
        self.reward += float(reward[0])
        self.steps += 1
        self._chosen.clear()
        self._listing, self._cursor = False, 0
        notes = int(log[0, 0])
        if notes:
            self._told = self._scored(log[1 : notes + 1], cards, jokers)
        else:
            earned = int(self._s[st.MONEY]) - before
            self._told = act.describe(action).capitalize() + (f": {earned:+d}$" if earned else "")

    def _scored(self, notes: Array, cards: dict[int, str], jokers: list[str]) -> str:
        """A hand's score in a line: who added what."""
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
        hand = HANDS[int(self._s[st.W_HAND])]
        total = f"{hand}: {short(chips)} x {short(mult)} = {short(float(self._f[st.HAND_SCORE]))}"
        return self._paint("1;96", total) + ("   " + ", ".join(parts) if parts else "")

    def _hint(self) -> None:
        """Chooses the cards that score most, as far as can be seen."""
        best, most = (), -1.0
        hand = range(min(self._reachable(), 8))
        for bits in act.SETS[: act.N_SETS[len(hand)]]:
            positions = tuple(p for p in hand if bits >> p & 1)
            if self._legal[0, act.play_action(positions)] and not any(map(self._hidden, positions)):
                _, score = self._preview(positions)
                if score > most or (score == most and len(positions) < len(best)):
                    best, most = positions, score
        self._chosen = set(best)
        self._told = "This scores most of what can be played now."

    def _preview(self, positions: tuple[int, ...]) -> tuple[int, float]:
        """Poker hand and score of cards that are not played yet, with other chance than the game's."""
        copy = self._games.copy()
        s, f = copy.s[0], copy.f[0]
        s[st.SEED_LOW], s[st.DRAWS] = 1, 0
        places = [int(p) for p in s[st.HAND : st.HAND + int(s[st.N_HAND])]]
        played = [places[p] for p in positions]
        held = [place for place in places if place not in played]
        s[st.PLAY : st.PLAY + len(played)] = played
        s[st.HAND : st.HAND + len(held)] = held
        s[st.N_PLAY], s[st.N_HAND] = len(played), len(held)
        s[st.HANDS_LEFT] -= 1
        evaluate(s, f, NO_QUEUE, NO_LOG)
        return int(s[st.W_HAND]), float(f[st.HAND_SCORE])

    # what is legal besides cards

    def _options(self) -> list[tuple[str, int]]:
        legal = np.flatnonzero(self._legal[0, : act.CARDS])
        return [(self._words(int(action)), int(action)) for action in legal]

    def _words(self, action: int) -> str:
        s = self._s
        for start, end, words in (
            (act.BUY, act.BUY_AND_USE, lambda k: f"buy {self._offer(k)} for ${int(shop_price(s, k))}"),
            (
                act.BUY_AND_USE,
                act.REDEEM,
                lambda k: f"buy and use {self._offer(k)} for ${int(shop_price(s, k))}",
            ),
            (
                act.REDEEM,
                act.OPEN,
                lambda k: f"redeem {VOUCHER_NAMES[int(s[st.SHOP_VOUCHER + k])]} for ${int(voucher_price(s))}",
            ),
            (
                act.OPEN,
                act.PICK,
                lambda k: (
                    f"open {BOOSTER_NAMES[int(s[st.SHOP_BOOSTER + k])]} for ${int(booster_price(s, k))}"
                ),
            ),
            (act.PICK, act.USE, lambda k: f"take {self._in_pack(k)}"),
            (act.USE, act.SELL_CONSUMABLE, lambda k: f"use {ITEM_NAMES[int(s[st.CONSUMABLE + k])]}"),
            (act.SELL_CONSUMABLE, act.SELL_JOKER, lambda k: f"sell {ITEM_NAMES[int(s[st.CONSUMABLE + k])]}"),
            (act.SELL_JOKER, act.SWAP_JOKERS, self._sale),
            (act.SWAP_JOKERS, act.MOVE_CARD, lambda k: f"swap jokers {k + 1} and {k + 2}"),
            (act.MOVE_CARD, act.CARDS, lambda k: f"move card {k + 1} to the left end"),
        ):
            if start <= action < end:
                return words(action - start)
        if action == act.REROLL:
            return f"reroll the shop for ${int(reroll_cost(s))}"
        if action == act.SKIP_BLIND:
            return f"skip the blind for a {TAG_NAMES[int(s[st.BLIND_TAG + int(s[st.BLIND_ON_DECK])])]}"
        if action == act.CASH_OUT:
            return f"cash out ${int(s[st.PAYOUT])}"
        return act.describe(action)

    def _offer(self, k: int) -> str:
        s = self._s
        return _item(int(s[st.SHOP + k]), int(s[st.SHOP_EDITION + k]), int(s[st.SHOP_CARD + k]))

    def _in_pack(self, k: int) -> str:
        s = self._s
        return _item(int(s[st.PACK + k]), int(s[st.PACK_EDITION + k]), int(s[st.PACK_CARD + k]))

    def _sale(self, k: int) -> str:
        return f"sell {ITEM_NAMES[int(self._s[st.JOKER + k])]} for ${int(joker_sell_value(self._s, k))}"

    # the screen

    def screen(self) -> str:
        """What is to be seen, in at most 24 lines of 80 columns."""
        head, cards = self._head(), self._cards()
        told = _wrapped(self._told, 2)
        foot = [self._keys()]
        room = HEIGHT - len(head) - len(cards) - len(told) - len(foot) - 2
        lines = [*head, "", *self._list(room), *cards, "", *told, *foot]
        return "\n".join(_cut(line) for line in lines[:HEIGHT])

    def _head(self) -> list[str]:
        s, f, paint = self._s, self._f, self._paint
        target, chips = target_of(s, f), float(f[st.CHIPS])
        filled = int(30 * min(1.0, chips / target)) if target else 0
        boss = "" if s[st.BLIND_ON_DECK] == 2 else f"   boss: {BLIND_NAMES[int(s[st.BOSS])]}"
        lines = [
            paint("1", f"Ante {int(s[st.ANTE])}  {blind_name(s)}") + boss,
            f"{paint('96', '█' * filled)}{'░' * (30 - filled)} {short(chips)} of {short(target)}",
            f"{paint('93', f'${int(s[st.MONEY])}')}   hands {paint('94', str(int(s[st.HANDS_LEFT])))}   "
            f"discards {paint('91', str(int(s[st.DISCARDS_LEFT])))}   "
            f"deck {int(s[st.N_DRAW])}/{int(s[st.N_CARDS])}   "
            f"jokers {int(s[st.N_JOKERS])}/{int(joker_limit(s))}   "
            f"consumables {int(s[st.N_CONSUMABLES])}/{int(consumable_limit(s))}",
        ]
        jokers = [f"{i + 1} {joker_text(s, f, i)}" for i in range(int(s[st.N_JOKERS]))]
        if jokers:
            lines += _wrapped(paint("95", "   ".join(jokers)), 2)
        items = [ITEM_NAMES[int(c)] for c in s[st.CONSUMABLE : st.CONSUMABLE + int(s[st.N_CONSUMABLES])]]
        tags = [TAG_NAMES[int(tag)] for tag in s[st.TAG : st.TAG + int(s[st.N_TAGS])]]
        levels = [f"{hand} {int(s[st.LEVEL + i])}" for i, hand in enumerate(HANDS) if s[st.LEVEL + i] != 1]
        for words, given in (("holding", items), ("tags", tags), ("levels", levels)):
            if given:
                lines.append(f"{words}: {', '.join(given)}")
        return lines

    def _list(self, room: int) -> list[str]:
        if self.over:
            report = self.report
            end = (
                "You won the run!"
                if report["won"]
                else f"Lost to {report['lost_to']} in ante {report['ante']}."
            )
            return ["", self._paint("1;93", end), f"Best hand: {short(report['score'])}", ""]
        if self._s[st.PHASE] in _PLAYING and not self._listing:
            return []
        options = self._options()
        first = max(0, min(self._cursor - room // 2, len(options) - room))
        lines = []
        for i, (words, _) in list(enumerate(options))[first : first + max(3, room)]:
            key = _KEYS[i] if i < len(_KEYS) else " "
            line = f" {key}  {words}"
            lines.append(self._paint("7", line) if i == self._cursor else line)
        return lines

    def _cards(self) -> list[str]:
        s = self._s
        count = int(s[st.N_HAND])
        if self.over or not count:
            return []
        shown = [int(s[st.CARD + place]) for place in s[st.HAND : st.HAND + count]]
        wide = 7 if count <= 10 else 5
        rows = [""] * 6
        for i, card in enumerate(shown[: WIDTH // (wide + 1)]):
            face = _face(card)
            ink = "90" if card >> 17 & 1 else _INK[card >> 4 & 3]
            body = [
                "┌" + "─" * (wide - 2) + "┐",
                "│" + face.ljust(wide - 2) + "│",
                "│" + _mark(card, wide - 2) + "│",
                "└" + "─" * (wide - 2) + "┘",
            ]
            body = [self._paint(ink, line) for line in body]
            blank = " " * wide
            lifted = i in self._chosen
            label = f"{(i + 1) % 10 if i < 10 else ' '}"
            label = f"[{label}]" if i == self._cursor and not self._listing else f" {label} "
            column = [*body, blank] if lifted else [blank, *body]
            column.append(label.center(wide))
            rows = [row + part + " " for row, part in zip(rows, column, strict=True)]
        return rows

    def _keys(self) -> str:
        if self.over:
            return self._paint("90", "enter leaves")
        if self._s[st.PHASE] == n.TARGETING and not self._listing:
            item = ITEM_NAMES[int(self._s[st.WAITING])]
            return self._paint("90", f"{item}: choose its cards, then enter   q quit")
        if self._s[st.PHASE] in _PLAYING and not self._listing:
            worth = ""
            if self._chosen and not any(self._hidden(p) for p in self._chosen):
                hand, score = self._preview(tuple(sorted(self._chosen)))
                worth = self._paint("1", f"{HANDS[hand]}, about {short(score)}") + "   "
            more = "   tab more" if self._options() else ""
            return worth + self._paint("90", f"1-9 choose   p play   d discard   h hint{more}   q quit")
        back = "   tab back to the cards" if self._listing else ""
        return self._paint("90", f"its key, or up, down and enter{back}   q quit")

    def _hidden(self, at: int) -> bool:
        return bool(int(self._s[st.CARD + int(self._s[st.HAND + at])]) >> 17 & 1)

    def _reachable(self) -> int:
        return min(int(self._s[st.N_HAND]), self.settings.max_hand)

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours else text


def _item(item: int, edition: int, card: int) -> str:
    if item == n.PLAYING_CARD:
        return card_text(card)
    told = ("", "foil", "holographic", "polychrome", "negative")[edition]
    return ITEM_NAMES[item] + (f" ({told})" if told else "")


def _face(card: int) -> str:
    if card >> 17 & 1:
        return "?"
    if card >> 6 & 15 == n.M_STONE:
        return "stone"
    return f"{_RANKS[card & 15]}{_SUITS[card >> 4 & 3]}"


def _mark(card: int, wide: int) -> str:
    """What is on a card, as far as it fits."""
    words = [] if card >> 17 & 1 else [word for word in card_words(card) if word != "stone"]
    return (words[0] if len(words) == 1 else "+".join(word[:2] for word in words))[:wide].ljust(wide)


def _width(text: str) -> int:
    return len(_COLOUR.sub("", text))


def _wrapped(text: str, lines: int) -> list[str]:
    """The words of a text in lines of the screen, and no more than so many of them."""
    rows, row = [], ""
    for word in text.split(" "):
        if row and _width(row) + 1 + _width(word) > WIDTH:
            rows.append(row)
            row = word
        else:
            row = f"{row} {word}" if row else word
    rows.append(row)
    if len(rows) > lines:
        rows = [*rows[: lines - 1], _cut(rows[lines - 1], WIDTH - 1) + "…"]
    return rows


def _cut(text: str, width: int = WIDTH) -> str:
    """A text that keeps within the screen, its colours ended."""
    if _width(text) <= width:
        return text
    out, seen, at = "", 0, 0
    while seen < width:
        colour = _COLOUR.match(text, at)
        if colour is not None:
            out += colour.group()
            at = colour.end()
            continue
        out += text[at]
        at, seen = at + 1, seen + 1
    return out + ("\x1b[0m" if "\x1b" in out else "")

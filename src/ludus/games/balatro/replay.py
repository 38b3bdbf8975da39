"""Replay of recorded games: the engine gets the recorded random outcomes and must show what the recording shows.

Two kinds of files are supported: scenarios (a line is a short game: a start and its steps) and traces (a line is an
action and the state shown after it). Random outcomes are derived from what was shown: the cards drawn, the cards that
The Hook took, the tag of a skip, the boss, the contents of shops, chance effects (`possible_outcomes.py`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ludus.errors import UserError
from ludus.games.balatro import actions as act
from ludus.games.balatro import chance, facts
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.bosses import begin_blind, refresh_debuffs
from ludus.games.balatro.cards import collect_cards, count_pile, packed
from ludus.games.balatro.engine import apply, begin
from ludus.games.balatro.jokers import swap_jokers
from ludus.games.balatro.possible_outcomes import ALL_FAIL, hidden_targets, outcomes
from ludus.games.balatro.score import put_joker
from ludus.games.balatro.seeds import seed_code

_RANKS = "23456789TJQKA"
_SUITS = "SHCD"
_PHASES = {
    n.CHOOSING_BLIND: "BLIND_SELECT",
    n.SELECTING_HAND: "SELECTING_HAND",
    n.CASHING_OUT: "ROUND_EVAL",
    n.SHOPPING: "SHOP",
    n.OPENING_PACK: "PACK",
    n.TARGETING: "TARGETING",
    n.GAME_OVER: "GAME_OVER",
}
_NO_LOG = np.zeros((0, 6))


@dataclass
class ReplayAgreement:
    """The number of recorded games or actions that were replayed, and the differences found."""

    cases: int = 0
    disagree: list[dict[str, Any]] = field(default_factory=list)

    @property
    def agree(self) -> int:
        return self.cases - len(self.disagree)

    def as_dict(self) -> dict[str, Any]:
        return {"cases": self.cases, "agree": self.agree, "disagree": self.disagree}


def card_number(name: str) -> int:
    """Return a name like `H_T` (ten of hearts) as a packed card. UserError if it is invalid."""
    suit, _, rank = name.partition("_")
    if suit not in _SUITS or rank not in _RANKS or len(rank) != 1:
        raise UserError(f"invalid card '{name}'", fix="write cards as SUIT_RANK, like H_T or S_A")
    return packed(2 + _RANKS.index(rank), _SUITS.index(suit))


def card_name(card: int) -> str:
    """Return a packed card as a name like `H_T`."""
    return f"{_SUITS[card >> 4 & 3]}_{_RANKS[(card & 15) - 2]}"


class ReplayTable:
    """One game that gets its random outcomes from a recording."""

    def __init__(self, seed: int | str = 1, deck: int = 0, stake: int = 1) -> None:
        self.games = st.Games.empty(1)
        self.s, self.f = self.games.s[0], self.games.f[0]
        self.luck: list[tuple[int, int]] = []  # given outcomes of the chance effects of the next action
        self.used_outcomes: Counter[int] = Counter()  # how many of them were used, by kind
        begin(self.s, self.f, _queue([]), seed_code(seed), deck, stake, 0)

    def hand(self) -> list[str]:
        """Return the hand in the format of recordings."""
        slots = self.s[st.HAND : st.HAND + self.s[st.N_HAND]]
        return [card_name(int(self.s[st.CARD + slot])) for slot in slots]

    def do(self, action: int, given: Iterable[tuple[int, int]] = ()) -> None:
        """Apply an action with these given outcomes."""
        queue = _queue([*given, *self.luck])
        apply(self.s, self.f, queue, _NO_LOG, action)
        left = Counter(int(kind) for kind in queue[::2])
        self.used_outcomes = Counter(kind for kind, _ in self.luck) - left

    def attempt_with_all_outcomes(
        self, attempt: Callable[[], dict[str, Any] | None]
    ) -> dict[str, Any] | None:
        """Attempt an action with every combination of its chance effects until it shows no difference.

        Returns None in that case, otherwise the difference when no chance effect happens.
        """
        saved = self.games.copy()
        self.luck = [*ALL_FAIL, (chance.GIVEN_NUMBER, 0), (chance.GIVEN_NUMBER, 0)]
        difference = attempt()
        procs, numbers = self.used_outcomes[chance.GIVEN_PROC], self.used_outcomes[chance.GIVEN_NUMBER]
        if difference is not None and procs + numbers > 0:
            for self.luck in outcomes(procs, numbers):
                self.games.put_back(saved)
                if attempt() is None:
                    difference = None
                    break
        self.luck = []
        return difference

    def cards(self, kind: str, positions: list[int], shown: list[str] | None) -> None:
        """Play or discard, and draw the cards that the hand shown afterwards contains."""
        before = [name for i, name in enumerate(self.hand()) if i not in positions]
        given = []
        if shown is not None:
            kept = Counter(before)
            given = [(chance.GIVEN_DRAW, card_number(c)) for c in (Counter(shown) - kept).elements()]
            lost = kept - Counter(shown)
            if shown:
                given += [(chance.GIVEN_DISCARD, before.index(name)) for name in lost]
        number = act.play_action(positions) if kind == "play" else act.discard_action(positions)
        self.do(number, given)

    def order_hand(self, order: list[int]) -> None:
        """Reorder the hand: position i then holds the card that was at order[i]."""
        slots = self.s[st.HAND : st.HAND + self.s[st.N_HAND]].copy()
        if sorted(order) != list(range(len(slots))):
            raise UserError(f"invalid order of {len(slots)} cards: {order}")
        self.s[st.HAND : st.HAND + len(slots)] = slots[order]

    def order_jokers(self, order: list[int]) -> None:
        """Reorder the jokers in the same way."""
        if sorted(order) != list(range(int(self.s[st.N_JOKERS]))):
            raise UserError(f"invalid order of {int(self.s[st.N_JOKERS])} jokers: {order}")
        now = list(range(len(order)))
        for i, wanted in enumerate(order):
            at = now.index(wanted)
            swap_jokers(self.s, self.f, i, at)
            now[i], now[at] = now[at], now[i]

    def levels(self) -> dict[str, int]:
        """Return the levels of poker hands that are not 1."""
        return {
            name: int(self.s[st.LEVEL + i]) for i, name in enumerate(facts.HANDS) if self.s[st.LEVEL + i] != 1
        }


def _queue(given: Iterable[tuple[int, int]]) -> Any:
    return np.array([number for pair in given for number in pair], dtype=np.int64)


def scenario_table(start: Mapping[str, Any]) -> ReplayTable:
    """Return the game at the start of a scenario: a round that has just begun, with the given hand."""
    deck = facts.number_of(facts.DECK_NAMES, f"{start.get('deck', 'RED')} Deck") or 0
    table = ReplayTable(deck=deck)
    s, f = table.s, table.f
    s[st.ANTE] = start.get("ante", 1)
    s[st.MONEY] = start.get("dollars", 0)
    blind = facts.number_of(facts.BLIND_KEYS, start["blind"]) or facts.number_of(
        facts.BLIND_NAMES, start["blind"]
    )
    if blind is None:
        raise UserError(f"unknown blind '{start['blind']}'")
    s[st.BLIND_ON_DECK] = 0 if blind == n.BL_SMALL else 1 if blind == n.BL_BIG else 2
    s[st.BOSS] = blind if blind >= n.BL_HOOK else s[st.BOSS]
    for joker in start.get("jokers", ()):
        put_joker(s, f, joker)
    collect_cards(s)
    begin_blind(s, f, _queue([]))
    s[st.PHASE] = n.SELECTING_HAND
    for name in start["hand"]:
        _move_to_hand(s, card_number(name))
    s[st.HANDS_LEFT] = start["hands_left"]
    s[st.DISCARDS_LEFT] = start["discards_left"]
    s[st.HAND_SIZE] = start.get("hand_size", len(start["hand"]))
    f[st.TARGET] = start["target"]
    s[st.PREPPED] = 0
    refresh_debuffs(s)
    return table


def _move_to_hand(s: Any, card: int) -> None:
    for i in range(s[st.N_DRAW]):
        slot = s[st.DRAW_PILE + i]
        if s[st.CARD + slot] & 63 == card:
            s[st.N_DRAW] -= 1
            s[st.DRAW_PILE + i] = s[st.DRAW_PILE + s[st.N_DRAW]]
            s[st.HAND + s[st.N_HAND]] = slot
            s[st.N_HAND] += 1
            count_pile(s)
            return
    raise UserError(f"card not found in the draw pile: {card_name(card)}")


def replay_scenario(scenario: Mapping[str, Any]) -> dict[str, Any] | None:
    """Replay a scenario. Returns None if every step agrees, otherwise the first difference: step, field, recorded, own.

    If the scenario does not contain a joker's target (such as the suit of Castle), every possible target is tried.
    """
    table = scenario_table(scenario["start"])
    saved = table.games.copy()
    furthest: dict[str, Any] | None = None
    for targets in hidden_targets(table.s):
        table.games.put_back(saved)
        for cell, value in targets.items():
            table.s[cell] = value
        difference = _replay_steps(table, scenario["steps"])
        if difference is None:
            return None
        if furthest is None or difference["step"] > furthest["step"]:
            furthest = difference
    return {"name": scenario.get("name", ""), **(furthest or {})}


def _replay_steps(table: ReplayTable, steps: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    for number, step in enumerate(steps):
        difference = table.attempt_with_all_outcomes(partial(_replay_step, table, step))
        if difference is not None:
            return {"step": number, **difference}
    return None


def _replay_step(table: ReplayTable, step: Mapping[str, Any]) -> dict[str, Any] | None:
    after = step["after"]
    over = after.get("phase") not in (None, "SELECTING_HAND")
    table.cards(step["action"], list(step["cards"]), None if over else after.get("hand"))
    own = {
        "phase": _PHASES[int(table.s[st.PHASE])],
        "hand": table.hand(),
        "chips": float(table.f[st.CHIPS]),
        "dollars": int(table.s[st.MONEY]),
        "hands_left": int(table.s[st.HANDS_LEFT]),
        "discards_left": int(table.s[st.DISCARDS_LEFT]),
        "hand_levels": table.levels(),
    }
    checked = ("phase", "chips", "dollars", "hands_left", "discards_left", "hand_levels")
    return _difference(after, own, checked if over else (*checked, "hand"))


def _difference(
    shown: Mapping[str, Any], own: Mapping[str, Any], keys: Iterable[str]
) -> dict[str, Any] | None:
    for key in keys:
        if key in shown and shown[key] is not None and shown[key] != own[key]:
            return {"field": key, "recorded": shown[key], "own": own[key]}
    return None


class TraceReplay:
    """Replays a recorded game action by action: from its seed alone, or with the recorded draws and shops.

    A recording without a seed does not name the tag of a skipped blind and the results of chance effects. They are
    derived from what it shows.
    """

    def __init__(self) -> None:
        self.table: ReplayTable | None = None
        self._seeded = False

    def step(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """Apply one recorded action. Returns None if the result agrees, otherwise the difference."""
        name, arguments, after = row["action"], row.get("arguments") or {}, row.get("after")
        if name == "go_to_menu":
            self.table = None
            return None
        if name == "start_run":
            deck = facts.number_of(facts.DECK_NAMES, arguments["deck"])
            if deck is None:
                raise UserError(f"unknown deck '{arguments['deck']}'")
            seed = arguments.get("seed")
            self._seeded = seed is not None
            self.table = ReplayTable(str(seed) if self._seeded else 1, deck, int(arguments.get("stake", 1)))
        else:
            if self.table is None:
                raise UserError(f"'{name}' comes before 'start_run'")
            attempt = partial(self._attempt, name, dict(arguments), after)
            return attempt() if self._seeded else self.table.attempt_with_all_outcomes(attempt)
        return None if after is None else self._compare(after)

    def _attempt(
        self, name: str, arguments: dict[str, Any], after: Mapping[str, Any] | None
    ) -> dict[str, Any] | None:
        assert self.table is not None
        getattr(self, f"_{name}", self._unknown)(self.table, arguments, after or {})
        return None if after is None else self._compare(after)

    def _unknown(self, table: ReplayTable, arguments: dict[str, Any], after: Mapping[str, Any]) -> None:
        raise UserError("unknown action in the recording")

    def _compare(self, after: Mapping[str, Any]) -> dict[str, Any] | None:
        table = self.table
        assert table is not None
        s = table.s
        own: dict[str, Any] = {
            "hand": table.hand(),
            "chips": float(table.f[st.CHIPS]),
            "dollars": int(s[st.MONEY]),
            "hands_left": int(s[st.HANDS_LEFT]),
            "discards_left": int(s[st.DISCARDS_LEFT]),
        }
        keys = ["chips", "dollars", "hands_left", "discards_left"]
        if s[st.PHASE] == n.SELECTING_HAND:
            keys.append("hand")
        shop = after.get("shop")
        if s[st.PHASE] == n.SHOPPING and shop:
            own["shop"] = _shop_of(s)
            difference = _difference(shop, own["shop"], own["shop"])
            if difference is not None:
                return {**difference, "field": f"shop.{difference['field']}"}
        return _difference(after, own, keys)

    def _skip_or_select_blind(
        self, table: ReplayTable, arguments: dict[str, Any], after: Mapping[str, Any]
    ) -> None:
        s = table.s
        if arguments["action"] == "skip":
            if not self._seeded:
                self._set_skipped_tag(s, after)
            table.do(act.SKIP_BLIND)
            return
        if self._seeded:
            table.do(act.TAKE_BLIND)
            return
        if s[st.BLIND_ON_DECK] == 2:
            boss = facts.number_of(facts.BLIND_NAMES, str(after.get("blind") or ""))
            if boss is not None:
                s[st.BOSS] = boss
        given = [(chance.GIVEN_DRAW, card_number(c)) for c in after.get("hand") or ()]
        table.do(act.TAKE_BLIND, given)

    def _set_skipped_tag(self, s: Any, after: Mapping[str, Any]) -> None:
        """Choose a tag for the skipped blind that gives the recorded money."""
        wanted, money = int(after["dollars"]), int(s[st.MONEY])
        pays = {
            n.TAG_ECONOMY: min(40, max(0, money)),
            n.TAG_SKIP: 5 * (int(s[st.SKIPS]) + 1),
            n.TAG_HANDY: int(s[st.HANDS_PLAYED]),
            n.TAG_GARBAGE: int(s[st.UNUSED_DISCARDS]),
        }
        fitting = [tag for tag, dollars in pays.items() if money + dollars == wanted]
        if wanted == money:
            fitting = [
                n.TAG_HANDY if s[st.HANDS_PLAYED] == 0 else n.TAG_DOUBLE
            ]  # a tag that changes nothing shown
        if fitting:
            s[st.BLIND_TAG + s[st.BLIND_ON_DECK]] = fitting[0]

    def _play_hand_or_discard(
        self, table: ReplayTable, arguments: dict[str, Any], after: Mapping[str, Any]
    ) -> None:
        kind = "play" if arguments["action"] == "play_hand" else "discard"
        shown = None if self._seeded else after.get("hand") or None
        table.cards(kind, list(arguments["cards"]), shown)

    def _rearrange_hand(
        self, table: ReplayTable, arguments: dict[str, Any], after: Mapping[str, Any]
    ) -> None:
        table.order_hand(list(arguments["cards"]))

    def _rearrange_jokers(
        self, table: ReplayTable, arguments: dict[str, Any], after: Mapping[str, Any]
    ) -> None:
        table.order_jokers(list(arguments["jokers"]))

    def _cash_out(self, table: ReplayTable, arguments: dict[str, Any], after: Mapping[str, Any]) -> None:
        if self._seeded:
            table.do(act.CASH_OUT)
            return
        wanted, s = int(after.get("dollars", 0)), table.s
        given = _given_shop(after.get("shop"))
        vouchers = [value for kind, value in given if kind == chance.GIVEN_VOUCHER]
        after_boss = s[st.BLIND_ON_DECK] == 2
        table.do(act.CASH_OUT, given)
        if int(s[st.MONEY]) == wanted - 25 and after_boss:
            # a skip that paid nothing may have given an Investment Tag
            s[st.MONEY] += 25
        if vouchers:
            s[st.SHOP_VOUCHER] = vouchers[0]
            s[st.ANTE_VOUCHER] = vouchers[0]

    def _shop(self, table: ReplayTable, arguments: dict[str, Any], after: Mapping[str, Any]) -> None:
        index = int(arguments.get("index", 0))
        number = {
            "next_round": act.NEXT_ROUND,
            "reroll": act.REROLL,
            "buy_card": act.BUY + self._place(table, index),
            "buy_and_use_card": act.BUY_AND_USE + self._place(table, index),
            "redeem_voucher": act.REDEEM + index,
            "open_pack": act.OPEN + index,
        }.get(arguments["action"])
        if number is None:
            raise UserError(f"unknown action in the shop: '{arguments['action']}'")
        given = _given_shop(after.get("shop")) if number == act.REROLL and not self._seeded else []
        table.do(number, given)

    def _place(self, table: ReplayTable, index: int) -> int:
        """Return the slot of the index-th item still in the shop: the game moves items up after a purchase."""
        filled = [k for k in range(st.SHOP_SLOTS) if table.s[st.SHOP + k] != 0]
        return filled[index] if index < len(filled) else index

    def _sell_joker(self, table: ReplayTable, arguments: dict[str, Any], after: Mapping[str, Any]) -> None:
        table.do(act.SELL_JOKER + int(arguments["index"]))

    def _sell_consumable(
        self, table: ReplayTable, arguments: dict[str, Any], after: Mapping[str, Any]
    ) -> None:
        table.do(act.SELL_CONSUMABLE + int(arguments["index"]))

    def _use_consumable(
        self, table: ReplayTable, arguments: dict[str, Any], after: Mapping[str, Any]
    ) -> None:
        table.do(act.USE + int(arguments["index"]))
        if table.s[st.PHASE] == n.TARGETING:
            table.do(act.play_action(list(arguments.get("cards") or ())))


def _given_shop(shop: Mapping[str, Any] | None) -> list[tuple[int, int]]:
    given = []
    for field_name, kind, table in (
        ("shop_jokers", chance.GIVEN_SHOP, facts.ITEM_KEYS),
        ("shop_vouchers", chance.GIVEN_VOUCHER, facts.VOUCHER_KEYS),
        ("shop_booster", chance.GIVEN_BOOSTER, facts.BOOSTER_KEYS),
    ):
        for key in (shop or {}).get(field_name) or ():
            number = facts.number_of(table, key)
            if number is None:
                raise UserError(f"unknown item in a shop: '{key}'")
            given.append((kind, number))
    return given


def _shop_of(s: Any) -> dict[str, list[str]]:
    return {
        "shop_jokers": [facts.ITEM_KEYS[int(i)] for i in s[st.SHOP : st.SHOP + st.SHOP_SLOTS] if i],
        "shop_vouchers": [facts.VOUCHER_KEYS[int(v)] for v in s[st.SHOP_VOUCHER : st.SHOP_VOUCHER + 4] if v],
        "shop_booster": [facts.BOOSTER_KEYS[int(b)] for b in s[st.SHOP_BOOSTER : st.SHOP_BOOSTER + 2] if b],
    }


def replay_file(path: str | Path) -> ReplayAgreement:
    """Replay a file of scenarios (a case is a line) or a trace (a case is an action). UserError if it is invalid."""
    agreement = ReplayAgreement()
    rows = read_rows(Path(path))
    trace = TraceReplay()
    for line, row in rows:
        try:
            if "steps" in row:
                difference = replay_scenario(row)
            elif "action" in row:
                difference = trace.step(row)
            else:
                raise UserError("expected a scenario or an action of a trace")
        except UserError as error:
            raise UserError(error.what, where=f"{path}, line {line}", fix=error.fix) from error
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise UserError(f"invalid recording: {error!r}", where=f"{path}, line {line}") from error
        agreement.cases += 1
        if difference is not None:
            agreement.disagree.append({"file": str(path), "line": line, **difference})
    return agreement


def read_rows(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return the objects of a JSON-lines file with their line numbers. UserError if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the file: {error}", where=str(path)) from error
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UserError(f"invalid JSON: {error}", where=f"{path}, line {number}") from error
            if not isinstance(row, dict):
                raise UserError("expected a JSON object", where=f"{path}, line {number}")
            rows.append((number, row))
    return rows

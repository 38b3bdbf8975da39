"""The table as text: 24 lines of 80 columns in every phase."""

from __future__ import annotations

import re
from collections.abc import Callable

from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.facts import BLIND_NAMES, HANDS, ITEM_NAMES, TAG_NAMES
from ludus.games.balatro.lineup import consumable_limit, joker_limit
from ludus.games.balatro.render import blind_name, card_words, joker_text, short, target_of
from ludus.games.balatro.table import KEYS, PLAYING, HumanTable

WIDTH, HEIGHT = 80, 24
_RANKS = ("", "", "2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K", "A")
_SUITS, _INK = "♠♥♣♦", ("97", "91", "92", "93")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
Paint = Callable[[str, str], str]


def screen(table: HumanTable, *, colours: bool = True) -> str:
    """Return the screen, in at most 24 lines of 80 columns."""
    paint = _in_colours if colours else _plain
    head, cards = _head(table, paint), _cards(table, paint)
    message = _wrapped("   ".join(part for part in (paint("1;96", table.scored), table.message) if part), 2)
    foot = [_keys(table, paint)]
    room = HEIGHT - len(head) - len(cards) - len(message) - len(foot) - 2
    lines = [*head, "", *_list(table, room, paint), *cards, "", *message, *foot]
    return "\n".join(_cut(line) for line in lines[:HEIGHT])


def _head(table: HumanTable, paint: Paint) -> list[str]:
    s, f = table.s, table.f
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
    if offers := table.offers():
        lines += _wrapped(f"on offer: {', '.join(offers)}", 2)
    return lines


def _list(table: HumanTable, room: int, paint: Paint) -> list[str]:
    if table.over:
        report = table.report
        end = (
            "You won the run!" if report["won"] else f"Lost to {report['lost_to']} in ante {report['ante']}."
        )
        return ["", paint("1;93", end), f"Best hand: {short(report['score'])}", ""]
    if table.s[st.PHASE] in PLAYING and not table.listing:
        return []
    options = table.options()
    first = max(0, min(table.cursor - room // 2, len(options) - room))
    lines = []
    for i, (words, _) in list(enumerate(options))[first : first + max(3, room)]:
        key = KEYS[i] if i < len(KEYS) else " "
        line = f" {key}  {words}"
        lines.append(paint("7", line) if i == table.cursor else line)
    return lines


def _cards(table: HumanTable, paint: Paint) -> list[str]:
    s = table.s
    count = int(s[st.N_HAND])
    if table.over or not count:
        return []
    shown = [int(s[st.CARD + slot]) for slot in s[st.HAND : st.HAND + count]]
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
        body = [paint(ink, line) for line in body]
        blank = " " * wide
        lifted = i in table.chosen
        label = f"{(i + 1) % 10 if i < 10 else ' '}"
        label = f"[{label}]" if i == table.cursor and not table.listing else f" {label} "
        column = [*body, blank] if lifted else [blank, *body]
        column.append(label.center(wide))
        rows = [row + part + " " for row, part in zip(rows, column, strict=True)]
    return rows


def _keys(table: HumanTable, paint: Paint) -> str:
    if table.over:
        return paint("90", "press enter to leave")
    if table.s[st.PHASE] == n.TARGETING and not table.listing:
        item = ITEM_NAMES[int(table.s[st.WAITING])]
        return paint("90", f"{item}: choose its cards, then enter   q quit")
    if table.s[st.PHASE] in PLAYING and not table.listing:
        worth = ""
        if table.chosen and not any(table.hidden(p) for p in table.chosen):
            hand, score = table.preview(tuple(sorted(table.chosen)))
            worth = paint("1", f"{HANDS[hand]}, about {short(score)}") + "   "
        more = "   tab more" if table.options() else ""
        return worth + paint("90", f"1-9 choose   p play   d discard   h hint{more}   q quit")
    back = "   tab back to the cards" if table.listing else ""
    return paint("90", f"press its key, or up, down and enter{back}   q quit")


def _in_colours(code: str, text: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if text else ""


def _plain(code: str, text: str) -> str:
    return text


def _face(card: int) -> str:
    if card >> 17 & 1:
        return "?"
    if card >> 6 & 15 == n.M_STONE:
        return "stone"
    return f"{_RANKS[card & 15]}{_SUITS[card >> 4 & 3]}"


def _mark(card: int, wide: int) -> str:
    """Return the enhancement, edition and seal of a card, shortened to `wide` characters."""
    words = [] if card >> 17 & 1 else [word for word in card_words(card) if word != "stone"]
    return (words[0] if len(words) == 1 else "+".join(word[:2] for word in words))[:wide].ljust(wide)


def _width(text: str) -> int:
    return len(_COLOUR.sub("", text))


def _wrapped(text: str, lines: int) -> list[str]:
    """Wrap a text to the width of the screen, at most `lines` lines."""
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
    """Cut a text to a width and reset its colours."""
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

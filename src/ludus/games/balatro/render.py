"""Rendering of a game: as text with colours, and as a picture of the table."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ludus.games.balatro import facts
from ludus.games.balatro import names as n
from ludus.games.balatro import state as st
from ludus.games.balatro.bosses import blind_target
from ludus.games.balatro.lineup import consumable_limit, joker_limit, joker_sell_value
from ludus.games.balatro.shop import booster_price, reroll_cost, shop_price, voucher_price
from ludus.types import Array

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

_RANKS = ("", "", "2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K", "A")
_SUITS = "♠♥♣♦"
_SUIT_CODES = ("97", "91", "92", "93")
_ENHANCED = ("", "bonus", "mult", "wild", "glass", "steel", "stone", "gold", "lucky")
_EDITED = ("", "foil", "holo", "poly", "neg")
_SEALED = ("", "gold seal", "red seal", "blue seal", "purple seal")
_PHASES = (
    "choose a blind",
    "play or discard",
    "cash out",
    "the shop",
    "open pack",
    "choose targets",
    "the run is over",
)


def short(number: float) -> str:
    """Format a number as the game does: with commas, or in e-notation if it is very large."""
    return f"{number:,.0f}" if number < 1e11 else f"{number:.3e}"


def card_words(card: int) -> list[str]:
    """Return the enhancement, edition, seal and conditions of a card in words."""
    words = [_ENHANCED[card >> 6 & 15], _EDITED[card >> 10 & 7], _SEALED[card >> 13 & 7]]
    if card >> 16 & 1:
        words.append("debuffed")
    if card >> 19 & 1:
        words.append("forced")
    return [word for word in words if word]


def card_text(card: int, *, colours: bool = False) -> str:
    """Format a card as `K♥`, or `??` if it is face down, with its enhancement, edition and seal in brackets."""
    if card >> 17 & 1:
        return "??"
    suit = card >> 4 & 3
    face = "▒▒" if card >> 6 & 15 == n.M_STONE else f"{_RANKS[card & 15]}{_SUITS[suit]}"
    if colours:
        face = f"\x1b[{_SUIT_CODES[suit]}m{face}\x1b[0m"
    words = card_words(card)
    return f"{face}[{', '.join(words)}]" if words else face


def joker_text(s: Any, f: Any, i: int) -> str:
    """Format a joker with its edition, its value and its stickers."""
    stickers = int(s[st.J_STICKERS + i])
    if stickers & st.FACE_DOWN:
        return "??"
    words = [_EDITED[int(s[st.J_EDITION + i])]]
    if f[st.J_VALUE + i]:
        words.append(f"{f[st.J_VALUE + i]:g}")
    for bit, word in (
        (st.ETERNAL, "eternal"),
        (st.PERISHABLE, f"perishes in {int(s[st.J_PERISH + i])}"),
        (st.RENTAL, "rental"),
        (st.DEBUFFED, "debuffed"),
    ):
        if stickers & bit:
            words.append(word)
    details = ", ".join(word for word in words if word)
    return facts.ITEM_NAMES[int(s[st.JOKER + i])] + (f" ({details})" if details else "")


def blind_name(s: Any) -> str:
    """Return the name of the blind that is being played, or of the next one."""
    if s[st.BLIND]:
        return facts.BLIND_NAMES[int(s[st.BLIND])]
    on_deck = int(s[st.BLIND_ON_DECK])
    return facts.BLIND_NAMES[int(s[st.BOSS])] if on_deck == 2 else ("Small Blind", "Big Blind")[on_deck]


def target_of(s: Any, f: Any) -> float:
    """Return the target score of the blind that is being played, or of the next one."""
    if s[st.BLIND]:
        return float(f[st.TARGET])
    on_deck = int(s[st.BLIND_ON_DECK])
    blind = int(s[st.BOSS]) if on_deck == 2 else n.BL_SMALL + on_deck
    return float(blind_target(s, blind))


def offers(s: Any) -> list[str]:
    """Return what can be bought or picked, one line each."""
    if s[st.PHASE] == n.OPENING_PACK:
        lines = [f"{facts.PACK_KINDS[int(s[st.PACK_KIND])]} pack, {int(s[st.PACK_PICKS])} to pick:"]
        for k in range(st.PACK_SLOTS):
            if s[st.PACK + k]:
                lines.append(
                    f"  {k + 1}. " + item_text(s[st.PACK + k], s[st.PACK_EDITION + k], s[st.PACK_CARD + k])
                )
        return lines
    if s[st.PHASE] != n.SHOPPING:
        return []
    lines = []
    for k in range(st.SHOP_SLOTS):
        if s[st.SHOP + k]:
            name = item_text(s[st.SHOP + k], s[st.SHOP_EDITION + k], s[st.SHOP_CARD + k])
            lines.append(f"  item {k + 1}     ${int(shop_price(s, k))}  {name}")
    for k in range(st.VOUCHER_SLOTS):
        if s[st.SHOP_VOUCHER + k]:
            name = facts.VOUCHER_NAMES[int(s[st.SHOP_VOUCHER + k])]
            lines.append(f"  voucher {k + 1}  ${int(voucher_price(s))}  {name}")
    for k in range(st.BOOSTER_SLOTS):
        if s[st.SHOP_BOOSTER + k]:
            name = facts.BOOSTER_NAMES[int(s[st.SHOP_BOOSTER + k])]
            lines.append(f"  pack {k + 1}     ${int(booster_price(s, k))}  {name}")
    lines.append(f"  reroll     ${int(reroll_cost(s))}")
    return lines


def item_text(item: Any, edition: Any, card: Any) -> str:
    """Format an item on offer: its name and edition, or its playing card."""
    if int(item) == n.PLAYING_CARD:
        return card_text(int(card))
    name = _EDITED[int(edition)]
    return facts.ITEM_NAMES[int(item)] + (f" ({name})" if name else "")


def show(s: Any, f: Any, *, colours: bool = True) -> str:
    """Return the table as text."""

    def paint(code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if colours else text

    target, chips = target_of(s, f), float(f[st.CHIPS])
    filled = int(24 * min(1.0, chips / target)) if target else 0
    lines = [
        paint("1", f"Ante {int(s[st.ANTE])}  {blind_name(s)}")
        + (" (disabled)" if s[st.BOSS_OFF] else "")
        + f"   {facts.DECK_NAMES[int(s[st.DECK])]}, {facts.STAKE_NAMES[int(s[st.STAKE])]}"
        + f"   {_PHASES[int(s[st.PHASE])]}",
        f"{paint('93', '$' + str(int(s[st.MONEY])))}  "
        f"hands {paint('94', str(int(s[st.HANDS_LEFT])))}  "
        f"discards {paint('91', str(int(s[st.DISCARDS_LEFT])))}  "
        f"deck {int(s[st.N_DRAW])}/{int(s[st.N_CARDS])}",
        f"[{paint('96', '█' * filled)}{'░' * (24 - filled)}] {short(chips)} of {short(target)}",
        f"jokers {int(s[st.N_JOKERS])}/{int(joker_limit(s))}: "
        + (" | ".join(joker_text(s, f, i) for i in range(int(s[st.N_JOKERS]))) or "none"),
        f"consumables {int(s[st.N_CONSUMABLES])}/{int(consumable_limit(s))}: "
        + (
            ", ".join(
                facts.ITEM_NAMES[int(c)] for c in s[st.CONSUMABLE : st.CONSUMABLE + int(s[st.N_CONSUMABLES])]
            )
            or "none"
        ),
    ]
    levels = [f"{h} {int(s[st.LEVEL + i])}" for i, h in enumerate(facts.HANDS) if s[st.LEVEL + i] != 1]
    if levels:
        lines.append("levels: " + ", ".join(levels))
    if s[st.PHASE] == n.CHOOSING_BLIND and s[st.BLIND_ON_DECK] < 2:
        tag = facts.TAG_NAMES[int(s[st.BLIND_TAG + int(s[st.BLIND_ON_DECK])])]
        lines.append(f"skip for: {tag}; boss of this ante: {facts.BLIND_NAMES[int(s[st.BOSS])]}")
    if s[st.N_TAGS]:
        lines.append(
            "tags: " + ", ".join(facts.TAG_NAMES[int(t)] for t in s[st.TAG : st.TAG + int(s[st.N_TAGS])])
        )
    lines += offers(s)
    if s[st.PHASE] == n.TARGETING:
        lines.append(f"{facts.ITEM_NAMES[int(s[st.WAITING])]}: on which cards?")
    if s[st.N_HAND]:
        cards = [int(s[st.CARD + slot]) for slot in s[st.HAND : st.HAND + int(s[st.N_HAND])]]
        lines.append("  ".join(f"{i + 1}:{card_text(card, colours=colours)}" for i, card in enumerate(cards)))
    if s[st.PHASE] == n.GAME_OVER:
        lines.append(
            paint("1", "won" if s[st.WON] else f"lost to {facts.BLIND_NAMES.get(int(s[st.LOST_TO]), '?')}")
        )
    return "\n".join(lines)


# ---- the picture

_SIZE = (960, 600)
_FELT, _PANEL, _INK = (55, 108, 90), (34, 48, 52), (245, 245, 240)
_SUIT_INK = ((60, 60, 75), (240, 60, 60), (35, 130, 110), (235, 150, 20))
_PAPER = {
    n.M_GLASS: (205, 228, 240),
    n.M_STEEL: (170, 178, 188),
    n.M_STONE: (150, 145, 140),
    n.M_GOLD: (240, 205, 110),
    n.M_LUCKY: (225, 240, 200),
    n.M_WILD: (240, 220, 240),
    n.M_BONUS: (205, 220, 255),
    n.M_MULT: (255, 212, 205),
}
_EDGE = ((90, 90, 90), (90, 150, 230), (230, 90, 150), (120, 200, 90), (40, 40, 60))
_SEAL_INK = (None, (235, 185, 40), (220, 60, 50), (60, 130, 230), (150, 80, 200))
_RARITY_INK = (None, (60, 140, 220), (70, 180, 110), (225, 70, 70), (180, 90, 220))


@lru_cache(maxsize=8)
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size=size)


def _dot(draw: ImageDraw, x: float, y: float, r: float, ink: tuple[int, int, int]) -> None:
    draw.ellipse([x - r, y - r, x + r, y + r], fill=ink)


def _pip(draw: ImageDraw, x: float, y: float, r: float, suit: int) -> None:
    """Draw a suit symbol; not every font has it."""
    ink = _SUIT_INK[suit]
    if suit == n.DIAMONDS:
        draw.polygon([(x, y - r), (x + 0.75 * r, y), (x, y + r), (x - 0.75 * r, y)], fill=ink)
        return
    if suit == n.HEARTS:
        for side in (-1, 1):
            draw.ellipse(
                [x + side * 0.45 * r - 0.52 * r, y - 0.9 * r, x + side * 0.45 * r + 0.52 * r, y + 0.15 * r],
                fill=ink,
            )
        draw.polygon([(x - 0.93 * r, y - 0.2 * r), (x + 0.93 * r, y - 0.2 * r), (x, y + r)], fill=ink)
        return
    draw.polygon([(x, y), (x + 0.4 * r, y + r), (x - 0.4 * r, y + r)], fill=ink)
    if suit == n.SPADES:
        for side in (-1, 1):
            draw.ellipse(
                [x + side * 0.42 * r - 0.5 * r, y - 0.2 * r, x + side * 0.42 * r + 0.5 * r, y + 0.7 * r],
                fill=ink,
            )
        draw.polygon([(x - 0.9 * r, y + 0.1 * r), (x + 0.9 * r, y + 0.1 * r), (x, y - r)], fill=ink)
        return
    for dx, dy in ((0.0, -0.5), (-0.48, 0.2), (0.48, 0.2)):
        draw.ellipse(
            [x + dx * r - 0.46 * r, y + dy * r - 0.46 * r, x + dx * r + 0.46 * r, y + dy * r + 0.46 * r],
            fill=ink,
        )


def _draw_card(draw: ImageDraw, x: int, y: int, card: int) -> None:
    w, h = 72, 100
    if card >> 17 & 1:
        draw.rounded_rectangle([x, y, x + w, y + h], 8, fill=(150, 60, 60), outline=(240, 220, 200), width=3)
        return
    enhancement = card >> 6 & 15
    paper = _PAPER.get(enhancement, (250, 248, 240))
    edge = _EDGE[card >> 10 & 7]
    draw.rounded_rectangle(
        [x, y, x + w, y + h], 8, fill=paper, outline=edge, width=4 if card >> 10 & 7 else 2
    )
    suit = card >> 4 & 3
    if enhancement != n.M_STONE:
        draw.text((x + 8, y + 4), _RANKS[card & 15], font=_font(26), fill=_SUIT_INK[suit])
        _pip(draw, x + w / 2, y + h / 2 + 8, 19, suit)
    seal = _SEAL_INK[card >> 13 & 7]
    if seal is not None:
        draw.ellipse([x + w - 22, y + 8, x + w - 8, y + 22], fill=seal)
    if enhancement:
        draw.text((x + 6, y + h - 18), _ENHANCED[enhancement], font=_font(12), fill=(60, 60, 60))
    if card >> 16 & 1:
        draw.line([x + 6, y + 6, x + w - 6, y + h - 6], fill=(200, 40, 40), width=5)
        draw.line([x + w - 6, y + 6, x + 6, y + h - 6], fill=(200, 40, 40), width=5)
    if card >> 19 & 1:
        draw.rounded_rectangle([x - 3, y - 3, x + w + 3, y + h + 3], 10, outline=(90, 120, 250), width=3)


def _fitted(draw: ImageDraw, text: str, width: int) -> tuple[list[str], Any]:
    """Return the text in rows no wider than `width` pixels, and a font in which they fit."""
    for size in range(14, 8, -1):
        font, rows = _font(size), [""]
        for word in text.split():
            longer = f"{rows[-1]} {word}".strip()
            rows[-1:] = [longer] if draw.textlength(longer, font) <= width else [rows[-1], word]
        if max(draw.textlength(row, font) for row in rows) <= width:
            break
    return [row for row in rows if row], font


def _draw_joker(draw: ImageDraw, x: int, y: int, s: Any, f: Any, i: int) -> None:
    from ludus.games.balatro.facts import JOKER_RARITY

    w, h = 84, 104
    stickers = int(s[st.J_STICKERS + i])
    if stickers & st.FACE_DOWN:
        draw.rounded_rectangle([x, y, x + w, y + h], 8, fill=(150, 60, 60), outline=(240, 220, 200), width=3)
        return
    joker = int(s[st.JOKER + i])
    edge = _EDGE[int(s[st.J_EDITION + i])]
    draw.rounded_rectangle([x, y, x + w, y + h], 8, fill=(250, 246, 232), outline=edge, width=4)
    draw.rectangle([x + 6, y + h - 22, x + w - 6, y + h - 6], fill=_RARITY_INK[int(JOKER_RARITY[joker])])
    rows, font = _fitted(draw, facts.ITEM_NAMES[joker], w - 16)
    for k, row in enumerate(rows):
        draw.text((x + 8, y + 8 + 17 * k), row, font=font, fill=(40, 40, 50))
    value = f"{f[st.J_VALUE + i]:g}" if f[st.J_VALUE + i] else f"${int(joker_sell_value(s, i))}"
    draw.text((x + 10, y + h - 22), value, font=_font(13), fill=(255, 255, 255))
    if stickers & st.DEBUFFED:
        draw.line([x + 6, y + 6, x + w - 6, y + h - 6], fill=(200, 40, 40), width=5)


def draw_game(s: Any, f: Any) -> Array:
    """Return the table as an RGB picture of 960 by 600."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", _SIZE, _FELT)
    draw = ImageDraw.Draw(image)
    draw.rectangle([0, 0, 220, _SIZE[1]], fill=_PANEL)
    target, chips = target_of(s, f), float(f[st.CHIPS])
    draw.rounded_rectangle([12, 12, 208, 92], 10, fill=(60, 80, 92))
    draw.text((22, 20), blind_name(s), font=_font(20), fill=(255, 200, 90))
    draw.text((22, 50), f"score at least\n{short(target)}", font=_font(16), fill=_INK)
    draw.text((22, 108), "round score", font=_font(14), fill=(180, 190, 190))
    draw.text((22, 124), short(chips), font=_font(30), fill=_INK)
    draw.rounded_rectangle([22, 166, 198, 180], 6, fill=(20, 28, 32))
    if target and chips:
        wide = int(176 * min(1.0, chips / target))
        draw.rounded_rectangle([22, 166, 22 + max(8, wide), 180], 6, fill=(90, 190, 240))
    for k, (label, value, ink) in enumerate(
        (
            ("hands", int(s[st.HANDS_LEFT]), (90, 160, 250)),
            ("discards", int(s[st.DISCARDS_LEFT]), (240, 90, 90)),
            ("money", f"${int(s[st.MONEY])}", (245, 190, 60)),
            ("ante", int(s[st.ANTE]), (240, 150, 60)),
            ("round", int(s[st.ROUND]), (240, 150, 60)),
        )
    ):
        draw.text((22, 200 + 38 * k), label, font=_font(16), fill=(180, 190, 190))
        draw.text((120, 194 + 38 * k), str(value), font=_font(26), fill=ink)
    draw.text((22, 400), f"deck {int(s[st.N_DRAW])}/{int(s[st.N_CARDS])}", font=_font(16), fill=_INK)
    draw.text((22, 560), _PHASES[int(s[st.PHASE])], font=_font(18), fill=(255, 220, 140))
    for i in range(int(s[st.N_JOKERS])):
        step = min(92, 700 // max(1, int(s[st.N_JOKERS])))
        _draw_joker(draw, 236 + step * i, 14, s, f, i)
    held = [facts.ITEM_NAMES[int(c)] for c in s[st.CONSUMABLE : st.CONSUMABLE + int(s[st.N_CONSUMABLES])]]
    draw.text((236, 126), "consumables: " + (", ".join(held) or "none"), font=_font(16), fill=_INK)
    for k, line in enumerate(offers(s)):
        draw.text((250, 170 + 26 * k), line.strip(), font=_font(20), fill=_INK)
    if s[st.PHASE] == n.GAME_OVER:
        words = "run won" if s[st.WON] else f"lost to {facts.BLIND_NAMES.get(int(s[st.LOST_TO]), '?')}"
        draw.text((400, 260), words, font=_font(40), fill=(255, 230, 120))
    count = int(s[st.N_HAND])
    for i in range(count):
        step = min(80, 640 // max(1, count))
        slot = int(s[st.HAND + i])
        _draw_card(draw, 240 + step * i, 470, int(s[st.CARD + slot]))
    return np.asarray(image, dtype=np.uint8)

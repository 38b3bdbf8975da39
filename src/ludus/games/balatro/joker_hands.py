"""What jokers do for a hand as a whole: before it is scored, in their turn from left to right, and after it."""

# ruff: noqa: SIM110 (compiled code has no generators)
from __future__ import annotations

from typing import Any

from ludus.games.balatro.cards import (
    DEBUFF,
    FACE_MASK,
    PLAYED_ANTE,
    count_enhancement,
    enhancement_of,
    in_flush,
    is_face,
    is_suit,
    new_card,
    rank_shown,
    to_hand,
    with_enhancement,
)
from ludus.games.balatro.chance import GIVEN_NUMBER, below, given, happens
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.facts import JOKER_TYPE, TYPE_CHIPS, TYPE_MULT, TYPE_XMULT
from ludus.games.balatro.jokers import remove_joker
from ludus.games.balatro.lineup import joker_limit, joker_sell_value, luck
from ludus.games.balatro.names import (
    CLUBS,
    DIAMONDS,
    FULL_HOUSE,
    HEARTS,
    J_ABSTRACT,
    J_ACROBAT,
    J_BANNER,
    J_BLACKBOARD,
    J_BLUE_JOKER,
    J_BOOTSTRAPS,
    J_BULL,
    J_CAINO,
    J_CAMPFIRE,
    J_CARD_SHARP,
    J_CASTLE,
    J_CAVENDISH,
    J_CEREMONIAL,
    J_CONSTELLATION,
    J_DNA,
    J_DRIVERS_LICENSE,
    J_EROSION,
    J_FLASH,
    J_FLOWER_POT,
    J_FORTUNE_TELLER,
    J_GLASS,
    J_GREEN_JOKER,
    J_GROS_MICHEL,
    J_HALF,
    J_HIT_THE_ROAD,
    J_HOLOGRAM,
    J_ICE_CREAM,
    J_JOKER,
    J_LOYALTY_CARD,
    J_LUCKY_CAT,
    J_MADNESS,
    J_MATADOR,
    J_MIDAS_MASK,
    J_MISPRINT,
    J_MYSTIC_SUMMIT,
    J_OBELISK,
    J_POPCORN,
    J_RAMEN,
    J_RED_CARD,
    J_RIDE_THE_BUS,
    J_RUNNER,
    J_SEANCE,
    J_SEEING_DOUBLE,
    J_SELZER,
    J_SPACE,
    J_SQUARE,
    J_STEEL_JOKER,
    J_STENCIL,
    J_STONE,
    J_STUNTMAN,
    J_SUPERNOVA,
    J_SUPERPOSITION,
    J_SWASHBUCKLER,
    J_THROWBACK,
    J_TODO_LIST,
    J_TROUSERS,
    J_VAGABOND,
    J_VAMPIRE,
    J_WEE,
    J_YORICK,
    M_GOLD,
    M_STEEL,
    M_STONE,
    M_WILD,
    SPADES,
    STRAIGHT,
    STRAIGHT_FLUSH,
    TWO_PAIR,
)
from ludus.games.balatro.pools import create_spectral, create_tarot
from ludus.games.balatro.state import (
    CARD,
    CARD_BONUS,
    CARD_TOP,
    DEBUFFED,
    DISCARDS_LEFT,
    HAND,
    HANDS_LEFT,
    HANDS_PLAYED,
    HANDS_THIS_ROUND,
    J_COUNT,
    J_STICKERS,
    J_VALUE,
    JOKER,
    LEVEL,
    MONEY,
    N_CARDS,
    N_DRAW,
    N_HAND,
    N_JOKERS,
    N_PLAY,
    PLAY,
    PLAYED,
    PLAYED_ROUND,
    PURSE_FIXED,
    SKIPS,
    STARTING_CARDS,
    TAROTS_USED,
    TRIGGERED,
    W_ACTING,
    W_ALL_FACES,
    W_CONTAINED,
    W_HAND,
    W_MONEY,
    W_SCORING,
    W_SMEARED,
)
from ludus.games.balatro.tally import FROM_JOKER, add_chips, add_money, add_mult, times_mult


@kernel
def cards_added(s: Any, f: Any, count: Any) -> None:
    """Playing cards came into the deck: Hologram grows."""
    for i in range(s[N_JOKERS]):
        if s[JOKER + i] == J_HOLOGRAM and not s[J_STICKERS + i] & DEBUFFED:
            f[J_VALUE + i] += 0.25 * count


@kernel
def cards_destroyed(s: Any, f: Any, faces: Any, glasses: Any) -> None:
    """Playing cards left the game: Caino counts the faces, Glass Joker the glass."""
    for i in range(s[N_JOKERS]):
        if not s[J_STICKERS + i] & DEBUFFED:
            if s[JOKER + i] == J_CAINO:
                f[J_VALUE + i] += faces
            elif s[JOKER + i] == J_GLASS:
                f[J_VALUE + i] += 0.75 * glasses


@kernel
def _scores(s: Any, position: Any) -> Any:
    return (s[W_SCORING] >> position) & 1


@kernel
def _any_face_scores(s: Any) -> Any:
    for k in range(s[N_PLAY]):
        if _scores(s, k) and is_face(s[CARD + s[PLAY + k]], s[W_ALL_FACES], False):
            return True
    return False


@kernel
def _midas(s: Any) -> None:
    for k in range(s[N_PLAY]):
        place = s[PLAY + k]
        if _scores(s, k) and is_face(s[CARD + place], s[W_ALL_FACES], False):
            s[CARD + place] = with_enhancement(s[CARD + place], M_GOLD)


@kernel
def _drink(s: Any, drunk: Any) -> Any:
    """Vampire takes the enhancements of scoring cards, of each once a hand; returns `drunk` (bits) with those added."""
    for k in range(s[N_PLAY]):
        place = s[PLAY + k]
        card = s[CARD + place]
        if _scores(s, k) and enhancement_of(card) != 0 and not card & DEBUFF and not (drunk >> k) & 1:
            s[CARD + place] = with_enhancement(card, 0)
            drunk |= 1 << k
    return drunk


@kernel
def _is_most_played(s: Any, hand: Any) -> Any:
    """Whether no other known hand was played as often, for Obelisk."""
    for other in range(12):
        known = other < 9 or s[PLAYED + other] > 0
        if other != hand and known and s[PLAYED + other] >= s[PLAYED + hand]:
            return False
    return True


@kernel
def _copy_played_card(s: Any, f: Any) -> None:
    source = s[PLAY]
    place = new_card(s, s[CARD + source] & (FACE_MASK | DEBUFF | PLAYED_ANTE))
    if place >= 0:
        s[CARD_BONUS + place] = s[CARD_BONUS + source]
        to_hand(s, place)
        cards_added(s, f, 1)


@kernel
def jokers_before(s: Any, f: Any, q: Any, log: Any) -> None:
    """Left to right, before chips and mult of the hand are set. Growing is not copied by Blueprint."""
    hand, contained = s[W_HAND], s[W_CONTAINED]
    drunk = 0
    for i in range(s[N_JOKERS]):
        at = s[W_ACTING + i]
        if at < 0:
            continue
        joker = s[JOKER + at]
        if joker == J_SPACE:
            if happens(s, q, luck(s), 4):
                s[LEVEL + hand] += 1
        elif joker == J_TODO_LIST:
            if s[J_COUNT + at] == hand:
                add_money(s, f, log, FROM_JOKER, i, 4)
        elif joker == J_DNA:
            if s[HANDS_THIS_ROUND] == 0 and s[N_PLAY] == 1:
                _copy_played_card(s, f)
        elif at != i:
            continue
        elif joker == J_TROUSERS:
            if contained & ((1 << TWO_PAIR) | (1 << FULL_HOUSE)):
                f[J_VALUE + i] += 2.0
        elif joker == J_SQUARE:
            if s[N_PLAY] == 4:
                f[J_VALUE + i] += 4.0
        elif joker == J_RUNNER:
            if contained & (1 << STRAIGHT):
                f[J_VALUE + i] += 15.0
        elif joker == J_MIDAS_MASK:
            _midas(s)
        elif joker == J_VAMPIRE:
            before = drunk
            drunk = _drink(s, before)
            taken = 0
            for k in range(s[N_PLAY]):
                taken += ((drunk ^ before) >> k) & 1
            f[J_VALUE + i] += 0.1 * taken
        elif joker == J_RIDE_THE_BUS:
            if _any_face_scores(s):
                f[J_VALUE + i] = 0.0
            else:
                f[J_VALUE + i] += 1.0
        elif joker == J_OBELISK:
            if _is_most_played(s, hand):
                f[J_VALUE + i] = 1.0
            else:
                f[J_VALUE + i] += 0.2
        elif joker == J_GREEN_JOKER:
            f[J_VALUE + i] += 1.0


@kernel
def _all_black(s: Any) -> Any:
    for k in range(s[N_HAND]):
        card = s[CARD + s[HAND + k]]
        if not (in_flush(card, CLUBS, s[W_SMEARED]) or in_flush(card, SPADES, s[W_SMEARED])):
            return False
    return True


@kernel
def _has_all_suits(s: Any) -> Any:
    """Flower Pot: every card stands for one suit, a debuffed one too; Wild cards fill what is missing."""
    seen = 0
    for wild in range(2):
        for k in range(s[N_PLAY]):
            card = s[CARD + s[PLAY + k]]
            if not _scores(s, k) or (enhancement_of(card) == M_WILD) != (wild == 1):
                continue
            for suit in (HEARTS, DIAMONDS, SPADES, CLUBS):
                if not (seen >> suit) & 1 and is_suit(card, suit, s[W_SMEARED], wild == 0):
                    seen |= 1 << suit
                    break
    return seen == 15


@kernel
def _has_club_and_other(s: Any) -> Any:
    """Seeing Double: a Club and a card of another suit; a Wild card stands for one that is missing."""
    seen = 0
    for k in range(s[N_PLAY]):
        card = s[CARD + s[PLAY + k]]
        if _scores(s, k) and enhancement_of(card) != M_WILD:
            for suit in range(4):
                if is_suit(card, suit, s[W_SMEARED], False):
                    seen |= 1 << suit
    for k in range(s[N_PLAY]):
        card = s[CARD + s[PLAY + k]]
        if _scores(s, k) and enhancement_of(card) == M_WILD and not card & DEBUFF:
            for suit in (CLUBS, DIAMONDS, SPADES, HEARTS):
                if not (seen >> suit) & 1:
                    seen |= 1 << suit
                    break
    club = 1 << CLUBS
    return (seen & club) != 0 and (seen & ~club) != 0


@kernel
def _ace_scores(s: Any) -> Any:
    for k in range(s[N_PLAY]):
        if _scores(s, k) and rank_shown(s[CARD + s[PLAY + k]]) == 14:
            return True
    return False


@kernel
def _enhanced_cards(s: Any) -> Any:
    count = 0
    for place in range(s[CARD_TOP]):
        if s[CARD + place] != 0 and enhancement_of(s[CARD + place]) != 0:
            count += 1
    return count


@kernel
def _other_sell_values(s: Any, but: Any) -> Any:
    total = 0
    for i in range(s[N_JOKERS]):
        if i != but:
            total += joker_sell_value(s, i)
    return total


@kernel
def _stencil(s: Any) -> Any:
    """Free places for jokers, and the Stencils themselves."""
    factor = joker_limit(s) - s[N_JOKERS]
    for i in range(s[N_JOKERS]):
        if s[JOKER + i] == J_STENCIL:
            factor += 1
    return float(factor)


@kernel
def _purse(s: Any) -> Any:
    """Money as jokers read it: what the hand has earned so far counts, as in the game."""
    return s[W_MONEY] if s[PURSE_FIXED] else s[MONEY]


@kernel
def count_deck(s: Any) -> Any:
    """How many Stone, Steel and enhanced cards the deck has, where a joker asks for it.

    The game counts them between hands: what Midas Mask, Vampire or DNA do in a hand shows in the next one.
    """
    stones, steels, enhanced = 0, 0, 0
    for i in range(s[N_JOKERS]):
        if s[JOKER + i] == J_STONE:
            stones = count_enhancement(s, M_STONE)
        elif s[JOKER + i] == J_STEEL_JOKER:
            steels = count_enhancement(s, M_STEEL)
        elif s[JOKER + i] == J_DRIVERS_LICENSE:
            enhanced = _enhanced_cards(s)
    return stones, steels, enhanced


@kernel
def _chips_of(s: Any, f: Any, at: Any, joker: Any, stones: Any) -> Any:
    """Chips that a joker adds in its turn."""
    if joker in (J_RUNNER, J_ICE_CREAM, J_SQUARE, J_CASTLE, J_WEE):
        return f[J_VALUE + at]
    if joker == J_BANNER:
        return 30.0 * s[DISCARDS_LEFT]
    if joker == J_BLUE_JOKER:
        return 2.0 * s[N_DRAW]
    if joker == J_STONE:
        return 25.0 * stones
    if joker == J_BULL:
        return 2.0 * max(0, _purse(s))
    if joker == J_STUNTMAN:
        return 250.0
    return 0.0


@kernel
def _mult_of(s: Any, f: Any, q: Any, at: Any, joker: Any) -> Any:
    """Mult that a joker adds in its turn."""
    if joker in (J_CEREMONIAL, J_RIDE_THE_BUS, J_GREEN_JOKER, J_RED_CARD, J_FLASH, J_POPCORN, J_TROUSERS):
        return f[J_VALUE + at]
    if joker == J_JOKER:
        return 4.0
    if joker == J_HALF:
        return 20.0 if s[N_PLAY] <= 3 else 0.0
    if joker == J_MYSTIC_SUMMIT:
        return 15.0 if s[DISCARDS_LEFT] == 0 else 0.0
    if joker == J_MISPRINT:
        number = given(q, GIVEN_NUMBER)
        return float(number if number >= 0 else below(s, 24))
    if joker == J_ABSTRACT:
        return 3.0 * s[N_JOKERS]
    if joker == J_GROS_MICHEL:
        return 15.0
    if joker == J_SUPERNOVA:
        return float(s[PLAYED + s[W_HAND]])
    if joker == J_EROSION:
        return 4.0 * max(0, s[STARTING_CARDS] - s[N_CARDS])
    if joker == J_FORTUNE_TELLER:
        return float(s[TAROTS_USED])
    if joker == J_SWASHBUCKLER:
        return float(_other_sell_values(s, at))
    if joker == J_BOOTSTRAPS:
        return 2.0 * max(0, _purse(s) // 5)
    return 0.0


@kernel
def _factor_of(s: Any, f: Any, at: Any, joker: Any, steels: Any, enhanced: Any) -> Any:
    """What a joker multiplies mult by in its turn."""
    if joker in (
        J_CONSTELLATION,
        J_MADNESS,
        J_VAMPIRE,
        J_HOLOGRAM,
        J_OBELISK,
        J_LUCKY_CAT,
        J_RAMEN,
        J_CAMPFIRE,
        J_GLASS,
        J_HIT_THE_ROAD,
        J_CAINO,
        J_YORICK,
    ):
        return f[J_VALUE + at]
    if joker == J_STENCIL:
        return _stencil(s)
    if joker == J_LOYALTY_CARD:
        return 4.0 if (s[HANDS_PLAYED] - s[J_COUNT + at]) % 6 == 5 else 1.0
    if joker == J_STEEL_JOKER:
        return 1.0 + 0.2 * steels
    if joker == J_BLACKBOARD:
        return 3.0 if _all_black(s) else 1.0
    if joker == J_CAVENDISH:
        return 3.0
    if joker == J_CARD_SHARP:
        return 3.0 if s[PLAYED_ROUND + s[W_HAND]] > 1 else 1.0
    if joker == J_ACROBAT:
        return 3.0 if s[HANDS_LEFT] == 0 else 1.0
    if joker == J_THROWBACK:
        return 1.0 + 0.25 * s[SKIPS]
    if joker == J_FLOWER_POT:
        return 3.0 if _has_all_suits(s) else 1.0
    if joker == J_SEEING_DOUBLE:
        return 2.0 if _has_club_and_other(s) else 1.0
    if joker == J_DRIVERS_LICENSE:
        return 3.0 if enhanced >= 16 else 1.0
    return 1.0


@kernel
def joker_turn(s: Any, f: Any, q: Any, log: Any, i: Any, stones: Any, steels: Any, enhanced: Any) -> None:
    """The joker at i has its turn; the last three are those of `count_deck` from before the hand."""
    at = s[W_ACTING + i]
    if at < 0:
        return
    joker = s[JOKER + at]
    if JOKER_TYPE[joker] >= 0:
        if (s[W_CONTAINED] >> JOKER_TYPE[joker]) & 1:
            if TYPE_CHIPS[joker] > 0:
                add_chips(f, log, FROM_JOKER, i, TYPE_CHIPS[joker])
            elif TYPE_MULT[joker] > 0:
                add_mult(f, log, FROM_JOKER, i, TYPE_MULT[joker])
            else:
                times_mult(f, log, FROM_JOKER, i, TYPE_XMULT[joker])
        return
    if joker == J_SUPERPOSITION:
        if s[W_CONTAINED] & (1 << STRAIGHT) and _ace_scores(s):
            create_tarot(s, q)
        return
    if joker == J_SEANCE:
        if s[W_CONTAINED] & (1 << STRAIGHT_FLUSH):
            create_spectral(s, q)
        return
    if joker == J_VAGABOND:
        if s[W_MONEY] <= 4:
            create_tarot(s, q)
        return
    if joker == J_MATADOR:
        if s[TRIGGERED]:
            add_money(s, f, log, FROM_JOKER, i, 8)
        return
    chips = _chips_of(s, f, at, joker, stones)
    if chips != 0:
        add_chips(f, log, FROM_JOKER, i, chips)
        return
    mult = _mult_of(s, f, q, at, joker)
    if mult != 0:
        add_mult(f, log, FROM_JOKER, i, mult)
        return
    factor = _factor_of(s, f, at, joker, steels, enhanced)
    if factor > 1:
        times_mult(f, log, FROM_JOKER, i, factor)


@kernel
def jokers_after(s: Any, f: Any, q: Any) -> None:
    """After the hand has scored: what is eaten by playing."""
    i = 0
    while i < s[N_JOKERS]:
        gone = False
        if not s[J_STICKERS + i] & DEBUFFED:
            if s[JOKER + i] == J_ICE_CREAM:
                f[J_VALUE + i] -= 5.0
                gone = f[J_VALUE + i] <= 0
            elif s[JOKER + i] == J_SELZER:
                s[J_COUNT + i] -= 1
                gone = s[J_COUNT + i] <= 0
        if gone:
            remove_joker(s, f, q, i)
        else:
            i += 1

"""Jokers triggered by the whole hand: before it is scored, in their turn from left to right, and after it."""

# ruff: noqa: SIM110 (compiled code has no generators)
from __future__ import annotations

from typing import Any

from ludus.games.balatro import cards, streams
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.chance import GIVEN_NUMBER, below, given, happens
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.facts import JOKER_TYPE, TYPE_CHIPS, TYPE_MULT, TYPE_XMULT
from ludus.games.balatro.jokers import remove_joker
from ludus.games.balatro.lineup import joker_limit, joker_sell_value, luck
from ludus.games.balatro.pools import create_spectral, create_tarot
from ludus.games.balatro.tally import FROM_JOKER, add_chips, add_money, add_mult, times_mult


@kernel
def cards_added(s: Any, f: Any, count: Any) -> None:
    """Let Hologram grow after playing cards were added to the deck."""
    for i in range(s[st.N_JOKERS]):
        if s[st.JOKER + i] == nm.J_HOLOGRAM and not s[st.J_STICKERS + i] & st.DEBUFFED:
            f[st.J_VALUE + i] += 0.25 * count


@kernel
def cards_destroyed(s: Any, f: Any, faces: Any, glasses: Any) -> None:
    """Let Caino and Glass Joker grow after face and glass cards were destroyed."""
    for i in range(s[st.N_JOKERS]):
        if not s[st.J_STICKERS + i] & st.DEBUFFED:
            if s[st.JOKER + i] == nm.J_CAINO:
                f[st.J_VALUE + i] += faces
            elif s[st.JOKER + i] == nm.J_GLASS:
                f[st.J_VALUE + i] += 0.75 * glasses


@kernel
def _scores(s: Any, position: Any) -> Any:
    return (s[st.W_SCORING] >> position) & 1


@kernel
def _any_face_scores(s: Any) -> Any:
    for k in range(s[st.N_PLAY]):
        if _scores(s, k) and cards.is_face(s[st.CARD + s[st.PLAY + k]], s[st.W_ALL_FACES], False):
            return True
    return False


@kernel
def _midas(s: Any) -> None:
    for k in range(s[st.N_PLAY]):
        slot = s[st.PLAY + k]
        if _scores(s, k) and cards.is_face(s[st.CARD + slot], s[st.W_ALL_FACES], False):
            s[st.CARD + slot] = cards.with_enhancement(s[st.CARD + slot], nm.M_GOLD)


@kernel
def _take_enhancements(s: Any, taken_bits: Any) -> Any:
    """Remove the enhancements of scoring cards for Vampire; return the bits `taken` with those positions added."""
    for k in range(s[st.N_PLAY]):
        slot = s[st.PLAY + k]
        card = s[st.CARD + slot]
        if (
            _scores(s, k)
            and cards.enhancement_of(card) != 0
            and not card & cards.DEBUFF
            and not (taken_bits >> k) & 1
        ):
            s[st.CARD + slot] = cards.with_enhancement(card, 0)
            taken_bits |= 1 << k
    return taken_bits


@kernel
def _is_most_played(s: Any, hand: Any) -> Any:
    """Return whether no other known hand was played as often, for Obelisk."""
    for other in range(12):
        known = other < 9 or s[st.PLAYED + other] > 0
        if other != hand and known and s[st.PLAYED + other] >= s[st.PLAYED + hand]:
            return False
    return True


@kernel
def _copy_played_card(s: Any, f: Any) -> None:
    source = s[st.PLAY]
    slot = cards.new_card(s, s[st.CARD + source] & (cards.FACE_MASK | cards.DEBUFF | cards.PLAYED_ANTE))
    if slot >= 0:
        s[st.CARD_BONUS + slot] = s[st.CARD_BONUS + source]
        cards.to_hand(s, slot)
        cards_added(s, f, 1)


@kernel
def jokers_before(s: Any, f: Any, queue: Any, log: Any) -> None:
    """Apply jokers, left to right, before chips and mult of the hand are set. Blueprint does not copy growth."""
    hand, contained = s[st.W_HAND], s[st.W_CONTAINED]
    taken_bits = 0
    for i in range(s[st.N_JOKERS]):
        at = s[st.W_ACTING + i]
        if at < 0:
            continue
        joker = s[st.JOKER + at]
        if joker == nm.J_SPACE:
            if happens(s, queue, streams.SPACE, luck(s), 4):
                s[st.LEVEL + hand] += 1
        elif joker == nm.J_TODO_LIST:
            if s[st.J_COUNT + at] == hand:
                add_money(s, f, log, FROM_JOKER, i, 4)
        elif joker == nm.J_DNA:
            if s[st.HANDS_THIS_ROUND] == 0 and s[st.N_PLAY] == 1:
                _copy_played_card(s, f)
        elif at != i:
            continue
        elif joker == nm.J_TROUSERS:
            if contained & ((1 << nm.TWO_PAIR) | (1 << nm.FULL_HOUSE)):
                f[st.J_VALUE + i] += 2.0
        elif joker == nm.J_SQUARE:
            if s[st.N_PLAY] == 4:
                f[st.J_VALUE + i] += 4.0
        elif joker == nm.J_RUNNER:
            if contained & (1 << nm.STRAIGHT):
                f[st.J_VALUE + i] += 15.0
        elif joker == nm.J_MIDAS_MASK:
            _midas(s)
        elif joker == nm.J_VAMPIRE:
            before = taken_bits
            taken_bits = _take_enhancements(s, before)
            taken = 0
            for k in range(s[st.N_PLAY]):
                taken += ((taken_bits ^ before) >> k) & 1
            f[st.J_VALUE + i] += 0.1 * taken
        elif joker == nm.J_RIDE_THE_BUS:
            if _any_face_scores(s):
                f[st.J_VALUE + i] = 0.0
            else:
                f[st.J_VALUE + i] += 1.0
        elif joker == nm.J_OBELISK:
            if _is_most_played(s, hand):
                f[st.J_VALUE + i] = 1.0
            else:
                f[st.J_VALUE + i] += 0.2
        elif joker == nm.J_GREEN_JOKER:
            f[st.J_VALUE + i] += 1.0


@kernel
def _all_black(s: Any) -> Any:
    for k in range(s[st.N_HAND]):
        card = s[st.CARD + s[st.HAND + k]]
        if not (
            cards.in_flush(card, nm.CLUBS, s[st.W_SMEARED])
            or cards.in_flush(card, nm.SPADES, s[st.W_SMEARED])
        ):
            return False
    return True


@kernel
def _has_all_suits(s: Any) -> Any:
    """Return whether all suits score, for Flower Pot. A debuffed card counts; Wild cards fill the missing suits."""
    seen = 0
    for wild in range(2):
        for k in range(s[st.N_PLAY]):
            card = s[st.CARD + s[st.PLAY + k]]
            if not _scores(s, k) or (cards.enhancement_of(card) == nm.M_WILD) != (wild == 1):
                continue
            for suit in (nm.HEARTS, nm.DIAMONDS, nm.SPADES, nm.CLUBS):
                if not (seen >> suit) & 1 and cards.is_suit(card, suit, s[st.W_SMEARED], wild == 0):
                    seen |= 1 << suit
                    break
    return seen == 15


@kernel
def _has_club_and_other(s: Any) -> Any:
    """Return whether a Club and another suit score, for Seeing Double. A Wild card counts as one missing suit."""
    seen = 0
    for k in range(s[st.N_PLAY]):
        card = s[st.CARD + s[st.PLAY + k]]
        if _scores(s, k) and cards.enhancement_of(card) != nm.M_WILD:
            for suit in range(4):
                if cards.is_suit(card, suit, s[st.W_SMEARED], False):
                    seen |= 1 << suit
    for k in range(s[st.N_PLAY]):
        card = s[st.CARD + s[st.PLAY + k]]
        if _scores(s, k) and cards.enhancement_of(card) == nm.M_WILD and not card & cards.DEBUFF:
            for suit in (nm.CLUBS, nm.DIAMONDS, nm.SPADES, nm.HEARTS):
                if not (seen >> suit) & 1:
                    seen |= 1 << suit
                    break
    club = 1 << nm.CLUBS
    return (seen & club) != 0 and (seen & ~club) != 0


@kernel
def _ace_scores(s: Any) -> Any:
    for k in range(s[st.N_PLAY]):
        if _scores(s, k) and cards.rank_shown(s[st.CARD + s[st.PLAY + k]]) == 14:
            return True
    return False


@kernel
def _enhanced_cards(s: Any) -> Any:
    count = 0
    for slot in range(s[st.CARD_TOP]):
        if s[st.CARD + slot] != 0 and cards.enhancement_of(s[st.CARD + slot]) != 0:
            count += 1
    return count


@kernel
def _other_sell_values(s: Any, but: Any) -> Any:
    total = 0
    for i in range(s[st.N_JOKERS]):
        if i != but:
            total += joker_sell_value(s, i)
    return total


@kernel
def _stencil(s: Any) -> Any:
    """Return the factor of Joker Stencil: free joker slots, plus the Stencils themselves."""
    factor = joker_limit(s) - s[st.N_JOKERS]
    for i in range(s[st.N_JOKERS]):
        if s[st.JOKER + i] == nm.J_STENCIL:
            factor += 1
    return float(factor)


@kernel
def _money_for_jokers(s: Any) -> Any:
    """Return the money that Bull and Bootstraps see. As in the game, it includes what the hand earned so far."""
    return s[st.W_MONEY] if s[st.MONEY_FIXED] else s[st.MONEY]


@kernel
def count_deck(s: Any) -> Any:
    """Return the number of Stone, Steel and enhanced cards of the deck, each only if a joker needs it.

    The game counts them between hands: changes by Midas Mask, Vampire or DNA apply to the next hand.
    """
    stones, steels, enhanced = 0, 0, 0
    for i in range(s[st.N_JOKERS]):
        if s[st.JOKER + i] == nm.J_STONE:
            stones = cards.count_enhancement(s, nm.M_STONE)
        elif s[st.JOKER + i] == nm.J_STEEL_JOKER:
            steels = cards.count_enhancement(s, nm.M_STEEL)
        elif s[st.JOKER + i] == nm.J_DRIVERS_LICENSE:
            enhanced = _enhanced_cards(s)
    return stones, steels, enhanced


@kernel
def _chips_of(s: Any, f: Any, at: Any, joker: Any, stones: Any) -> Any:
    """Return the chips that a joker adds in its turn."""
    if joker in (nm.J_RUNNER, nm.J_ICE_CREAM, nm.J_SQUARE, nm.J_CASTLE, nm.J_WEE):
        return f[st.J_VALUE + at]
    if joker == nm.J_BANNER:
        return 30.0 * s[st.DISCARDS_LEFT]
    if joker == nm.J_BLUE_JOKER:
        return 2.0 * s[st.N_DRAW]
    if joker == nm.J_STONE:
        return 25.0 * stones
    if joker == nm.J_BULL:
        return 2.0 * max(0, _money_for_jokers(s))
    if joker == nm.J_STUNTMAN:
        return 250.0
    return 0.0


@kernel
def _mult_of(s: Any, f: Any, queue: Any, at: Any, joker: Any) -> Any:
    """Return the mult that a joker adds in its turn."""
    if joker in (
        nm.J_CEREMONIAL,
        nm.J_RIDE_THE_BUS,
        nm.J_GREEN_JOKER,
        nm.J_RED_CARD,
        nm.J_FLASH,
        nm.J_POPCORN,
        nm.J_TROUSERS,
    ):
        return f[st.J_VALUE + at]
    if joker == nm.J_JOKER:
        return 4.0
    if joker == nm.J_HALF:
        return 20.0 if s[st.N_PLAY] <= 3 else 0.0
    if joker == nm.J_MYSTIC_SUMMIT:
        return 15.0 if s[st.DISCARDS_LEFT] == 0 else 0.0
    if joker == nm.J_MISPRINT:
        number = given(queue, GIVEN_NUMBER)
        return float(number if number >= 0 else below(s, streams.MISPRINT, 24))
    if joker == nm.J_ABSTRACT:
        return 3.0 * s[st.N_JOKERS]
    if joker == nm.J_GROS_MICHEL:
        return 15.0
    if joker == nm.J_SUPERNOVA:
        return float(s[st.PLAYED + s[st.W_HAND]])
    if joker == nm.J_EROSION:
        return 4.0 * max(0, s[st.STARTING_CARDS] - s[st.N_CARDS])
    if joker == nm.J_FORTUNE_TELLER:
        return float(s[st.TAROTS_USED])
    if joker == nm.J_SWASHBUCKLER:
        return float(_other_sell_values(s, at))
    if joker == nm.J_BOOTSTRAPS:
        return 2.0 * max(0, _money_for_jokers(s) // 5)
    return 0.0


@kernel
def _factor_of(s: Any, f: Any, at: Any, joker: Any, steels: Any, enhanced: Any) -> Any:
    """Return the factor that a joker multiplies mult by in its turn."""
    if joker in (
        nm.J_CONSTELLATION,
        nm.J_MADNESS,
        nm.J_VAMPIRE,
        nm.J_HOLOGRAM,
        nm.J_OBELISK,
        nm.J_LUCKY_CAT,
        nm.J_RAMEN,
        nm.J_CAMPFIRE,
        nm.J_GLASS,
        nm.J_HIT_THE_ROAD,
        nm.J_CAINO,
        nm.J_YORICK,
    ):
        return f[st.J_VALUE + at]
    if joker == nm.J_STENCIL:
        return _stencil(s)
    if joker == nm.J_LOYALTY_CARD:
        return 4.0 if (s[st.HANDS_PLAYED] - s[st.J_COUNT + at]) % 6 == 5 else 1.0
    if joker == nm.J_STEEL_JOKER:
        return 1.0 + 0.2 * steels
    if joker == nm.J_BLACKBOARD:
        return 3.0 if _all_black(s) else 1.0
    if joker == nm.J_CAVENDISH:
        return 3.0
    if joker == nm.J_CARD_SHARP:
        return 3.0 if s[st.PLAYED_ROUND + s[st.W_HAND]] > 1 else 1.0
    if joker == nm.J_ACROBAT:
        return 3.0 if s[st.HANDS_LEFT] == 0 else 1.0
    if joker == nm.J_THROWBACK:
        return 1.0 + 0.25 * s[st.SKIPS]
    if joker == nm.J_FLOWER_POT:
        return 3.0 if _has_all_suits(s) else 1.0
    if joker == nm.J_SEEING_DOUBLE:
        return 2.0 if _has_club_and_other(s) else 1.0
    if joker == nm.J_DRIVERS_LICENSE:
        return 3.0 if enhanced >= 16 else 1.0
    return 1.0


@kernel
def joker_turn(s: Any, f: Any, queue: Any, log: Any, i: Any, stones: Any, steels: Any, enhanced: Any) -> None:
    """Apply the joker at i in its turn. The last three arguments are `count_deck` from before the hand."""
    at = s[st.W_ACTING + i]
    if at < 0:
        return
    joker = s[st.JOKER + at]
    if JOKER_TYPE[joker] >= 0:
        if (s[st.W_CONTAINED] >> JOKER_TYPE[joker]) & 1:
            if TYPE_CHIPS[joker] > 0:
                add_chips(f, log, FROM_JOKER, i, TYPE_CHIPS[joker])
            elif TYPE_MULT[joker] > 0:
                add_mult(f, log, FROM_JOKER, i, TYPE_MULT[joker])
            else:
                times_mult(f, log, FROM_JOKER, i, TYPE_XMULT[joker])
        return
    if joker == nm.J_SUPERPOSITION:
        if s[st.W_CONTAINED] & (1 << nm.STRAIGHT) and _ace_scores(s):
            create_tarot(s, queue, streams.TAROTSUP)
        return
    if joker == nm.J_SEANCE:
        if s[st.W_CONTAINED] & (1 << nm.STRAIGHT_FLUSH):
            create_spectral(s, queue, streams.SPECTRALSEA)
        return
    if joker == nm.J_VAGABOND:
        if s[st.W_MONEY] <= 4:
            create_tarot(s, queue, streams.TAROTVAG)
        return
    if joker == nm.J_MATADOR:
        if s[st.TRIGGERED]:
            add_money(s, f, log, FROM_JOKER, i, 8)
        return
    chips = _chips_of(s, f, at, joker, stones)
    if chips != 0:
        add_chips(f, log, FROM_JOKER, i, chips)
        return
    mult = _mult_of(s, f, queue, at, joker)
    if mult != 0:
        add_mult(f, log, FROM_JOKER, i, mult)
        return
    factor = _factor_of(s, f, at, joker, steels, enhanced)
    if factor > 1:
        times_mult(f, log, FROM_JOKER, i, factor)


@kernel
def jokers_after(s: Any, f: Any, queue: Any) -> None:
    """Reduce the jokers that playing a hand uses up, and remove those that are used up."""
    i = 0
    while i < s[st.N_JOKERS]:
        gone = False
        if not s[st.J_STICKERS + i] & st.DEBUFFED:
            if s[st.JOKER + i] == nm.J_ICE_CREAM:
                f[st.J_VALUE + i] -= 5.0
                gone = f[st.J_VALUE + i] <= 0
            elif s[st.JOKER + i] == nm.J_SELZER:
                s[st.J_COUNT + i] -= 1
                gone = s[st.J_COUNT + i] <= 0
        if gone:
            remove_joker(s, f, queue, i)
        else:
            i += 1

"""A round: start the blind, play and discard hands, win or lose."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import bosses, cards, chance, lineup, streams
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.discards import discard_cards, take_from_hand
from ludus.games.balatro.drawing import change_hand_size, draw_up
from ludus.games.balatro.facts import BLIND_DOLLARS, HAND_PLANET, HAND_TABLE_ORDER
from ludus.games.balatro.joker_cards import held_triggers
from ludus.games.balatro.joker_hands import cards_added
from ludus.games.balatro.jokers import create_joker, random_hand_type, remove_joker, set_debuffed
from ludus.games.balatro.pools import create_tarot, random_card, random_seal
from ludus.games.balatro.scoring import evaluate


@kernel
def _madness_victim(s: Any, queue: Any, i: Any, doomed: Any) -> Any:
    """Return the position of another random joker that can be destroyed, not one of `doomed`; -1 if there is none."""
    count, candidates = 0, 0
    for k in range(s[st.N_JOKERS]):
        if k != i and not s[st.J_STICKERS + k] & st.ETERNAL and not (doomed >> k) & 1:
            count += 1
            candidates |= 1 << k
    if count == 0:
        return -1
    return lineup.pick_by_age(s, queue, streams.MADNESS, st.J_AGE, candidates, count)


@kernel
def _jokers_at_blind(s: Any, f: Any, queue: Any) -> None:
    """Apply jokers, left to right, when a blind is selected.

    Removing, creating and disabling the boss happen after all turns: a joker marked as `doomed` has no further effect
    but keeps its slot, and Riff-raff can use only the slots freed by Ceremonial Dagger.
    """
    boss = s[st.BLIND] >= nm.BL_HOOK
    doomed, made, freed = 0, 0, 0
    disabled = False
    for i in range(s[st.N_JOKERS]):
        at = lineup.acting(s, i)
        if at < 0 or (doomed >> i) & 1 or (doomed >> at) & 1:
            continue
        joker = s[st.JOKER + at]
        if joker == nm.J_BURGLAR:
            s[st.HANDS_LEFT] += 3
            s[st.DISCARDS_LEFT] = 0
        elif joker == nm.J_RIFF_RAFF:
            made += max(0, min(2, lineup.joker_room(s) + freed - made))
        elif joker == nm.J_CARTOMANCER:
            create_tarot(s, queue, streams.TAROTCAR)
        elif joker == nm.J_MARBLE:
            card = cards.with_enhancement(random_card(s, streams.MARB_FR), nm.M_STONE)
            slot = cards.new_card(s, card)
            if slot >= 0:
                cards.to_draw_pile(s, slot)
                cards_added(s, f, 1)
        elif at == i:
            if joker == nm.J_CHICOT:
                disabled = boss
            elif joker == nm.J_CEREMONIAL:
                if (
                    i + 1 < s[st.N_JOKERS]
                    and not s[st.J_STICKERS + i + 1] & st.ETERNAL
                    and not (doomed >> (i + 1)) & 1
                ):
                    f[st.J_VALUE + i] += 2.0 * lineup.joker_sell_value(s, i + 1)
                    doomed |= 1 << (i + 1)
                    freed += 1
            elif joker == nm.J_MADNESS and not boss:
                f[st.J_VALUE + i] += 0.5
                victim = _madness_victim(s, queue, i, doomed)
                if victim >= 0:
                    doomed |= 1 << victim
    for i in range(s[st.N_JOKERS] - 1, -1, -1):
        if (doomed >> i) & 1:
            remove_joker(s, f, queue, i)
    for _ in range(made):
        create_joker(s, f, queue, streams.FROM_RIFF_RAFF, 1)
    if disabled:
        bosses.disable_boss(s, f, queue)


@kernel
def _certificates(s: Any, f: Any, queue: Any) -> None:
    """Apply Certificate: a playing card with a seal joins the first hand of a round."""
    for i in range(s[st.N_JOKERS]):
        at = lineup.acting(s, i)
        if at >= 0 and s[st.JOKER + at] == nm.J_CERTIFICATE:
            slot = cards.new_card(
                s, cards.with_seal(random_card(s, streams.CERT_FR), random_seal(s, streams.CERTSL))
            )
            if slot >= 0:
                cards.to_hand(s, slot)
                cards_added(s, f, 1)
                bosses.refresh_debuffs(s)
                cards.sort_hand(s)


@kernel
def reset_round(s: Any) -> None:
    """Reset hands, discards and rerolls for a new round."""
    s[st.HANDS_LEFT] = max(1, s[st.HANDS_PER_ROUND])
    s[st.DISCARDS_LEFT] = max(0, s[st.DISCARDS_PER_ROUND])
    s[st.HANDS_THIS_ROUND] = 0
    s[st.DISCARDS_USED] = 0
    for hand in range(st.N_HANDS):
        s[st.PLAYED_ROUND + hand] = 0
    s[st.REROLLS] = 0
    s[st.FREE_REROLLS] = lineup.count_joker(s, nm.J_CHAOS)


@kernel
def start_round(s: Any, f: Any, queue: Any) -> None:
    """Start the blind on deck and draw the first hand. Call `tags_at_round` before."""
    s[st.ROUND] += 1
    reset_round(s)
    f[st.CHIPS] = 0.0
    s[st.SAVED] = 0
    cards.collect_cards(s)
    bosses.begin_blind(s, f, queue)
    _jokers_at_blind(s, f, queue)
    bosses.shuffle_jokers(s, f, queue)
    bosses.refresh_debuffs(s)
    cards.shuffle_draw_pile(s, streams.NR)
    s[st.PHASE] = nm.SELECTING_HAND
    draw_up(s, queue)
    _certificates(s, f, queue)
    bosses.after_draw(s, queue)
    if s[st.N_HAND] == 0:
        end_round(s, f, queue)


@kernel
def _hook(s: Any, f: Any, queue: Any) -> None:
    """Discard two random cards of the hand for The Hook, before the played ones score."""
    bits = 0
    for _ in range(min(2, s[st.N_HAND])):
        at = chance.given(queue, chance.GIVEN_DISCARD)
        if at < 0 or at >= s[st.N_HAND] or (bits >> at) & 1:
            left = ((1 << s[st.N_HAND]) - 1) & ~bits
            at = cards.hand_by_age(s, left, chance.below(s, streams.HOOK, s[st.N_HAND] - (bits != 0)))
        bits |= 1 << at
    if bits == 0:
        return
    n = s[st.N_PLAY]
    p0, p1, p2, p3, p4 = s[st.PLAY], s[st.PLAY + 1], s[st.PLAY + 2], s[st.PLAY + 3], s[st.PLAY + 4]
    discard_cards(s, f, queue, bits, True)
    s[st.PLAY], s[st.PLAY + 1], s[st.PLAY + 2], s[st.PLAY + 3], s[st.PLAY + 4] = p0, p1, p2, p3, p4
    s[st.N_PLAY] = n


@kernel
def play(s: Any, f: Any, queue: Any, log: Any, bits: Any) -> None:
    """Play the cards at these positions of the hand."""
    take_from_hand(s, bits)
    for k in range(s[st.N_PLAY]):
        s[st.CARD + s[st.PLAY + k]] |= cards.PLAYED_ANTE
    s[st.HANDS_LEFT] -= 1
    if not s[st.BOSS_OFF]:
        if s[st.BLIND] == nm.BL_HOOK:
            _hook(s, f, queue)
        elif s[st.BLIND] == nm.BL_TOOTH:
            s[st.MONEY] -= s[st.N_PLAY]
    s[st.PREPPED] = 1
    evaluate(s, f, queue, log)
    s[st.HANDS_PLAYED] += 1
    s[st.HANDS_THIS_ROUND] += 1
    s[st.N_PLAY] = 0
    before = bosses.progress(f[st.CHIPS], f[st.TARGET])
    f[st.CHIPS] += f[st.HAND_SCORE]
    f[st.BEST_HAND] = max(f[st.BEST_HAND], f[st.HAND_SCORE])
    f[st.REWARD] += f[st.R_CHIPS] * (bosses.progress(f[st.CHIPS], f[st.TARGET]) - before)
    if bosses.reached(f[st.CHIPS], f[st.TARGET]) or s[st.HANDS_LEFT] < 1:
        end_round(s, f, queue)
    else:
        draw_next_hand(s, f, queue)


@kernel
def draw_next_hand(s: Any, f: Any, queue: Any) -> None:
    """Draw the next hand. If the hand is then empty, the round ends."""
    draw_up(s, queue)
    bosses.after_draw(s, queue)
    if s[st.N_HAND] == 0:
        end_round(s, f, queue)


@kernel
def discard(s: Any, f: Any, queue: Any, bits: Any) -> None:
    """Discard the cards at these positions of the hand and draw."""
    s[st.DISCARDS_LEFT] -= 1
    discard_cards(s, f, queue, bits, False)
    s[st.DISCARDS_USED] += 1
    draw_next_hand(s, f, queue)


@kernel
def _held_at_end(s: Any, queue: Any) -> None:
    """Apply Gold cards and Blue seals at the end of a round; Mime and Red seals retrigger them."""
    lineup.note_acting(s)
    mimes = held_triggers(s)
    for k in range(s[st.N_HAND]):
        card = s[st.CARD + s[st.HAND + k]]
        if card & cards.DEBUFF:
            continue
        gold, blue = cards.enhancement_of(card) == nm.M_GOLD, cards.seal_of(card) == nm.BLUE_SEAL
        if not gold and not blue:
            continue
        for _ in range(1 + mimes + (1 if cards.seal_of(card) == nm.RED_SEAL else 0)):
            if gold:
                s[st.MONEY] += 3
            if blue and lineup.consumable_room(s) > 0:
                lineup.add_consumable(s, HAND_PLANET[s[st.LAST_HAND]], 0)


@kernel
def _end_round_for_joker(s: Any, f: Any, queue: Any, i: Any, boss: Any) -> Any:
    """Apply the end of a round to one joker; return whether it is removed."""
    joker = s[st.JOKER + i]
    if joker == nm.J_CAMPFIRE:
        if boss:
            f[st.J_VALUE + i] = 1.0
    elif joker == nm.J_ROCKET:
        if boss:
            s[st.J_COUNT + i] += 2
    elif joker == nm.J_TURTLE_BEAN:
        if s[st.J_COUNT + i] <= 1:
            return True
        s[st.J_COUNT + i] -= 1
        change_hand_size(s, queue, -1)
    elif joker == nm.J_INVISIBLE:
        s[st.J_COUNT + i] += 1
    elif joker == nm.J_POPCORN:
        f[st.J_VALUE + i] -= 4.0
        return f[st.J_VALUE + i] <= 0
    elif joker == nm.J_TODO_LIST:
        s[st.J_COUNT + i] = random_hand_type(s, queue, streams.TO_DO, s[st.J_COUNT + i])
    elif joker == nm.J_EGG:
        s[st.J_EXTRA + i] += 3
    elif joker == nm.J_GIFT:
        for k in range(s[st.N_JOKERS]):
            s[st.J_EXTRA + k] += 1
        for k in range(s[st.N_CONSUMABLES]):
            s[st.C_EXTRA + k] += 1
    elif joker == nm.J_HIT_THE_ROAD:
        f[st.J_VALUE + i] = 1.0
    elif joker == nm.J_GROS_MICHEL:
        if chance.happens(s, queue, streams.GROS_MICHEL, lineup.luck(s), 6):
            s[st.GROS_MICHEL_GONE] = 1
            return True
    elif joker == nm.J_CAVENDISH:
        return chance.happens(s, queue, streams.CAVENDISH, lineup.luck(s), 1000)
    return False


@kernel
def _jokers_at_end(s: Any, f: Any, queue: Any, boss: Any, lost: Any) -> Any:
    """Apply the end of a round to all jokers; return whether Mr. Bones prevented a loss."""
    saved = False
    i = 0
    while i < s[st.N_JOKERS]:
        gone = False
        if not s[st.J_STICKERS + i] & st.DEBUFFED:
            if s[st.JOKER + i] == nm.J_MR_BONES:
                if lost and not saved and f[st.CHIPS] >= 0.25 * f[st.TARGET]:
                    saved = True
                    gone = True
            else:
                gone = _end_round_for_joker(s, f, queue, i, boss)
        if s[st.J_STICKERS + i] & st.RENTAL:
            s[st.MONEY] -= 3
        if not gone and s[st.J_STICKERS + i] & st.PERISHABLE and s[st.J_PERISH + i] > 0:
            s[st.J_PERISH + i] -= 1
            if s[st.J_PERISH + i] == 0:
                set_debuffed(s, queue, i, True)
        if gone:
            remove_joker(s, f, queue, i)
        else:
            i += 1
    return saved


@kernel
def _joker_pay(s: Any, i: Any) -> Any:
    """Return what a joker pays at the cash-out."""
    joker = s[st.JOKER + i]
    if s[st.J_STICKERS + i] & st.DEBUFFED:
        return 0
    if joker == nm.J_GOLDEN:
        return 4
    if joker == nm.J_ROCKET:
        return int(s[st.J_COUNT + i])
    if joker == nm.J_DELAYED_GRAT:
        return 2 * int(s[st.DISCARDS_LEFT]) if s[st.DISCARDS_USED] == 0 else 0
    if joker == nm.J_CLOUD_9:
        nines = 0
        for slot in range(s[st.CARD_TOP]):
            if cards.rank_shown(s[st.CARD + slot]) == 9:
                nines += 1
        return nines
    if joker == nm.J_SATELLITE:
        planets = 0
        for k in range(12):
            planets += (s[st.PLANETS_USED] >> k) & 1
        return planets
    return 0


@kernel
def _payout(s: Any, blind: Any) -> Any:
    """Return the payout of the round; interest is paid on the money held before it."""
    pay = 0
    if not s[st.SAVED] and not (blind == nm.BL_SMALL and s[st.STAKE] >= 2):
        pay += BLIND_DOLLARS[blind]
    green = s[st.DECK] == nm.B_GREEN
    pay += s[st.HANDS_LEFT] * (2 if green else 1)
    if green:
        pay += s[st.DISCARDS_LEFT]
    for i in range(s[st.N_JOKERS]):
        pay += _joker_pay(s, i)
    if not green and s[st.MONEY] >= 5:
        cap = 20 if s[st.VOUCHER + nm.V_MONEY_TREE] else (10 if s[st.VOUCHER + nm.V_SEED_MONEY] else 5)
        pay += (1 + lineup.count_joker(s, nm.J_TO_THE_MOON)) * min(s[st.MONEY] // 5, cap)
    return pay


@kernel
def _random_card_of_deck(s: Any, stream: Any) -> Any:
    """Draw a card of the full deck that is not Stone; 0 if there is none."""
    if s[st.N_DRAW] == s[st.CARD_TOP] and s[st.PILE_ENHANCED + nm.M_STONE] == 0 and s[st.CARD_TOP] > 0:
        return s[
            st.CARD + chance.below(s, stream, s[st.CARD_TOP])
        ]  # every card lies in the pile, none is Stone
    count = 0
    for slot in range(s[st.CARD_TOP]):
        if cards.rank_shown(s[st.CARD + slot]) > 0:
            count += 1
    if count == 0:
        return 0
    wanted = chance.below(s, stream, count)
    for slot in range(s[st.CARD_TOP]):
        if cards.rank_shown(s[st.CARD + slot]) > 0:
            if wanted == 0:
                return s[st.CARD + slot]
            wanted -= 1
    return 0


@kernel
def new_targets(s: Any, queue: Any, first: Any) -> None:
    """Draw the ranks and suits for The Idol, Mail-In Rebate, Ancient Joker and Castle, at the start and end of a round.

    Ancient Joker's suit changes, except for the first of the run, which may be any.
    """
    card = _random_card_of_deck(s, streams.IDOL)
    s[st.IDOL_RANK] = cards.rank_shown(card) if card else 14
    s[st.IDOL_SUIT] = cards.suit_of(card) if card else 0
    card = _random_card_of_deck(s, streams.MAIL)
    rank = chance.given(queue, chance.GIVEN_RANK)
    s[st.MAIL_RANK] = rank if rank > 0 else (cards.rank_shown(card) if card else 14)
    suit = chance.given(queue, chance.GIVEN_SUIT)
    if suit < 0:
        suit = chance.below(s, streams.ANC, 4 if first else 3)
        if not first and suit >= s[st.ANCIENT_SUIT]:
            suit += 1
    s[st.ANCIENT_SUIT] = suit
    card = _random_card_of_deck(s, streams.CAS)
    s[st.CASTLE_SUIT] = cards.suit_of(card) if card else 0


@kernel
def end_round(s: Any, f: Any, queue: Any) -> None:
    """End the round: lost, or won with its payout ready. `cash_out` sets up the next blind."""
    blind = s[st.BLIND]
    boss = blind >= nm.BL_HOOK
    lost = not bosses.reached(f[st.CHIPS], f[st.TARGET])
    s[st.PHASE] = nm.CASHING_OUT  # a larger hand size no longer draws cards
    saved = _jokers_at_end(s, f, queue, boss, lost)
    if lost and not saved:
        s[st.LOST_TO] = blind
        s[st.PHASE] = nm.GAME_OVER
        return
    s[st.SAVED] = saved
    s[st.UNUSED_DISCARDS] += s[st.DISCARDS_LEFT]
    _held_at_end(s, queue)
    if boss:  # The Ox checks the hand played most when the last boss was beaten; before that, High Card
        played = -1
        for hand in HAND_TABLE_ORDER:
            if s[st.PLAYED + hand] >= played:
                played = s[st.PLAYED + hand]
                s[st.MOST_PLAYED] = hand
    s[st.PAYOUT] = _payout(s, blind)
    f[st.REWARD] += f[st.R_BLIND]
    bosses.end_blind(s, queue)
    s[st.ROUND_HAND_SIZE] = 0
    cards.collect_cards(s)
    if boss:
        for slot in range(s[st.CARD_TOP]):
            s[st.CARD + slot] &= ~cards.PLAYED_ANTE
        if s[st.LAST_ANTE] > 0 and s[st.ANTE] >= s[st.LAST_ANTE]:
            s[st.WON] = 1
            f[st.REWARD] += f[st.R_WIN]
            s[st.PHASE] = nm.GAME_OVER
            return
        s[st.ANTE] += 1
        chance.forget_old_antes(s)
    new_targets(s, queue, False)

"""A round: the blind is taken on, hands are played and discarded, and the round is won or lost."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro.bosses import (
    after_draw,
    begin_blind,
    disable_boss,
    end_blind,
    progress,
    refresh_debuffs,
    shuffle_jokers,
)
from ludus.games.balatro.cards import (
    DEBUFF,
    PLAYED_ANTE,
    collect_cards,
    enhancement_of,
    make_card,
    new_card,
    rank_shown,
    seal_of,
    sort_hand,
    suit_of,
    to_draw_pile,
    to_hand,
    with_seal,
)
from ludus.games.balatro.chance import (
    GIVEN_DISCARD,
    GIVEN_RANK,
    GIVEN_SUIT,
    below,
    given,
    happens,
    position,
)
from ludus.games.balatro.compiled import kernel
from ludus.games.balatro.discards import discard_cards, take_from_hand
from ludus.games.balatro.drawing import change_hand_size, draw_up
from ludus.games.balatro.facts import BLIND_DOLLARS, HAND_PLANET
from ludus.games.balatro.joker_cards import held_triggers
from ludus.games.balatro.joker_hands import cards_added
from ludus.games.balatro.jokers import create_joker, random_hand_type, remove_joker, set_debuffed
from ludus.games.balatro.lineup import (
    acting,
    add_consumable,
    consumable_room,
    count_joker,
    joker_room,
    joker_sell_value,
    luck,
    note_acting,
)
from ludus.games.balatro.names import (
    B_GREEN,
    BL_HOOK,
    BL_SMALL,
    BL_TOOTH,
    BLUE_SEAL,
    CASHING_OUT,
    GAME_OVER,
    J_BURGLAR,
    J_CAMPFIRE,
    J_CARTOMANCER,
    J_CAVENDISH,
    J_CEREMONIAL,
    J_CERTIFICATE,
    J_CHAOS,
    J_CHICOT,
    J_CLOUD_9,
    J_DELAYED_GRAT,
    J_EGG,
    J_GIFT,
    J_GOLDEN,
    J_GROS_MICHEL,
    J_HIT_THE_ROAD,
    J_INVISIBLE,
    J_MADNESS,
    J_MARBLE,
    J_MR_BONES,
    J_POPCORN,
    J_RIFF_RAFF,
    J_ROCKET,
    J_SATELLITE,
    J_TO_THE_MOON,
    J_TODO_LIST,
    J_TURTLE_BEAN,
    M_GOLD,
    M_STONE,
    RED_SEAL,
    SELECTING_HAND,
    V_MONEY_TREE,
    V_SEED_MONEY,
)
from ludus.games.balatro.pools import create_tarot, random_card, random_seal
from ludus.games.balatro.scoring import evaluate
from ludus.games.balatro.state import (
    ANCIENT_SUIT,
    ANTE,
    BEST_HAND,
    BLIND,
    BOSS_OFF,
    C_EXTRA,
    CARD,
    CARD_TOP,
    CASTLE_SUIT,
    CHIPS,
    DEBUFFED,
    DECK,
    DISCARDS_LEFT,
    DISCARDS_PER_ROUND,
    DISCARDS_USED,
    ETERNAL,
    FREE_REROLLS,
    GROS_MICHEL_GONE,
    HAND,
    HAND_SCORE,
    HANDS_LEFT,
    HANDS_PER_ROUND,
    HANDS_PLAYED,
    HANDS_THIS_ROUND,
    IDOL_RANK,
    IDOL_SUIT,
    J_COUNT,
    J_EXTRA,
    J_PERISH,
    J_STICKERS,
    J_VALUE,
    JOKER,
    LAST_ANTE,
    LAST_HAND,
    LOST_TO,
    MAIL_RANK,
    MONEY,
    MOST_PLAYED,
    N_CARDS,
    N_CONSUMABLES,
    N_HAND,
    N_HANDS,
    N_JOKERS,
    N_PLAY,
    PAYOUT,
    PERISHABLE,
    PHASE,
    PLANETS_USED,
    PLAY,
    PLAYED,
    PLAYED_ROUND,
    PREPPED,
    R_BLIND,
    R_CHIPS,
    R_WIN,
    RENTAL,
    REROLLS,
    REWARD,
    ROUND,
    ROUND_HAND_SIZE,
    SAVED,
    STAKE,
    TARGET,
    UNUSED_DISCARDS,
    VOUCHER,
    WON,
)


@kernel
def _madness_victim(s: Any, q: Any, i: Any, doomed: Any) -> Any:
    """Another joker that can be destroyed and is not yet doomed, by chance; -1 for none."""
    count = 0
    for k in range(s[N_JOKERS]):
        if k != i and not s[J_STICKERS + k] & ETERNAL and not (doomed >> k) & 1:
            count += 1
    if count == 0:
        return -1
    wanted = position(s, q, count)
    for k in range(s[N_JOKERS]):
        if k != i and not s[J_STICKERS + k] & ETERNAL and not (doomed >> k) & 1:
            if wanted == 0:
                return k
            wanted -= 1
    return -1


@kernel
def _jokers_at_blind(s: Any, f: Any, q: Any) -> None:
    """Left to right, when a blind is taken on.

    What is destroyed leaves, what is made comes and the boss is disabled once every joker had its turn: a doomed joker
    does nothing more but keeps its place, and only Ceremonial Dagger's is free for Riff-raff.
    """
    boss = s[BLIND] >= BL_HOOK
    doomed, made, freed = 0, 0, 0
    disabled = False
    for i in range(s[N_JOKERS]):
        at = acting(s, i)
        if at < 0 or (doomed >> i) & 1 or (doomed >> at) & 1:
            continue
        joker = s[JOKER + at]
        if joker == J_BURGLAR:
            s[HANDS_LEFT] += 3
            s[DISCARDS_LEFT] = 0
        elif joker == J_RIFF_RAFF:
            made += max(0, min(2, joker_room(s) + freed - made))
        elif joker == J_CARTOMANCER:
            create_tarot(s, q)
        elif joker == J_MARBLE:
            place = new_card(s, make_card(2 + below(s, 13), below(s, 4), M_STONE, 0, 0))
            if place >= 0:
                to_draw_pile(s, place)
                cards_added(s, f, 1)
        elif at == i:
            if joker == J_CHICOT:
                disabled = boss
            elif joker == J_CEREMONIAL:
                if (
                    i + 1 < s[N_JOKERS]
                    and not s[J_STICKERS + i + 1] & ETERNAL
                    and not (doomed >> (i + 1)) & 1
                ):
                    f[J_VALUE + i] += 2.0 * joker_sell_value(s, i + 1)
                    doomed |= 1 << (i + 1)
                    freed += 1
            elif joker == J_MADNESS and not boss:
                f[J_VALUE + i] += 0.5
                victim = _madness_victim(s, q, i, doomed)
                if victim >= 0:
                    doomed |= 1 << victim
    for i in range(s[N_JOKERS] - 1, -1, -1):
        if (doomed >> i) & 1:
            remove_joker(s, f, q, i)
    for _ in range(made):
        create_joker(s, f, q, 1)
    if disabled:
        disable_boss(s, f, q)


@kernel
def _certificates(s: Any, f: Any, q: Any) -> None:
    """Certificate: a playing card with a seal joins the first hand of a round."""
    for i in range(s[N_JOKERS]):
        at = acting(s, i)
        if at >= 0 and s[JOKER + at] == J_CERTIFICATE:
            place = new_card(s, with_seal(random_card(s, False), random_seal(s)))
            if place >= 0:
                to_hand(s, place)
                cards_added(s, f, 1)
                refresh_debuffs(s)
                sort_hand(s)


@kernel
def reset_round(s: Any) -> None:
    """Hands, discards and rerolls as a round begins with them."""
    s[HANDS_LEFT] = max(1, s[HANDS_PER_ROUND])
    s[DISCARDS_LEFT] = max(0, s[DISCARDS_PER_ROUND])
    s[HANDS_THIS_ROUND] = 0
    s[DISCARDS_USED] = 0
    for hand in range(N_HANDS):
        s[PLAYED_ROUND + hand] = 0
    s[REROLLS] = 0
    s[FREE_REROLLS] = count_joker(s, J_CHAOS)


@kernel
def start_round(s: Any, f: Any, q: Any) -> None:
    """Takes on the blind on deck and draws the first hand. Juggle Tags have been used before."""
    s[ROUND] += 1
    reset_round(s)
    f[CHIPS] = 0.0
    s[SAVED] = 0
    collect_cards(s)
    begin_blind(s, f, q)
    _jokers_at_blind(s, f, q)
    shuffle_jokers(s, f, q)
    refresh_debuffs(s)
    s[PHASE] = SELECTING_HAND
    draw_up(s, q)
    _certificates(s, f, q)
    after_draw(s, q)
    if s[N_HAND] == 0:
        end_round(s, f, q)


@kernel
def _hook(s: Any, f: Any, q: Any) -> None:
    """The Hook discards two cards of those left in hand, before the played ones score."""
    bits = 0
    for _ in range(min(2, s[N_HAND])):
        at = given(q, GIVEN_DISCARD)
        if at < 0 or at >= s[N_HAND] or (bits >> at) & 1:
            at = below(s, s[N_HAND])
            while (bits >> at) & 1:
                at = below(s, s[N_HAND])
        bits |= 1 << at
    if bits == 0:
        return
    n = s[N_PLAY]
    p0, p1, p2, p3, p4 = s[PLAY], s[PLAY + 1], s[PLAY + 2], s[PLAY + 3], s[PLAY + 4]
    discard_cards(s, f, q, bits, True)
    s[PLAY], s[PLAY + 1], s[PLAY + 2], s[PLAY + 3], s[PLAY + 4] = p0, p1, p2, p3, p4
    s[N_PLAY] = n


@kernel
def play(s: Any, f: Any, q: Any, log: Any, bits: Any) -> None:
    """Plays the cards at these positions of the hand."""
    take_from_hand(s, bits)
    for k in range(s[N_PLAY]):
        s[CARD + s[PLAY + k]] |= PLAYED_ANTE
    s[HANDS_LEFT] -= 1
    if not s[BOSS_OFF]:
        if s[BLIND] == BL_HOOK:
            _hook(s, f, q)
        elif s[BLIND] == BL_TOOTH:
            s[MONEY] -= s[N_PLAY]
    s[PREPPED] = 1
    evaluate(s, f, q, log)
    s[HANDS_PLAYED] += 1
    s[HANDS_THIS_ROUND] += 1
    s[N_PLAY] = 0
    before = progress(f[CHIPS], f[TARGET])
    f[CHIPS] += f[HAND_SCORE]
    f[BEST_HAND] = max(f[BEST_HAND], f[HAND_SCORE])
    f[REWARD] += f[R_CHIPS] * (progress(f[CHIPS], f[TARGET]) - before)
    if f[CHIPS] >= f[TARGET] or s[HANDS_LEFT] < 1:
        end_round(s, f, q)
    else:
        go_on(s, f, q)


@kernel
def go_on(s: Any, f: Any, q: Any) -> None:
    """Draws the next hand; without a card left, or a hand that holds none, the round is over."""
    draw_up(s, q)
    after_draw(s, q)
    if s[N_HAND] == 0:
        end_round(s, f, q)


@kernel
def discard(s: Any, f: Any, q: Any, bits: Any) -> None:
    """Discards the cards at these positions of the hand and draws."""
    s[DISCARDS_LEFT] -= 1
    discard_cards(s, f, q, bits, False)
    s[DISCARDS_USED] += 1
    go_on(s, f, q)


@kernel
def _held_at_end(s: Any, q: Any) -> None:
    """Gold cards pay and Blue seals make planets, with Mime and Red seals repeating them."""
    note_acting(s)
    mimes = held_triggers(s)
    for k in range(s[N_HAND]):
        card = s[CARD + s[HAND + k]]
        if card & DEBUFF:
            continue
        gold, blue = enhancement_of(card) == M_GOLD, seal_of(card) == BLUE_SEAL
        if not gold and not blue:
            continue
        for _ in range(1 + mimes + (1 if seal_of(card) == RED_SEAL else 0)):
            if gold:
                s[MONEY] += 3
            if blue and consumable_room(s) > 0:
                add_consumable(s, HAND_PLANET[s[LAST_HAND]], 0)


@kernel
def _grow_old(s: Any, f: Any, q: Any, i: Any, boss: Any) -> Any:
    """What the end of a round does to one joker; whether it is gone."""
    joker = s[JOKER + i]
    if joker == J_CAMPFIRE:
        if boss:
            f[J_VALUE + i] = 1.0
    elif joker == J_ROCKET:
        if boss:
            s[J_COUNT + i] += 2
    elif joker == J_TURTLE_BEAN:
        if s[J_COUNT + i] <= 1:
            return True
        s[J_COUNT + i] -= 1
        change_hand_size(s, q, -1)
    elif joker == J_INVISIBLE:
        s[J_COUNT + i] += 1
    elif joker == J_POPCORN:
        f[J_VALUE + i] -= 4.0
        return f[J_VALUE + i] <= 0
    elif joker == J_TODO_LIST:
        s[J_COUNT + i] = random_hand_type(s, q, s[J_COUNT + i])
    elif joker == J_EGG:
        s[J_EXTRA + i] += 3
    elif joker == J_GIFT:
        for k in range(s[N_JOKERS]):
            s[J_EXTRA + k] += 1
        for k in range(s[N_CONSUMABLES]):
            s[C_EXTRA + k] += 1
    elif joker == J_HIT_THE_ROAD:
        f[J_VALUE + i] = 1.0
    elif joker == J_GROS_MICHEL:
        if happens(s, q, luck(s), 6):
            s[GROS_MICHEL_GONE] = 1
            return True
    elif joker == J_CAVENDISH:
        return happens(s, q, luck(s), 1000)
    return False


@kernel
def _jokers_at_end(s: Any, f: Any, q: Any, boss: Any, lost: Any) -> Any:
    """The end of the round, joker by joker; whether Mr. Bones prevented a loss."""
    saved = False
    i = 0
    while i < s[N_JOKERS]:
        gone = False
        if not s[J_STICKERS + i] & DEBUFFED:
            if s[JOKER + i] == J_MR_BONES:
                if lost and not saved and f[CHIPS] >= 0.25 * f[TARGET]:
                    saved = True
                    gone = True
            else:
                gone = _grow_old(s, f, q, i, boss)
        if s[J_STICKERS + i] & RENTAL:
            s[MONEY] -= 3
        if not gone and s[J_STICKERS + i] & PERISHABLE and s[J_PERISH + i] > 0:
            s[J_PERISH + i] -= 1
            if s[J_PERISH + i] == 0:
                set_debuffed(s, q, i, True)
        if gone:
            remove_joker(s, f, q, i)
        else:
            i += 1
    return saved


@kernel
def _joker_pay(s: Any, i: Any) -> Any:
    """What a joker pays at the cash-out."""
    joker = s[JOKER + i]
    if s[J_STICKERS + i] & DEBUFFED:
        return 0
    if joker == J_GOLDEN:
        return 4
    if joker == J_ROCKET:
        return int(s[J_COUNT + i])
    if joker == J_DELAYED_GRAT:
        return 2 * int(s[DISCARDS_LEFT]) if s[DISCARDS_USED] == 0 else 0
    if joker == J_CLOUD_9:
        nines = 0
        for place in range(s[CARD_TOP]):
            if rank_shown(s[CARD + place]) == 9:
                nines += 1
        return nines
    if joker == J_SATELLITE:
        planets = 0
        for k in range(12):
            planets += (s[PLANETS_USED] >> k) & 1
        return planets
    return 0


@kernel
def _payout(s: Any, blind: Any) -> Any:
    """What the cash-out pays; interest counts the money held before it."""
    pay = 0
    if not s[SAVED] and not (blind == BL_SMALL and s[STAKE] >= 2):
        pay += BLIND_DOLLARS[blind]
    green = s[DECK] == B_GREEN
    pay += s[HANDS_LEFT] * (2 if green else 1)
    if green:
        pay += s[DISCARDS_LEFT]
    for i in range(s[N_JOKERS]):
        pay += _joker_pay(s, i)
    if not green and s[MONEY] >= 5:
        cap = 20 if s[VOUCHER + V_MONEY_TREE] else (10 if s[VOUCHER + V_SEED_MONEY] else 5)
        pay += (1 + count_joker(s, J_TO_THE_MOON)) * min(s[MONEY] // 5, cap)
    return pay


@kernel
def _random_card_of_deck(s: Any) -> Any:
    """A card of the full deck that is not Stone; 0 when there is none."""
    if s[N_CARDS] == 0:
        return 0
    for _ in range(200):
        card = s[CARD + below(s, s[CARD_TOP])]
        if card != 0 and rank_shown(card) > 0:
            return card
    return 0


@kernel
def new_targets(s: Any, q: Any) -> None:
    """The ranks and suits that The Idol, Mail-In Rebate, Ancient Joker and Castle ask for until the next round ends."""
    card = _random_card_of_deck(s)
    s[IDOL_RANK] = rank_shown(card) if card else 14
    s[IDOL_SUIT] = suit_of(card) if card else 0
    card = _random_card_of_deck(s)
    rank = given(q, GIVEN_RANK)
    s[MAIL_RANK] = rank if rank > 0 else (rank_shown(card) if card else 14)
    suit = given(q, GIVEN_SUIT)
    s[ANCIENT_SUIT] = suit if suit >= 0 else (s[ANCIENT_SUIT] + 1 + below(s, 3)) % 4
    card = _random_card_of_deck(s)
    s[CASTLE_SUIT] = suit_of(card) if card else 0


@kernel
def end_round(s: Any, f: Any, q: Any) -> None:
    """The round is over: lost, or won with its payout ready. The next blind is set up by the caller of the cash-out."""
    blind = s[BLIND]
    boss = blind >= BL_HOOK
    lost = f[CHIPS] < f[TARGET]
    s[PHASE] = CASHING_OUT  # a hand that grows now draws no more cards
    saved = _jokers_at_end(s, f, q, boss, lost)
    if lost and not saved:
        s[LOST_TO] = blind
        s[PHASE] = GAME_OVER
        return
    s[SAVED] = saved
    s[UNUSED_DISCARDS] += s[DISCARDS_LEFT]
    _held_at_end(s, q)
    if boss:  # The Ox takes what was played most when the last boss was beaten, High Card before that
        for hand in range(N_HANDS):
            if hand == 0 or s[PLAYED + hand] >= s[PLAYED + s[MOST_PLAYED]]:
                s[MOST_PLAYED] = hand
    s[PAYOUT] = _payout(s, blind)
    f[REWARD] += f[R_BLIND]
    end_blind(s, q)
    s[ROUND_HAND_SIZE] = 0
    collect_cards(s)
    if boss:
        for place in range(s[CARD_TOP]):
            s[CARD + place] &= ~PLAYED_ANTE
        if s[LAST_ANTE] > 0 and s[ANTE] >= s[LAST_ANTE]:
            s[WON] = 1
            f[REWARD] += f[R_WIN]
            s[PHASE] = GAME_OVER
            return
    new_targets(s, q)

"""One step of N games: the action is carried out, ended games begin anew, and what a player sees is written down."""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import actions as act
from ludus.games.balatro import names as nm
from ludus.games.balatro import shop
from ludus.games.balatro import state as st
from ludus.games.balatro.compiled import for_python, kernel
from ludus.games.balatro.consumables import use
from ludus.games.balatro.facts import TARGETS_MAX
from ludus.games.balatro.jokers import add_joker, swap_jokers
from ludus.games.balatro.lineup import take_consumable
from ludus.games.balatro.observation import write_observation
from ludus.games.balatro.packs import add_to_deck, close_pack, open_pack, picked, skip_pack
from ludus.games.balatro.rounds import discard, go_on, play
from ludus.games.balatro.runs import cash_out, next_round, reroll_boss, skip_blind, start_run, take_blind
from ludus.games.balatro.tags import tags_at_blind_choice
from ludus.games.balatro.vouchers import redeem

_FROM_PACK = 100


@kernel
def _after_pick(s: Any, q: Any, k: Any) -> None:
    if picked(s, k):
        _leave_pack(s, q)


@kernel
def _leave_pack(s: Any, q: Any) -> None:
    close_pack(s)
    if s[st.PHASE] != nm.SHOPPING:
        tags_at_blind_choice(s, q)


@kernel
def _begin_use(s: Any, f: Any, q: Any, item: Any, source: Any) -> None:
    """Uses a consumable that has left its place, or waits for its targets."""
    if TARGETS_MAX[item] > 0:
        s[st.WAITING] = item
        s[st.WAITING_FROM] = source
        s[st.WAITING_BACK] = s[st.PHASE]
        s[st.PHASE] = nm.TARGETING
    else:
        use(s, f, q, item, 0)


@kernel
def _finish_use(s: Any, f: Any, q: Any, bits: Any) -> None:
    item, source = s[st.WAITING], s[st.WAITING_FROM]
    s[st.WAITING] = 0
    s[st.PHASE] = s[st.WAITING_BACK]
    use(s, f, q, item, bits)
    if source >= _FROM_PACK:
        _after_pick(s, q, source - _FROM_PACK)


@kernel
def _pick(s: Any, f: Any, q: Any, k: Any) -> None:
    item = s[st.PACK + k]
    if item == nm.PLAYING_CARD:
        add_to_deck(s, f, s[st.PACK_CARD + k])
    elif item < nm.C_FOOL:
        add_joker(s, f, q, item, s[st.PACK_EDITION + k], s[st.PACK_STICKERS + k])
    else:
        _begin_use(s, f, q, item, _FROM_PACK + k)
        if s[st.PHASE] == nm.TARGETING:
            return
    _after_pick(s, q, k)


@kernel
def _redeem(s: Any, q: Any, k: Any) -> None:
    voucher = s[st.SHOP_VOUCHER + k]
    s[st.MONEY] -= shop.voucher_price(s)
    s[st.SHOP_VOUCHER + k] = 0
    if voucher == s[st.ANTE_VOUCHER]:
        s[st.ANTE_VOUCHER] = 0
    redeem(s, q, voucher)
    if voucher in (nm.V_OVERSTOCK_NORM, nm.V_OVERSTOCK_PLUS):
        shop.fill_new_places(s, q)


@kernel
def _move_card(s: Any, at: Any) -> None:
    """The card at a position becomes the leftmost of the hand."""
    place = s[st.HAND + at]
    for i in range(at, 0, -1):
        s[st.HAND + i] = s[st.HAND + i - 1]
    s[st.HAND] = place


@kernel
def _in_shop(s: Any, f: Any, q: Any, action: Any) -> None:
    if action == act.REROLL:
        shop.reroll(s, f, q)
    elif action == act.NEXT_ROUND:
        next_round(s, q)
    elif action < act.BUY_AND_USE:
        shop.buy(s, f, q, action - act.BUY)
    elif action < act.REDEEM:
        k = action - act.BUY_AND_USE
        s[st.MONEY] -= shop.shop_price(s, k)
        item = s[st.SHOP + k]
        s[st.SHOP + k] = 0
        _begin_use(s, f, q, item, 0)
    elif action < act.OPEN:
        _redeem(s, q, action - act.REDEEM)
    else:
        k = action - act.OPEN
        s[st.MONEY] -= shop.booster_price(s, k)
        booster = s[st.SHOP_BOOSTER + k]
        s[st.SHOP_BOOSTER + k] = 0
        open_pack(s, q, booster, nm.SHOPPING)


@kernel
def _with_belongings(s: Any, f: Any, q: Any, action: Any) -> None:
    if action < act.SELL_CONSUMABLE:
        k = action - act.USE
        item = s[st.CONSUMABLE + k]
        take_consumable(s, k)
        _begin_use(s, f, q, item, 0)
    elif action < act.SELL_JOKER:
        shop.sell_consumable(s, f, action - act.SELL_CONSUMABLE)
    else:
        shop.sell_joker(s, f, q, action - act.SELL_JOKER)


@kernel
def carry_out(s: Any, f: Any, q: Any, log: Any, action: Any) -> None:
    """Carries out a legal action in one game."""
    if action >= act.MOVE_CARD and action < act.CARDS:
        s[st.HAND_MOVES] -= 1
        _move_card(s, action - act.MOVE_CARD)
        return
    if action >= act.SWAP_JOKERS and action < act.MOVE_CARD:
        s[st.JOKER_MOVES] -= 1
        swap_jokers(s, f, action - act.SWAP_JOKERS, action - act.SWAP_JOKERS + 1)
        return
    if action >= act.CARDS:
        bits = act.SETS[(action - act.CARDS) // 2]
        if s[st.PHASE] == nm.TARGETING:
            _finish_use(s, f, q, bits)
        elif (action - act.CARDS) % 2 == 0:
            play(s, f, q, log, bits)
        else:
            discard(s, f, q, bits)
    elif action == act.TAKE_BLIND:
        take_blind(s, f, q)
    elif action == act.SKIP_BLIND:
        skip_blind(s, f, q)
    elif action == act.REROLL_BOSS:
        reroll_boss(s, q)
    elif action == act.CASH_OUT:
        cash_out(s, f, q)
    elif action == act.SKIP_PACK:
        skip_pack(s, f)
        if s[st.PHASE] != nm.SHOPPING:
            tags_at_blind_choice(s, q)
    elif action < act.PICK:
        _in_shop(s, f, q, action)
    elif action < act.USE:
        _pick(s, f, q, action - act.PICK)
    else:
        _with_belongings(s, f, q, action)
    if s[st.PHASE] == nm.SELECTING_HAND and s[st.N_HAND] == 0:
        go_on(s, f, q)  # the last card of the hand was destroyed
    act.refill_moves(s)


@kernel
def begin_run(s: Any, f: Any, q: Any, seed: Any, deck: Any, stake: Any, last_ante: Any) -> None:
    """Begins a run in one game, ready for its first action."""
    start_run(s, f, q, seed, deck, stake, last_ante)
    act.refill_moves(s)


@kernel
def next_seed(s: Any) -> Any:
    """The seed of the run that follows this one, from the seed and length of this one."""
    low = np.uint64(np.uint32(s[st.SEED_LOW]))
    high = np.uint64(np.uint32(s[st.SEED_HIGH]))
    x = (low | (high << np.uint64(31))) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(
        np.uint32(s[st.DRAWS]) + 1
    )
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(x >> np.uint64(2))


@kernel
def copy_row(row: Any, to: Any) -> None:
    """Makes a row of a game, `s` or `f`, what another is."""
    for k in range(len(row)):
        to[k] = row[k]


@kernel
def look_at_games(games_s: Any, games_f: Any, obs: Any, mask: Any, max_hand: Any) -> None:
    """Writes observation and mask of every game."""
    for i in range(len(games_s)):
        write_observation(games_s[i], games_f[i], obs[i], max_hand)
        act.write_mask(games_s[i], mask[i], max_hand)


@kernel
def step_games(
    games_s: Any,
    games_f: Any,
    queue: Any,
    actions: Any,
    obs: Any,
    reward: Any,
    done: Any,
    legal: Any,
    mask: Any,
    max_hand: Any,
    max_steps: Any,
    autoreset: Any,
    final_s: Any,
    final_f: Any,
    final_obs: Any,
    final_mask: Any,
    log: Any,
) -> None:
    """Steps every game by its action and writes observation, reward, done and mask.

    `legal` holds the masks of the games as they stand: an action that is not in it changes nothing. It may be the same
    array as `mask`, with rows as they were written for these games: then only what can be True in them is cleared.
    `done` is 1 for a game that ended, 2 for one cut short by `max_steps`; with `autoreset` its last rows, and what was
    seen there, are kept in the arrays `final_…` and a new run has begun in its place. `log` is as in `tally`.
    """
    in_place = legal is mask  # which to numba are two arrays with one address and shape
    for i in range(len(games_s)):
        s, f = games_s[i], games_f[i]
        reach = act.mask_reach(s, max_hand) if in_place else len(mask[i])
        action = actions[i]
        f[st.REWARD] = 0.0
        s[st.STEPS] += 1
        if 0 <= action < legal.shape[1] and legal[i, action]:
            carry_out(s, f, queue, log, action)
        else:
            f[st.REWARD] = f[st.R_ILLEGAL]
        reward[i] = f[st.REWARD]
        done[i] = 1 if s[st.PHASE] == nm.GAME_OVER else (2 if s[st.STEPS] >= max_steps else 0)
        if done[i] and autoreset:
            copy_row(s, final_s[i])
            copy_row(f, final_f[i])
            write_observation(s, f, final_obs[i], max_hand)
            act.write_mask(s, final_mask[i], max_hand)
            begin_run(s, f, queue, next_seed(s), s[st.DECK], s[st.STAKE], s[st.LAST_ANTE])
        write_observation(s, f, obs[i], max_hand)
        act.write_mask_over(s, mask[i], max_hand, reach)


apply, begin = for_python(carry_out), for_python(begin_run)
look, step = for_python(look_at_games), for_python(step_games)

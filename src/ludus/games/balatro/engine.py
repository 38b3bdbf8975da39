"""One step of N games: apply the actions, restart ended games, write observations and masks."""

from __future__ import annotations

from typing import Any

from ludus.games.balatro import actions as act
from ludus.games.balatro import names as nm
from ludus.games.balatro import shop
from ludus.games.balatro import state as st
from ludus.games.balatro.chance import next_seed
from ludus.games.balatro.compiled import for_python, kernel
from ludus.games.balatro.consumables import use
from ludus.games.balatro.facts import TARGETS_MAX
from ludus.games.balatro.jokers import add_joker, swap_jokers
from ludus.games.balatro.lineup import take_consumable
from ludus.games.balatro.observation import write_observation
from ludus.games.balatro.packs import add_to_deck, close_pack, open_pack, picked, skip_pack
from ludus.games.balatro.rounds import discard, draw_next_hand, play
from ludus.games.balatro.runs import cash_out, next_round, reroll_boss, skip_blind, start_run, take_blind
from ludus.games.balatro.tags import tags_at_blind_choice
from ludus.games.balatro.vouchers import redeem

_FROM_PACK = 100


@kernel
def _after_pick(s: Any, queue: Any, k: Any) -> None:
    if picked(s, k):
        _leave_pack(s, queue)


@kernel
def _leave_pack(s: Any, queue: Any) -> None:
    close_pack(s)
    if s[st.PHASE] != nm.SHOPPING:
        tags_at_blind_choice(s, queue)


@kernel
def _begin_use(s: Any, f: Any, queue: Any, item: Any, source: Any) -> None:
    """Use a consumable that has left its slot, or wait for its targets."""
    if TARGETS_MAX[item] > 0:
        s[st.WAITING] = item
        s[st.WAITING_FROM] = source
        s[st.WAITING_BACK] = s[st.PHASE]
        s[st.PHASE] = nm.TARGETING
    else:
        use(s, f, queue, item, 0)


@kernel
def _finish_use(s: Any, f: Any, queue: Any, bits: Any) -> None:
    item, source = s[st.WAITING], s[st.WAITING_FROM]
    s[st.WAITING] = 0
    s[st.PHASE] = s[st.WAITING_BACK]
    use(s, f, queue, item, bits)
    if source >= _FROM_PACK:
        _after_pick(s, queue, source - _FROM_PACK)


@kernel
def _pick(s: Any, f: Any, queue: Any, k: Any) -> None:
    item = s[st.PACK + k]
    if item == nm.PLAYING_CARD:
        add_to_deck(s, f, s[st.PACK_CARD + k])
    elif item < nm.C_FOOL:
        at = add_joker(s, f, queue, item, s[st.PACK_EDITION + k], s[st.PACK_STICKERS + k])
        if at >= 0:
            s[st.J_AGE + at] = s[st.PACK_AGE + k]
    else:
        _begin_use(s, f, queue, item, _FROM_PACK + k)
        if s[st.PHASE] == nm.TARGETING:
            return
    _after_pick(s, queue, k)


@kernel
def _redeem(s: Any, queue: Any, k: Any) -> None:
    voucher = s[st.SHOP_VOUCHER + k]
    s[st.MONEY] -= shop.voucher_price(s)
    s[st.SHOP_VOUCHER + k] = 0
    if voucher == s[st.ANTE_VOUCHER]:
        s[st.ANTE_VOUCHER] = 0
    redeem(s, queue, voucher)
    if voucher in (nm.V_OVERSTOCK_NORM, nm.V_OVERSTOCK_PLUS):
        shop.fill_new_places(s, queue)


@kernel
def _move_card(s: Any, at: Any) -> None:
    """Move the card at a position to the left end of the hand."""
    slot = s[st.HAND + at]
    for i in range(at, 0, -1):
        s[st.HAND + i] = s[st.HAND + i - 1]
    s[st.HAND] = slot


@kernel
def _apply_shop_action(s: Any, f: Any, queue: Any, action: Any) -> None:
    if action == act.REROLL:
        shop.reroll(s, f, queue)
    elif action == act.NEXT_ROUND:
        next_round(s, queue)
    elif action < act.BUY_AND_USE:
        shop.buy(s, f, queue, action - act.BUY)
    elif action < act.REDEEM:
        k = action - act.BUY_AND_USE
        s[st.MONEY] -= shop.shop_price(s, k)
        item = s[st.SHOP + k]
        s[st.SHOP + k] = 0
        _begin_use(s, f, queue, item, 0)
    elif action < act.OPEN:
        _redeem(s, queue, action - act.REDEEM)
    else:
        k = action - act.OPEN
        s[st.MONEY] -= shop.booster_price(s, k)
        booster = s[st.SHOP_BOOSTER + k]
        s[st.SHOP_BOOSTER + k] = 0
        open_pack(s, queue, booster, nm.SHOPPING)


@kernel
def _use_or_sell(s: Any, f: Any, queue: Any, action: Any) -> None:
    if action < act.SELL_CONSUMABLE:
        k = action - act.USE
        item = s[st.CONSUMABLE + k]
        take_consumable(s, k)
        _begin_use(s, f, queue, item, 0)
    elif action < act.SELL_JOKER:
        shop.sell_consumable(s, f, action - act.SELL_CONSUMABLE)
    else:
        shop.sell_joker(s, f, queue, action - act.SELL_JOKER)


@kernel
def apply_action(s: Any, f: Any, queue: Any, log: Any, action: Any) -> None:
    """Apply a legal action to one game."""
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
            _finish_use(s, f, queue, bits)
        elif (action - act.CARDS) % 2 == 0:
            play(s, f, queue, log, bits)
        else:
            discard(s, f, queue, bits)
    elif action == act.TAKE_BLIND:
        take_blind(s, f, queue)
    elif action == act.SKIP_BLIND:
        skip_blind(s, f, queue)
    elif action == act.REROLL_BOSS:
        reroll_boss(s, queue)
    elif action == act.CASH_OUT:
        cash_out(s, f, queue)
    elif action == act.SKIP_PACK:
        skip_pack(s, f)
        if s[st.PHASE] != nm.SHOPPING:
            tags_at_blind_choice(s, queue)
    elif action < act.PICK:
        _apply_shop_action(s, f, queue, action)
    elif action < act.USE:
        _pick(s, f, queue, action - act.PICK)
    else:
        _use_or_sell(s, f, queue, action)
    if s[st.PHASE] == nm.SELECTING_HAND and s[st.N_HAND] == 0:
        draw_next_hand(s, f, queue)  # the last card of the hand was destroyed
    act.refill_moves(s)


@kernel
def begin_run(s: Any, f: Any, queue: Any, seed: Any, deck: Any, stake: Any, last_ante: Any) -> None:
    """Start a run in one game, ready for its first action."""
    start_run(s, f, queue, seed, deck, stake, last_ante)
    act.refill_moves(s)


@kernel
def copy_row(row: Any, to: Any) -> None:
    """Copy a row of a game, `s` or `f`, to another row."""
    for k in range(len(row)):
        to[k] = row[k]


@kernel
def observe_games(games_s: Any, games_f: Any, obs: Any, mask: Any, max_hand: Any) -> None:
    """Write observation and mask of every game."""
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
    """Step every game with its action and write observation, reward, done and mask.

    `legal` holds the masks of the games before the step: an illegal action changes nothing. `legal` and `mask` may be
    the same array if its rows were written for these games; then only the part of a row that can be True is cleared.
    `done` is 1 for a game that ended and 2 for one truncated by `max_steps`. With `autoreset` the last rows of such a
    game, its observation and its mask are written to the arrays `final_…`, and a new run starts. `log` is as in
    `tally`.
    """
    in_place = legal is mask  # numba compares address and shape
    for i in range(len(games_s)):
        s, f = games_s[i], games_f[i]
        reach = act.mask_reach(s, max_hand) if in_place else len(mask[i])
        action = actions[i]
        f[st.REWARD] = 0.0
        s[st.STEPS] += 1
        if 0 <= action < legal.shape[1] and legal[i, action]:
            apply_action(s, f, queue, log, action)
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


apply, begin = for_python(apply_action), for_python(begin_run)
observe, step = for_python(observe_games), for_python(step_games)

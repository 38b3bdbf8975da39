"""Random events, decided by the game's seed or by a queue of given outcomes.

Every random event names its stream (`streams.py`). A stream gives the numbers that the real game draws for this seed.
With FAST_RANDOM set, one counter-based generator gives all numbers instead: copies of a game that must not know its
future use it. `queue` is the game's queue of given outcomes: pairs (kind, outcome), where a used pair has kind 0. The
oldest outcome of the kind is used. If there is no such outcome (in training `queue` is empty), the stream decides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ludus.games.balatro import random_numbers as rn
from ludus.games.balatro import state as st
from ludus.games.balatro import streams
from ludus.games.balatro.compiled import entry, kernel

# Kinds of events with a given outcome. The comment describes the outcome.
(
    GIVEN_DRAW,  # the packed rank and suit of the card drawn
    GIVEN_SHOP,  # the item in the next slot of the shop
    GIVEN_SHOP_EDITION,  # its edition
    GIVEN_SHOP_CARD,  # the packed playing card in that slot
    GIVEN_VOUCHER,  # the voucher of the ante
    GIVEN_BOOSTER,  # the next booster of the shop
    GIVEN_PACK,  # the next item of a pack that is opened
    GIVEN_PACK_EDITION,
    GIVEN_PACK_CARD,
    GIVEN_TAG,  # the tag of the next blind
    GIVEN_BOSS,
    GIVEN_PROC,  # 1 when the next chance effect happens, 0 when not
    GIVEN_NUMBER,  # the number that a joker or card draws (Misprint)
    GIVEN_POSITION,  # which of several: an index from 0
    GIVEN_DISCARD,  # the position in the hand that The Hook takes
    GIVEN_ITEM,  # a joker or consumable that an effect creates
    GIVEN_STICKERS,
    GIVEN_HAND,  # a poker hand (Orbital Tag, To Do List)
    GIVEN_RANK,
    GIVEN_SUIT,
    GIVEN_EDITION,  # of a joker that an effect creates or changes
) = range(1, 22)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_HALF = (1 << 31) - 1  # integers past 31 bits are kept in two cells
_KEPT_ANTES = 4  # vouchers lower the ante by two at most


@kernel
def _counted(s: Any) -> Any:
    """Return the next number of the counter-based generator, in [0, 1)."""
    low = np.uint64(np.uint32(s[st.SEED_LOW]))
    high = np.uint64(np.uint32(s[st.SEED_HIGH]))
    s[st.DRAWS] += 1
    x = (low | (high << np.uint64(32))) + _GOLDEN * np.uint64(np.uint32(s[st.DRAWS]))
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    x = x ^ (x >> np.uint64(31))
    return np.float64(x >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def _load(s: Any, cell: Any) -> Any:
    """Return a double that is kept in two cells; NaN where the second is negative."""
    if s[cell + 1] < 0:
        return np.nan
    bits = np.int64(s[cell]) | (np.int64(s[cell + 1]) << 31)
    return np.int64(bits).view(np.float64)


@kernel
def _store(s: Any, cell: Any, number: Any) -> None:
    """Keep a double from 0 to 1, or NaN, in two cells."""
    bits = np.float64(number).view(np.int64)
    s[cell] = bits & _HALF
    s[cell + 1] = -1 if np.isnan(number) else bits >> 31


@kernel
def _digits(number: Any) -> Any:
    """Return how many characters an integer has."""
    count = 1
    if number < 0:
        count, number = 2, -number
    while number >= 10:
        number //= 10
        count += 1
    return count


@kernel
def _hash_number(x: Any, number: Any, position: Any) -> Any:
    """Return the hash after the characters of an integer that ends at `position`."""
    left = abs(number)
    while True:
        x = rn.hash_step(x, 48 + left % 10, position)
        position -= 1
        left //= 10
        if left == 0:
            break
    return rn.hash_step(x, 45, position) if number < 0 else x


@kernel
def _hash_seed(s: Any, before: Any) -> Any:
    """Return the hash of the seed behind a key of `before` characters: the first part of the hash of such keys."""
    cell = st.SEED_PART + 2 * before
    if before < st.MAX_KEY and (s[cell] != 0 or s[cell + 1] != 0):
        return _load(s, cell)
    x = 1.0
    for i in range(s[st.SEED_LENGTH] - 1, -1, -1):
        x = rn.hash_step(x, s[st.SEED_CHARS + i], before + i + 1)
    if before < st.MAX_KEY:
        _store(s, cell, x)
    return x


@kernel
def _hash_key(s: Any, stream: Any, attempt: Any) -> Any:
    """Return the hash of the key of a stream, followed by the seed."""
    ante = s[st.ANTE]
    with_ante = stream >= streams.N_WITHOUT_ANTE
    end_prefix = streams.PREFIX_LENGTH[stream]
    end_ante = end_prefix + (_digits(ante) if with_ante else 0)
    end_suffix = end_ante + streams.SUFFIX_LENGTH[stream]
    end = end_suffix + (len(streams.RESAMPLE) + _digits(attempt) if attempt > 1 else 0)
    x = _hash_seed(s, end)
    if attempt > 1:
        x = _hash_number(x, attempt, end)
        for i in range(len(streams.RESAMPLE) - 1, -1, -1):
            x = rn.hash_step(x, streams.RESAMPLE[i], end_suffix + i + 1)
    for i in range(streams.SUFFIX_LENGTH[stream] - 1, -1, -1):
        x = rn.hash_step(x, streams.SUFFIX[stream, i], end_ante + i + 1)
    if with_ante:
        x = _hash_number(x, ante, end_ante)
    for i in range(end_prefix - 1, -1, -1):
        x = rn.hash_step(x, streams.PREFIX[stream, i], i + 1)
    return x


@kernel
def _cell(s: Any, stream: Any) -> Any:
    """Return where the state of a stream is."""
    if stream < streams.N_WITHOUT_ANTE:
        return st.STREAMS + 2 * stream
    return st.STREAMS + 2 * (stream + s[st.ANTE] % _KEPT_ANTES * streams.N_WITH_ANTE)


@kernel
def _resample_cell(s: Any, stream: Any, attempt: Any) -> Any:
    """Return where the state of a resampled key is. Such keys are few; each is a row (name, state) of a list."""
    name = ((s[st.ANTE] + 128) * 1024 + attempt) * 256 + stream
    if stream < streams.N_WITHOUT_ANTE:
        name = attempt * 256 + stream
    for i in range(s[st.N_RESAMPLED]):
        if s[st.RESAMPLED + 3 * i] == name:
            return st.RESAMPLED + 3 * i + 1
    if s[st.N_RESAMPLED] == st.MAX_RESAMPLED:  # forget the oldest
        for k in range(st.RESAMPLED, st.RESAMPLED + 3 * (st.MAX_RESAMPLED - 1)):
            s[k] = s[k + 3]
        s[st.N_RESAMPLED] -= 1
    cell = st.RESAMPLED + 3 * s[st.N_RESAMPLED]
    s[st.N_RESAMPLED] += 1
    s[cell] = name
    s[cell + 1] = 0
    s[cell + 2] = 0
    return cell + 1


@kernel
def _advance(s: Any, stream: Any, attempt: Any) -> Any:
    """Advance the state of a key and return the double that seeds the generator for this draw.

    Kept is the state of the draw that follows. So the processor computes it while the game continues with this draw.
    """
    cell = _resample_cell(s, stream, attempt) if attempt > 1 else _cell(s, stream)
    drawn = s[cell] != 0 or s[cell + 1] != 0  # a state that is exactly 0 does not occur in practice
    state = _load(s, cell) if drawn else rn.next_state(_hash_key(s, stream, attempt))
    _store(s, cell, rn.next_state(state))
    return (state + _load(s, st.SEED_HASH)) / 2


@kernel
def set_seed(s: Any, code: Any) -> None:
    """Set the seed of a run whose cells are all 0, from the integer of `seeds.seed_code`."""
    s[st.SEED_LOW] = code & _HALF
    s[st.SEED_HIGH] = code >> 31
    if s[st.FAST_RANDOM]:
        return
    length = 0
    while code > 0 and length < 8:
        digit = code % 36
        s[st.SEED_CHARS + length] = 48 + digit if digit < 10 else 55 + digit
        code //= 36
        length += 1
    s[st.SEED_LENGTH] = length
    _store(s, st.SEED_HASH, _hash_seed(s, 0))


@kernel
def next_seed(s: Any) -> Any:
    """Return the seed of the run that follows this one, from its seed and length: 8 characters without O."""
    low = np.uint64(np.uint32(s[st.SEED_LOW]))
    high = np.uint64(np.uint32(s[st.SEED_HIGH]))
    x = (low | (high << np.uint64(31))) + _GOLDEN * np.uint64(np.uint32(s[st.STEPS]) + 1)
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    left = np.int64((x ^ (x >> np.uint64(31))) >> np.uint64(2))
    code = np.int64(0)
    for _ in range(8):
        digit = left % 34 + 1
        left //= 34
        code = code * 36 + (digit if digit < 24 else digit + 1)  # 24 is O
    return code


@kernel
def forget_old_antes(s: Any) -> None:
    """Make room for the streams of an ante that is higher than any before; those of the ante 4 below are gone."""
    if s[st.ANTE] <= s[st.TOP_ANTE]:
        return
    s[st.TOP_ANTE] = s[st.ANTE]
    first = _cell(s, streams.N_WITHOUT_ANTE)
    for cell in range(first, first + 2 * streams.N_WITH_ANTE):
        s[cell] = 0


@kernel
def uniform(s: Any, stream: Any) -> Any:
    """Return the next number of a stream, in [0, 1)."""
    if s[st.FAST_RANDOM]:
        return _counted(s)
    return rn.first_number(_advance(s, stream, 1))


@kernel
def below(s: Any, stream: Any, n: Any) -> Any:
    """Return an integer from 0 to n - 1 from a stream."""
    return np.int64(uniform(s, stream) * n)


@kernel
def below_again(s: Any, stream: Any, attempt: Any, n: Any) -> Any:
    """Return an integer from 0 to n - 1 at an attempt, from 1, to find something that is available."""
    if s[st.FAST_RANDOM]:
        return np.int64(_counted(s) * n)
    return np.int64(rn.first_number(_advance(s, stream, attempt)) * n)


@kernel
def shuffle(s: Any, stream: Any, start: Any, n: Any) -> None:
    """Shuffle n cells from `start` on, as the real game shuffles a list."""
    if s[st.FAST_RANDOM]:
        for i in range(n, 1, -1):
            j = np.int64(_counted(s) * i)
            s[start + i - 1], s[start + j] = s[start + j], s[start + i - 1]
        return
    a, b, c, d = rn.seeded(_advance(s, stream, 1))
    for i in range(n, 1, -1):
        a, b, c, d, number = rn.next_number(a, b, c, d)
        j = np.int64(number * i)
        s[start + i - 1], s[start + j] = s[start + j], s[start + i - 1]


@kernel
def begin_shuffle(s: Any, stream: Any) -> None:
    """Begin to shuffle the draw pile, which holds every card in the order of creation.

    The shuffle of the real game fixes the last card of the list first, and the last card is drawn first. So each draw
    takes one step of it (`shuffle_up_to`), and most of the pile never needs to be shuffled.
    """
    if s[st.FAST_RANDOM]:
        return
    _store(s, st.SHUFFLE_SEED, _advance(s, stream, 1))
    s[st.UNSHUFFLED] = s[st.N_DRAW]
    s[st.SHUFFLING] = 0


@kernel
def shuffle_up_to(s: Any, n: Any) -> None:
    """Continue the shuffle of the draw pile until the cards above the first n are fixed."""
    if s[st.UNSHUFFLED] <= n:
        return
    if s[st.SHUFFLING]:
        a, b, c, d = _kept_word(s, 0), _kept_word(s, 1), _kept_word(s, 2), _kept_word(s, 3)
    else:
        a, b, c, d = rn.seeded(_load(s, st.SHUFFLE_SEED))
        s[st.SHUFFLING] = 1
    for i in range(s[st.UNSHUFFLED], max(n, 1), -1):
        a, b, c, d, number = rn.next_number(a, b, c, d)
        j = np.int64(number * i)
        card = s[st.DRAW_PILE + j]
        s[st.DRAW_PILE + j] = s[st.DRAW_PILE + i - 1]
        s[st.DRAW_PILE + i - 1] = card
    _keep_word(s, 0, a)
    _keep_word(s, 1, b)
    _keep_word(s, 2, c)
    _keep_word(s, 3, d)
    s[st.UNSHUFFLED] = n


@kernel
def _keep_word(s: Any, k: Any, word: Any) -> None:
    s[st.SHUFFLE_WORDS + 2 * k] = np.int64(word) & 0xFFFFFFFF
    s[st.SHUFFLE_WORDS + 2 * k + 1] = np.int64(word) >> 32


@kernel
def _kept_word(s: Any, k: Any) -> Any:
    low = np.uint64(np.uint32(s[st.SHUFFLE_WORDS + 2 * k]))
    return low | (np.uint64(np.uint32(s[st.SHUFFLE_WORDS + 2 * k + 1])) << np.uint64(32))


@kernel
def given(queue: Any, kind: Any) -> Any:
    """Remove the oldest outcome of a kind from the queue and return it; -1 if there is no such outcome."""
    for i in range(0, len(queue), 2):
        if queue[i] == kind:
            queue[i] = 0
            return np.int64(queue[i + 1])
    return np.int64(-1)


@kernel
def happens(s: Any, queue: Any, stream: Any, luck: Any, odds: Any) -> Any:
    """Return whether an effect with probability luck / odds happens."""
    outcome = given(queue, GIVEN_PROC)
    if outcome >= 0:
        return outcome == 1
    return uniform(s, stream) < luck / odds


@entry
def draw_numbers(s: Any, stream: Any, out: Any) -> None:
    """Write the next numbers of a stream. For tests and the check of seeds."""
    for i in range(len(out)):
        out[i] = uniform(s, stream)

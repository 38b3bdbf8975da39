"""The random numbers of the real game: hashing of texts, the state of a stream, and the generator of LuaJIT.

The game keeps one state per key (a text such as "boss" or "cdt1"). A draw advances the state of its key, seeds LuaJIT's
generator with it and takes one or more numbers. All arithmetic is IEEE double and every operation is rounded on its
own, so nothing here may be compiled with fast-math.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ludus.games.balatro.compiled import entry, kernel
from ludus.types import Array

_SPLIT = 134217729.0  # 2**27 + 1: splits a double into two halves whose products are exact (Dekker, 1971)


@kernel
def hash_step(x: Any, char: Any, position: Any) -> Any:
    """Return the hash after one more character; the game goes from the last character to the first."""
    x = ((1.1239285023 / x) * char) * math.pi + math.pi * position
    return x - np.floor(x)  # NaN where x is infinite


def hash_text(text: str) -> float:
    """Return the hash of a text, in [0, 1). For tests and for tables; kernels use `hash_step`."""
    x = 1.0
    for position in range(len(text), 0, -1):
        with np.errstate(all="ignore"):
            v = ((np.float64(1.1239285023) / x) * ord(text[position - 1])) * math.pi + math.pi * position
            x = float(v - np.floor(v))
    return x


@kernel
def round_to_13_decimals(v: Any) -> Any:
    """Return v * 10**13 rounded to a whole number, as printing v (in [0, 1)) with 13 decimals rounds it."""
    p = v * 1e13
    high = _SPLIT * v
    high = high - (high - v)
    low = v - high
    factor_high = _SPLIT * 1e13
    factor_high = factor_high - (factor_high - 1e13)
    factor_low = 1e13 - factor_high
    error = ((high * factor_high - p) + high * factor_low + low * factor_high) + low * factor_low
    whole = np.floor(p)
    return whole + 1.0 if (p - whole - 0.5) + error > 0 else whole


@kernel
def next_state(state: Any) -> Any:
    """Return the state that follows, rounded to 13 decimals; NaN stays what it is."""
    v = 2.134453429141 + state * 1.72431234
    if np.isnan(v):
        return v
    return round_to_13_decimals(v - np.floor(v)) / 1e13


_MANTISSA = np.uint64((1 << 52) - 1)
_ONE = np.uint64(0x3FF0000000000000)
_LUA_NAN = np.uint64(0xFFF8000000000000)  # the NaN that x86 makes, with its sign bit set

# LuaJIT's generator: four words of 64 bits. Each holds bits b(n), b(n+1), … of a sequence, the first one highest, with
# b(n+k) = b(n+q) xor b(n). The words have (k, q) = (63, 31), (58, 19), (55, 24), (47, 21), and a step moves them by 18,
# 28, 7 and 8 bits. The low 64-k bits of a seed do not matter.


@kernel
def _moved(word: Any, k: Any, q: Any, shift: Any) -> Any:
    """Return a word `shift` bits further on: at most k-q, for a seed also at most 2k-q-64."""
    word = np.uint64(word)  # whole numbers reach a kernel as int64
    high = ~((np.uint64(1) << np.uint64(64 - k)) - np.uint64(1))
    return (((word << np.uint64(q)) ^ word) >> np.uint64(k - shift)) ^ ((word & high) << np.uint64(shift))


@kernel
def _seeded_word(d: Any, least: Any) -> Any:
    word = _LUA_NAN if np.isnan(d) else np.float64(d).view(np.uint64)
    return word + np.uint64(least) if word < np.uint64(least) else word


@kernel
def _as_number(bits: Any) -> Any:
    return np.uint64((np.uint64(bits) & _MANTISSA) | _ONE).view(np.float64) - 1.0


@kernel
def first_number(seed: Any) -> Any:
    """Return the first number in [0, 1) of the generator seeded with a double from 0 to 1, or NaN.

    It is that of the eleventh step, because ten are discarded. The bits that eleven steps lead to are sums of bits
    closer by: x**198 = x**72 + x**70 + x**8 modulo x**63 + x**31 + 1, and so on.
    """
    d0 = seed * math.pi + math.e
    d1 = d0 * math.pi + math.e
    d2 = d1 * math.pi + math.e
    d3 = d2 * math.pi + math.e
    if np.isnan(d3):
        a = b = c = d = _LUA_NAN
    else:  # no word is less than the least that LuaJIT accepts
        a = np.float64(d0).view(np.uint64)
        b = np.float64(d1).view(np.uint64)
        c = np.float64(d2).view(np.uint64)
        d = np.float64(d3).view(np.uint64)
    near = _moved(a, 63, 31, 8)
    far = _moved(near, 63, 31, 32)  # 40 bits on
    out = near ^ _moved(far, 63, 31, 30) ^ _moved(far, 63, 31, 32)
    near = _moved(b, 58, 19, 33)  # 308 bits on: 36 ^ 74 ^ 76
    far = _moved(near, 58, 19, 39)
    out ^= _moved(near, 58, 19, 3) ^ _moved(far, 58, 19, 2) ^ _moved(far, 58, 19, 4)
    near = _moved(c, 55, 24, 22)  # 77 bits on: 22 ^ 46
    out ^= near ^ _moved(near, 55, 24, 24)
    near = _moved(_moved(_moved(d, 47, 21, 9), 47, 21, 26), 47, 21, 6)  # 88 bits on: 41 ^ 62
    out ^= near ^ _moved(near, 47, 21, 21)
    return _as_number(out)


@kernel
def seeded(seed: Any) -> Any:
    """Return the four words of the generator seeded with a double, after the ten steps that are discarded."""
    d0 = seed * math.pi + math.e
    d1 = d0 * math.pi + math.e
    d2 = d1 * math.pi + math.e
    d3 = d2 * math.pi + math.e
    a, b, c, d = _seeded_word(d0, 2), _seeded_word(d1, 64), _seeded_word(d2, 512), _seeded_word(d3, 131072)
    for _ in range(10):
        a, b, c, d, _number = next_number(a, b, c, d)
    return a, b, c, d


@kernel
def next_number(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the words after one step, and the number in [0, 1) that the step gives."""
    a = _moved(a, 63, 31, 18)
    b = _moved(b, 58, 19, 28)
    c = _moved(c, 55, 24, 7)
    d = _moved(d, 47, 21, 8)
    return a, b, c, d, _as_number(a ^ b ^ c ^ d)


@entry
def numbers_of(seed: float, out: Array) -> None:
    """Write the first numbers of the generator seeded with a double. For tests."""
    a, b, c, d = seeded(seed)
    for i in range(len(out)):
        a, b, c, d, number = next_number(a, b, c, d)
        out[i] = number
    if len(out) > 0 and first_number(seed) != out[0]:
        out[0] = np.nan

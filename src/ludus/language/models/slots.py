"""The sequences in the cache of keys and values, and which of them a new prompt can continue.

Prompts of a match grow from turn to turn, and those of different matches begin with the same rules. A slot contains one
sequence. A prompt reuses the longest prefix that it shares with a slot, in place or as a copy, and only the rest is
computed. Slots are found by hashes of their first 32, 64, 96, … tokens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ludus.types import Array

BLOCK = 32
"""Tokens are compared and copied between slots in blocks of this size."""


@dataclass
class Place:
    """The slot of a prompt: the first `kept` tokens are in `slot` already, or will be once copied from `source`."""

    slot: int
    kept: int
    source: int | None
    waits: bool
    """True if the source is another prompt of the same call: then it is computed after that prompt."""


@dataclass
class _Slot:
    tokens: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    weights: Hashable = None
    key: str = ""
    hashes: list[int] = field(default_factory=list)
    used: int = 0
    """Number of the call in which it was last used."""


class Slots:
    """Manages `count` slots. Slots with other `weights` than those of the call are not reused."""

    def __init__(self, count: int) -> None:
        self._slots = [_Slot() for _ in range(count)]
        self._by_key: dict[tuple[Hashable, str], int] = {}
        self._by_hash: dict[int, int] = {}
        self._call = 0
        self._busy: set[int] = set()
        self._sources: set[int] = set()
        self._coming: dict[int, tuple[int, Array, int]] = {}
        self._oldest_first: deque[int] = deque()

    def begin(self) -> None:
        """Begin a call: all slots are free."""
        self._call += 1
        self._busy.clear()
        self._sources.clear()
        self._coming.clear()
        self._oldest_first = deque(sorted(range(len(self._slots)), key=lambda i: self._slots[i].used))

    def place(self, prompt: Sequence[int], weights: Hashable, key: str) -> Place | None:
        """Choose a slot for the prompt; None if no slot is left in this call."""
        tokens = np.asarray(prompt, dtype=np.int64)
        hashes = _hashes(tokens[: len(tokens) - 1], weights)  # the last token is always computed
        source, kept, waits = self._best(tokens, hashes)
        own = self._by_key.get((weights, key)) if key else None
        own = None if own is None or own in self._busy else own
        if own is not None:
            shared = min(_shared(self._slots[own].tokens, tokens), len(tokens) - 1)
            shared = shared if shared >= BLOCK else 0  # for few tokens, computing is faster than copying
            if shared + BLOCK > kept:
                source, kept, waits = own, shared, False
        slot: int | None
        in_place = source is not None and source == own and not waits
        if in_place or (own is not None and own not in self._sources):
            slot = own
        else:
            slot = self._oldest(besides=source)
            if slot is None and not waits and source not in self._busy | self._sources:
                slot = source  # the only one left
        if slot is None:
            return None
        if source == slot:
            source = None
        if source is not None:
            self._sources.add(source)
            kept = kept // BLOCK * BLOCK
        self._busy.add(slot)
        self._clear(slot)
        if not waits:
            for h in hashes:
                self._coming.setdefault(h, (slot, tokens, kept if source is None else 0))
        self._slots[slot].used = self._call
        return Place(slot, kept, source, waits)

    def hold(self, slot: int, tokens: Sequence[int], weights: Hashable, key: str) -> None:
        """Record that the slot now contains keys and values of these tokens."""
        entry = self._slots[slot]
        entry.tokens, entry.weights, entry.key = np.asarray(tokens, dtype=np.int64), weights, key
        entry.hashes = _hashes(entry.tokens, weights)
        for h in entry.hashes:
            self._by_hash[h] = slot
        if key:
            self._by_key[weights, key] = slot

    def _best(self, tokens: Array, hashes: list[int]) -> tuple[int | None, int, bool]:
        """Return the slot with the longest common prefix, its length, and whether it belongs to this call."""
        for n in range(len(hashes), 0, -1):
            h = hashes[n - 1]
            if h in self._by_hash:
                slot = self._by_hash[h]
                held = self._slots[slot].tokens
                there = len(held)
            elif h in self._coming:
                slot, held, there = self._coming[h]
            else:
                continue
            shared = min(_shared(held, tokens), len(tokens) - 1)
            if shared >= BLOCK:  # otherwise two texts have the same hash
                return slot, shared, shared // BLOCK * BLOCK > there
        return None, 0, False

    def _oldest(self, besides: int | None) -> int | None:
        """Return the least recently used free slot."""
        put_back = []
        found = None
        while self._oldest_first and found is None:
            slot = self._oldest_first.popleft()
            if slot in self._sources or slot == besides:
                put_back.append(slot)
            elif slot not in self._busy:
                found = slot
        self._oldest_first.extendleft(reversed(put_back))
        return found

    def _clear(self, slot: int) -> None:
        entry = self._slots[slot]
        for h in entry.hashes:
            if self._by_hash.get(h) == slot:
                del self._by_hash[h]
        if self._by_key.get((entry.weights, entry.key)) == slot:
            del self._by_key[entry.weights, entry.key]
        self._slots[slot] = _Slot(used=entry.used)


def _hashes(tokens: Array, weights: Hashable) -> list[int]:
    """Yield the hashes of the first 32, 64, … tokens, each computed from the previous one."""
    h, found = hash(weights), []
    raw = tokens.astype(np.int64).tobytes()
    for start in range(0, len(tokens) - BLOCK + 1, BLOCK):
        h = hash((h, raw[8 * start : 8 * (start + BLOCK)]))
        found.append(h)
    return found


def _shared(one: Array, two: Array) -> int:
    """Return the length of the common prefix of two sequences."""
    n = min(len(one), len(two))
    differ = np.flatnonzero(one[:n] != two[:n])
    return int(differ[0]) if len(differ) else n

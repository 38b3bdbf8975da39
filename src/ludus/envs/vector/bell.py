"""A bell between driver and worker: a number in memory that both map, heard within a microsecond.

A frame through a socket wakes whoever sleeps there, and that takes longer than many an env's step. So a frame that
carries nothing but its number is rung. Whoever waits for it looks again and again, leaving the core to others in
between, and after a while goes to sleep at the socket. It says so first, and is then sent the frame too.

What was written before the number must be seen by whoever sees the number. Without a fence, which Python has not, that
is so on x86 alone; elsewhere every frame is sent.
"""

from __future__ import annotations

import mmap
import os
import platform
import time

IN_ORDER = platform.machine().lower() in {"x86_64", "amd64"}
"""Whether other cores see what this one writes in the order in which it does."""
PATIENCE = (
    500e-6  # seconds: longer than the driver takes between two steps, shorter than what sleeping is good for
)
_LINE = 8  # numbers in a cache line, of which each has its own
BELL_BYTES = 4 * 8 * _LINE
DRIVER, WORKER = 0, 1

_let_others_run = getattr(os, "sched_yield", lambda: time.sleep(0))


class Bell:
    """One side's hold on the bell at `offset` of `memory`; each side rings ever higher numbers."""

    def __init__(self, memory: bytearray | mmap.mmap, offset: int, side: int) -> None:
        self._numbers = memoryview(memory)[offset : offset + BELL_BYTES].cast("q")
        other = 1 - side
        self._my_number, self._my_sleep = 2 * side * _LINE, (2 * side + 1) * _LINE
        self._their_number, self._their_sleep = 2 * other * _LINE, (2 * other + 1) * _LINE

    def clear(self) -> None:
        """As if nobody had ever rung."""
        self._numbers[:] = memoryview(bytes(BELL_BYTES)).cast("q")

    def ring(self, number: int) -> bool:
        """Rings `number`, negative for one whose frame is at the socket. True when the other side sleeps there."""
        self._numbers[self._my_number] = number
        return self._numbers[self._their_sleep] != 0

    def rung(self) -> int:
        """What the other side rang last."""
        return self._numbers[self._their_number]

    def wait(self, last: int) -> int:
        """As `rung`, once that is past `last`, be it negative, or after `PATIENCE`."""
        numbers, place = self._numbers, self._their_number
        rung = numbers[place]
        if abs(rung) <= last:
            until = time.monotonic() + PATIENCE
            while abs(rung := numbers[place]) <= last and time.monotonic() < until:
                _let_others_run()
        return rung

    def say_asleep(self, asleep: bool) -> None:
        self._numbers[self._my_sleep] = asleep

    def release(self) -> None:
        """Let go of the memory."""
        self._numbers.release()

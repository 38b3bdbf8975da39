"""Threads that play the games of a vector env and never ask for the interpreter's lock while they do.

Sixteen threads that come for the lock at the beginning and the end of every call keep each other, and whoever keeps
the books meanwhile, from working: half of the time of a step went there. So a thread of a crew enters compiled code
once and stays. It reads its orders from a pipe, finds the arrays by the addresses on a board, takes a few games at a
time until none is left, and reports through another pipe.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from ludus.games.balatro.compiled import entry, kernel
from ludus.games.balatro.engine import look_at_games, step_games
from ludus.games.balatro.move_table import workroom, write_moves_of_games
from ludus.games.balatro.moves import N_MOVES
from ludus.games.balatro.observation import are_finite, row_is_finite
from ludus.games.balatro.state import F_SIZE, N_JOKERS, S_SIZE
from ludus.types import Array

GAMES_AT_A_TIME = 16
_READY = 1  # a byte of the pipes: which one does not matter

# what stands on a board: numbers, then the addresses of arrays that belong together row by row
NEXT, N_GAMES, STEPPING, MAX_HAND, MAX_STEPS, OBS_SIZE, N_ACTIONS, FINITE = range(8)
GAMES_S, GAMES_F, RETURNS, TABLE = range(
    8, 12
)  # which stay the same; no table: actions are those of `actions.py`
ACTIONS, OBS, REWARDS, TERMINATED, TRUNCATED, LEGAL_BEFORE, LEGAL, MASK = range(12, 20)  # of this step
FINAL_S, FINAL_F, FINAL_RETURNS, FINAL_OBS, FINAL_LEGAL, FINAL_MASK = range(20, 26)  # of runs that end in it
BOARD_SIZE = 26

_read: Any = types.ExternalFunction("read", types.intp(types.int32, types.uintp, types.uintp))
_write: Any = types.ExternalFunction("write", types.intp(types.int32, types.uintp, types.uintp))


def _inline(function: Any) -> Any:
    """A function whose code is written out where compiled code calls it; the compiler passes its first argument."""
    return intrinsic(function)


class StepThreadPool:
    """`number` threads, or none at all where it is 1: then the caller plays. One order at a time."""

    def __init__(self, number: int) -> None:
        self.board: Array = np.zeros(BOARD_SIZE, dtype=np.int64)
        self._number = number
        self._room = _room()
        self._orders = self._reports = -1
        self._words = bytes([_READY]) * number
        # counted by compiled code, so that an interrupt comes before or after
        self._away: Array = np.zeros(1, dtype=np.int64)
        self._hired_by = 0

    def place(self, k: int, *arrays: Array) -> None:
        """Write where arrays begin onto the board, from place `k` on; they must stay there until `wait` returns."""
        assert all(array.flags.c_contiguous for array in arrays)
        self.board[k : k + len(arrays)] = [array.ctypes.data for array in arrays]

    def begin(self, stepping: int, *arrays: Array) -> None:
        """Have the games stepped, or only looked at. The arrays are those of this step, from ACTIONS to MASK."""
        post(self.board, stepping, *arrays)
        if self._number == 1:
            return
        if self._hired_by != os.getpid():  # threads do not come along when a process is forked
            self._hire()
        self._away[0] = self._number
        os.write(self._orders, self._words)

    def wait(self) -> bool:
        """Returns when it is done: whether all observations and rewards are finite."""
        if self._number == 1:
            serve(-1, -1, self.board, *self._room)
        elif self._away[0]:
            if self._hired_by != os.getpid():
                raise RuntimeError(
                    "the process was forked in the middle of a step: restore a snapshot from before"
                )
            if hear(self._reports, self._room[0], self._away) == 0:
                raise RuntimeError("the threads that play the games are gone")
        return bool(self.board[FINITE])

    def is_ours(self) -> bool:
        """Whether this process may wait for them: a forked one may not."""
        return self._number == 1 or self._hired_by == os.getpid()

    def __reduce__(self) -> Any:
        raise TypeError("a crew knows addresses: copy an env by snapshot() and restore()")

    def _hire(self) -> None:
        self._away[0] = 0
        their_orders, self._orders = os.pipe()
        weakref.finalize(self, os.close, self._orders).atexit = False  # then they read an end, and go
        self._reports, their_reports = os.pipe()
        pipes = _Ends(their_orders, self._reports, their_reports)
        for k in range(self._number):
            threading.Thread(
                target=_work, args=(pipes, self.board), name=f"ludus-balatro-{k}", daemon=True
            ).start()
        self._hired_by = os.getpid()


class _Ends:
    """The ends of the pipes that must stay open as long as a thread may use them."""

    def __init__(self, orders: int, *others: int) -> None:
        self.orders, self.reports = orders, others[-1]
        weakref.finalize(self, _close_all, [orders, *others]).atexit = False  # a thread may still play


def _close_all(ends: list[int]) -> None:
    for end in ends:
        os.close(end)


def _work(pipes: _Ends, board: Array) -> None:
    serve(pipes.orders, pipes.reports, board, *_room())


def _room() -> tuple[Any, ...]:
    done = np.zeros(GAMES_AT_A_TIME, dtype=np.uint8)
    return np.zeros(1, dtype=np.uint8), done, np.zeros(0, dtype=np.int64), np.zeros((0, 6)), *workroom()


@entry
def post(
    board: Any,
    stepping: Any,
    actions: Any,
    obs: Any,
    rewards: Any,
    terminated: Any,
    truncated: Any,
    legal_before: Any,
    legal: Any,
    mask: Any,
) -> None:
    """Writes a step onto the board: to ask for the addresses of eight arrays takes Python ten microseconds."""
    board[ACTIONS], board[OBS], board[REWARDS] = actions.ctypes.data, obs.ctypes.data, rewards.ctypes.data
    board[TERMINATED], board[TRUNCATED] = terminated.ctypes.data, truncated.ctypes.data
    board[LEGAL_BEFORE], board[LEGAL] = legal_before.ctypes.data, legal.ctypes.data
    board[MASK] = mask.ctypes.data
    board[N_GAMES], board[OBS_SIZE] = obs.shape
    board[N_ACTIONS] = legal.shape[1]
    board[STEPPING] = stepping
    board[NEXT], board[FINITE] = 0, 1


@entry
def serve(
    orders: Any,
    reports: Any,
    board: Any,
    byte: Any,
    done: Any,
    q: Any,
    log: Any,
    t: Any,
    g: Any,
    w: Any,
    outs: Any,
    sets: Any,
    scores: Any,
) -> None:
    """Does what is on the board for every order, until the pipe is closed; once and at once where `orders` is -1."""
    at = byte.ctypes.data
    while True:
        if orders >= 0:
            heard = _read(orders, at, 1)
            if heard == 0:
                return
            if heard < 0:  # a signal came
                continue
        _carry_out(board, done, q, log, t, g, w, outs, sets, scores)
        if orders < 0:
            return
        while _write(reports, at, 1) != 1:
            pass


@entry
def hear(reports: Any, byte: Any, away: Any) -> Any:
    """Returns 1 when all that are away have reported, 0 if they never will."""
    while away[0] > 0:
        heard = _read(reports, byte.ctypes.data, 1)
        if heard == 0:
            return 0
        away[0] -= max(0, heard)
    return 1


@kernel
def _carry_out(
    board: Any, done: Any, q: Any, log: Any, t: Any, g: Any, w: Any, outs: Any, sets: Any, scores: Any
) -> None:
    max_hand, n_actions = board[MAX_HAND], board[N_ACTIONS]
    while True:
        at = _take(board, NEXT) * GAMES_AT_A_TIME
        n = min(GAMES_AT_A_TIME, board[N_GAMES] - at)
        if n <= 0:
            return
        s = _rows(board[GAMES_S], at, n, S_SIZE, np.int32)
        f = _rows(board[GAMES_F], at, n, F_SIZE, np.float64)
        obs = _rows(board[OBS], at, n, board[OBS_SIZE], np.float32)
        legal = _rows(board[LEGAL], at, n, n_actions, np.bool_)
        rewards = _rows(board[REWARDS], at, n, 1, np.float64)[:, 0]
        if board[STEPPING]:
            step_games(
                s,
                f,
                q,
                _rows(board[ACTIONS], at, n, 1, np.int64)[:, 0],
                obs,
                rewards,
                done,
                _rows(board[LEGAL_BEFORE], at, n, n_actions, np.bool_),
                legal,
                max_hand,
                board[MAX_STEPS],
                1,
                _rows(board[FINAL_S], at, n, S_SIZE, np.int32),
                _rows(board[FINAL_F], at, n, F_SIZE, np.float64),
                _rows(board[FINAL_OBS], at, n, board[OBS_SIZE], np.float32),
                _rows(board[FINAL_LEGAL], at, n, n_actions, np.bool_),
                log,
            )
        else:
            look_at_games(s, f, obs, legal, max_hand)
        if board[STEPPING]:
            for i in range(n):
                _account(board, at + i, rewards[i], done[i])
                if done[i]:
                    _finish(board, at + i, q, log, t, g, w, outs, sets, scores)
        if board[TABLE]:
            table = _rows(board[TABLE], at, n, N_MOVES, np.int64)
            mask = _rows(board[MASK], at, n, N_MOVES, np.bool_)
            write_moves_of_games(s, f, legal, table, mask, obs, max_hand, q, log, t, g, w, outs, sets, scores)
        finite = board[STEPPING] == 0 or are_finite(rewards)
        for i in range(n):
            finite = finite and row_is_finite(obs[i], s[i, N_JOKERS], max_hand)
        if not finite:
            board[FINITE] = 0


@kernel
def _account(board: Any, i: Any, reward: Any, done: Any) -> None:
    """Writes down whether run i ended, and what it has brought in so far."""
    _rows(board[TERMINATED], i, 1, 1, np.bool_)[0, 0] = done == 1
    _rows(board[TRUNCATED], i, 1, 1, np.bool_)[0, 0] = done == 2
    returns = _rows(board[RETURNS], i, 1, 1, np.float64)[0]
    returns[0] += reward
    if done:
        _rows(board[FINAL_RETURNS], i, 1, 1, np.float64)[0, 0] = returns[0]
        returns[0] = 0.0


@kernel
def _finish(
    board: Any, i: Any, q: Any, log: Any, t: Any, g: Any, w: Any, outs: Any, sets: Any, scores: Any
) -> None:
    """What could have been chosen where run i ended. Nothing is, but a masked softmax must stay finite."""
    max_hand, n_actions = board[MAX_HAND], board[N_ACTIONS]
    legal = _rows(board[FINAL_LEGAL], i, 1, n_actions, np.bool_)
    if board[TABLE]:
        mask = _rows(board[FINAL_MASK], i, 1, N_MOVES, np.bool_)
        write_moves_of_games(
            _rows(board[FINAL_S], i, 1, S_SIZE, np.int32),
            _rows(board[FINAL_F], i, 1, F_SIZE, np.float64),
            legal,
            _rows(board[TABLE], i, 1, N_MOVES, np.int64),  # its row is written again afterwards
            mask,
            _rows(board[FINAL_OBS], i, 1, board[OBS_SIZE], np.float32),
            max_hand,
            q,
            log,
            t,
            g,
            w,
            outs,
            sets,
            scores,
        )
        _never_empty(mask[0])
    else:
        _never_empty(legal[0])


@kernel
def _never_empty(mask: Any) -> None:
    for k in range(len(mask)):
        if mask[k]:
            return
    mask[:] = True


@_inline
def _rows(_: Any, start: Any, at: Any, n: Any, width: Any, kind: Any) -> Any:
    """`n` rows from row `at` on of the array that begins at `start`. Nobody counts who holds it."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start, at, n, width, _ = arguments
        rows = context.make_array(signature.return_type)(context, builder)
        size = ir.IntType(64)(context.get_abi_sizeof(context.get_data_type(signature.return_type.dtype)))
        stride = builder.mul(width, size)
        data = builder.inttoptr(builder.add(start, builder.mul(at, stride)), rows.data.type)
        populate_array(  # type: ignore[no-untyped-call]
            rows, data=data, shape=[n, width], strides=[stride, size], itemsize=size, meminfo=None
        )
        return rows._getvalue()

    word = types.intp
    return types.Array(kind.instance_type, 2, "C")(word, word, word, word, kind), make


@_inline
def _take(_: Any, numbers: Any, k: Any) -> Any:
    """The number at place k, which is one more for whoever comes next, in whatever thread."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        cell = cgutils.get_item_pointer(context, builder, signature.args[0], view, arguments[1:])  # type: ignore[no-untyped-call]
        return builder.atomic_rmw("add", cell, ir.IntType(64)(1), "monotonic")

    return types.int64(numbers, types.intp), make

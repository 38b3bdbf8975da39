"""Threads that step the games of a vector env without holding the GIL.

With sixteen threads that acquire the GIL before and after every compiled call, half of the time of a step is lost to
waiting. So a thread of the pool enters compiled code once and stays there. It reads commands from a pipe, finds the
arrays by their addresses on a board, steps a few games at a time until all are stepped, and reports through another
pipe.
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
from ludus.games.balatro.engine import observe_games, step_games
from ludus.games.balatro.move_table import move_scratch, write_moves_of_games
from ludus.games.balatro.moves import N_MOVES
from ludus.games.balatro.observation import are_finite, row_is_finite
from ludus.games.balatro.state import F_SIZE, N_JOKERS, S_SIZE
from ludus.types import Array

GAMES_AT_A_TIME = 16
_READY = 1  # the byte sent through the pipes; its value does not matter

# The fields of a board: numbers, then the addresses of arrays with one row per game.
NEXT, N_GAMES, STEPPING, MAX_HAND, MAX_STEPS, OBS_SIZE, N_ACTIONS, FINITE = range(8)
GAMES_S, GAMES_F, RETURNS, TABLE = range(8, 12)  # constant; without TABLE, actions are those of `actions.py`
ACTIONS, OBS, REWARDS, TERMINATED, TRUNCATED, LEGAL_BEFORE, LEGAL, MASK = range(12, 20)  # of this step
FINAL_S, FINAL_F, FINAL_RETURNS, FINAL_OBS, FINAL_LEGAL, FINAL_MASK = range(20, 26)  # of ended episodes
BOARD_SIZE = 26

_read: Any = types.ExternalFunction("read", types.intp(types.int32, types.uintp, types.uintp))
_write: Any = types.ExternalFunction("write", types.intp(types.int32, types.uintp, types.uintp))


def _inline(function: Any) -> Any:
    """Inline `function` where compiled code calls it; the compiler passes its first argument."""
    return intrinsic(function)


class StepThreadPool:
    """A pool of `number` threads that runs one step at a time. With 1 there is no thread: the caller steps."""

    def __init__(self, number: int) -> None:
        self.board: Array = np.zeros(BOARD_SIZE, dtype=np.int64)
        self._number = number
        self._scratch = _scratch()
        self._commands = self._reports = -1
        self._command = bytes([_READY]) * number
        # counted by compiled code, which an interrupt cannot split
        self._running: Array = np.zeros(1, dtype=np.int64)
        self._owner_pid = 0

    def place(self, k: int, *arrays: Array) -> None:
        """Write the addresses of arrays onto the board, from field `k` on. Keep the arrays until `wait` returns."""
        assert all(array.flags.c_contiguous for array in arrays)
        self.board[k : k + len(arrays)] = [array.ctypes.data for array in arrays]

    def begin(self, stepping: int, *arrays: Array) -> None:
        """Start a step, or only an observation of the games. The arrays are the fields from ACTIONS to MASK."""
        post(self.board, stepping, *arrays)
        if self._number == 1:
            return
        if self._owner_pid != os.getpid():  # a forked process has no threads
            self._start_threads()
        self._running[0] = self._number
        os.write(self._commands, self._command)

    def wait(self) -> bool:
        """Wait until the step is done. Returns whether all observations and rewards are finite."""
        if self._number == 1:
            serve(-1, -1, self.board, *self._scratch)
        elif self._running[0]:
            if self._owner_pid != os.getpid():
                raise RuntimeError(
                    "the process was forked in the middle of a step: restore a snapshot from before"
                )
            if wait_for_reports(self._reports, self._scratch[0], self._running) == 0:
                raise RuntimeError("the threads that step the games have exited")
        return bool(self.board[FINITE])

    def is_ours(self) -> bool:
        """Return whether the threads belong to this process. A forked process cannot wait for them."""
        return self._number == 1 or self._owner_pid == os.getpid()

    def __reduce__(self) -> Any:
        raise TypeError("StepThreadPool cannot be copied: copy an env with snapshot() and restore()")

    def _start_threads(self) -> None:
        self._running[0] = 0
        thread_commands, self._commands = os.pipe()
        weakref.finalize(self, os.close, self._commands).atexit = False  # the threads read EOF and exit
        self._reports, thread_reports = os.pipe()
        pipes = _PipeEnds(thread_commands, self._reports, thread_reports)
        for k in range(self._number):
            threading.Thread(
                target=_work, args=(pipes, self.board), name=f"ludus-balatro-{k}", daemon=True
            ).start()
        self._owner_pid = os.getpid()


class _PipeEnds:
    """The ends of the pipes that must stay open while a thread may use them."""

    def __init__(self, commands: int, *others: int) -> None:
        self.commands, self.reports = commands, others[-1]
        weakref.finalize(
            self, _close_all, [commands, *others]
        ).atexit = False  # a thread may still be stepping


def _close_all(ends: list[int]) -> None:
    for end in ends:
        os.close(end)


def _work(pipes: _PipeEnds, board: Array) -> None:
    serve(pipes.commands, pipes.reports, board, *_scratch())


def _scratch() -> tuple[Any, ...]:
    """Return the last arguments of `serve`: work arrays of one thread."""
    done = np.zeros(GAMES_AT_A_TIME, dtype=np.uint8)
    return np.zeros(1, dtype=np.uint8), done, np.zeros(0, dtype=np.int64), np.zeros((0, 6)), move_scratch()


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
    """Write a step onto the board. In Python, reading the addresses of eight arrays takes ten microseconds."""
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
    commands: Any, reports: Any, board: Any, byte: Any, done: Any, queue: Any, log: Any, scratch: Any
) -> None:
    """Run the step on the board for every command until the pipe is closed; once if `commands` is -1.

    `scratch` is what `move_scratch` returns.
    """
    at = byte.ctypes.data
    copy_s, copy_f, notes, outs, sets, scores = scratch
    while True:
        if commands >= 0:
            count = _read(commands, at, 1)
            if count == 0:
                return
            if count < 0:  # interrupted by a signal
                continue
        _run_step(board, done, queue, log, copy_s, copy_f, notes, outs, sets, scores)
        if commands < 0:
            return
        while _write(reports, at, 1) != 1:
            pass


@entry
def wait_for_reports(reports: Any, byte: Any, running: Any) -> Any:
    """Wait until all running threads have reported. Returns 1, or 0 if the pipe was closed."""
    while running[0] > 0:
        count = _read(reports, byte.ctypes.data, 1)
        if count == 0:
            return 0
        running[0] -= max(0, count)
    return 1


@kernel
def _run_step(
    board: Any,
    done: Any,
    queue: Any,
    log: Any,
    copy_s: Any,
    copy_f: Any,
    notes: Any,
    outs: Any,
    sets: Any,
    scores: Any,
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
                queue,
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
            observe_games(s, f, obs, legal, max_hand)
        if board[STEPPING]:
            for i in range(n):
                _record_end(board, at + i, rewards[i], done[i])
                if done[i]:
                    _write_final_mask(board, at + i, queue, log, copy_s, copy_f, notes, outs, sets, scores)
        if board[TABLE]:
            table = _rows(board[TABLE], at, n, N_MOVES, np.int64)
            mask = _rows(board[MASK], at, n, N_MOVES, np.bool_)
            write_moves_of_games(
                s, f, legal, table, mask, obs, max_hand, queue, log, copy_s, copy_f, notes, outs, sets, scores
            )
        finite = board[STEPPING] == 0 or are_finite(rewards)
        for i in range(n):
            finite = finite and row_is_finite(obs[i], s[i, N_JOKERS], max_hand)
        if not finite:
            board[FINITE] = 0


@kernel
def _record_end(board: Any, i: Any, reward: Any, done: Any) -> None:
    """Write whether episode i ended, and its return so far."""
    _rows(board[TERMINATED], i, 1, 1, np.bool_)[0, 0] = done == 1
    _rows(board[TRUNCATED], i, 1, 1, np.bool_)[0, 0] = done == 2
    returns = _rows(board[RETURNS], i, 1, 1, np.float64)[0]
    returns[0] += reward
    if done:
        _rows(board[FINAL_RETURNS], i, 1, 1, np.float64)[0, 0] = returns[0]
        returns[0] = 0.0


@kernel
def _write_final_mask(
    board: Any,
    i: Any,
    queue: Any,
    log: Any,
    copy_s: Any,
    copy_f: Any,
    notes: Any,
    outs: Any,
    sets: Any,
    scores: Any,
) -> None:
    """Write the mask of the last observation of episode i. No action is taken there, but a softmax needs one."""
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
            queue,
            log,
            copy_s,
            copy_f,
            notes,
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
    """Return `n` rows, from row `at` on, of the array at address `start`. It is not reference counted."""

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
    """Return the number at index k and add one to it, atomically."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        cell = cgutils.get_item_pointer(context, builder, signature.args[0], view, arguments[1:])  # type: ignore[no-untyped-call]
        return builder.atomic_rmw("add", cell, ir.IntType(64)(1), "monotonic")

    return types.int64(numbers, types.intp), make

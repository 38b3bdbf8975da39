"""The worker process: builds a chunk of envs and serves the driver until it sends CLOSE or exits.

Started by `handle.WorkerHandle` as a fresh interpreter, so nothing of the user's script runs again here.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from ludus.envs.user_code import user_traceback
from ludus.envs.vector.batch import StepArrays, batch_nbytes
from ludus.envs.vector.chunk import EnvChunk, EnvFn
from ludus.envs.vector.shared import map_file
from ludus.envs.vector.wire import Channel, Kind, pack, unpack
from ludus.errors import EnvFault, LudusError, UserError, describe_error
from ludus.posix import kill_group, leads_group
from ludus.tracking.logs import lossy_output

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Blueprint:
    """Everything a worker needs to build its envs as the driver would."""

    env_fns: Sequence[EnvFn]
    first_index: int
    env_id: str
    autoreset_mode: AutoresetMode
    argv: list[str]
    warning_filters: list[Any]
    registrations: dict[str, Any]


def main(arguments: Sequence[str]) -> None:
    """Run the worker. `arguments`: descriptors of socket, shared file and lifeline, and the driver's pid, or 0."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C
    faulthandler.enable()  # an env that crashes the interpreter shows where
    socket_fd, memory_fd, lifeline_fd, driver_pid = map(int, arguments)
    for descriptor in (socket_fd, memory_fd, lifeline_fd):
        os.set_inheritable(descriptor, False)  # programs that an env starts must not hold them open
    _die_with_driver(lifeline_fd, driver_pid)
    _die_before_driver()
    with lossy_output():  # an env may print to a pipe that nobody reads any more
        _serve(Channel(socket.socket(fileno=socket_fd)), memory_fd)


def _serve(channel: Channel, memory_fd: int) -> None:
    chunk: EnvChunk | None = None
    while True:
        try:
            kind, number, payload = channel.receive()
        except (EOFError, OSError):
            kind, number, payload = Kind.CLOSE, 0, b""  # the driver closed the socket
        if kind is Kind.CLOSE:
            if chunk is not None:
                chunk.close()
            return
        try:
            if kind is Kind.BUILD:
                chunk = _build(payload)
                answer = pack(chunk.facts())
            else:
                assert chunk is not None, "the driver builds first"
                answer = _answer(chunk, kind, payload, memory_fd)
        except LudusError as error:
            channel.send(Kind.ERROR, number, pack(error))
        else:
            channel.send(Kind.DONE, number, answer)


def _answer(chunk: EnvChunk, kind: Kind, payload: bytes, memory_fd: int) -> bytes:
    if kind is Kind.STEP:
        result, asked = chunk.step(unpack(payload) if payload else None), "infos"
    elif kind is Kind.ATTACH:
        facts, n_envs = chunk.facts(), unpack(payload)
        nbytes = batch_nbytes(facts.observation_space, facts.action_space, n_envs)
        memory = map_file(memory_fd, nbytes)
        chunk.attach(StepArrays(facts.observation_space, facts.action_space, n_envs, memory))
        return b""
    else:
        method, arguments = unpack(payload)
        result, asked = getattr(chunk, method)(*arguments), f"results of {method}"
    if not result:
        return b""
    try:
        return pack(result)
    except Exception as error:  # pickling runs the user's code, which may raise anything
        raise EnvFault(
            f"{asked} cannot be sent to the driver: {describe_error(error)}",
            worker=chunk.first_index,
            env_id=chunk.env_id,
            seed=None,
            user_traceback=user_traceback(error),
        ) from None


def _build(payload: bytes) -> EnvChunk:
    try:
        blueprint: Blueprint = unpack(payload)
    except Exception as error:  # unpickling imports the user's modules, which may raise anything
        raise UserError(
            f"the env functions cannot be rebuilt in a worker: {describe_error(error)}",
            where="the process backend",
            fix="use module-level or self-contained env functions, or `vector: serial`",
        ) from error
    sys.argv[:] = blueprint.argv
    warnings.filters = blueprint.warning_filters
    # building an env imports the user's module, which registers again what is registered here
    warnings.filterwarnings("ignore", message=".*Overriding environment")
    for env_id, spec in blueprint.registrations.items():
        gym.registry.setdefault(env_id, spec)
    return EnvChunk(
        blueprint.env_fns,
        first_index=blueprint.first_index,
        env_id=blueprint.env_id,
        autoreset_mode=blueprint.autoreset_mode,
    )


def _die_with_driver(lifeline_fd: int, driver_pid: int) -> None:
    """Make this process exit with the driver, even while an env hangs."""
    threading.Thread(target=_watch, args=(lifeline_fd,), daemon=True).start()
    if driver_pid and sys.platform == "linux":
        # for an env that hangs without releasing the GIL
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != driver_pid:  # it exited before the call above
            _vanish()


def _die_before_driver() -> None:
    """Make the kernel kill this worker, not the driver, if an env uses up the memory."""
    with contextlib.suppress(OSError):  # the file exists on Linux only
        Path("/proc/self/oom_score_adj").write_text("900")


def _watch(lifeline_fd: int) -> None:
    os.read(lifeline_fd, 1)  # nothing is written: it returns when the driver's end is closed
    _vanish()


def _vanish() -> NoReturn:
    if leads_group():
        kill_group(0)  # with all programs that the envs have started
    os._exit(1)

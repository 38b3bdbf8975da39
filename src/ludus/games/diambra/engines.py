"""Addresses of the engines in `DIAMBRA_ENVS`, which `diambra run` sets, and which of them this process uses."""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import dataclass

from ludus.errors import ConfigError, SimulatorLost, SimulatorsTaken

VARIABLE = "DIAMBRA_ENVS"
_DEFAULT = "localhost:50051"  # the client's default
_GRACE_SECONDS = 5.0  # for an engine that is still starting

_taken: set[int] = set()
_lock = threading.Lock()


@dataclass(frozen=True)
class EngineAddress:
    """One engine: its position in `DIAMBRA_ENVS` (the client's rank) and its address."""

    rank: int
    address: str

    def __str__(self) -> str:
        return f"the DIAMBRA engine {self.rank} at {self.address}"


def engines() -> list[EngineAddress]:
    """Return all engines; without the variable one at the client's default address. ConfigError if invalid."""
    addresses = os.environ.get(VARIABLE, "").split() or [_DEFAULT]
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not (host and port.isdigit() and 0 < int(port) < 65536):
            raise ConfigError(
                f"invalid engine address '{address}'",
                where=f"the environment variable {VARIABLE}",
                fix="write addresses as host:port, separated by spaces; `diambra run` sets them",
            )
    return [EngineAddress(rank, address) for rank, address in enumerate(addresses)]


def check_number(n_envs: int) -> None:
    """Raise ConfigError unless there are `n_envs` engines, one for each env."""
    found = len(engines())
    if found == n_envs:
        return
    unset = not os.environ.get(VARIABLE, "").split()
    have = f"{VARIABLE} is not set" if unset else f"{VARIABLE} has {found} engine{'s' * (found != 1)}"
    raise ConfigError(
        f"n_envs is {n_envs}, but {have}: every env needs its own engine",
        key="n_envs",
        fix=("" if unset else f"set n_envs={found}, or ")
        + f"start {n_envs}: diambra run -s {n_envs} ludus train …"
        f" (without ROMs: ludus diambra run -s {n_envs} ludus train …)",
    )


def take(rank: int | None) -> EngineAddress:
    """Reserve engine `rank`, or the first that this process does not use yet. Release it with `give_back`.

    SimulatorsTaken if all are in use.
    """
    every = engines()
    with _lock:
        if rank is None:
            free = [engine for engine in every if engine.rank not in _taken]
            if not free:
                raise SimulatorsTaken(
                    f"all {len(every)} DIAMBRA engines are in use",
                    where=f"{VARIABLE}={' '.join(engine.address for engine in every)}",
                    fix="start more engines, or use fewer envs at once",
                )
            rank = free[0].rank
        elif rank >= len(every):
            raise ConfigError(
                f"DIAMBRA engine {rank} not found: {VARIABLE} has {len(every)}", key="env.kwargs.rank"
            )
        _taken.add(rank)
    return every[rank]


def give_back(engine: EngineAddress) -> None:
    with _lock:
        _taken.discard(engine.rank)


def wait_until_reachable(engine: EngineAddress, seconds: float) -> None:
    """Wait until the engine accepts connections. SimulatorLost after a few seconds.

    The client would wait for its whole timeout, and its error does not contain the address.
    """
    host, _, port = engine.address.rpartition(":")
    deadline = time.monotonic() + min(seconds, _GRACE_SECONDS)
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=max(deadline - time.monotonic(), 0.1)).close()
            return
        except OSError as error:
            if time.monotonic() >= deadline:
                raise lost(engine, f"cannot be reached: {error}") from error
        time.sleep(0.1)


def lost(engine: EngineAddress, how: str) -> SimulatorLost:
    """Return the error for an engine that cannot be used."""
    return SimulatorLost(
        f"{engine} {how}",
        where=f"{VARIABLE}, address {engine.rank + 1}: {engine.address}",
        fix="check that it runs (`docker ps`, its log), that the address is right, and that nothing else uses it",
    )

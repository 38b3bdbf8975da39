"""Where the engines are: `DIAMBRA_ENVS`, as `diambra run` sets it, and which of them this process is using."""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import dataclass

from ludus.errors import ConfigError, SimulatorLost, SimulatorsTaken

VARIABLE = "DIAMBRA_ENVS"
_DEFAULT = "localhost:50051"  # where the client looks when nothing is said
_GRACE_SECONDS = 5.0  # for an engine that was started at the same moment

_taken: set[int] = set()
_lock = threading.Lock()


@dataclass(frozen=True)
class EngineAddress:
    """One engine: its number among those of `DIAMBRA_ENVS` (the client's rank) and its address."""

    rank: int
    address: str

    def __str__(self) -> str:
        return f"the DIAMBRA engine {self.rank} at {self.address}"


def engines() -> list[EngineAddress]:
    """All engines; one at the client's default address where the variable is not set. Raises ConfigError."""
    addresses = os.environ.get(VARIABLE, "").split() or [_DEFAULT]
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not (host and port.isdigit() and 0 < int(port) < 65536):
            raise ConfigError(
                f"'{address}' is no address of an engine",
                where=f"the environment variable {VARIABLE}",
                fix="addresses are host:port, separated by spaces; `diambra run` sets them",
            )
    return [EngineAddress(rank, address) for rank, address in enumerate(addresses)]


def check_number(n_envs: int) -> None:
    """ConfigError unless there is one engine for each of `n_envs` envs."""
    found = len(engines())
    if found == n_envs:
        return
    unset = not os.environ.get(VARIABLE, "").split()
    have = f"{VARIABLE} is not set" if unset else f"{VARIABLE} names {found} engine{'s' * (found != 1)}"
    raise ConfigError(
        f"n_envs is {n_envs}, but {have}: every env needs an engine of its own",
        key="n_envs",
        fix=("" if unset else f"set n_envs={found}, or ")
        + f"start {n_envs}: diambra run -s {n_envs} ludus train …"
        f" (without ROMs: ludus diambra run -s {n_envs} ludus train …)",
    )


def take(rank: int | None) -> EngineAddress:
    """Engine `rank`, or the first that this process does not use yet; `give_back` it in the end.

    Raises SimulatorsTaken when all are in use.
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
                f"there is no DIAMBRA engine {rank}: {VARIABLE} names {len(every)}", key="env.kwargs.rank"
            )
        _taken.add(rank)
    return every[rank]


def give_back(engine: EngineAddress) -> None:
    with _lock:
        _taken.discard(engine.rank)


def wait_until_reachable(engine: EngineAddress, seconds: float) -> None:
    """Return once somebody listens at the engine's address; SimulatorLost when nobody does for a while.

    The client would wait for its whole timeout and then say nothing of the address.
    """
    host, _, port = engine.address.rpartition(":")
    deadline = time.monotonic() + min(seconds, _GRACE_SECONDS)
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=max(deadline - time.monotonic(), 0.1)).close()
            return
        except OSError as error:
            if time.monotonic() >= deadline:
                raise lost(engine, f"refuses the connection: {error}") from error
        time.sleep(0.1)


def lost(engine: EngineAddress, how: str) -> SimulatorLost:
    """The error for an engine that cannot be played on."""
    return SimulatorLost(
        f"{engine} {how}",
        where=f"{VARIABLE}, address {engine.rank + 1}: {engine.address}",
        fix="see whether it runs (`docker ps`, its log), whether the address is right and nobody else uses it",
    )

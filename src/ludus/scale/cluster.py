"""Connect to a Ray cluster, or start one on this machine for the run, and disconnect at the end.

Nothing else in Ludus calls `ray.init` or `ray.shutdown`, and nothing imports Ray before this module is asked to
connect. Ray runs any code sent to its ports, so every connection and every cluster started here asks
for a token, and no dashboard is started.
"""

from __future__ import annotations

import importlib.util
import logging
import math
import os
import secrets
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ludus.errors import CollectorsLost, MissingExtra, UserError
from ludus.scale.private_cluster import QUIET, PrivateCluster, start_private

_log = logging.getLogger("ludus.scale")
_TOKEN = Path.home() / ".ray" / "auth_token"  # where Ray reads it

_KNOCK_SECONDS = 10.0
_CHECK_SECONDS = 0.2
_SILENT_SECONDS = 20.0  # a GCS that does not accept connections; Ray ends the process after 60
_CLIENT_TRIES = 3  # the process that Ray Client starts for a connection does not always start
# what Ray reads when it is imported; each may be set otherwise by the user
_USUAL_ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",  # by default Ray reports its use over the internet
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Ray would print these to stdout; Ludus logs each loss once, where it is handled
    "RAY_DEDUP_LOGS_SKIP_REGEX": "A worker died or was killed|Raylet is terminated|has been marked dead",
    "RAY_NUM_REDIS_GET_RETRIES": "8",  # a second each, for a cluster to answer
    "RAY_worker_niceness": "0",  # at Ray's 15 whatever else runs on the machine comes first
    "RAY_agent_register_timeout_ms": "120000",  # a loaded machine needs longer than Ray's 10 s to start a process
    # of clusters that are started from here: a machine whose Ray ended is given up after 4 s, one that is cut off
    # after 16, so that a run continues within 30
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "4",
}


class ClusterRefused(UserError):
    """A Ray cluster refused the token."""


@dataclass
class _Held:
    """Count of open connections of this process; `ours` if Ludus made the first of them."""

    sessions: int = 0
    ours: bool = False
    private: PrivateCluster | None = None
    """The cluster that was started for this process, if one was."""
    lost: bool = False
    """The cluster is gone: Ray must not be asked for anything."""
    next_check: float = 0.0
    silent_since: float | None = None
    """When the GCS was first found to accept no connection, if it still does not."""


_held = _Held()


@dataclass
class RaySession:
    """A connection to Ray. The last one to close ends it, and the cluster with it if one was started."""

    address: str
    started: bool
    _open: bool = field(default=True, repr=False)

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        _held.sessions -= 1
        if _held.sessions == 0 and _held.ours:
            _held.ours = False
            import_ray().shutdown()
            _held.lost = False
            private, _held.private = _held.private, None
            if private is not None:
                private.remove()


def keep_logs() -> None:
    """Keep the logs of the cluster that was started for this process: they show why a worker was lost."""
    if _held.private is not None:
        _held.private.keep_logs = True


def is_connected() -> bool:
    """Return whether Ray can be asked for something."""
    return bool(import_ray().is_initialized()) and not _held.lost


def check_cluster() -> None:
    """Raise CollectorsLost if the cluster is gone. Ray would end this process, without a message."""
    now = time.monotonic()
    node = import_ray()._private.worker._global_node  # None with Ray Client
    if node is None:
        return
    _held.lost = _held.lost or (_held.private is not None and _own_process_ended(node))
    if now < _held.next_check and not _held.lost:
        return
    _held.next_check = now + _CHECK_SECONDS
    _held.lost = _held.lost or _raylet_ended(node.raylet_socket_name)
    if _held.lost or _answers(node.gcs_address):
        _held.silent_since = None
    elif _held.silent_since is None:
        _held.silent_since = now
    elif now - _held.silent_since > _SILENT_SECONDS:
        _held.lost = True
    if _held.lost:
        keep_logs()
        raise CollectorsLost(
            "the Ray cluster of this run has ended",
            where=f"Ray at {node.gcs_address}",
            fix=(
                "start the cluster again (`ludus cluster up`), then resume the run"
                if _held.private is None
                else "resume the run (`ludus resume RUN`): it starts a new cluster for itself"
            ),
        )


def _own_process_ended(node: Any) -> bool:
    """Return whether a process of the cluster that this process has started is gone; costs microseconds."""
    started = [one for name in ("raylet", "gcs_server") for one in node.all_processes.get(name, ())]
    return any(one.process.poll() is not None for one in started)


def _raylet_ended(name: str) -> bool:
    """Return whether the process of Ray on this machine that owns the socket `name` is gone."""
    if not hasattr(socket, "AF_UNIX"):
        return False
    with socket.socket(socket.AF_UNIX) as raylet:
        try:
            raylet.connect(name)
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:
            return False
    return False


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_SECONDS).close()
    except OSError:
        return False
    return True


def wait_for(
    tickets: Sequence[Any], number: int, seconds: float, while_waiting: Callable[[], None] = lambda: None
) -> list[Any]:
    """Return the tickets that have an answer, after `number` of them have one or `seconds` are over.

    CollectorsLost if the cluster ends meanwhile. `while_waiting` is called now and then, and may raise.
    """
    ray, until = import_ray(), time.monotonic() + seconds
    while True:
        left = until - time.monotonic()
        ray.wait(list(tickets), num_returns=max(1, number), timeout=max(0.0, min(left, _CHECK_SECONDS)))
        ready, _ = ray.wait(list(tickets), num_returns=len(tickets), timeout=0)
        if len(ready) >= number or left <= _CHECK_SECONDS:
            return list(ready)
        while_waiting()
        check_cluster()


def import_ray() -> Any:
    """Import `ray` with token authentication. MissingExtra if it is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise MissingExtra("scale:", "ray")
    for name, value in _USUAL_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray

    return ray


def connect(address: str, cpus: float = 1.0) -> RaySession:
    """Connect to the cluster at `address`; "auto" is the one this machine belongs to, else a new one, as "local" is.

    A new one is private: it lasts as long as the connection, and no other run joins it. It offers `cpus`, or all cores
    if these are more. A connection this process has already is used as it is. UserError where no cluster answers, or it
    refuses the token.
    """
    ray = import_ray()
    if ray.is_initialized():
        _held.sessions += 1
        return RaySession("as connected before", started=False)
    if address == "auto":
        address = _join_own(ray) or "local"
    elif address != "local":
        join_cluster(ray, address)
    if address == "local":
        make_token()
        cores = max(os.cpu_count() or 1, math.ceil(cpus))
        _held.private = start_private(ray, cores, _job(ray), _USUAL_ENVIRONMENT)
    _held.sessions += 1
    _held.ours = True
    return RaySession(address, started=address == "local")


def _join_own(ray: Any) -> str | None:
    """Join the cluster that this machine belongs to and return its address; None where a private one is needed."""
    found = find_own_cluster(ray)
    if found is None:
        return None
    try:
        join_cluster(ray, found)
    except UserError as error:
        if os.environ.get("RAY_ADDRESS") == found:
            raise
        _log.info("the Ray cluster on this machine is not joined: %s", error.what)
        return None
    return found


def find_own_cluster(ray: Any) -> str | None:
    """Return the address of the cluster that this machine belongs to; None without one.

    That is the one that RAY_ADDRESS names, else the running one that `ray start` made this machine a part of. Only `ray
    start` writes an address into a file. A cluster that a program started for itself with `ray.init` ends with that
    program, and `ray.init("auto")` would join it. The address that a killed cluster has left is of no running process.
    """
    named = os.environ.get("RAY_ADDRESS")
    if named and named != "auto":
        return None if named == "local" else named
    services = ray._private.services
    services.find_gcs_addresses.cache_clear()
    running = services.find_gcs_addresses()
    for folder in (None, *sorted(services._find_address_from_flag("--temp-dir"))):
        with suppress(OSError):
            address = ray._private.utils.read_ray_address(folder)
            if address in running:
                return str(address)
    return None


def find_token() -> str | None:
    """Return a description of the place of Ray's token; None if there is no token."""
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        if os.environ.get(name):
            return f"as {name} says"
    return str(_TOKEN) if _TOKEN.is_file() else None


def make_token() -> str:
    """Return a description of the place of Ray's token. Create a private one if there is no token."""
    found = find_token()
    if found is not None:
        return found
    path = _TOKEN
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
    return str(path)


def join_cluster(ray: Any, address: str) -> None:
    """Connect to a cluster that runs already. ClusterRefused, or UserError where none answers."""
    said = ""
    where = f"{'RAY_ADDRESS' if os.environ.get('RAY_ADDRESS') == address else 'scale.ray'}: {address}"
    _knock(address, where)
    try:
        with _capture_stderr() as file:
            try:
                _init(ray, address)
            finally:
                file.seek(0)
                said = file.read()
    except (
        ray.exceptions.AuthenticationError,
        ConnectionError,
        TimeoutError,
        RuntimeError,
        ValueError,
    ) as error:
        if isinstance(error, ray.exceptions.AuthenticationError) or "InvalidAuthToken" in said:
            raise ClusterRefused(
                "the Ray cluster refused this process: its token is missing or another one",
                where=where,
                fix="bring the cluster's: RAY_AUTH_TOKEN_PATH=FILE, or ~/.ray/auth_token (`ray get-auth-token`)",
            ) from error
        if address.startswith("ray://"):
            raise UserError(
                f"Ray Client does not connect: {' '.join(str(error).split())[:200]}",
                where=where,
                fix="start the run on a machine of the cluster with --scale HOST:6379 (see docs/how-to/scale.md)",
            ) from error
        raise UserError(
            f"no Ray cluster answers: {str(error).splitlines()[0]}",
            where=where,
            fix="check the address and the port, and that Ray has the same version there",
        ) from error


def _init(ray: Any, address: str) -> None:
    # Ray Client's driver runs on the cluster, outside this working directory, and takes no job_config
    client = address.startswith("ray://")
    job = {} if client else {"job_config": _job(ray)}
    for left in reversed(range(_CLIENT_TRIES if client else 1)):
        try:
            ray.init(address=address, **job, **QUIET)
            return
        except (ConnectionError, RuntimeError):
            if not left:
                raise


class _ImportPath(list[str]):
    """Import path of Ray's workers. Ray extends it by the working directory, which must not be on it."""

    def extend(self, folders: Iterable[str]) -> None:
        super().extend(folder for folder in folders if folder in sys.path)


def _job(ray: Any) -> Any:
    job = ray.job_config.JobConfig()
    job._py_driver_sys_path = _ImportPath()
    return job


def _knock(address: str, where: str) -> None:
    """Raise UserError where nothing listens at `address`: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_SECONDS).close()
    except (OSError, ValueError) as error:
        raise UserError(
            f"no Ray cluster answers: {error}",
            where=where,
            fix="check the address and the port; `ludus cluster up` starts one",
        ) from error


@contextmanager
def _capture_stderr() -> Iterator[IO[str]]:
    """Redirect stderr to a file: Ray's C++ code prints there why a connection is refused."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield file
        finally:
            os.dup2(kept, 2)
            os.close(kept)

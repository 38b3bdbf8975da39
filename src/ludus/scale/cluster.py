"""Where Ray is started and stopped: connect to a cluster, or start one on this machine for the run.

Nothing else in Ludus calls `ray.init` or `ray.shutdown`, and nothing imports Ray before this module is asked to
connect. Ray lets whoever reaches its ports run any code, so every connection and every cluster started here asks
for a token, and no dashboard is started.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ludus.errors import MissingExtra, UserError

_log = logging.getLogger("ludus.scale")
_TOKEN = Path.home() / ".ray" / "auth_token"  # where Ray looks for it

_UNDERTAKER = Path(__file__).with_name("undertaker.py")
_KNOCK_SECONDS = 10.0
_CLIENT_TRIES = 3  # the process that Ray Client starts for a connection does not always start
_QUIET: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
# what Ray reads when it is imported; each may be set otherwise by the user
_USUAL_ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",  # Ray reports its use over the internet unless told not to
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # it would print these to stdout; a loss is told once, where it is borne
    "RAY_DEDUP_LOGS_SKIP_REGEX": "A worker died or was killed|Raylet is terminated|has been marked dead",
    "RAY_NUM_REDIS_GET_RETRIES": "8",  # a second each, for a cluster to answer
    "RAY_worker_niceness": "0",  # at Ray's 15 whatever else runs on the machine comes first
    # of clusters that are started from here: a machine whose Ray ended is given up after 4 s, one that is cut off
    # after 16, so that a run goes on within 30
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "4",
}


class ClusterRefused(UserError):
    """A Ray cluster that wants another token."""


@dataclass
class _Held:
    """How many connections this process has open, and whether Ludus made the first of them."""

    sessions: int = 0
    ours: bool = False
    undertaker: subprocess.Popen[bytes] | None = None
    """Sees to it that a cluster that was started here ends with this process, however that dies."""


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
            if _held.undertaker is not None:
                _held.undertaker.kill()  # nothing is left for it
                _held.undertaker.wait()
                _held.undertaker = None


def import_ray() -> Any:
    """The module `ray`, told to ask for a token. MissingExtra where it is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise MissingExtra("scale:", "ray")
    for name, value in _USUAL_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray

    return ray


def connect(address: str, cpus: float = 1.0) -> RaySession:
    """Connect to the cluster at `address`; "auto" is the one this machine belongs to, else a new one, as "local" is.

    A new one lasts as long as the connection and offers `cpus`, or all cores if these are more. A connection this
    process has already is used as it is. UserError where no cluster answers, or it refuses the token.
    """
    ray = import_ray()
    if ray.is_initialized():
        _held.sessions += 1
        return RaySession("as connected before", started=False)
    started = address == "local" or (address == "auto" and not _join_own(ray))
    if started:
        _start(ray, cpus)
    elif address != "auto":
        join_cluster(ray, address)
    _held.sessions += 1
    _held.ours = True
    named = "local" if started else _current_address(ray) if address == "auto" else address
    return RaySession(named, started)


def _join_own(ray: Any) -> bool:
    """Join the cluster that this machine belongs to; False where it belongs to none, or to one of somebody else's."""
    try:
        join_cluster(ray, "auto")
    except ConnectionError:
        return False
    except ClusterRefused as error:
        if os.environ.get("RAY_ADDRESS"):
            raise
        _log.info("the Ray cluster on this machine is not ours: %s", error.what)
        return False
    return True


def find_token() -> str | None:
    """Where Ray finds its token, in words; None where there is none."""
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        if os.environ.get(name):
            return f"as {name} says"
    return str(_TOKEN) if _TOKEN.is_file() else None


def make_token() -> str:
    """Where Ray finds its token, in words; one that nobody else can read is made where there is none."""
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
    """Connect to a cluster that runs already. ClusterRefused, or UserError where none answers.

    For "auto" ConnectionError where this machine belongs to none.
    """
    said = ""
    _knock(address)
    try:
        with _unsaid() as file:
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
                where=f"scale.ray: {address}",
                fix="bring the cluster's: RAY_AUTH_TOKEN_PATH=FILE, or ~/.ray/auth_token (`ray get-auth-token`)",
            ) from error
        if address == "auto" and isinstance(error, ConnectionError):
            raise
        if address.startswith("ray://"):
            raise UserError(
                f"Ray Client does not connect: {' '.join(str(error).split())[:200]}",
                where=f"scale.ray: {address}",
                fix="start the run on a machine of the cluster, there with --scale HOST:6379 (see docs/scale.md)",
            ) from error
        raise UserError(
            f"no Ray cluster answers: {str(error).splitlines()[0]}",
            where=f"scale.ray: {address}",
            fix="check the address and the port, and that Ray has the same version there",
        ) from error


def _init(ray: Any, address: str) -> None:
    tries = _CLIENT_TRIES if address.startswith("ray://") else 1
    for left in reversed(range(tries)):
        try:
            ray.init(address=address, **_QUIET)
            return
        except (ConnectionError, RuntimeError):
            if not left:
                raise


def _knock(address: str) -> None:
    """UserError where nothing listens at `address`: Ray itself would try for minutes."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_SECONDS).close()
    except (OSError, ValueError) as error:
        raise UserError(
            f"no Ray cluster answers: {error}",
            where=f"scale.ray: {address}",
            fix="check the address and the port; `ludus cluster up` starts one",
        ) from error


@contextmanager
def _unsaid() -> Iterator[IO[str]]:
    """What is written to stderr meanwhile goes into a file: Ray's C++ parts tell there why they are not let in."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield file
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _start(ray: Any, cpus: float) -> None:
    make_token()
    cores = max(os.cpu_count() or 1, int(-(-cpus // 1)))
    _log.info("no Ray cluster on this machine: starting one with %d CPUs for this run", cores)
    context = ray.init(address="local", num_cpus=cores, include_dashboard=False, **_QUIET)
    if sys.platform == "linux":
        logs = os.path.realpath(os.path.join(context.address_info["session_dir"], "logs"))
        try:
            _held.undertaker = subprocess.Popen(
                [sys.executable, "-I", str(_UNDERTAKER), logs, str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            ray.shutdown()
            raise


def _current_address(ray: Any) -> str:
    return str(ray.get_runtime_context().gcs_address)

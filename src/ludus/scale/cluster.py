"""Where Ray is started and stopped: connect to a cluster, or start one on this machine for the run.

Nothing else in Ludus calls `ray.init` or `ray.shutdown`, and nothing imports Ray before this module is asked to
connect. Ray lets whoever reaches its ports run any code, so every connection and every cluster started here asks
for a token, and no dashboard is started.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from dataclasses import dataclass, field
from typing import Any

from ludus.errors import MissingExtra, UserError

_log = logging.getLogger("ludus.scale")

# what Ray reads when it is imported; each may be set otherwise by the user
_USUAL_ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",  # Ray reports its use over the internet unless told not to
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@dataclass
class _Held:
    """How many connections this process has open, and whether Ludus made the first of them."""

    sessions: int = 0
    ours: bool = False


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


def import_ray() -> Any:
    """The module `ray`, told to ask for a token. MissingExtra where it is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise MissingExtra("scale:", "ray")
    for name, value in _USUAL_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray

    return ray


def connect(address: str, cpus: float = 1.0) -> RaySession:
    """Connect to the cluster at `address`; "auto" is the one this machine belongs to, else a new one.

    A new one lasts as long as the connection and offers `cpus`, or all cores if these are more. A connection this
    process has already is used as it is. UserError where no cluster answers, or it refuses the token.
    """
    ray = import_ray()
    _held.sessions += 1
    try:
        if ray.is_initialized():
            return RaySession(_current_address(ray), started=False)
        _held.ours = True
        if address != "auto":
            _join(ray, address)
            return RaySession(address, started=False)
        try:
            _join(ray, "auto")
            return RaySession(_current_address(ray), started=False)
        except ConnectionError:
            _start(ray, cpus)
            return RaySession("local", started=True)
    except BaseException:
        _held.sessions -= 1
        _held.ours = _held.ours and _held.sessions > 0
        raise


def _join(ray: Any, address: str) -> None:
    """Raises ConnectionError for "auto" where this machine belongs to no cluster."""
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except ray.exceptions.AuthenticationError as error:
        raise UserError(
            f"the Ray cluster refused this process: {str(error).splitlines()[0]}",
            where=f"scale.ray: {address}",
            fix="bring the cluster's token: RAY_AUTH_TOKEN_PATH=FILE, or ~/.ray/auth_token (`ray get-auth-token`)",
        ) from error
    except (ConnectionError, TimeoutError, RuntimeError, ValueError) as error:
        if address == "auto" and isinstance(error, ConnectionError):
            raise
        raise UserError(
            f"no Ray cluster answers: {str(error).splitlines()[0]}",
            where=f"scale.ray: {address}",
            fix="check the address and the port, and that Ray has the same version there",
        ) from error


def _start(ray: Any, cpus: float) -> None:
    cores = max(os.cpu_count() or 1, int(-(-cpus // 1)))
    _log.info("no Ray cluster on this machine: starting one with %d CPUs for this run", cores)
    ray.init(
        address="local",
        num_cpus=cores,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
    )


def _current_address(ray: Any) -> str:
    return str(ray.get_runtime_context().gcs_address)

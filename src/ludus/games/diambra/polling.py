"""Setting of gRPC: wait for an answer in the calling thread, as before version 1.80, not in gRPC's own threads.

gRPC's threads pass every message on to one another. With one process per engine and more processes than cores, that
costs time in every step.
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

_VARIABLE = "GRPC_EXPERIMENTS"
_SUPPORTED_MINOR = range(80, 86)  # minor versions of gRPC 1; later ones may not have these options, and warn
_OWN_THREADS = (
    "event_engine_client",
    "event_engine_listener",
    "event_engine_for_all_other_endpoints",
    "event_engine_callback_cq",
)


def poll_in_calling_thread() -> None:
    """Set it before gRPC is imported, which reads it only then. A value in the environment is kept."""
    try:
        major, minor = map(int, version("grpcio").split(".")[:2])
    except PackageNotFoundError:
        return
    if major == 1 and minor in _SUPPORTED_MINOR:
        os.environ.setdefault(_VARIABLE, ",".join(f"-{name}" for name in _OWN_THREADS))

"""How gRPC waits for an answer: in the thread that asked, as it did until 1.80, and not in threads of its own.

Those hand every message on to one another. With a process for each engine, and more of them than cores, that is a
part of every step that can be saved.
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

_VARIABLE = "GRPC_EXPERIMENTS"
_HAVE_THE_CHOICE = range(80, 86)  # minor versions of gRPC 1: later ones may not know the names, and say so
_OWN_THREADS = (
    "event_engine_client",
    "event_engine_listener",
    "event_engine_for_all_other_endpoints",
    "event_engine_callback_cq",
)


def poll_where_called() -> None:
    """To be called before gRPC is imported, later it takes no notice. A choice in the environment stands."""
    try:
        major, minor = map(int, version("grpcio").split(".")[:2])
    except PackageNotFoundError:
        return
    if major == 1 and minor in _HAVE_THE_CHOICE:
        os.environ.setdefault(_VARIABLE, ",".join(f"-{name}" for name in _OWN_THREADS))

"""Ray for tests: one small cluster per module, with a token, gone afterwards."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / name) for name in ("support", "scale", "language")]
collect_ignore_glob = [] if importlib.util.find_spec("ray") else ["test_*.py"]

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["RAY_AUTH_TOKEN"] = "a-token-for-tests-of-ludus-0123456789abcdef"
# workers of Ray import the envs of tests too
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [*sys.path[-3:], os.environ.get("PYTHONPATH")])  # an empty entry is the working directory
)
STORE = 80 * 2**20  # bytes of object store per node: the least that Ray takes is 75 MiB


@pytest.fixture(scope="module")
def four_nodes() -> Iterator[Any]:
    """A cluster of a head without CPUs and four nodes with one each; this process is connected to the head."""
    from ludus.scale.cluster import import_ray

    ray = import_ray()
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False},
    )
    try:
        for _ in range(4):
            cluster.add_node(num_cpus=1, object_store_memory=STORE)
        ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()

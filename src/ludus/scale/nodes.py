"""Ray on the machines of a cluster: start a permanent node, and list the nodes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

from ludus.errors import UserError
from ludus.scale.cluster import find_own_cluster, find_token, import_ray, join_cluster, make_token


@dataclass(frozen=True)
class StartedNode:
    """Ray on this machine: the address of its cluster, and where its token is."""

    address: str
    token: str


def start_node(
    *, host: str, join: str | None, port: int, client_port: int, cpus: int | None, block: bool = False
) -> StartedNode:
    """Start Ray on this machine, to stay: the first of a cluster, at `host`, or one that joins.

    With `block` it comes back when Ray has ended. UserError when it does not start, or has no token to join with.
    """
    import_ray()
    if join is not None and find_token() is None:
        raise UserError(
            "this machine has no token to join the cluster with",
            where="~/.ray/auth_token",
            fix=f"copy that file from {join.rpartition(':')[0]}, readable by you only (chmod 600)",
        )
    token = make_token()
    command = [sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--disable-usage-stats"]
    if join is None:
        command += ["--head", f"--node-ip-address={host}", f"--port={port}", "--include-dashboard=false"]
        command.append(f"--ray-client-server-port={client_port}")
    else:
        command += [f"--address={join}"]
    if cpus is not None:
        command.append(f"--num-cpus={cpus}")
    if block:
        command.append("--block")
    done = subprocess.run(command, capture_output=not block, text=True, check=False)
    if done.returncode:
        printed = "" if block else done.stdout + done.stderr
        lines = [line.strip() for line in printed.splitlines() if line.strip()]
        raise UserError(
            f"Ray did not start: {lines[-1] if lines else f'exit code {done.returncode}'}",
            where="ray start",
            fix="is one running already? `ludus cluster status` shows it, `ray stop` ends it",
        )
    return StartedNode(join or f"{host}:{port}", token)


def _free_resources() -> dict[str, dict[str, float]]:
    """Return the free resources of each node. Call it in a process of the cluster."""
    found: dict[str, dict[str, float]] = import_ray()._private.state.available_resources_per_node()
    return found


@dataclass(frozen=True)
class NodeFacts:
    """A machine that is or was part of a cluster."""

    host: str
    alive: bool
    cpus: float
    free_cpus: float
    gpus: float
    memory: float


def read_nodes(address: str) -> list[NodeFacts]:
    """Return the machines of the cluster at `address`. UserError if it does not answer."""
    ray = import_ray()
    found = find_own_cluster(ray) if address == "auto" else address
    if found is None:
        raise UserError(
            "this machine belongs to no Ray cluster", where="auto", fix="ludus cluster up, or name an address"
        )
    join_cluster(ray, found)
    try:
        look = _free_resources
        free = ray.get(ray.remote(num_cpus=0)(look).remote()) if found.startswith("ray://") else look()
        return [
            NodeFacts(
                host=str(node["NodeManagerHostname"]),
                alive=bool(node["Alive"]),
                cpus=float(node["Resources"].get("CPU", 0.0)),
                free_cpus=float(free.get(node["NodeID"], {}).get("CPU", 0.0)),
                gpus=float(node["Resources"].get("GPU", 0.0)),
                memory=float(node["Resources"].get("memory", 0.0)),
            )
            for node in ray.nodes()
        ]
    finally:
        ray.shutdown()

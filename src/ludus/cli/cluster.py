"""`ludus cluster`: Ray on this machine, started with a token and without a dashboard, and the machines of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from ludus.cli.commands import Commands, Json, examples
from ludus.cli.output import Output, plain_table

EXAMPLES = """\b
Examples:
  ludus cluster up                         on this machine alone
  ludus cluster up --host 10.0.0.1         the first of several machines
  ludus cluster up --join 10.0.0.1:6379    every other machine
  ludus cluster status
  ludus train my.yaml --scale auto
"""

cluster_app = typer.Typer(
    cls=Commands,
    help="Ray on several machines: start a node, list the nodes.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@cluster_app.callback()
def _cluster() -> None:
    """Ray on several machines: start a node, list the nodes."""


@cluster_app.command("up", epilog=EXAMPLES)
def up(
    host: Annotated[
        str,
        typer.Option("--host", metavar="IP", help="This machine's address, as the others reach it."),
    ] = "127.0.0.1",
    join: Annotated[
        str | None,
        typer.Option("--join", metavar="HOST:PORT", help="Join the cluster of this first machine."),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=1, max=65_535, help="Port of the first machine.")
    ] = 6379,
    client_port: Annotated[
        int,
        typer.Option(
            "--client-port",
            metavar="N",
            min=1,
            max=65_535,
            help="Port for ray:// connections from outside the cluster.",
        ),
    ] = 10_001,
    cpus: Annotated[
        int | None, typer.Option("--cpus", metavar="N", min=0, help="CPUs to offer; default: all.")
    ] = None,
    block: Annotated[
        bool, typer.Option("--block", help="Stay in the foreground until Ray ends, as SLURM needs it.")
    ] = False,
    json: Json = False,
) -> None:
    """Start Ray on this machine: a cluster of its own, or a part of another one."""
    from ludus.scale.nodes import start_node

    output = Output(json, listing=True)
    node = start_node(host=host, join=join, port=port, client_port=client_port, cpus=cpus, block=block)
    if block:
        return
    output.print(f"Ray runs on this machine, {'a part of' if join else 'as'} {node.address}")
    rows = [("token", node.token)]
    if join is None and host != "127.0.0.1":
        rows.append(("others join", f"ludus cluster up --join {node.address}   (with the same token)"))
    rows += [("train", f"ludus train CONFIG --scale {node.address}"), ("stop", "ray stop")]
    output.pairs(rows)
    output.result({"address": node.address, "token": node.token})


@cluster_app.command("status", epilog=examples("ludus cluster status", "ludus cluster status 10.0.0.1:6379"))
def status(
    address: Annotated[
        str, typer.Argument(metavar="[ADDRESS]", help="auto, HOST:6379 or ray://HOST:10001.")
    ] = "auto",
    json: Json = False,
) -> None:
    """List the machines of a cluster and their free resources."""
    from ludus.scale.nodes import read_nodes

    output = Output(json, listing=True)
    nodes = read_nodes(address)
    table = plain_table(
        "machine", "", "CPUs", "free", "GPUs", "memory", right=("CPUs", "free", "GPUs", "memory")
    )
    for node in nodes:
        table.add_row(
            node.host,
            "alive" if node.alive else "gone",
            f"{node.cpus:g}",
            f"{node.free_cpus:g}",
            f"{node.gpus:g}",
            f"{node.memory / 2**30:.1f} GiB",
        )
    output.print(table)
    alive = [node for node in nodes if node.alive]
    output.print(f"{len(alive)} machines, {sum(node.cpus for node in alive):g} CPUs")
    output.result({"nodes": [node.__dict__ for node in nodes]})

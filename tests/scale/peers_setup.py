"""Several learners on one machine: processes forked from the test, joined in one group by gloo."""

from __future__ import annotations

import multiprocessing
import pickle
import socket
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from ludus.algorithms.peers import DistributedPeers, PeerLost

CPU = torch.device("cpu")


def in_processes(work: Callable[..., Any], size: int, *arguments: Any, deadline: float = 120.0) -> Any:
    """`work(rank, size, port, *arguments)` in `size` processes; what the first of them returns."""
    context = multiprocessing.get_context("fork")
    port = free_port()
    pipes = [context.Pipe(duplex=False) for _ in range(size)]
    processes = [
        context.Process(target=_run, args=(pipes[rank][1], work, rank, size, port, *arguments), daemon=True)
        for rank in range(size)
    ]
    for process in processes:
        process.start()
    for _, sending in pipes:
        sending.close()
    try:
        answers = []
        for receiving, _ in pipes:
            if not receiving.poll(deadline):
                raise TimeoutError("a process has not answered")
            answers.append(pickle.loads(receiving.recv_bytes()))  # noqa: S301  # of our own making
    finally:
        for process in processes:
            process.kill()
            process.join()
    for ok, value in answers:
        assert ok, value
    return answers[0][1]


def _run(sending: Any, work: Callable[..., Any], *arguments: Any) -> None:
    torch.set_num_threads(1)
    try:
        sending.send_bytes(pickle.dumps((True, work(*arguments))))
    except BaseException:  # the test reports any error
        sending.send_bytes(pickle.dumps((False, traceback.format_exc())))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def joined(rank: int, size: int, port: int, *, sharded: bool) -> DistributedPeers:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    return DistributedPeers(CPU, sharded=sharded)


def obey(learner: Any) -> None:
    """Run the first learner's orders until it ends."""
    while True:
        try:
            what, arguments = learner.peers.receive_call()
        except PeerLost:
            return
        getattr(learner, what)(*arguments)

"""Several learners that train as one: their start, their connection, and the loop of those after the first.

The process that a run is started in is the first learner. The others are processes on Ray, or those that torchrun has
started next to it: they build the same learner, then follow the orders of the first, until it ends.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ludus.algorithms.learner import LearnerContext
from ludus.algorithms.peers import DistributedPeers, PeerLost
from ludus.config.own_modules import exported
from ludus.config.schema import TrainerConfig
from ludus.config.sections import ScaleConfig
from ludus.errors import UserError
from ludus.runs.streams import Streams
from ludus.scale.cluster import RaySession, import_ray, is_connected, wait_for
from ludus.scale.processes import LearnerProcess

_log = logging.getLogger("ludus.scale")
_START_SECONDS = 300.0
_STEP = timedelta(minutes=10)  # for the share of another learner; one that takes longer hangs
_ORDERS = ("restore", "take_start", "learn", "compare", "look", "gather", "gather_weights", "go_back")
"""Methods of a learner that the first one may call on the others."""


@dataclass(frozen=True)
class Order:
    """The learner that the other ranks build: with `context`, or with what `Algorithm.context` makes of the config."""

    config: TrainerConfig
    context: LearnerContext | None = None


class LearnerGroup:
    """The first learner's connection to the others. Closing it ends them."""

    def __init__(
        self,
        peers: DistributedPeers,
        actors: Sequence[Any] = (),
        locations: Sequence[str] = (),
        session: RaySession | None = None,
    ) -> None:
        self.peers = peers
        self.locations = list(locations)
        """The machine and process of every learner on Ray."""
        self._actors = actors
        self._session = session

    def build(self, order: Order) -> None:
        """Have the other ranks build their learners."""
        self.peers.send_call("build", order)

    def close(self) -> None:
        if dist.is_initialized():
            with suppress(PeerLost):  # then it has ended already
                self.peers.send_call("end")
            dist.destroy_process_group()
        if self._actors and is_connected():
            for actor in self._actors:
                import_ray().kill(actor)
        if self._session is not None:
            self._session.close()


def torchrun_device(device: str) -> torch.device:
    """The device of this process, where each has a GPU of its own."""
    if device in ("auto", "cuda") and torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu" if device == "auto" else device)


def lead_torchrun(scale: ScaleConfig, device: torch.device) -> LearnerGroup:
    """Join as the first of the learners that torchrun has started."""
    return LearnerGroup(_join(device, scale, "env://", 0, int(os.environ["WORLD_SIZE"])))


def follow_torchrun(config: TrainerConfig) -> None:
    """Run as one of the other learners, until the first one ends."""
    scale = config.scale or ScaleConfig()
    device = torchrun_device(config.device)
    follow(_join(device, scale, "env://", int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])), device)


def lead_on_ray(
    scale: ScaleConfig, number: int, device: torch.device, session: RaySession, room_seconds: float
) -> LearnerGroup:
    """Start `number` - 1 further learners on Ray, and join them as the first. PeerLost when one is lost meanwhile.

    Learners without a GPU that no machine has had room for in `room_seconds` share CPUs with others.
    """
    ray = import_ray()
    host, gpus = ray.util.get_node_ip_address(), scale.gpus_for("learner", device.type)
    with socket.socket() as probe:
        probe.bind((host, 0))
        address = f"tcp://{host}:{probe.getsockname()[1]}"

    def start(cpus: float) -> Any:
        # a lost learner has lost its weights: the caller starts another, not Ray
        options = {"num_cpus": cpus, "num_gpus": gpus, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        return ray.remote(LearnerProcess).options(**options).remote(exported())

    actors = [start(1) for _ in range(number - 1)]
    try:
        pending = [actor.location.remote() for actor in actors]
        ready = wait_for(pending, len(pending), _START_SECONDS if gpus else room_seconds)
        missing = [ticket for ticket in pending if ticket not in ready]
        if missing and not gpus:
            _log.warning("no free CPUs for %d learners: they share those of others", len(missing))
            for index in [index for index, ticket in enumerate(pending) if ticket in missing]:
                ray.kill(actors[index])
                actors[index] = start(0)
                pending[index] = actors[index].location.remote()
            ready = wait_for(pending, len(pending), _START_SECONDS)
            missing = [ticket for ticket in pending if ticket not in ready]
        if missing:
            raise UserError(
                f"no resources for {len(missing)} of {number} learners within {_START_SECONDS:.0f} s",
                where="scale.num_learners",
                fix=f"each needs a CPU and {gpus:g} GPUs: lower it, or add machines to the cluster",
            )
        locations = ray.get(pending)
        ray.get([actor.prepare.remote() for actor in actors])
        for rank, actor in enumerate(actors, 1):
            actor.follow.remote(address, rank, number, device.type, scale)
        _log.info("further learners: %s", "; ".join(locations))
        return LearnerGroup(_join(device, scale, address, 0, number), actors, locations, session)
    except ray.exceptions.RayActorError as error:
        raise PeerLost(f"a learner was lost while it started: {error}") from error
    except BaseException:
        if is_connected():
            for actor in actors:
                ray.kill(actor)
        raise


def follow_on_ray(address: str, rank: int, size: int, kind: str, scale: ScaleConfig) -> None:
    """Run as learner `rank` of the group at `address`, until the first learner ends."""
    device = torch.device(kind)
    follow(_join(device, scale, address, rank, size), device)


def follow(peers: DistributedPeers, device: torch.device) -> None:
    """Build the learner that the first one orders, and then do what it does; returns when it ends or is lost."""
    if signal.getsignal(signal.SIGTERM) is not None and os.environ.get("TORCHELASTIC_RUN_ID"):
        # the first learner gets the signal too, and has to save what all hold parts of
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, signal.SIG_IGN)
    learner: Any = None
    try:
        while True:
            what, arguments = peers.receive_call()
            if what == "end":
                return
            if what == "build":
                learner = build(arguments[0], peers, device)
            elif what in _ORDERS:
                getattr(learner, what)(*arguments)
            else:
                raise ValueError(f"no learner can '{what}'")
    except PeerLost as lost:
        _log.info("%s: this learner ends too", lost)
    finally:
        dist.destroy_process_group()


def build(order: Order, peers: DistributedPeers, device: torch.device) -> Any:
    """Build the learner of `order`. Its weights do not matter: the first learner sends its own."""
    config, streams = order.config, Streams(order.config.seed)
    algorithm: Any = config.algorithm_entry()
    if order.context is not None:
        context = replace(order.context, streams=streams, peers=peers, device=device)
    else:
        context = algorithm.context(config, device, streams, peers)
    return algorithm.learner(context, config.typed_hyperparams())


def _join(device: torch.device, scale: ScaleConfig, address: str, rank: int, size: int) -> DistributedPeers:
    backend = "nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
        # a lost peer is to be an error here, not the end of this process
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
    dist.init_process_group(backend, init_method=address, rank=rank, world_size=size, timeout=_STEP)
    return DistributedPeers(device, sharded=scale.strategy == "fsdp")

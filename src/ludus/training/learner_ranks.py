"""The other ranks of a learner: started by `scale.num_learners` or torchrun, and again when one is lost."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch

from ludus.algorithms.peers import ALONE, Peers
from ludus.config.schema import TrainerConfig
from ludus.errors import CollectorsLost, ConfigError, LudusError

if TYPE_CHECKING:
    from ludus.scale.learners import LearnerGroup, Order
    from ludus.scale.losses import Losses


class LearnersRescaled(Exception):
    """The run continues with another number of learners."""

    def __init__(self, learners: int) -> None:
        super().__init__(f"{learners} learners from here on")
        self.learners = learners


class LearnerRanks:
    """One learner, until a config is opened that asks for more."""

    def __init__(self) -> None:
        self.peers: Peers = ALONE
        self.size = 1
        """Number of learners, those that were lost included."""
        self._group: LearnerGroup | None = None
        self._losses: Losses | None = None

    def open(self, config: TrainerConfig, device: torch.device, learners: int | None = None) -> Peers:
        """Start the other learners, in place of those before; `learners` replaces the config's number."""
        self.close()
        self.size = number = learners or (1 if config.scale is None else config.scale.num_learners)
        if under_torchrun():
            from ludus.config.sections import ScaleConfig
            from ludus.scale.learners import lead_torchrun

            self._group = lead_torchrun(config.scale or ScaleConfig(), device)
        elif number > 1:
            from ludus.scale.cluster import connect
            from ludus.scale.learners import lead_on_ray
            from ludus.scale.processes import RESOURCE_SECONDS, RESOURCE_SECONDS_AFTER_LOSS

            assert config.scale is not None
            session = connect(config.scale.ray, cpus=cpus_wanted(config, number))
            try:
                room = RESOURCE_SECONDS if self._losses is None else RESOURCE_SECONDS_AFTER_LOSS
                self._group = lead_on_ray(config.scale, number, device, session, room)
            except BaseException:
                session.close()
                raise
        self.peers = ALONE if self._group is None else self._group.peers
        return self.peers

    @property
    def locations(self) -> list[str]:
        """Machine and process of the others."""
        return [] if self._group is None else self._group.locations

    def build(self, order: Order) -> None:
        """Let the others build their learners."""
        if self._group is not None:
            self._group.build(order)

    def lose(self, config: TrainerConfig, cause: str) -> None:
        """Count a lost learner. LudusError when too many were lost; the state is then incomplete and not saved."""
        from ludus.scale.losses import Losses

        if self._losses is None:
            self._losses = Losses(0 if config.scale is None else config.scale.max_failures)
        try:
            self._losses.count(cause)
        except CollectorsLost as error:
            raise LudusError(str(error)) from error

    def close(self) -> None:
        group, self._group, self.peers = self._group, None, ALONE
        if group is not None:
            group.close()


def under_torchrun() -> bool:
    """Return whether torchrun has started this process as one of several."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def cpus_wanted(config: TrainerConfig, learners: int) -> float:
    """Return the CPUs that a cluster started for this run needs."""
    scale = config.scale
    assert scale is not None
    actors = scale.num_actors * scale.cpus_per_actor if config.language is not None else 0.0
    collectors = 0.0
    if config.language is None:
        collectors = (1 if scale.collectors == "auto" else scale.collectors) * scale.cpus_per_collector
    return actors + collectors + learners - 1


def require_shareable(config: TrainerConfig) -> None:
    """Raise ConfigError if the algorithm cannot use several learners. Language learners always can."""
    if config.scale is not None and config.scale.mode == "async" and config.scale.strategy == "fsdp":
        raise ConfigError(
            "mode: async needs all weights in one learner, to recompute values of older experience",
            key="scale.strategy",
            fix="strategy: ddp, or mode: sync",
        )
    if config.algorithm not in ("PPO", "A2C"):
        raise ConfigError(
            f"{config.algorithm} learns in one process: only PPO and A2C share their batches among learners",
            key="scale.num_learners",
            fix="num_learners: 1; its collectors may be many",
        )

"""`scale:` a run on more than one process or machine. Without this section nothing of Ray is imported."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator

from ludus.config.section import Section

_ADDRESS = re.compile(r"(?:ray://)?(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")


class ScaleConfig(Section):
    """Collectors, samplers and learners on Ray (extra `ray`). See docs/scale.md."""

    ray: str = Field(
        default="auto",
        description="auto: the Ray cluster of this machine, else as local: one started for the run; HOST:6379; "
        "ray://HOST:10001",
    )
    collectors: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        default="auto",
        description="processes that share the n_envs envs; auto: as many as the cluster has CPUs for",
    )
    cpus_per_collector: float = Field(
        default=1.0, gt=0, description="CPUs that Ray sets aside for each collector"
    )
    mode: Literal["sync", "async"] = Field(
        default="sync",
        description="sync: every update waits for all collectors, results repeat to the byte; async: it does not",
    )
    max_staleness: int = Field(
        default=2, ge=0, description="async: updates between acting and learning from it, at most"
    )
    num_actors: int = Field(
        default=7,
        ge=0,
        description="self-play: samplers, each a process with a model of its own; 0: the first learner samples itself",
    )
    num_learners: int = Field(
        default=1, ge=1, description="processes that learn as one; the first is the one the run is started in"
    )
    strategy: Literal["ddp", "fsdp"] = Field(
        default="ddp",
        description="several learners: each has all weights (ddp), or a part of every one (fsdp)",
    )
    cpus_per_actor: float = Field(default=1.0, ge=0, description="CPUs that Ray sets aside for each sampler")
    gpus_per_actor: float | None = Field(
        default=None, ge=0, description="GPUs for each sampler; null: 1 where the run is on a GPU, else 0"
    )
    gpus_per_learner: float | None = Field(
        default=None, ge=0, description="GPUs for each learner on Ray; null: as for samplers"
    )
    max_failures: int = Field(
        default=10,
        ge=0,
        description="collectors, samplers and learners lost within an hour before the run gives up",
    )

    def gpus_for(self, worker: Literal["actor", "learner"], device: str) -> float:
        """What Ray is to set aside for a sampler or a learner of a run on `device` (cpu, cuda)."""
        wanted = self.gpus_per_actor if worker == "actor" else self.gpus_per_learner
        return float(device == "cuda") if wanted is None else wanted

    @field_validator("ray")
    @classmethod
    def _known_place(cls, value: str) -> str:
        if value not in ("auto", "local") and not _ADDRESS.fullmatch(value):
            raise ValueError(
                "a Ray cluster is auto, local, HOST:PORT as in 10.0.0.1:6379, or ray://HOST:PORT"
            )
        return value

"""The base of all config sections; `scale:` (several processes or machines) and `mirror:` (a copy of the run)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ludus.errors import ConfigError, shortened

_ADDRESS = re.compile(r"(?:ray://)?(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
SCHEMES = ("s3", "gs", "gdrive", "file")
MAX_RATE = 10**12
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_RATE = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*([kmg]i?)?b(?:\s*/\s*s)?", re.IGNORECASE)


class Section(BaseModel):
    """A part of the config: strict about unknown keys, checked on assignment too."""

    model_config = ConfigDict(
        extra="forbid", validate_assignment=True, validate_default=True, allow_inf_nan=False
    )

    def __setattr__(self, name: str, value: Any) -> None:
        """Assign a key. ConfigError for an unknown one, and for a value that it does not accept."""
        try:
            super().__setattr__(name, value)
        except ValidationError as error:
            if self.model_config.get("frozen"):
                raise
            from ludus.config.explain import explain

            raise explain(error, type(self)) from None


class ScaleConfig(Section):
    """Collectors, samplers and learners on Ray (extra `ray`). See docs/how-to/scale.md."""

    ray: str = Field(
        default="auto",
        description="auto: the Ray cluster of this machine, else as local: one started for the run; HOST:6379; "
        "ray://HOST:10001",
    )
    collectors: Annotated[int, Field(ge=1, le=10_000)] | Literal["auto"] = Field(
        default="auto",
        description="processes that share the n_envs envs; auto: as many as the cluster has CPUs for",
    )
    cpus_per_collector: float = Field(
        default=1.0, gt=0, le=10_000, description="CPUs that Ray sets aside for each collector"
    )
    mode: Literal["sync", "async"] = Field(
        default="sync",
        description="sync: every update waits for all collectors, results repeat to the byte; async: it does not",
    )
    max_staleness: int = Field(
        default=2,
        ge=0,
        le=10_000,
        description="async: maximum number of updates between acting and learning from it",
    )
    num_actors: int = Field(
        default=7,
        ge=0,
        le=10_000,
        description="self-play: samplers, each a process with a model of its own; 0: the first learner samples itself",
    )
    num_learners: int = Field(
        default=1,
        ge=1,
        le=10_000,
        description="processes that learn as one; the first is the one the run is started in",
    )
    strategy: Literal["ddp", "fsdp"] = Field(
        default="ddp",
        description="several learners: each has all weights (ddp), or a part of every one (fsdp)",
    )
    cpus_per_actor: float = Field(
        default=1.0, ge=0, le=10_000, description="CPUs that Ray sets aside for each sampler"
    )
    gpus_per_actor: float | None = Field(
        default=None,
        ge=0,
        le=1_000,
        description="GPUs for each sampler; null: 1 where the run is on a GPU, else 0",
    )
    gpus_per_learner: float | None = Field(
        default=None, ge=0, le=1_000, description="GPUs for each learner on Ray; null: as for samplers"
    )
    max_failures: int = Field(
        default=10,
        ge=0,
        le=1_000_000,
        description="collectors, samplers and learners lost within an hour before the run gives up",
    )

    def gpus_for(self, worker: Literal["actor", "learner"], device: str) -> float:
        """Return how many GPUs Ray reserves for a sampler or a learner of a run on `device` (cpu, cuda)."""
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


class MirrorConfig(Section):
    """A copy of the run in another place (extra `cloud`). `ludus mirror RUN` uploads what is missing there."""

    url: str = Field(description="s3://bucket/prefix, gs://bucket/prefix, gdrive://folder, file:///folder")
    bandwidth: str | None = Field(
        default=None, description='limit of the transfer rate: "5 MB/s"; null: no limit'
    )
    wait: float = Field(
        default=60.0,
        ge=0,
        le=604_800,
        description="seconds that the end of the run waits for missing uploads",
    )

    @field_validator("url")
    @classmethod
    def _known_place(cls, value: str) -> str:
        try:
            return checked_url(value)
        except ValueError as error:  # pydantic would repeat the value, which may hold a password
            raise ConfigError(str(error), key="mirror.url", fix="as in s3://bucket/runs") from None

    @field_validator("bandwidth", mode="after")
    @classmethod
    def _known_rate(cls, value: str | None) -> str | None:
        if value is not None:
            bytes_per_second(value)
        return value


def checked_url(url: str) -> str:
    """Return `url` without a last slash. ValueError if it is not a valid mirror URL."""
    scheme, colon, rest = url.partition("://")
    if not colon or scheme not in SCHEMES:
        raise ValueError(f"a mirror is s3://…, gs://…, gdrive://… or file:///…, not {without_secrets(url)!r}")
    if re.search(r"[@?#]|::|[\x00-\x1f]", rest):
        raise ValueError(
            "a mirror's URL must not contain a user, key or option: configure credentials with the service's own tools"
        )
    if scheme == "file" and not rest.startswith("/"):
        raise ValueError(f"file:// needs a whole path, as in file:///backup, not {url!r}")
    parts = rest.strip("/").split("/")
    if "" in parts or "." in parts or ".." in parts:
        raise ValueError(f"{url!r} names no folder")
    return url.rstrip("/")


def without_secrets(url: str) -> str:
    """Return `url` for a message: without the part before an @ or after a question mark."""
    return re.sub(r"\?.*", "", re.sub(r"://[^/@]*@", "://", url), flags=re.DOTALL)[:200]


def bytes_per_second(text: str) -> float:
    """`"5 MB/s"` as a number; ValueError that shows the forms accepted."""
    match = _RATE.fullmatch(text.strip())
    rate = float(match[1].replace("_", "")) * _UNITS[(match[2] or "").lower()] if match else 0.0
    if rate <= 0:
        raise ValueError(
            f'a bandwidth is written as "500 kB/s", "5 MB/s" or "1 GiB/s", not {shortened(text)}'
        )
    if not 1 <= rate <= MAX_RATE:
        raise ValueError(f"a bandwidth is at least 1 B/s and at most 1000 GB/s, not {shortened(text)}")
    return rate

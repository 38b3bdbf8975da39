"""`mirror:` where a run is copied to while it trains, and how fast it may go there."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from ludus.config.section import Section
from ludus.errors import ConfigError

SCHEMES = ("s3", "gs", "gdrive", "file")
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_RATE = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*([kmg]i?)?b(?:\s*/\s*s)?", re.IGNORECASE)


class MirrorConfig(Section):
    """A copy of the run elsewhere (extra `cloud`). What it misses, `ludus mirror RUN` makes up for."""

    url: str = Field(description="s3://bucket/prefix, gs://bucket/prefix, gdrive://folder, file:///folder")
    bandwidth: str | None = Field(default=None, description='at most so fast: "5 MB/s"; null: no bound')
    wait: float = Field(
        default=60.0, ge=0, description="seconds that the end of the run waits for what is not yet there"
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
    """`url` without a last slash; ValueError if it is none that a mirror can have."""
    scheme, colon, rest = url.partition("://")
    if not colon or scheme not in SCHEMES:
        raise ValueError(f"a mirror is s3://…, gs://…, gdrive://… or file:///…, not {without_secrets(url)!r}")
    if re.search(r"[@?#]|::|[\x00-\x1f]", rest):
        raise ValueError(
            "a mirror's URL holds no user, key or option: credentials stay where the service's own tools keep them"
        )
    if scheme == "file" and not rest.startswith("/"):
        raise ValueError(f"file:// needs a whole path, as in file:///backup, not {url!r}")
    parts = rest.strip("/").split("/")
    if "" in parts or "." in parts or ".." in parts:
        raise ValueError(f"{url!r} names no folder")
    return url.rstrip("/")


def without_secrets(url: str) -> str:
    """`url` fit for a message: without what stands before an @ or behind a question mark."""
    return re.sub(r"\?.*", "", re.sub(r"://[^/@]*@", "://", url), flags=re.DOTALL)[:200]


def bytes_per_second(text: str) -> float:
    """`"5 MB/s"` as a number; ValueError that shows the forms accepted."""
    match = _RATE.fullmatch(text.strip())
    rate = float(match[1].replace("_", "")) * _UNITS[(match[2] or "").lower()] if match else 0.0
    if rate <= 0:
        raise ValueError(f'a bandwidth is written as "500 kB/s", "5 MB/s" or "1 GiB/s", not {text!r}')
    return rate

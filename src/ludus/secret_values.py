"""Keys and passwords, as the environment holds them, kept out of what is written and shown.

A message can carry one from anywhere: a library's error, an env's own traceback, a command that a shell filled in.
So whatever writes text of such an origin (logs, errors, run.json) passes it through `without_secrets`.
"""

from __future__ import annotations

import os
import re
import urllib.parse
from collections.abc import Mapping

HIDDEN = "***"
_NAMES = re.compile(
    r"(?:^|_)(?:API)?(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(?:_|$)", re.I
)
_SHORTEST = 8  # characters: a shorter value may stand for anything


def secret_values(environment: Mapping[str, str] | None = None) -> list[str]:
    """The values of the variables whose names say that they are secret, longest first; no paths of files."""
    found = {
        value.strip()
        for name, value in (os.environ if environment is None else environment).items()
        if _NAMES.search(name) and len(value.strip()) >= _SHORTEST and not value.startswith(("/", "~", "."))
    }
    return sorted(found, key=len, reverse=True)


def without_secrets(text: str) -> str:
    """`text` with every secret of the environment hidden: as it is, as Python writes it, and as addresses do."""
    for value in secret_values():
        for form in (value, repr(value)[1:-1], urllib.parse.quote(value, safe="")):
            if form in text:
                text = text.replace(form, HIDDEN)
    return text

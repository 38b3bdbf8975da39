"""Which configs with code of the user's own were trained here, so that commands use their runs without a question.

A run says itself what it was trained with, so it cannot vouch for that. Ludus keeps a note below the home directory for
each config that was trained and names code: the hash of the config, the folders its code was loaded from, and the
working directory. A run whose config has this hash names what the user has run before, with the same arguments; if it
names files by relative paths, only in the same working directory. Where the note cannot be written, the user consents
by name.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from ludus.config.loading import plain_config
from ludus.config.own_modules import Trust, current_trust, own_folders
from ludus.config.requests import is_path, requests_to_train, texts_in
from ludus.config.schema import TrainerConfig
from ludus.plain_files import read_plain

_LARGEST = 1 << 16
_TRAINED = "trained"


def remember_trained(config: TrainerConfig) -> None:
    """Note that the user trains `config`, which names code, programs, addresses or files that need consent."""
    note(_TRAINED, _text(config), folders=own_folders(), working_directory=os.getcwd())


def trust_in_run(config: TrainerConfig) -> Trust:
    """Return the trust in what a run's config names: all of it if the user trained it here, else what is harmless."""
    trust = current_trust()
    try:
        found = json.loads(read_plain(_note(_TRAINED, _text(config)), _LARGEST))
        known = found["working_directory"] == os.getcwd() or not _names_relative_paths(config)
    except (OSError, ValueError, KeyError):
        known = False
    if not known:
        return Trust(by_user=False, folders=trust.folders, allowed=trust.allowed)
    # what the user typed besides may be in the working directory
    return Trust(
        by_user=True,
        folders=(*found["folders"], *(trust.folders if trust.allowed else ())),
        allowed=trust.allowed,
    )


def note(kind: str, text: str, **fields: Any) -> None:
    """Keep a note that the user has done this: `kind` is the folder of such notes, `text` what was done."""
    path = _note(kind, text)
    with suppress(OSError):  # a home that cannot be written to: the user will be asked
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(fields, file)
        os.replace(file.name, path)


def is_noted(kind: str, text: str) -> bool:
    """Return whether there is such a note."""
    return _note(kind, text).is_file()


def _names_relative_paths(config: TrainerConfig) -> bool:
    """Return whether the config names a file or folder that depends on the working directory."""
    texts = [
        request.value
        for request in requests_to_train(config)
        if request.key not in ("tracking.wandb", "scale.ray")
    ]
    texts += texts_in(config.policy.features_extractor_kwargs)
    texts += texts_in(config.policy.network_kwargs)
    if config.env is not None:
        texts += texts_in(config.env.kwargs)
        texts += (text for one in config.env.wrappers if isinstance(one, dict) for text in texts_in(one))
    return any(is_path(text) and not os.path.isabs(text) and "://" not in text for text in texts)


def _text(config: TrainerConfig) -> str:
    return json.dumps(plain_config(config), sort_keys=True)


def _note(kind: str, text: str) -> Path:
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    if not os.path.isabs(state):  # it would be a folder of the working directory
        state = os.devnull  # in which there is nothing, and nothing can be written
    return Path(state, "ludus", kind, hashlib.sha256(text.encode()).hexdigest())

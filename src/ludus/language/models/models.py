"""Load the model of `language.model`: `tiny`, a name of `ludus models`, a folder, or a hub id."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from ludus.config.language import LanguageConfig
from ludus.errors import ConfigError, MissingExtra, UserError, nearest
from ludus.language.models import weights
from ludus.language.models.known import KNOWN, fetched
from ludus.language.models.llama import LlamaModel
from ludus.language.models.model import LanguageModel
from ludus.language.models.shape import Shape, read_shape
from ludus.language.models.tokenizer import ByteTokenizer, Tokenizer, load_tokenizer
from ludus.plain_files import read_plain

_log = logging.getLogger("ludus.language")
_LARGEST_JSON = 4 << 20


@dataclass(frozen=True)
class TinyShape:
    """`language.model_kwargs` of `tiny`."""

    layers: int = 4
    hidden: int = 128
    heads: int = 4
    context: int = 2048


def load_language_model(
    config: LanguageConfig, device: torch.device | str, generator: torch.Generator | None = None
) -> LanguageModel:
    """Load the model that `config` names, without adapters, on `device`. `generator` draws the weights of `tiny`.

    Raises ConfigError or UserError if it does not exist or cannot be read, MissingExtra.
    """
    device = torch.device(device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    if config.dtype != "auto":
        dtype = torch.float32 if config.dtype == "float32" else torch.bfloat16
    if config.model == "tiny":
        model: LanguageModel = tiny(config.model_kwargs, generator, dtype)
    elif config.model_kwargs:
        raise ConfigError(
            "model_kwargs are for 'tiny' only: other models bring their sizes with them",
            key="language.model_kwargs",
            fix="remove the key",
        )
    else:
        model = _from_folder(find_model(config.model), dtype)
    return model.to(device).eval()


def tiny(
    kwargs: Mapping[str, Any] | None = None,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> LlamaModel:
    """Return a small transformer over bytes with random weights. ConfigError for invalid sizes."""
    known = [field.name for field in fields(TinyShape)]
    for key, value in (kwargs or {}).items():
        where = f"language.model_kwargs.{key}"
        if key not in known:
            hint = nearest(key, known)
            raise ConfigError(
                f"unknown key '{key}'", key=where, fix=f"did you mean '{hint}'?" if hint else ", ".join(known)
            )
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"expected a whole number of 1 or more, got {value!r}", key=where)
    sizes = TinyShape(**(kwargs or {}))
    if sizes.hidden % sizes.heads or sizes.hidden // sizes.heads % 2:
        raise ConfigError(
            f"{sizes.heads} heads do not divide {sizes.hidden} hidden numbers into equal, even parts",
            key="language.model_kwargs.hidden",
            fix=f"for example {sizes.heads * 32}",
        )
    tokenizer = ByteTokenizer()
    shape = Shape(
        family="llama",
        vocab=tokenizer.vocab_size,
        hidden=sizes.hidden,
        layers=sizes.layers,
        heads=sizes.heads,
        kv_heads=sizes.heads,
        head_dim=sizes.hidden // sizes.heads,
        intermediate=4 * sizes.hidden,
        context=sizes.context,
        norm_eps=1e-5,
        rope={"rope_type": "default", "rope_theta": 10_000.0},
        tied=True,
    )
    model = LlamaModel(shape, tokenizer)
    model.base.draw(generator or torch.Generator().manual_seed(0))
    model.base.to(dtype)
    return model


def find_model(name: str) -> Path:
    """Return the folder of a known name, a path or a hub id, which is downloaded if needed. Raises UserError."""
    if name in KNOWN:
        found = fetched(name)
        if found is None:
            raise ConfigError(
                f"the model '{name}' is not on this machine yet",
                key="language.model",
                fix=f"ludus models get {name}",
            )
        return Path(found["folder"])
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if name.count("/") == 1 and not name.startswith((".", "~", "/")):
        return _from_hub(name)
    known = ["tiny", *KNOWN]
    hint = nearest(name, known)
    raise ConfigError(
        f"model not found: '{name}'",
        key="language.model",
        fix=(f"did you mean '{hint}'? " if hint else "")
        + f"known: {', '.join(known)}; else a folder with config.json, or a hub id as org/name",
    )


def _from_folder(folder: Path, dtype: torch.dtype) -> LanguageModel:
    config = weights.read_config(folder)
    weights.check_size(folder, config)
    try:
        shape = read_shape(config)
        stops = _stop_ids(folder, config)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, ZeroDivisionError) as error:
        raise UserError(
            f"config.json does not describe a model ({type(error).__name__}: {error})",
            where=str(folder),
            fix="take the model's files as they were published",
        ) from error
    if shape is None:
        from ludus.language.models.foreign import load_foreign

        return load_foreign(folder, stops, dtype)
    weights.require_stored(folder, shape.smallest)
    # the weights show whether the head is tied; config.json may omit the family's default
    shape = Shape(**{**vars(shape), "tied": not weights.has_own_head(folder)})
    tokenizer: Tokenizer
    if config.get("ludus_tokenizer") == weights.BYTES:
        tokenizer = ByteTokenizer()
    else:
        tokenizer = load_tokenizer(str(folder), shape.vocab, stops)
    model = LlamaModel(shape, tokenizer)
    model.base.to(dtype)
    weights.read_weights(folder, shape, model.base)
    return model


def _stop_ids(folder: Path, config: Mapping[str, Any]) -> list[int]:
    """Return the tokens that the model's files name as the end of a text."""
    path = folder / "generation_config.json"
    try:
        generation = json.loads(read_plain(path, _LARGEST_JSON, links=True)) if path.is_file() else {}
    except (OSError, RecursionError) as error:
        raise ValueError(f"{path.name}: {error}") from error
    found: list[int] = []
    for ends in (config.get("eos_token_id"), generation.get("eos_token_id")):
        found += [ends] if isinstance(ends, int) else [end for end in ends or () if isinstance(end, int)]
    return found


def _from_hub(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingExtra("a model from the hub", "text") from error
    _log.info("model %s: looking on the hub", name)
    wanted = ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja"]  # no pickled weights
    try:
        return Path(snapshot_download(name, allow_patterns=wanted))
    except Exception as error:  # the hub's client raises many kinds of errors
        raise ConfigError(
            f"the model '{name}' is not a local folder and cannot be downloaded from the hub: "
            f"{str(error).splitlines()[0] if str(error) else type(error).__name__}",
            key="language.model",
            fix="check the name and the connection, or give a folder; `ludus models` lists known names",
        ) from error

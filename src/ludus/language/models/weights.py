"""Weights on disk: a folder in the format of Hugging Face, with config.json and one or more safetensors files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ludus.errors import UserError
from ludus.language.models.llama import LlamaModel, Weights
from ludus.language.models.shape import Shape, as_config
from ludus.language.models.tokenizer import ByteTokenizer
from ludus.plain_files import read_plain

BYTES = "bytes"
"""`ludus_tokenizer` in the config.json of a model whose tokens are single bytes."""
_LARGEST_JSON = 32 << 20
# config keys that determine the size of a model; their names depend on the family
_WIDTHS = ("hidden_size", "n_embd", "d_model", "dim")
_COUNTS = (
    *("vocab_size", "num_hidden_layers", "n_layer", "num_layers", "intermediate_size", "n_inner", "d_ff"),
    *("num_attention_heads", "n_head", "num_heads", "head_dim"),
)


def read_config(folder: Path) -> dict[str, Any]:
    """Return the folder's config.json. UserError if it is missing or is not a JSON object."""
    path = folder / "config.json"
    try:
        config = json.loads(read_plain(path, _LARGEST_JSON, links=True))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(
            "cannot read the model: config.json is missing or damaged", where=str(path), fix=_FOLDER_FIX
        ) from error
    if not isinstance(config, dict):
        raise UserError("config.json is not a JSON object", where=str(path), fix=_FOLDER_FIX)
    return config


def check_size(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise UserError if config.json describes more weights than the files contain: they would be allocated in memory.

    Each token of the vocabulary, each layer and each inner unit has at least one row of the model's width.
    """
    for part in (config, *(value for value in config.values() if isinstance(value, dict))):
        width = max((value for value in map(part.get, _WIDTHS) if isinstance(value, int)), default=1)
        counts = [value for value in map(part.get, _COUNTS) if isinstance(value, int)]
        require_stored(folder, max([1, *counts]) * max(width, 1))


def require_stored(folder: Path, numbers: int) -> None:
    """Raise UserError if the folder's weights are too small for `numbers` numbers of at least one byte."""
    stored = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    if numbers > stored:
        raise UserError(
            f"config.json describes at least {numbers:,} weights, but the files have only {stored:,} bytes",
            where=str(folder),
            fix=_FOLDER_FIX,
        )


def has_own_head(folder: Path) -> bool:
    """Return True if the output layer is stored separately from the embedding."""
    return any(name == "lm_head.weight" for name, _ in _stored(folder))


@torch.no_grad()
def read_weights(folder: Path, shape: Shape, into: Weights) -> None:
    """Copy a folder's weights, stored in any precision, into `into`. Raises UserError."""
    missing = tensors_by_name(shape, into)
    for name, read in _stored(folder):
        target = missing.pop(name, None)
        if target is None:
            continue  # rotary tables of old files, a tied head stored twice
        tensor = read()
        if tensor.shape != target.shape:
            raise UserError(
                f"{name} has shape {tuple(tensor.shape)}, expected {tuple(target.shape)} by config.json",
                where=str(folder),
                fix=_FOLDER_FIX,
            )
        target.copy_(tensor)
    if missing:
        raise UserError(f"missing weights: {next(iter(missing))}", where=str(folder), fix=_FOLDER_FIX)


def tensors_by_name(shape: Shape, weights: Weights) -> dict[str, Tensor]:
    """Return the tensors of a Hugging Face state dict, as views of `weights`."""
    tensors: dict[str, Tensor] = {
        "model.embed_tokens.weight": weights.embed,
        "model.norm.weight": weights.norm,
    }
    if weights.lm_head is not None:
        tensors["lm_head.weight"] = weights.lm_head
    for i in range(shape.layers):
        block, stem = weights.block(i), f"model.layers.{i}"
        tensors[f"{stem}.input_layernorm.weight"] = block.input_norm
        tensors[f"{stem}.post_attention_layernorm.weight"] = block.mlp_norm
        tensors[f"{stem}.self_attn.o_proj.weight"] = block.o
        tensors[f"{stem}.mlp.down_proj.weight"] = block.down
        for name, part in zip("qkv", torch.split(block.qkv, list(shape.qkv_widths)), strict=True):
            tensors[f"{stem}.self_attn.{name}_proj.weight"] = part
        if block.qkv_bias is not None:
            for name, part in zip("qkv", torch.split(block.qkv_bias, list(shape.qkv_widths)), strict=True):
                tensors[f"{stem}.self_attn.{name}_proj.bias"] = part
        if block.q_norm is not None and block.k_norm is not None:
            tensors[f"{stem}.self_attn.q_norm.weight"] = block.q_norm
            tensors[f"{stem}.self_attn.k_norm.weight"] = block.k_norm
        for name, part in zip(("gate", "up"), torch.split(block.gate_up, shape.intermediate), strict=True):
            tensors[f"{stem}.mlp.{name}_proj.weight"] = part
    return {name: tensor.detach() for name, tensor in tensors.items()}


def save_model(model: LlamaModel, folder: Path, *, adapter: str | None = None) -> None:
    """Write the base model, or a trained copy of it, as a folder that `language.model` and transformers read."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = model.stretch(adapter, 0, 0).weights
    tensors = {name: t.contiguous().cpu() for name, t in tensors_by_name(model.shape, weights).items()}
    save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})
    config = as_config(model.shape) | {"torch_dtype": str(model.dtype).removeprefix("torch.")}
    if isinstance(model.tokenizer, ByteTokenizer):
        config["ludus_tokenizer"] = BYTES
    model.tokenizer.save(folder)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def _stored(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the names of the stored tensors, each with a function that reads it."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            listed = json.loads(read_plain(index, _LARGEST_JSON, links=True))["weight_map"].values()
            # only files of this folder: the index may contain other paths
            files = sorted({folder / Path(name).name for name in listed})
        except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                "cannot read the index of the weights", where=str(index), fix=_FOLDER_FIX
            ) from error
    else:
        files = [folder / "model.safetensors"]
    for path in files:
        if not path.is_file():
            raise UserError("weights not found", where=str(path), fix=_FOLDER_FIX)
        try:
            with safe_open(str(path), framework="pt") as stored:
                for name in stored.keys():  # noqa: SIM118  # not a dict
                    yield name, lambda name=name: stored.get_tensor(name)
        except SafetensorError as error:
            raise UserError(f"damaged weights: {error}", where=str(path), fix=_FOLDER_FIX) from error


_FOLDER_FIX = "a model folder holds config.json, model.safetensors and the tokenizer's files"

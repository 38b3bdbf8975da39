"""Adapters as PEFT stores them: adapter_config.json and adapter_model.safetensors, in a folder or a zip."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from ludus.config.language import AdapterConfig
from ludus.errors import UserError
from ludus.language.models.foreign import ForeignModel
from ludus.language.models.low_rank import LowRank
from ludus.language.models.model import LanguageModel
from ludus.plain_files import read_plain
from ludus.runs import atomic

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
# limit for a zip bomb; the weights of an adapter do not compress well
_MAX_BYTES, _ALWAYS_FINE, _LARGEST_RATIO = 8 << 30, 64 << 20, 20
_LARGEST_CONFIG = 4 << 20
_LARGEST_RANK = 65_536
# settings of PEFT that change the result of an adapter, with the supported value
_PLAIN = {"use_dora": False, "use_rslora": False, "bias": "none", "rank_pattern": {}, "alpha_pattern": {}}


def read_peft(source: str | Path) -> tuple[AdapterConfig, dict[str, Tensor]]:
    """Read settings and weights of the adapter in a folder or zip, or in a folder inside it. Raises UserError."""
    path = Path(source).expanduser()
    files = _from_zip(path) if path.is_file() else _from_folder(path)
    try:
        settings = json.loads(files[CONFIG])
        kind = str(settings.get("peft_type", "")).upper()
        rank, alpha = int(settings["r"]), float(settings["lora_alpha"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise UserError(f"{CONFIG} does not describe a LoRA adapter", where=str(path), fix=_FIX) from error
    odd = [key for key, plain in _PLAIN.items() if (settings.get(key) or plain) != plain]
    if kind != "LORA" or odd:
        what = f"{odd[0]}: {settings[odd[0]]}" if odd else f"peft_type: {kind}"
        raise UserError(
            f"an adapter of a kind that Ludus does not compute ({what})", where=str(path), fix=_FIX
        )
    try:
        stored: dict[str, Tensor] = load_safetensors(files[WEIGHTS])
    except SafetensorError as error:
        raise UserError(f"damaged weights: {error}", where=str(path), fix=_FIX) from error
    # newer versions of PEFT omit the adapter's name, older ones write `lora_A.default.weight`
    tensors = {name.replace(".default.weight", ".weight"): tensor for name, tensor in stored.items()}
    paths = {name.split(".lora_")[0].removeprefix("base_model.model.") for name in tensors}
    # the stored weights determine the size: a false rank in the config could allocate any amount of memory
    odd = [name for name, tensor in tensors.items() if ".lora_A." in name and tensor.shape[:1] != (rank,)]
    if odd or not tensors or not 0 < rank <= _LARGEST_RANK or not math.isfinite(alpha):
        raise UserError(f"{CONFIG} has rank {rank}, the weights have another", where=str(path), fix=_FIX)
    config = AdapterConfig(rank=rank, alpha=alpha, targets=sorted(paths))
    return config, tensors


def export_peft(model: LanguageModel, name: str, folder: Path, *, base: str) -> None:
    """Write the adapter `name` in PEFT's format; `base` is the name of the base model for users of PEFT.

    Raises UserError for a copy of all weights, which PEFT cannot store as an adapter.
    """
    adapter = model.adapter(name)
    if not isinstance(adapter, LowRank):
        raise UserError(
            f"'{name}' holds all weights of the model, and PEFT stores low-rank adapters",
            fix="train with language.adapter set, or save the whole model",
        )
    transposed = isinstance(model, ForeignModel) and model.transposed
    write_peft(
        folder,
        adapter.named(),
        rank=adapter.rank,
        alpha=adapter.alpha,
        targets=adapter.targets(),
        base=base,
        transposed=transposed,
    )


def write_peft(
    folder: Path,
    tensors: Mapping[str, Tensor],
    *,
    rank: int,
    alpha: float,
    targets: list[str],
    base: str,
    transposed: bool = False,
) -> None:
    """Do the same for an adapter's tensors, with the names of `adapter_tensors`.

    `transposed`: the layers store their weights transposed (GPT-2).
    """
    settings: dict[str, Any] = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "target_modules": targets,
        "inference_mode": True,
        "fan_in_fan_out": transposed,
        **_PLAIN,
    }
    whole = {key: tensor.detach().contiguous().cpu() for key, tensor in tensors.items()}
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write_atomic(folder / WEIGHTS, save_safetensors(whole, metadata={"format": "pt"}))
    atomic.write_atomic(folder / CONFIG, json.dumps(settings, indent=2) + "\n")


def _from_folder(path: Path) -> dict[str, bytes]:
    for folder in (path, *sorted(p for p in path.glob("*") if p.is_dir())):
        if (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file():
            config = read_plain(folder / CONFIG, _LARGEST_CONFIG, links=True)
            return {CONFIG: config, WEIGHTS: (folder / WEIGHTS).read_bytes()}
    raise UserError("cannot read an adapter", where=str(path), fix=_FIX)


def _from_zip(path: Path) -> dict[str, bytes]:
    """Read the two files of the zip, in any folder of it, without unpacking it."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = {}
            for name in (CONFIG, WEIGHTS):
                entries = [e for e in archive.infolist() if Path(e.filename).name == name]
                if len(entries) == 1 and entries[0].file_size <= _most(entries[0]):
                    found[name] = archive.read(entries[0])
    except Exception as error:  # zipfile's own errors, and those of each compression
        raise UserError(f"cannot read the zip: {error}", where=str(path), fix=_FIX) from error
    if len(found) < 2:
        raise UserError("expected exactly one adapter in this zip", where=str(path), fix=_FIX)
    return found


def _most(entry: zipfile.ZipInfo) -> int:
    return min(_MAX_BYTES, _ALWAYS_FINE + _LARGEST_RATIO * entry.compress_size)


_FIX = f"a folder or zip with {CONFIG} (LoRA) and {WEIGHTS}; pickled weights are not read"

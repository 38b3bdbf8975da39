"""Causal models of other families, computed by transformers behind the same interface.

Sampling is slower than with the families of llama.py; training works in the same way.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as compute_twice

from ludus.errors import MissingExtra, UserError
from ludus.language.models.low_rank import Layer, LowRank
from ludus.language.models.model import LanguageModel
from ludus.language.models.segments import Bucket, Packing
from ludus.language.models.tokenizer import Tokenizer, first_line, load_tokenizer

_CACHE, _STATES = "past_key_values", "cache_params"
"""Names of the cache argument; the second is used by families without attention."""


class ForeignModel(LanguageModel):
    """A transformers model. Adapters are added to the outputs of its linear layers while it runs."""

    def __init__(self, inner: Any, tokenizer: Tokenizer) -> None:
        context = getattr(inner.config, "max_position_embeddings", None)
        super().__init__(tokenizer, int(context or 2048))
        self.base = inner.requires_grad_(False)
        self._beside: LowRank | None = None
        takes = inspect.signature(_decoder(inner).forward).parameters
        self._cache_name = next((name for name in (_CACHE, _STATES) if name in takes), None)
        self._layers = _linear_layers(inner)
        self._watch(inner)

    @property
    def width(self) -> int:
        return int(self.base.get_output_embeddings().weight.shape[1])

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.base.dtype
        return dtype

    @property
    def device(self) -> torch.device:
        device: torch.device = self.base.device
        return device

    @property
    def transposed(self) -> bool:
        """True if its linear layers store their weights transposed, like GPT-2."""
        return any(type(module).__name__ == "Conv1D" for module in self.base.modules())

    def products(self) -> dict[str, list[Layer]]:
        return {layer.path: [layer] for layer in self._layers}

    def unadapted(self) -> list[str]:
        found = [f"{path} (not part of the language model)" for path in _other_parts(self.base)]
        return found + [f"{path} (experts fused into one tensor)" for path in _fused_experts(self.base)]

    def hidden(
        self,
        tokens: Tensor,
        positions: Tensor,
        segments: Tensor,
        *,
        adapter: str | None,
        checkpoint: bool = False,
    ) -> Tensor:
        packing = Packing.of(segments)
        flat_tokens, flat_positions = (part.flatten()[packing.tokens] for part in (tokens, positions))
        parts = zip(packing.buckets, packing.split(flat_tokens), packing.split(flat_positions), strict=True)
        twice = checkpoint and torch.is_grad_enabled()
        found = [self._of_bucket(*part, adapter=adapter, checkpoint=twice) for part in parts]
        room = torch.zeros(tokens.numel(), self.width, dtype=self.dtype, device=tokens.device)
        if found:
            room = room.index_copy(0, packing.tokens, torch.cat(found))
        return room.view(*tokens.shape, self.width)

    def _of_bucket(
        self, bucket: Bucket, tokens: Tensor, positions: Tensor, *, adapter: str | None, checkpoint: bool
    ) -> Tensor:
        """Return the last hidden states [n, D] of a bucket's flat tokens."""
        ids, places = bucket.side_by_side(tokens), bucket.side_by_side(positions)
        seen = bucket.side_by_side(torch.ones_like(tokens))

        def run() -> Tensor:
            return self.run(ids, places, seen, adapter)[0]

        found = compute_twice(run, use_reentrant=False) if checkpoint else run()
        assert isinstance(found, Tensor)
        return bucket.flat(found)

    def run(
        self, ids: Tensor, positions: Tensor, seen: Tensor, adapter: str | None, cache: Any = None
    ) -> tuple[Tensor, Any]:
        """Return the last hidden states of padded rows, and the updated cache."""
        module = None if adapter is None else self.adapter(adapter)
        kept: dict[str, Any] = {} if self._cache_name is None or cache is None else {self._cache_name: cache}
        # states that continue have no padding to mask
        mask = None if _STATES in kept and seen.shape[1] > ids.shape[1] else seen
        self._beside = module if isinstance(module, LowRank) else None
        try:
            out = _decoder(self._inner(adapter))(
                input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=bool(kept), **kept
            )
        finally:
            self._beside = None
        return out.last_hidden_state, out[self._cache_name] if kept else None

    def new_cache(self) -> Any:
        """Return an empty cache for the model. Raises ValueError if it has none."""
        from transformers import DynamicCache

        if self._cache_name is None:
            raise ValueError(f"the model does not accept {_CACHE} or {_STATES}")
        return DynamicCache(config=self.base.config.get_text_config(decoder=True))

    def head(self, hidden: Tensor, *, adapter: str | None) -> Tensor:
        inner = self._inner(adapter)
        config = inner.config.get_text_config()
        found: Tensor = inner.get_output_embeddings()(hidden).float()
        for name, power in (("logit_scale", 1), ("lm_head_multiplier", 1), ("logits_scaling", -1)):
            if scale := getattr(config, name, None):  # Cohere's, Falcon-H1's, Granite's
                found = found * float(scale) ** power
        cap = getattr(config, "final_logit_softcapping", None)
        return found if cap is None else torch.tanh(found / cap) * cap

    def _inner(self, adapter: str | None) -> Any:
        module = None if adapter is None else self.adapter(adapter)
        return self.base if module is None or isinstance(module, LowRank) else module

    def _whole_copy(self) -> nn.Module:
        copied = copy.deepcopy(self.base)
        for path in [layer.path for layer in self._layers]:
            copied.get_submodule(path)._forward_hooks.clear()  # they are those of the base's own layers
        return copied.requires_grad_(True)  # type: ignore[no-any-return]

    def _watch(self, inner: nn.Module) -> None:
        for layer in self._layers:

            def add(module: nn.Module, args: Any, output: Any, path: str = layer.path) -> Any:
                pair = None if self._beside is None else self._beside.product(path)
                if pair is None or not isinstance(output, Tensor):  # Llama 4's routers return scores too
                    return output
                x = args[0].flatten(0, -2)
                return pair.add_to(x, [output.flatten(0, -2)], (0,))[0].view_as(output)

            inner.get_submodule(layer.path).register_forward_hook(add)


def load_foreign(folder: Path, stop_ids: Sequence[int], dtype: torch.dtype) -> ForeignModel:
    """Load the causal model in `folder` through transformers.

    Raises MissingExtra, and UserError if it is not a causal model, or if its family cannot be sampled or trained.
    """
    from ludus.language.models.foreign_checks import check_family

    try:
        from transformers import AutoModelForCausalLM
    except ImportError as error:
        raise MissingExtra("this family of models", "text") from error
    try:
        inner: Any = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=dtype, use_safetensors=True, trust_remote_code=False
        )
    except Exception as error:  # each family raises different errors
        raise UserError(
            f"transformers cannot read this model: {first_line(error)}",
            where=str(folder),
            fix="a causal model with safetensors weights that the installed transformers knows",
        ) from error
    tokenizer = load_tokenizer(str(folder), int(inner.get_output_embeddings().weight.shape[0]), stop_ids)
    model = ForeignModel(inner.eval(), tokenizer)
    check_family(model, folder)
    return model


def _decoder(inner: Any) -> Any:
    """Return the model without its output layer; if the family does not name it, the part with the embedding."""
    if inner.base_model is not inner:
        return inner.base_model
    embedding = inner.get_input_embeddings()
    return next(part for part in inner.children() if any(one is embedding for one in part.modules()))


def _linear_layers(inner: Any) -> list[Layer]:
    """Return the linear layers of the language model, without the output layer and without vision or audio towers.

    GPT-2 has its own class of layers, with transposed weights.
    """
    found = []
    head, decoder = inner.get_output_embeddings(), _decoder_path(inner)
    for path, module in inner.named_modules():
        if module is head or not f"{path}.".startswith(decoder):
            continue
        if isinstance(module, nn.Linear):
            found.append(Layer(path, module.in_features, module.out_features))
        elif type(module).__name__ == "Conv1D":
            found.append(Layer(path, module.weight.shape[0], module.weight.shape[1]))
    return found


def _decoder_path(inner: Any) -> str:
    """Return the path of the text decoder, with a dot at its end; empty if it is the whole model."""
    decoder = inner.get_decoder()
    return next((f"{path}." for path, module in inner.named_modules() if module is decoder and path), "")


def _other_parts(inner: Any) -> list[str]:
    """Return the largest parts with linear layers that are outside the language model, such as a vision tower."""
    decoder, head = _decoder_path(inner), inner.get_output_embeddings()
    depth = decoder.rstrip(".").count(".")
    outside = [
        path
        for path, module in inner.named_modules()
        if isinstance(module, nn.Linear) and module is not head and not path.startswith(decoder)
    ]
    return sorted({".".join(path.split(".")[: depth + 1]) for path in outside})


def _fused_experts(inner: Any) -> list[str]:
    """Return the tensors that hold a weight for each expert, with `*` for the number of the layer."""
    decoder, found = _decoder_path(inner), set()
    for path, module in inner.named_modules():
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d) or not f"{path}.".startswith(decoder):
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.dim() == 3:
                found.add(re.sub(r"\.\d+\.", ".*.", f"{path}.{name}"))
    return sorted(found)

"""Causal models of other families, computed by transformers behind the same interface.

Slower to sample from than the families written out in llama.py; for training, everything else is the same.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as compute_twice

from ludus.errors import MissingExtra, UserError
from ludus.language.models.low_rank import Layer, LowRank
from ludus.language.models.model import LanguageModel
from ludus.language.models.segments import Packing
from ludus.language.models.tokenizer import Tokenizer, first_line, load_tokenizer


class ForeignModel(LanguageModel):
    """A transformers model. Adapters are added to the outputs of its linear layers while it runs."""

    def __init__(self, inner: Any, tokenizer: Tokenizer) -> None:
        context = getattr(inner.config, "max_position_embeddings", None)
        super().__init__(tokenizer, int(context or 2048))
        self.base = inner.requires_grad_(False)
        self._beside: LowRank | None = None
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
        """Its linear layers store their weights the other way round, as GPT-2's do."""
        return any(type(module).__name__ == "Conv1D" for module in self.base.modules())

    def products(self) -> dict[str, list[Layer]]:
        return {layer.path: [layer] for layer in self._layers}

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
        ids, places = packing.side_by_side(flat_tokens), packing.side_by_side(flat_positions)
        seen = packing.side_by_side(torch.ones_like(flat_tokens))

        def run() -> Tensor:
            return self.run(ids, places, seen, adapter)[0]

        found = compute_twice(run, use_reentrant=False) if checkpoint and torch.is_grad_enabled() else run()
        assert isinstance(found, Tensor)
        room = found.new_zeros(tokens.numel(), found.shape[-1])
        return room.index_copy(0, packing.tokens, packing.flat(found)).view(*tokens.shape, self.width)

    def run(
        self, ids: Tensor, positions: Tensor, seen: Tensor, adapter: str | None, cache: Any = None
    ) -> tuple[Tensor, Any]:
        """Last hidden states of padded rows, and the cache of keys and values that now holds them too."""
        inner = self._inner(adapter)
        module = None if adapter is None else self.adapter(adapter)
        self._beside = module if isinstance(module, LowRank) else None
        try:
            out = inner.base_model(
                input_ids=ids,
                attention_mask=seen,
                position_ids=positions,
                past_key_values=cache,
                use_cache=cache is not None,
            )
        finally:
            self._beside = None
        return out.last_hidden_state, out.past_key_values if cache is not None else None

    def head(self, hidden: Tensor, *, adapter: str | None) -> Tensor:
        inner = self._inner(adapter)
        found: Tensor = inner.get_output_embeddings()(hidden).float()
        cap = getattr(inner.config.get_text_config(), "final_logit_softcapping", None)
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

            def add(module: nn.Module, args: Any, output: Tensor, path: str = layer.path) -> Tensor:
                pair = None if self._beside is None else self._beside.product(path)
                if pair is None:
                    return output
                x = args[0].flatten(0, -2)
                return pair.add_to(x, [output.flatten(0, -2)], (0,))[0].view_as(output)

            inner.get_submodule(layer.path).register_forward_hook(add)


def load_foreign(folder: Path, stop_ids: Sequence[int], dtype: torch.dtype) -> ForeignModel:
    """Load the causal model in `folder` through transformers. Raises UserError where it is not one, MissingExtra."""
    try:
        from transformers import AutoModelForCausalLM
    except ImportError as error:
        raise MissingExtra("this family of models", "text") from error
    try:
        inner: Any = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=dtype, use_safetensors=True, trust_remote_code=False
        )
    except Exception as error:  # each of its families raises what it stumbles over
        raise UserError(
            f"transformers cannot read this model: {first_line(error)}",
            where=str(folder),
            fix="a causal model with safetensors weights that the installed transformers knows",
        ) from error
    tokenizer = load_tokenizer(str(folder), int(inner.get_output_embeddings().weight.shape[0]), stop_ids)
    model = ForeignModel(inner.eval(), tokenizer)
    _check_head(model, folder)
    return model


@torch.no_grad()
def _check_head(model: ForeignModel, folder: Path) -> None:
    """Some families do more after their last layer than multiply: better refused than trained wrongly."""
    ids = torch.arange(1, 9, device=model.device)[None]
    ones = torch.ones_like(ids)
    ours = model.head(model.hidden(ids, ones.cumsum(1) - 1, ones, adapter=None), adapter=None)
    theirs = model.base(input_ids=ids).logits.float()
    if not torch.allclose(ours, theirs, atol=1e-3 if model.dtype == torch.float32 else 0.1):
        kind = model.base.config.model_type
        raise UserError(
            f"models of the family '{kind}' compute their logits in a way that Ludus does not know",
            where=str(folder),
            fix="use a model of another family, as Llama, Mistral, Qwen, GPT-2 or GPT-NeoX",
        )


def _linear_layers(inner: Any) -> list[Layer]:
    """All linear layers but the output layer. GPT-2's are of a class of their own, with weights transposed."""
    found = []
    head = inner.get_output_embeddings()
    for path, module in inner.named_modules():
        if module is head:
            continue
        if isinstance(module, nn.Linear):
            found.append(Layer(path, module.in_features, module.out_features))
        elif type(module).__name__ == "Conv1D":
            found.append(Layer(path, module.weight.shape[0], module.weight.shape[1]))
    return found

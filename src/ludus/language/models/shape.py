"""The sizes of a Llama-like transformer, read from and written as a Hugging Face config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
_ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
_ROPE_SCALINGS = ("default", "linear", "llama3")


@dataclass(frozen=True)
class Shape:
    """The sizes of a model, by their usual names."""

    family: str
    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    context: int
    norm_eps: float
    rope: Mapping[str, Any]
    """`rope_type`, `rope_theta`, and what the type needs."""
    tied: bool

    @property
    def qkv_bias(self) -> bool:
        return self.family == "qwen2"

    @property
    def qk_norm(self) -> bool:
        return self.family == "qwen3"

    @property
    def qkv_widths(self) -> tuple[int, int, int]:
        kv = self.kv_heads * self.head_dim
        return self.heads * self.head_dim, kv, kv

    @property
    def smallest(self) -> int:
        """Return the number of weights in its matrices, without biases, norms and a separate head."""
        block = sum(self.qkv_widths) + self.qkv_widths[0] + 3 * self.intermediate
        return self.hidden * (self.vocab + self.layers * block)

    def frequencies(self) -> Tensor:
        """Of the rotary embedding: radians per position, one for each pair of a head's numbers. Float32."""
        exponents = torch.arange(0, self.head_dim, 2, dtype=torch.int64).float() / self.head_dim
        frequencies = 1.0 / (float(self.rope["rope_theta"]) ** exponents)
        kind = self.rope["rope_type"]
        if kind == "linear":
            return frequencies / float(self.rope["factor"])
        if kind != "llama3":
            return frequencies
        # Llama 3.1: low frequencies are scaled, high ones kept, those between interpolated
        factor, low, high = (float(self.rope[k]) for k in ("factor", "low_freq_factor", "high_freq_factor"))
        turns = float(self.rope["original_max_position_embeddings"]) * frequencies / (2 * torch.pi)
        blend = ((turns - low) / (high - low)).clamp(0.0, 1.0)
        return frequencies * (blend + (1 - blend) / factor)


def read_shape(config: Mapping[str, Any]) -> Shape | None:
    """Return the shape that a config.json describes; None if llama.py does not support it."""
    family = str(config.get("model_type", ""))
    rope = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    rope["rope_type"] = rope.get("rope_type", rope.pop("type", "default"))
    rope.setdefault("rope_theta", config.get("rope_theta", 10_000.0))
    covered = (
        family in FAMILIES
        and config.get("hidden_act", "silu") == "silu"
        and rope["rope_type"] in _ROPE_SCALINGS
        and not (config.get("attention_bias") and family in ("llama", "qwen3"))
        and not config.get("mlp_bias")
        and not (config.get("use_sliding_window") and config.get("sliding_window"))
        and float(config.get("partial_rotary_factor", rope.get("partial_rotary_factor", 1.0))) == 1.0
    )
    if not covered:
        return None
    heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
    context = int(config.get("max_position_embeddings", 2048))
    if family == "mistral" and config.get("sliding_window"):
        context = min(context, int(config["sliding_window"]))  # up to this length the window has no effect
    return Shape(
        family=family,
        vocab=int(config["vocab_size"]),
        hidden=hidden,
        layers=int(config["num_hidden_layers"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or hidden // heads),
        intermediate=int(config["intermediate_size"]),
        context=context,
        norm_eps=float(config.get("rms_norm_eps", 1e-6)),
        rope=rope,
        tied=bool(config.get("tie_word_embeddings", False)),
    )


def as_config(shape: Shape) -> dict[str, Any]:
    """Return a config.json from which transformers builds the same model."""
    return {
        "architectures": [_ARCHITECTURES[shape.family]],
        "model_type": shape.family,
        "vocab_size": shape.vocab,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.intermediate,
        "max_position_embeddings": shape.context,
        "rms_norm_eps": shape.norm_eps,
        "rope_parameters": dict(shape.rope),
        "rope_theta": shape.rope["rope_theta"],
        "tie_word_embeddings": shape.tied,
        "hidden_act": "silu",
    }

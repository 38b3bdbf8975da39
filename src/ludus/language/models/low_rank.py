"""LoRA: a pair of narrow matrices added to each chosen linear layer; the layer's own weights stay as they are.

A model computes layers that share their input (query, key and value; gate and up) in one matrix product. Such a group
is called a *product* here. The A matrices of its layers are one tensor, so that they are one matrix product too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ludus.algorithms.peers import put
from ludus.config.language import AdapterConfig
from ludus.errors import ConfigError, UserError, nearest


@dataclass(frozen=True)
class Layer:
    """One linear layer to which an adapter can be added."""

    path: str
    """Its name in a Hugging Face state dict, without `.weight`: model.layers.0.self_attn.q_proj"""
    inputs: int
    outputs: int
    offset: int = 0
    """Index of its first output among those of its product."""

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    def is_called(self, name: str) -> bool:
        """Return True if `name` is its path, or the end of it."""
        return f".{self.path}".endswith(f".{name}")

    @property
    def kind(self) -> Literal["attention", "mlp"]:
        return "attention" if "attn" in self.path or "attention" in self.path else "mlp"


def chosen(config: AdapterConfig, products: Mapping[str, Sequence[Layer]]) -> dict[str, list[Layer]]:
    """Return the layers that `config.targets` names, by product. ConfigError for a name without a layer."""
    layers = [layer for product in products.values() for layer in product]
    targets = config.targets
    if isinstance(targets, list):
        names = sorted({layer.name for layer in layers})
        for target in targets:
            if not any(layer.is_called(target) for layer in layers):
                hint = nearest(target, names)
                raise ConfigError(
                    f"the model has no linear layer '{target}'",
                    key="language.adapter.targets",
                    fix=f"did you mean '{hint}'?" if hint else f"one of {', '.join(names)}",
                )

    def fits(layer: Layer) -> bool:
        if isinstance(targets, list):
            return any(layer.is_called(target) for target in targets)
        return targets == "all-linear" or layer.kind == targets

    picked = {name: [layer for layer in product if fits(layer)] for name, product in products.items()}
    return {name: product for name, product in picked.items() if product}


class LowRankProduct(nn.Module):
    """The A and B matrices of one product's layers: all A stacked in `a`, and each layer's B."""

    def __init__(self, layers: Sequence[Layer], rank: int, scale: float) -> None:
        super().__init__()
        self.layers = list(layers)
        self.rank = rank
        self.scale = scale
        self.a = nn.Parameter(torch.empty(len(layers) * rank, layers[0].inputs))
        self.b = nn.ParameterList(torch.zeros(layer.outputs, rank) for layer in layers)

    def add_to(self, x: Tensor, parts: list[Tensor], offsets: Sequence[int]) -> list[Tensor]:
        """Return `parts` (the product's outputs, split by layer at `offsets`) plus the adapter; differentiable."""
        narrow = torch.split(F.linear(x, self.a.to(x.dtype)), self.rank, dim=-1)
        parts = list(parts)
        for layer, h, b in zip(self.layers, narrow, self.b, strict=True):
            i = offsets.index(layer.offset)
            parts[i] = torch.addmm(parts[i], h, b.to(x.dtype).t(), alpha=self.scale)
        return parts

    def add_in_place(self, x: Tensor, y: Tensor) -> None:
        """Do the same in place on the product's unsplit output `y`; for inference."""
        narrow = F.linear(x, self.a.to(x.dtype))
        for i, (layer, b) in enumerate(zip(self.layers, self.b, strict=True)):
            here = y[:, layer.offset : layer.offset + layer.outputs]
            h = narrow[:, i * self.rank : (i + 1) * self.rank]
            here.addmm_(h, b.to(x.dtype).t(), alpha=self.scale)


class LowRank(nn.Module):
    """An adapter: a LowRankProduct for every product with a chosen layer. Weights are float32.

    A new adapter changes nothing: A is initialised as in PEFT, B is zero.
    """

    def __init__(
        self,
        config: AdapterConfig,
        products: Mapping[str, Sequence[Layer]],
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.rank = config.rank
        self.alpha = config.alpha
        scale = config.alpha / config.rank
        self._products = {
            name: LowRankProduct(layers, config.rank, scale)
            for name, layers in chosen(config, products).items()
        }
        for i, product in enumerate(self._products.values()):
            self.add_module(str(i), product)  # names of products hold dots, which torch does not allow
            bound = 1 / math.sqrt(product.layers[0].inputs)
            with torch.no_grad():
                product.a.uniform_(-bound, bound, generator=generator)

    def product(self, name: str) -> LowRankProduct | None:
        return self._products.get(name)

    def targets(self) -> list[str]:
        """Return the names of its layers, as in PEFT's `target_modules`."""
        return sorted({layer.name for product in self._products.values() for layer in product.layers})

    def named(self) -> dict[str, Tensor]:
        """Return the weights by PEFT's names, as views: writing to them changes the adapter."""
        found: dict[str, Tensor] = {}
        for product in self._products.values():
            for i, layer in enumerate(product.layers):
                stem = f"base_model.model.{layer.path}"
                rows = slice(i * product.rank, (i + 1) * product.rank)
                found[f"{stem}.lora_A.weight"] = product.a.detach()[rows]
                found[f"{stem}.lora_B.weight"] = product.b[i].detach()
        return found

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Load weights by PEFT's names. UserError if names or shapes do not match."""
        copy_named(self.named(), tensors)


@torch.no_grad()
def copy_named(into: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Copy each tensor to the target of its name. UserError, without a change, unless all names and shapes match."""
    odd = sorted(set(into) ^ set(tensors))
    odd += [name for name in into if name in tensors and into[name].shape != tensors[name].shape]
    if odd:
        raise UserError(
            f"weights that do not fit the adapter: {odd[0]}"
            + (f" and {len(odd) - 1} more" if len(odd) > 1 else ""),
            fix="use the model, rank and targets it was made with",
        )
    for name, target in into.items():
        put(target, tensors[name])

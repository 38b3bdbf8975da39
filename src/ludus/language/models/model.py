"""Interface of a language model for players and learners: hidden states and logits of tokens, and named adapters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from ludus.algorithms.peers import Shard, whole
from ludus.config.language import AdapterConfig
from ludus.errors import ConfigError, UserError
from ludus.language.models.low_rank import Layer, LowRank, copy_named
from ludus.language.models.tokenizer import Tokenizer


class LanguageModel(nn.Module, ABC):
    """Frozen base weights and named adapters: low-rank ones, or copies of all weights.

    `adapter=None` in any call means the base. An adapter with a config of None is a copy of all weights: so training
    all weights is training an adapter, and the starting weights remain available for comparison.
    """

    def __init__(self, tokenizer: Tokenizer, context: int) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.context = context
        """Maximum sequence length of the model."""
        self._adapters: dict[str, nn.Module] = {}
        self._shard: Shard | None = None

    @abstractmethod
    def hidden(
        self,
        tokens: Tensor,
        positions: Tensor,
        segments: Tensor,
        *,
        adapter: str | None,
        checkpoint: bool = False,
    ) -> Tensor:
        """Return the last hidden states [B, T, D] of rows [B, T] that may contain several sequences each.

        `segments`: 0 is padding (the output is zero); a token attends to earlier tokens of its row with the same
        number, which must be adjacent. `positions` count from 0 within each. `checkpoint` computes activations
        twice instead of keeping them.
        """

    @abstractmethod
    def head(self, hidden: Tensor, *, adapter: str | None) -> Tensor:
        """Return the logits [..., vocab] in float32 of the result of `hidden` with the same adapter."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Size D of the hidden states."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype: ...

    @property
    @abstractmethod
    def device(self) -> torch.device: ...

    def unadapted(self) -> list[str]:
        """Return the parts with weights that no low-rank adapter is added to, each with the reason."""
        return []

    @abstractmethod
    def products(self) -> dict[str, list[Layer]]:
        """Return the linear layers that adapters may be added to; those that share their input have one name."""

    @abstractmethod
    def _whole_copy(self) -> nn.Module:
        """Return a copy of the base weights."""

    def shard(self, by: Shard) -> None:
        """Shard the base and every full copy, including later ones. Low-rank adapters are not sharded."""
        raise ConfigError(
            "only the families that Ludus computes itself (Llama, Mistral, Qwen, tiny) can be sharded",
            key="scale.strategy",
            fix="strategy: ddp",
        )

    @property
    def adapters(self) -> list[str]:
        return list(self._adapters)

    def add_adapter(
        self, name: str, config: AdapterConfig | None, generator: torch.Generator | None = None
    ) -> None:
        """Add an adapter that changes nothing yet, or with `config.start` the adapter of that PEFT folder or zip.

        Its rank, alpha and targets are then those of the file. With `config` None, add a copy of all weights. UserError
        if the name is in use.
        """
        if name in self._adapters:
            raise UserError(f"the model has an adapter '{name}' already")
        adapter: nn.Module
        if config is None:
            adapter = self._whole_copy()
        elif config.start is None:
            adapter = LowRank(config, self.products(), generator)
        else:
            from ludus.language.models.peft_files import read_peft

            stored, tensors = read_peft(config.start)
            try:
                adapter = LowRank(stored, self.products(), generator)
                adapter.load(tensors)
            except UserError as error:
                raise ConfigError(
                    f"the adapter in {config.start} was made for another model: {error.what}",
                    key="language.adapter.start",
                    fix="set language.model to the model below it",
                ) from error
        self._adapters[name] = adapter.to(self.device)
        # a name may hold any character, a module's may not
        self.add_module(f"adapter_{name.encode().hex()}", self._adapters[name])

    def remove_adapter(self, name: str) -> None:
        self.adapter(name)
        del self._adapters[name]
        delattr(self, f"adapter_{name.encode().hex()}")

    def adapter(self, name: str) -> nn.Module:
        """Return the adapter's module. UserError for an unknown name."""
        try:
            return self._adapters[name]
        except KeyError:
            known = ", ".join(self._adapters) or "none"
            raise UserError(f"the model has no adapter '{name}'", fix=f"there are: {known}") from None

    def trainable(self, name: str) -> list[nn.Parameter]:
        return list(self.adapter(name).parameters())

    def adapter_tensors(self, name: str) -> dict[str, Tensor]:
        """Return its weights by name, detached but not copied: PEFT's names, or those of a full copy's parameters."""
        return {key: whole(value) for key, value in self._places(name).items()}

    def load_adapter_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Copy weights into an adapter. UserError if names or shapes do not match."""
        copy_named(self._places(name), tensors)

    def _places(self, name: str) -> dict[str, Tensor]:
        """Return its weights as views; this process's part if they are sharded."""
        adapter = self.adapter(name)
        if isinstance(adapter, LowRank):
            return adapter.named()
        return {key: value.detach() for key, value in adapter.named_parameters()}


def whole_rows(lengths: Sequence[int], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return `positions` and `segments` [B, T] of rows with one sequence each, padded at the end."""
    longest = max(lengths, default=0)
    columns = torch.arange(longest, device=device).expand(len(lengths), longest)
    inside = columns < torch.tensor(lengths, device=device)[:, None]
    return columns * inside, inside.long()

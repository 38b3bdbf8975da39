"""A language model as players and learners see it: tokens in, hidden states and logits out, adapters by name."""

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
    """Base weights that stay as they are, and named adapters: low-rank ones, or whole copies of the weights.

    `adapter=None` in any call means the base itself. An adapter made with a config of None is a whole copy, so that
    training all weights is training an adapter like any other, and the start stays there to be compared with.
    """

    def __init__(self, tokenizer: Tokenizer, context: int) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.context = context
        """Longest sequence the model was made for."""
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
        """Last hidden states [B, T, D] of rows [B, T] that may hold several sequences each.

        `segments`: 0 is padding (zeros come out); a token attends to those before it in its row with the same
        number, which stand side by side. `positions` count from 0 within each. `checkpoint` computes activations
        twice instead of keeping them.
        """

    @abstractmethod
    def head(self, hidden: Tensor, *, adapter: str | None) -> Tensor:
        """Logits [..., vocab] in float32 from what `hidden` gave with the same adapter: a whole copy's are its own."""

    @property
    @abstractmethod
    def width(self) -> int:
        """D of `hidden`."""

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
        """The base weights once more."""

    def shard(self, by: Shard) -> None:
        """Keep a part of the base and of every whole copy, of those to come too. Low-rank adapters stay whole."""
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
        """A new adapter that changes nothing yet, or with `config.start` the one in that PEFT folder or zip.

        Its rank, alpha and targets are then the file's. With `config` None: a whole copy of the weights. Raises
        UserError when the name is taken.
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
        """The adapter's module; raises UserError for a name that is not there."""
        try:
            return self._adapters[name]
        except KeyError:
            known = ", ".join(self._adapters) or "none"
            raise UserError(f"the model has no adapter '{name}'", fix=f"there are: {known}") from None

    def trainable(self, name: str) -> list[nn.Parameter]:
        return list(self.adapter(name).parameters())

    def adapter_tensors(self, name: str) -> dict[str, Tensor]:
        """Its weights by name, detached but not copied: PEFT's names, or those of a whole copy's parameters."""
        return {key: whole(value) for key, value in self._places(name).items()}

    def load_adapter_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Copy weights into an adapter; raises UserError when names or shapes do not fit."""
        copy_named(self._places(name), tensors)

    def _places(self, name: str) -> dict[str, Tensor]:
        """Return its weights as views; of sharded ones this process's part."""
        adapter = self.adapter(name)
        if isinstance(adapter, LowRank):
            return adapter.named()
        return {key: value.detach() for key, value in adapter.named_parameters()}


def whole_rows(lengths: Sequence[int], device: torch.device) -> tuple[Tensor, Tensor]:
    """`positions` and `segments` [B, T] of rows that hold one sequence each, padded at their end."""
    longest = max(lengths, default=0)
    columns = torch.arange(longest, device=device).expand(len(lengths), longest)
    inside = columns < torch.tensor(lengths, device=device)[:, None]
    return columns * inside, inside.long()

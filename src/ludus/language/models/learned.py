"""The trained weights of a language run, stored in its checkpoints: the adapters of its learners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from ludus.config.language import LanguageConfig
from ludus.language.models.model import LanguageModel


class LearnedWeights:
    """The adapters `names` of `model`, saved and loaded like any policy. The base weights are not saved."""

    def __init__(self, model: LanguageModel, names: Sequence[str], config: LanguageConfig) -> None:
        self.model = model
        self.names = tuple(names)
        self._config = config

    def state_dict(self) -> dict[str, Tensor]:
        return {
            f"{name}.{key}": value
            for name in self.names
            for key, value in self.model.adapter_tensors(name).items()
        }

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Load the adapters. RuntimeError if the checkpoint has other adapters."""
        for name in self.names:
            own = {k.removeprefix(f"{name}."): v for k, v in tensors.items() if k.startswith(f"{name}.")}
            self.model.load_adapter_tensors(name, own)

    def description(self) -> dict[str, Any]:
        """Return the part of `state.json` that is needed to build the policy again."""
        return {"language": self._config.model_dump(mode="json"), "learners": list(self.names)}

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        for name in self.names:
            for key, parameter in self.model.adapter(name).named_parameters():
                yield f"{name}.{key}", parameter

    def parameters(self) -> Iterator[nn.Parameter]:
        for name in self.names:
            yield from self.model.trainable(name)

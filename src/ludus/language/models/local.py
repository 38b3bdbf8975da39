"""The sampler in the learner's process. It uses the same weights, so samples are exactly on-policy.

All requests of a call are one batch, with any lengths and adapters. Finished rows leave the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ludus.config.language import SamplerConfig
from ludus.errors import ConfigError
from ludus.language.models.captured import CapturedDecoder, can_capture
from ludus.language.models.decoding import Decoder
from ludus.language.models.foreign import ForeignModel
from ludus.language.models.foreign_decoding import ForeignDecoder
from ludus.language.models.llama import LlamaModel
from ludus.language.models.model import LanguageModel
from ludus.language.models.rows import Row, RowWork
from ludus.language.models.sampling import Completion, Request, fit_prompt


class LocalSampler:
    """Samples with `generator`. On a CPU, the same calls with the same generator state give the same completions.

    Keys and values are kept between calls, for prompts with the same beginning. Changes of the weights are detected by
    torch's version counters; call `forget` after other changes. `forget` also makes later samples independent of
    earlier ones (in the last bits of a float), which exact resume needs. `before_token` is called before each forward
    pass and may raise to end the call; call `forget` after that.
    """

    def __init__(
        self,
        model: LanguageModel,
        config: SamplerConfig,
        generator: torch.Generator,
        before_token: Callable[[], None] | None = None,
    ) -> None:
        if config.max_new_tokens >= model.context:
            raise ConfigError(
                f"{config.max_new_tokens} new tokens leave no room for a prompt: the model reads {model.context}",
                key="language.sampler.max_new_tokens",
                fix=f"at most {model.context - 1}",
            )
        self.model = model
        self.config = config
        self.generator = generator
        self._longest_prompt = min(config.max_prompt_tokens, model.context - config.max_new_tokens)
        self._decoder: Decoder | ForeignDecoder
        if isinstance(model, LlamaModel):
            kind = CapturedDecoder if can_capture(model) else Decoder
            self._decoder = kind(model, config, generator)
        else:
            assert isinstance(model, ForeignModel)
            self._decoder = ForeignDecoder(model, config, generator)
        if before_token is not None:
            self._decoder.before_token = before_token

    @property
    def work(self) -> RowWork:
        """Return the amount of sampling work since the sampler was created."""
        return self._decoder.work

    def forget(self) -> None:
        """Clear the cache."""
        self._decoder.forget()

    def fitted(self, prompt: tuple[int, ...], keep: int = 0) -> tuple[int, ...]:
        """Return `prompt` shortened to fit the model, see `fit_prompt`; the start token if it is empty."""
        return fit_prompt(prompt, keep, self._longest_prompt) or (self.model.tokenizer.start_id,)

    @torch.no_grad()
    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Return a completion for each request, in order. UserError for an unknown adapter."""
        rows = [self._row(request) for request in requests]
        if rows:
            self._decoder.complete(rows)
        return [row.completion() for row in rows]

    def _row(self, request: Request) -> Row:
        prompt = self.fitted(request.prompt, request.keep)
        return Row(prompt, request.adapter, request.key, max(len(request.prompt) - len(prompt), 0))

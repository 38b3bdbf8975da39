"""The sampler in the learner's own process: the same weights, so what it draws is exactly on-policy.

All requests of a call are one batch, whatever their lengths and adapters. A row that has finished leaves it.
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
    """Draws with `generator`. On a CPU the same calls from the same state of it give the same completions.

    Keys and values are kept from call to call, for prompts that begin as earlier ones did. Changes of the weights are
    detected by torch's version counters. `forget` is for changes without one, and makes later samples independent of
    earlier ones (in the last bits of a float), as exact resume needs it. `before_token` is called before each forward
    pass and may raise to end the call; `forget` then makes the sampler as good as new.
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
        """The work of sampling since the sampler was made."""
        return self._decoder.work

    def forget(self) -> None:
        """Drop what is kept between calls."""
        self._decoder.forget()

    def fitted(self, prompt: tuple[int, ...], keep: int = 0) -> tuple[int, ...]:
        """Return what of `prompt` fits the model, see `fit_prompt`; the start token if it is empty."""
        return fit_prompt(prompt, keep, self._longest_prompt) or (self.model.tokenizer.start_id,)

    @torch.no_grad()
    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """A completion for each request, in order; raises UserError for an adapter that is not there."""
        rows = [self._row(request) for request in requests]
        if rows:
            self._decoder.complete(rows)
        return [row.completion() for row in rows]

    def _row(self, request: Request) -> Row:
        prompt = self.fitted(request.prompt, request.keep)
        return Row(prompt, request.adapter, request.key, max(len(request.prompt) - len(prompt), 0))

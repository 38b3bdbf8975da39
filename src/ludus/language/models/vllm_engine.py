"""vLLM as a sampling engine (extra `vllm`). It loads adapters from folders, and has its own cache and kernels.

It runs in a separate process. If the process dies, it is restarted and the batch is repeated; adapters are on disk.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ludus.config.language import LanguageConfig, SamplerConfig
from ludus.errors import ConfigError, LudusError, MissingExtra
from ludus.language.models.llama import LlamaModel
from ludus.language.models.model import LanguageModel
from ludus.language.models.models import find_model
from ludus.language.models.peft_files import write_peft
from ludus.language.models.sampling import Completion, Request, fit_prompt
from ludus.language.models.weights import save_model

_log = logging.getLogger("ludus.language")
MAX_TRIES = 3
"""Attempts at a batch before the engine counts as broken."""
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # maximum ranks for which vLLM reserves memory

# read by vLLM when it is imported; the user may set other values
_USUAL_ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",  # otherwise it sends usage statistics
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB, where there is no GPU
}


class VLLMEngine:
    """Samples from `model` (its tokenizer, and its weights if it is `tiny`) with the adapters of `language`."""

    def __init__(self, model: LanguageModel, language: LanguageConfig) -> None:
        if language.adapter is None:
            raise ConfigError(
                "vLLM plays low-rank adapters, and this run trains all weights",
                key="language.sampler.kind",
                fix="set language.adapter, or sampler: {kind: local}",
            )
        if importlib.util.find_spec("vllm") is None:
            raise MissingExtra("sampler: {kind: vllm}", "vllm")
        for name, value in _USUAL_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self.restarts = 0
        self._adapter = language.adapter
        self._sampling = language.sampler
        self._tokenizer = model.tokenizer
        self._longest_prompt = min(
            self._sampling.max_prompt_tokens, model.context - self._sampling.max_new_tokens
        )
        self._dtype = "bfloat16" if model.dtype == torch.bfloat16 else "float32"
        self._adapters: dict[str, int] = {}
        self._loaded = 0
        self._folder = Path(tempfile.mkdtemp(prefix="ludus-vllm-"))
        if language.model == "tiny":
            assert isinstance(model, LlamaModel)
            self._base = self._folder / "model"
            save_model(model, self._base)
        else:
            self._base = find_model(language.model)
        self._llm: Any = None
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def load(self, name: str, weights: Mapping[str, Tensor]) -> None:
        assert name not in self._adapters, f"the name '{name}' was used before"
        self._loaded += 1  # vLLM also needs a number for each adapter
        self._adapters[name] = self._loaded
        targets = sorted({key.split(".lora_")[0].rpartition(".")[2] for key in weights})
        write_peft(
            self._path(name),
            weights,
            rank=self._adapter.rank,
            alpha=self._adapter.alpha,
            targets=targets,
            base=str(self._base),
        )

    def drop(self, name: str) -> None:
        shutil.rmtree(self._path(name))  # vLLM itself removes unused adapters
        del self._adapters[name]

    def sample(self, requests: Sequence[Request], settings: SamplerConfig, seed: int) -> list[Completion]:
        from vllm import SamplingParams
        from vllm.lora.request import LoRARequest

        cuts = [max(len(request.prompt) - self._longest_prompt, 0) for request in requests]
        prompts = [
            {
                "prompt_token_ids": list(fit_prompt(request.prompt, request.keep, self._longest_prompt))
                or [self._tokenizer.start_id]
            }
            for request in requests
        ]
        rng = np.random.default_rng(seed)
        drawing = [
            SamplingParams(
                temperature=settings.temperature,
                top_p=settings.top_p,
                max_tokens=settings.max_new_tokens,
                stop_token_ids=sorted(self._tokenizer.stop_ids),
                ignore_eos=True,  # these are also the tokenizer's
                logprobs=0,  # of the token that was drawn
                detokenize=False,
                seed=int(each),
            )
            for each in rng.integers(2**31, size=len(requests))
        ]
        adapters = [
            None
            if request.adapter is None
            else LoRARequest(
                request.adapter, self._adapters[request.adapter], str(self._path(request.adapter))
            )
            for request in requests
        ]
        outputs = self._ask(prompts, drawing, adapters)
        plain = settings.temperature == 1.0 and settings.top_p == 1.0
        return [
            self._completion(output.outputs[0], cut, plain) for output, cut in zip(outputs, cuts, strict=True)
        ]

    def forget(self) -> None:
        from vllm.v1.engine.exceptions import EngineDeadError

        with suppress(EngineDeadError):  # a new engine has no adapters
            self._llm.reset_prefix_cache()

    def close(self) -> None:
        self._stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    # Internal

    def _ask(self, prompts: list[Any], drawing: list[Any], adapters: list[Any]) -> list[Any]:
        from vllm.v1.engine.exceptions import EngineDeadError

        for tries in range(1, MAX_TRIES + 1):
            try:
                with _waking(self._llm.llm_engine.engine_core, EngineDeadError):
                    found: list[Any] = self._llm.generate(
                        prompts, drawing, lora_request=adapters, use_tqdm=False
                    )
                return found
            except EngineDeadError as error:
                _log.warning("vLLM died (try %d of %d): it is started again", tries, MAX_TRIES)
                cause = error
                self.restarts += 1
                self._stop()
                self._start()
        raise LudusError(
            f"vLLM died {MAX_TRIES} times over the same batch, the last time: {cause}"
        ) from cause

    def _completion(self, output: Any, cut: int, plain: bool) -> Completion:
        tokens = tuple(output.token_ids)
        log_probs = np.array(
            [at[token].logprob for token, at in zip(tokens, output.logprobs, strict=True)], dtype=np.float32
        )
        return Completion(
            tokens,
            log_probs,
            # vLLM returns only one of the two: that of the sampled distribution
            log_probs if plain else np.full(len(tokens), np.nan, dtype=np.float32),
            truncated=not tokens or tokens[-1] not in self._tokenizer.stop_ids,
            entropy=float(-log_probs.mean()) if len(tokens) else 0.0,  # estimated from the samples
            prompt_cut=cut,
        )

    def _start(self) -> None:
        from vllm import LLM

        rank = next(rank for rank in _RANKS if rank >= self._adapter.rank)
        self._llm = LLM(
            **{
                "model": str(self._base),
                "skip_tokenizer_init": True,
                "dtype": self._dtype,
                "max_model_len": self._longest_prompt + self._sampling.max_new_tokens,
                "enable_lora": True,
                "max_lora_rank": rank,
                "max_loras": 4,
                "enable_prefix_caching": True,
                "logprobs_mode": "processed_logprobs",
                **self._sampling.vllm,
            }
        )

    def _stop(self) -> None:
        if self._llm is not None:
            self._llm.llm_engine.engine_core.shutdown()
            self._llm = None

    def _path(self, name: str) -> Path:
        return self._folder / f"adapter-{self._adapters[name]}"


@contextmanager
def _waking(core: Any, error: type[Exception]) -> Iterator[None]:
    """Wake the thread that waits for an engine killed during a batch, because vLLM does not."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            if core.resources.engine_dead:
                core.outputs_queue.put_nowait(error())
                return

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()

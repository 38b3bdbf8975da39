"""The supervised start: learners imitate demonstrations before they play.

A model must know the format of a move before it can learn which moves are good. The trained policy is the one that
plays: the model at the sampler's temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ludus.algorithms.gradient_step import StepGate, make_adam, set_learning_rate, take_step
from ludus.config.language import WarmupConfig
from ludus.errors import NotFinite
from ludus.language.algorithms.demonstrations import Demonstration, demonstrations
from ludus.language.algorithms.learner import LanguageContext, LanguageLearner
from ludus.language.algorithms.master_weights import MasterWeights
from ludus.language.algorithms.packing import Pass, pack
from ludus.language.algorithms.scoring import score
from ludus.language.collector import GameSetup
from ludus.language.models.model import LanguageModel
from ludus.runs.streams import Streams
from ludus.types import Metrics

MAX_HELD_OUT = 256
_LARGEST_NORM = 1.0


@dataclass(frozen=True)
class Point:
    """Progress of the imitation, measured on pairs that are not trained on."""

    epoch: int
    loss: float
    """Mean over tokens, in nats."""
    accuracy: float
    """Share of pairs in which every token is the most likely one."""


def warm_up(
    learner: LanguageLearner[Any],
    tables: Sequence[GameSetup],
    settings: WarmupConfig,
    streams: Streams,
    report: Callable[[Point], None] | None = None,
    before_step: Callable[[], None] | None = None,
) -> Metrics:
    """Train the learners on demonstrations of the games at `tables`; returns metrics `warmup/…`.

    The first learner is trained, and the others get a copy of its weights. `report` is called with every point of the
    curve; `before_step` before every step, and may raise to end the training. Raises the errors of `demonstrations`.
    """
    context = learner.context
    sampler = context.language.sampler
    longest_prompt = min(sampler.max_prompt_tokens, context.whole_model.context - sampler.max_new_tokens)
    pairs = demonstrations(tables, settings, context.whole_model.tokenizer, longest_prompt, streams)
    first, *others = context.learners
    curve = imitate(context, first, pairs, settings, streams.numpy("warmup"), report, before_step)
    for name in others:
        context.whole_model.load_adapter_tensors(name, context.whole_model.adapter_tensors(first))
    return {
        "warmup/pairs": float(len(pairs)),
        "warmup/loss": curve[-1].loss,
        "warmup/accuracy": curve[-1].accuracy,
        "warmup/accuracy_before": curve[0].accuracy,
    }


def imitate(
    context: LanguageContext,
    adapter: str,
    pairs: Sequence[Demonstration],
    settings: WarmupConfig,
    rng: np.random.Generator,
    report: Callable[[Point], None] | None = None,
    before_step: Callable[[], None] | None = None,
) -> list[Point]:
    """Train `adapter` on `pairs`; returns the curve, from before the first epoch on.

    A tenth of the pairs is held out for measurement. If there are few pairs, all are used for both.
    """
    order = rng.permutation(len(pairs)).tolist()
    n_held = min(len(pairs) // 10, MAX_HELD_OUT)
    trained = order[n_held:]
    held = order[:n_held] or trained
    masters = MasterWeights(context.whole_model.trainable(adapter))
    optimizer = make_adam(masters.parameters, settings.learning_rate)
    step_gate = StepGate(context.device)
    steps = settings.epochs * -(-len(trained) // settings.batch_size)
    taken = 0
    curve: list[Point] = []

    def measure(epoch: int) -> None:
        curve.append(_measured(context, adapter, pairs, held, epoch))
        if report is not None:
            report(curve[-1])

    measure(0)
    for epoch in range(1, settings.epochs + 1):
        rng.shuffle(trained)
        for begin in range(0, len(trained), settings.batch_size):
            if before_step is not None:
                before_step()
            set_learning_rate(optimizer, settings.learning_rate * (1 - taken / steps))
            optimizer.zero_grad()
            chosen = trained[begin : begin + settings.batch_size]
            n_tokens = sum(len(pairs[i].completion) for i in chosen)
            for batch in pack(pairs, chosen, context.language.tokens_per_step, context.device):
                loss = -_log_probs(context, batch, adapter).sum() / n_tokens
                step_gate.pull_if(~torch.isfinite(loss.detach()), fault=True)
                masters.backward(loss)
            take_step([(optimizer, masters.parameters)], _LARGEST_NORM, step_gate)
            masters.write()
            taken += 1
            try:
                step_gate.check()
            except NotFinite as error:
                raise _in_step(error, taken, steps, epoch, [pairs[i] for i in chosen]) from None
        measure(epoch)
    return curve


def _in_step(
    error: NotFinite, step: int, steps: int, epoch: int, batch: Sequence[Demonstration]
) -> NotFinite:
    """Return `error` with the step in which it occurred, and the pairs that caused it."""
    what, _, rest = str(error).partition("\n")
    located = NotFinite(f"{what}: step {step:,} of {steps:,} of the warm start, epoch {epoch}\n{rest}")
    located.evidence = {
        name: np.array(numbers, dtype=np.int64)
        for name, numbers in {
            "prompts": [token for pair in batch for token in pair.prompt],
            "prompt_lengths": [len(pair.prompt) for pair in batch],
            "completions": [token for pair in batch for token in pair.completion],
            "completion_lengths": [len(pair.completion) for pair in batch],
        }.items()
    }
    return located


def _log_probs(context: LanguageContext, batch: Pass, adapter: str) -> torch.Tensor:
    return score(
        context.whole_model,
        batch,
        adapter=adapter,
        temperature=context.language.sampler.temperature,
        checkpoint=context.language.gradient_checkpointing,
    ).tokens.log_probs


@torch.no_grad()
def _measured(
    context: LanguageContext, adapter: str, pairs: Sequence[Demonstration], chosen: Sequence[int], epoch: int
) -> Point:
    n_tokens = sum(len(pairs[i].completion) for i in chosen)
    total = torch.zeros((), device=context.device)
    right = torch.ones(len(pairs), dtype=torch.bool, device=context.device)
    for batch in pack(pairs, chosen, context.language.tokens_per_step, context.device):
        total -= _log_probs(context, batch, adapter).sum()
        wrong = _likeliest(context.whole_model, batch, adapter) != batch.sampled
        right[batch.owner[wrong]] = False
    accuracy = right[torch.tensor(list(chosen), device=context.device)].float().mean()
    return Point(epoch, float(total) / n_tokens, float(accuracy))


def _likeliest(model: LanguageModel, batch: Pass, adapter: str) -> torch.Tensor:
    """Return the most likely token instead of each of the batch's."""
    hidden = model.hidden(batch.tokens, batch.positions, batch.segments, adapter=adapter).flatten(0, 1)
    states = hidden[batch.predicts]
    pieces = [
        states[at : at + 1024] for at in range(0, len(states), 1024)
    ]  # the logits of all tokens may not fit into memory
    return torch.cat([model.head(piece, adapter=adapter).argmax(dim=-1) for piece in pieces])

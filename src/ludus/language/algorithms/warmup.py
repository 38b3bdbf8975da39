"""The supervised start: learners imitate demonstrations before they play.

The model that plays has to know the form of a move before it can learn which move is good. What is trained is the
policy that will play: the model at the sampler's temperature.
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

MOST_HELD_OUT = 256
_LARGEST_NORM = 1.0


@dataclass(frozen=True)
class Point:
    """Progress of the imitation, measured on pairs that are not trained on."""

    epoch: int
    loss: float
    """Mean over tokens, in nats."""
    accuracy: float
    """Share of pairs of which every token is the likeliest."""


def warm_up(
    learner: LanguageLearner[Any],
    tables: Sequence[GameSetup],
    settings: WarmupConfig,
    streams: Streams,
    report: Callable[[Point], None] | None = None,
    before_step: Callable[[], None] | None = None,
) -> Metrics:
    """Train the learners on demonstrations of the games at `tables`; returns how it went, as `warmup/…`.

    The first learner is trained, and the others begin as it does. `report` is called with every point of the curve;
    `before_step` before every step, and may raise to end it all.
    Raises what `demonstrations` raises.
    """
    place = learner.place
    sampler = place.language.sampler
    longest_prompt = min(sampler.max_prompt_tokens, place.whole_model.context - sampler.max_new_tokens)
    pairs = demonstrations(tables, settings, place.whole_model.tokenizer, longest_prompt, streams)
    first, *others = place.learners
    curve = imitate(place, first, pairs, settings, streams.numpy("warmup"), report, before_step)
    for name in others:
        place.whole_model.load_adapter_tensors(name, place.whole_model.adapter_tensors(first))
    return {
        "warmup/pairs": float(len(pairs)),
        "warmup/loss": curve[-1].loss,
        "warmup/accuracy": curve[-1].accuracy,
        "warmup/accuracy_before": curve[0].accuracy,
    }


def imitate(
    place: LanguageContext,
    adapter: str,
    pairs: Sequence[Demonstration],
    settings: WarmupConfig,
    rng: np.random.Generator,
    report: Callable[[Point], None] | None = None,
    before_step: Callable[[], None] | None = None,
) -> list[Point]:
    """Train `adapter` on `pairs`; returns the curve, from before the first epoch on.

    A tenth of the pairs is held out to measure by (few pairs: nothing is, and they are measured by themselves).
    """
    order = rng.permutation(len(pairs)).tolist()
    n_held = min(len(pairs) // 10, MOST_HELD_OUT)
    trained = order[n_held:]
    held = order[:n_held] or trained
    masters = MasterWeights(place.whole_model.trainable(adapter))
    optimizer = make_adam(masters.parameters, settings.learning_rate)
    step_gate = StepGate(place.device)
    steps = settings.epochs * -(-len(trained) // settings.batch_size)
    taken = 0
    curve: list[Point] = []

    def measure(epoch: int) -> None:
        curve.append(_measured(place, adapter, pairs, held, epoch))
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
            for batch in pack(pairs, chosen, place.language.tokens_per_step, place.device):
                loss = -_log_probs(place, batch, adapter).sum() / n_tokens
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
    """`error` with the step it was found in, and the pairs that show it."""
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


def _log_probs(place: LanguageContext, batch: Pass, adapter: str) -> torch.Tensor:
    return score(
        place.whole_model,
        batch,
        adapter=adapter,
        temperature=place.language.sampler.temperature,
        checkpoint=place.language.gradient_checkpointing,
    ).tokens.log_probs


@torch.no_grad()
def _measured(
    place: LanguageContext, adapter: str, pairs: Sequence[Demonstration], chosen: Sequence[int], epoch: int
) -> Point:
    n_tokens = sum(len(pairs[i].completion) for i in chosen)
    total = torch.zeros((), device=place.device)
    right = torch.ones(len(pairs), dtype=torch.bool, device=place.device)
    for batch in pack(pairs, chosen, place.language.tokens_per_step, place.device):
        total -= _log_probs(place, batch, adapter).sum()
        wrong = _likeliest(place.whole_model, batch, adapter) != batch.sampled
        right[batch.owner[wrong]] = False
    accuracy = right[torch.tensor(list(chosen), device=place.device)].float().mean()
    return Point(epoch, float(total) / n_tokens, float(accuracy))


def _likeliest(model: LanguageModel, batch: Pass, adapter: str) -> torch.Tensor:
    """The token the model would take in the place of each of the batch's."""
    hidden = model.hidden(batch.tokens, batch.positions, batch.segments, adapter=adapter).flatten(0, 1)
    states = hidden[batch.predicts]
    pieces = [states[at : at + 1024] for at in range(0, len(states), 1024)]  # the logits of all may not fit
    return torch.cat([model.head(piece, adapter=adapter).argmax(dim=-1) for piece in pieces])

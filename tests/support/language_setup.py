"""Language learners on a workbench: a model of two small layers, and turns that were made up."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ludus.config.language import AdapterConfig, LanguageConfig, RewardsConfig
from ludus.config.registry import find_algorithm
from ludus.language.algorithms.learner import LanguageContext, LanguageLearner
from ludus.language.models.model import LanguageModel
from ludus.language.models.models import load_language_model
from ludus.language.turns import Turn, Turns
from ludus.league.records import MatchRecord
from ludus.runs.streams import Streams

NO_TRANSFORMS = RewardsConfig(sampling=[])


def turn(**given: Any) -> Turn:
    """A turn of no consequence but for what is given."""
    completion = tuple(given.pop("completion", (5, 6)))
    defaults: dict[str, Any] = {
        "game": "TicTacToe-v0",
        "match": 0,
        "seat": 0,
        "index": 0,
        "player": "learner",
        "version": 0,
        "prompt": (1, 2, 3),
        "completion": completion,
        "log_probs": np.full(len(completion), -1.0, np.float32),
        "raw_log_probs": np.full(len(completion), -1.0, np.float32),
        "observation": "a board",
        "text": "[4]",
        "action": "[4]",
    }
    return Turn(**(defaults | given))


def match(turns: list[Turn], rewards: tuple[float, ...], **given: Any) -> MatchRecord:
    """The match of these turns."""
    defaults: dict[str, Any] = {
        "match": turns[0].match if turns else 0,
        "game": turns[0].game if turns else "TicTacToe-v0",
        "seed": 1,
        "players": ("learner",) * len(rewards),
        "rewards": rewards,
        "reason": "over",
        "invalid": (False,) * len(rewards),
        "cut_off": False,
        "length": len(turns),
        "moves": [(one.seat, one.action) for one in turns],
        "turns": turns,
    }
    return MatchRecord(**(defaults | given))


def experience(matches: list[MatchRecord]) -> Turns:
    turns = [one for played in matches for one in played.turns]
    return Turns(steps=len(turns), episodes=[], turns=turns, matches=matches)


def made_up(seed: int = 0, matches: int = 6, version: int = 0, group: bool = False) -> Turns:
    """Matches of two seats with turns of random tokens and lengths, no log-probability of which fits any model."""
    rng = np.random.default_rng(seed)
    played = []
    for number in range(matches):
        turns = []
        for index in range(int(rng.integers(2, 5))):
            n = int(rng.integers(1, 6))
            turns.append(
                turn(
                    match=number,
                    seat=index % 2,
                    index=index,
                    version=version,
                    prompt=tuple(rng.integers(0, 256, int(rng.integers(1, 12))).tolist()),
                    completion=tuple(rng.integers(0, 256, n).tolist()),
                    log_probs=(-5.5 + 0.5 * rng.standard_normal(n)).astype(np.float32),
                    well_formed=bool(rng.random() < 0.8),
                    group=number // 3 if group else None,
                )
            )
        played.append(match(turns, (float(rng.normal()), float(rng.normal()))))
    return experience(played)


def tiny_model(learners: tuple[str, ...] = ("learner",), full: bool = False) -> LanguageModel:
    """A tiny model whose adapters have left their start, as B matrices of zero would leave A without gradients."""
    config = LanguageConfig(model_kwargs={"layers": 2, "hidden": 16, "heads": 2, "context": 64})
    generator = torch.Generator().manual_seed(7)
    model = load_language_model(config, "cpu", generator)
    with torch.no_grad():  # as drawn its logits are all near zero, and so would be every gradient
        for weight in model.parameters():
            weight.mul_(3.0)
    for name in learners:
        model.add_adapter(name, None if full else AdapterConfig(rank=2, alpha=4), generator)
        with torch.no_grad():
            for weight in model.trainable(name):
                weight.add_(0.05 * torch.randn(weight.shape, generator=generator))
    return model


def learner(
    algorithm: str,
    model: LanguageModel | None = None,
    *,
    learners: tuple[str, ...] = ("learner",),
    rewards: RewardsConfig = NO_TRANSFORMS,
    language: dict[str, Any] | None = None,
    place: dict[str, Any] | None = None,
    seed: int = 0,
    **hyperparams: Any,
) -> LanguageLearner[Any]:
    entry = find_algorithm(algorithm, "language")
    assert entry.hyperparameters is not None and entry.learner is not None
    torch.manual_seed(seed)
    workplace = LanguageContext(
        model=tiny_model(learners) if model is None else model,
        language=LanguageConfig(**({"sampler": {"max_new_tokens": 8}} | (language or {}))),
        rewards=rewards,
        learners=learners,
        device=torch.device("cpu"),
        streams=Streams(seed),
        **(place or {}),
    )
    made: LanguageLearner[Any] = entry.learner(workplace, entry.hyperparameters(**hyperparams))
    return made


def weights(model: LanguageModel, name: str = "learner") -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in model.trainable(name)]

"""The probability of each action of a player, computed, not counted: a language model, a network, or a bot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
import torch

from ludus.envs.seats import GameCodec
from ludus.errors import UserError
from ludus.evaluation.policy_outputs import ProbeInput, inspect_policy
from ludus.games.board.bots import bet_probability
from ludus.games.board.codecs import KuhnPokerCodec
from ludus.games.board.rules import BET, CALL
from ludus.language.models.enumeration import enumerate_completions
from ludus.language.models.local import LocalSampler
from ludus.language.players import LanguagePlayer
from ludus.league.players import BotPlayer, PendingTurn, Player, PolicyPlayer
from ludus.rollout.stepper import stack


@dataclass(frozen=True)
class ActionProbabilities:
    """Probabilities of the legal actions of one turn, given that the action is legal."""

    actions: Mapping[int, float]
    """Probability of each legal action, by its index in the game's codec; they sum to 1."""
    illegal: float = 0.0
    """Probability of an answer that the game refuses. The game may ask again."""
    by_beginning: float = 0.0
    """Probability of answers of which only the beginning was computed, where it already contains a legal action."""
    left_out: float = 0.0
    """Probability of answers that are not in `actions`: the computed beginning contains no action."""


@singledispatch
def action_probabilities(player: Player, turns: Sequence[PendingTurn]) -> list[ActionProbabilities]:
    """Return the probabilities at each of `turns`, of games with a codec. UserError for players without them."""
    raise UserError(
        f"'{player.name}' does not report how likely its actions are",
        where=f"a {player.kind}",
        fix="name a bot or a run",
    )


@action_probabilities.register
def _(player: LanguagePlayer, turns: Sequence[PendingTurn]) -> list[ActionProbabilities]:
    """Read the action of each enumerated completion, as the game would; see `enumerate_completions`.

    A legal action as its codec writes it, followed by a stop token, is always enumerated, however unlikely. An answer
    that was not followed to its end counts as the action in its beginning, if that is already well formed.
    """
    assert isinstance(player.sampler, LocalSampler)
    decode = player.sampler.model.tokenizer.decode
    legal = [_legal(turn) for turn in turns]
    wanted = [[_codec(turn).text(action) for action in own] for turn, own in zip(turns, legal, strict=True)]
    requests = [player.request(turn) for turn in turns]
    prompts = [player.sampler.fitted(request.prompt, request.keep) for request in requests]
    answers = enumerate_completions(player.sampler, prompts, player.adapter, wanted)
    found = []
    for turn, own, answer in zip(turns, legal, answers, strict=True):
        read: dict[int, float] = dict.fromkeys(own, 0.0)
        illegal = by_beginning = left_out = 0.0
        for tokens, chance in answer.completions.items():
            action = _codec(turn).index(player.read(turn, decode(tokens))[0])
            if action in read:
                read[action] += chance
            else:
                illegal += chance
        for tokens, chance in answer.beginnings.items():
            said, well_formed = player.read(turn, decode(tokens))
            action = _codec(turn).index(said) if well_formed else None
            if action in read:
                read[action] += chance
                by_beginning += chance
            else:
                left_out += chance
        found.append(_among_legal(player, turn, read, illegal, by_beginning, left_out))
    return found


@action_probabilities.register
def _(player: PolicyPlayer, turns: Sequence[PendingTurn]) -> list[ActionProbabilities]:
    """Return the network's probabilities of legal actions; 1 for the best action if it is deterministic."""
    found = []
    for turn in turns:
        seen, mask = player.codec.encode(turn.game)
        network: Any = player.network
        with torch.inference_mode():
            output = inspect_policy(
                network, ProbeInput(network.prepare(stack([seen])), torch.as_tensor(mask[None]), None)
            )
        if output.weights is None:
            raise UserError(
                f"'{player.name}' does not report how likely its actions are", fix="name another run"
            )
        weights = {action: output.weights[action] for action in _legal(turn)}
        if player.deterministic or output.weighing == "value":
            best = max(weights, key=weights.__getitem__)
            weights = {action: float(action == best) for action in weights}
        found.append(_among_legal(player, turn, weights))
    return found


@action_probabilities.register
def _(player: BotPlayer, turns: Sequence[PendingTurn]) -> list[ActionProbabilities]:
    """Return the probabilities of a bot in Kuhn Poker, the only game where they are known."""
    found = []
    for turn in turns:
        codec = _codec(turn)
        if not isinstance(codec, KuhnPokerCodec):
            raise UserError(
                f"action probabilities of '{player.name}' are only available in Kuhn Poker",
                where=turn.game.spec.id,
            )
        bets = bet_probability(player.name, codec.rules, codec.position(turn.game))
        found.append(
            ActionProbabilities(
                {action: bets if action in (BET, CALL) else 1 - bets for action in _legal(turn)}
            )
        )
    return found


def _codec(turn: PendingTurn) -> GameCodec:
    assert turn.game.codec is not None
    return turn.game.codec


def _legal(turn: PendingTurn) -> list[int]:
    mask = turn.game.mask()
    assert mask is not None
    return [int(action) for action in np.flatnonzero(mask)]


def _among_legal(
    player: Player, turn: PendingTurn, read: Mapping[int, float], *others: float
) -> ActionProbabilities:
    total = math.fsum(read.values())
    if total <= 0:
        raise UserError(
            f"'{player.name}' never makes a legal move here",
            where=f"{turn.game.spec.id}: {turn.game.observe().position}",
            fix="train it longer, or from a warm start",
        )
    return ActionProbabilities({action: chance / total for action, chance in read.items()}, *others)

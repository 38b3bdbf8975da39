"""Who can sit at a table: a language model, a bot, a network trained on an env, a remote model.

A player is asked for all its pending turns at once, whichever matches they belong to, and answers them in order.
A person at the terminal is one too, see `human`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ludus.errors import UserError
from ludus.language.turns import Turn
from ludus.league.league import Kind
from ludus.types import Array, BoolArray

if TYPE_CHECKING:
    from torch import Generator

    from ludus.config.language import GameSpec
    from ludus.games.board.bots import TextBot
    from ludus.games.board.codecs import GameCodec
    from ludus.language.models.sampling import Completion, Request, Sampler
    from ludus.language.models.tokenizer import Tokenizer
    from ludus.language.text_games.game import TextGame
    from ludus.language.text_games.templates import Template

Extractor = Callable[[str], tuple[str, bool]]
"""From a completion to the action in it, and whether it had the asked form."""


@dataclass(frozen=True)
class Seated:
    """One pending turn: the game, which waits for `seat`, and how its turns are put into words and read."""

    game: TextGame
    match: int
    seat: int
    template: Template
    extractor: Extractor


@dataclass(frozen=True)
class Reply:
    """What a player answers: the action for the game and the whole text it stood in.

    `turn` is what a language model trains on. With a `fault` there is no answer, and the match cannot go on.
    """

    action: str
    text: str
    turn: Turn | None = None
    fault: str | None = None


class Player(Protocol):
    """Whoever fills seats. `name` is how the league knows it; `plays` are the games it can play, None for all."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> Kind: ...

    @property
    def plays(self) -> frozenset[str] | None: ...

    def act(self, turns: Sequence[Seated]) -> list[Reply]:
        """An answer to each of `turns`, in order."""
        ...


class LanguagePlayer:
    """A language model under one of its adapters. Every reply carries the turn, with the tokens as sampled.

    `template` and `extractor` are its own where it was trained with others than the table's.
    """

    plays: frozenset[str] | None = None

    def __init__(
        self,
        name: str,
        tokenizer: Tokenizer,
        sampler: Sampler,
        adapter: str | None,
        *,
        version: int = 0,
        kind: Kind = "learner",
        template: Template | None = None,
        extractor: Extractor | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.version = version
        self.adapter = adapter
        self._tokenizer = tokenizer
        self.sampler = sampler
        self._template = template
        self._extractor = extractor

    def act(self, turns: Sequence[Seated]) -> list[Reply]:
        return _sample([(self, turn) for turn in turns])

    def prompt(self, turn: Seated) -> tuple[int, ...]:
        """The tokens that this turn is put to the model in."""
        template = self._template or turn.template
        text = template.render(turn.game.observe(), self._tokenizer)
        return tuple(self._tokenizer.encode(text)) or (self._tokenizer.start_id,)

    def read(self, turn: Seated, text: str) -> tuple[str, bool]:
        """The action in `text`, and whether it had the asked form."""
        return (self._extractor or turn.extractor)(text)

    def reply(self, turn: Seated, request: Request, completion: Completion) -> Reply:
        """What the `completion` of a request for this turn says."""
        text = self._tokenizer.decode(completion.tokens)
        action, well_formed = self.read(turn, text)
        record = Turn(
            game=turn.game.spec.id,
            match=turn.match,
            seat=turn.seat,
            index=turn.game.turns,
            player=self.name,
            version=self.version,
            prompt=request.prompt[completion.prompt_cut :],  # what the model was given, to the token
            completion=completion.tokens,
            log_probs=completion.log_probs,
            raw_log_probs=completion.raw_log_probs,
            observation=turn.game.observe().text,
            text=text,
            action=action,
            well_formed=well_formed,
            truncated=completion.truncated,
            prompt_cut=completion.prompt_cut,
            entropy=completion.entropy,
        )
        return Reply(action, text, record)


def answer(pending: Sequence[tuple[Player, Seated]]) -> list[Reply]:
    """The reply to each pending turn, in order.

    Every player is asked once for all its turns; language models that share a sampler are one batch.
    """
    groups: dict[int, list[int]] = {}
    for index, (player, _) in enumerate(pending):
        asked = player.sampler if isinstance(player, LanguagePlayer) else player
        groups.setdefault(id(asked), []).append(index)
    replies: dict[int, Reply] = {}
    for places in groups.values():
        own = [pending[place] for place in places]
        speakers = [(player, turn) for player, turn in own if isinstance(player, LanguagePlayer)]
        found = _sample(speakers) if speakers else own[0][0].act([turn for _, turn in own])
        replies |= dict(zip(places, found, strict=True))
    return [replies[place] for place in range(len(pending))]


def _sample(turns: Sequence[tuple[LanguagePlayer, Seated]]) -> list[Reply]:
    """Replies of players who share a sampler."""
    from ludus.language.models.sampling import Request

    requests = [
        Request(player.prompt(turn), player.adapter, f"{turn.match}/{turn.seat}") for player, turn in turns
    ]
    completions = turns[0][0].sampler.sample(requests)
    return [
        player.reply(turn, request, completion)
        for (player, turn), request, completion in zip(turns, requests, completions, strict=True)
    ]


class BotPlayer:
    """A scripted bot, with a bot of its own for each game it plays."""

    kind: Kind = "bot"

    def __init__(self, name: str, bots: Mapping[GameSpec, TextBot]) -> None:
        self.name = name
        self.plays = frozenset(spec.id for spec in bots)
        self._bots = bots

    def act(self, turns: Sequence[Seated]) -> list[Reply]:
        actions = [self._bots[turn.game.spec].act(turn.game) for turn in turns]
        return [Reply(action, action) for action in actions]


class Network(Protocol):
    """A policy trained on an env, see `policies.base.Policy`."""

    def predict(
        self,
        obs: Array,
        mask: BoolArray | None = None,
        deterministic: bool = True,
        generator: Generator | None = None,
    ) -> Array:
        """An action for each row of `obs`."""
        ...


class PolicyPlayer:
    """A network trained on an env, which sees the game and acts in it through the game's codec.

    It plays `game`, which `codec` is for, and no other. Unless `deterministic`, it draws from `generator`.
    """

    kind: Kind = "policy"

    def __init__(
        self,
        name: str,
        network: Network,
        game: str,
        codec: GameCodec[Any],
        *,
        deterministic: bool = True,
        generator: Generator | None = None,
    ) -> None:
        self.name = name
        self.plays = frozenset({game})
        self.network = network
        self.codec = codec
        self.deterministic = deterministic
        self._generator = generator

    def act(self, turns: Sequence[Seated]) -> list[Reply]:
        seen = [self.codec.encode(turn.game) for turn in turns]
        observations = np.stack([observation for observation, _ in seen])
        masks = np.stack([mask for _, mask in seen])
        chosen = self.network.predict(observations, masks, self.deterministic, self._generator)
        actions = [self.codec.text(int(action)) for action in chosen]
        return [Reply(action, action) for action in actions]


class Conversation(Protocol):
    """A remote model: one answer to each prompt, or the error that came instead."""

    def ask(self, prompts: Sequence[str]) -> list[str | UserError]: ...


class RemotePlayer:
    """A model behind an API. What it cannot answer (network, deadline, refusal) is the reply's `fault`."""

    kind: Kind = "remote"
    plays: frozenset[str] | None = None

    def __init__(self, name: str, client: Conversation) -> None:
        self.name = name
        self._client = client

    def act(self, turns: Sequence[Seated]) -> list[Reply]:
        answers = self._client.ask([turn.game.observe().text for turn in turns])
        return [_read(turn, answer) for turn, answer in zip(turns, answers, strict=True)]


def _read(turn: Seated, answer: str | UserError) -> Reply:
    if isinstance(answer, UserError):
        return Reply("", "", fault=answer.what)
    action, _ = turn.extractor(answer)
    return Reply(action, answer)

"""Players at games with seats: bots and networks. `human` has a person at the terminal.

A player is asked for all its pending turns at once, whichever matches they belong to, and answers them in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

import numpy as np

from ludus.config.language import GameSpec
from ludus.envs.seats import GameBot, GameCodec, TurnGame
from ludus.league.league import Kind
from ludus.runs.streams import Streams
from ludus.types import Array, BoolArray

if TYPE_CHECKING:
    from torch import Generator


@dataclass(frozen=True)
class PendingTurn:
    """A game that waits for a move, and the number of its match."""

    game: TurnGame
    match: int

    @property
    def seat(self) -> int:
        return self.game.seat


class TurnRecord(Protocol):
    """A learning player's record of its own turn; `invalid` is set when the game refused the move."""

    invalid: bool


@dataclass(frozen=True)
class Reply:
    """A player's answer: the action for the game, and the whole text it was found in.

    `turn` is kept in the match record. With a `fault` there is no answer, and the match cannot continue.
    """

    action: str
    text: str
    turn: TurnRecord | None = None
    fault: str | None = None


@dataclass(frozen=True)
class TokenUse:
    """Requests to a remote model, and what it counted for them."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    """In the currency of the prices that the user gave; None without prices."""


class Player(ABC):
    """A player of the league. `plays` are the ids of the games it can play, None for all."""

    name: str
    kind: Kind
    plays: frozenset[str] | None = None

    @property
    def batch_key(self) -> object:
        """Players with the same key are asked together, by one call of `act_together`."""
        return self

    @abstractmethod
    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Answer each of `turns`, in order."""

    def act_together(self, pending: Sequence[tuple[Player, PendingTurn]]) -> list[Reply]:
        """Answer the turns of all players with this player's `batch_key`, in order."""
        return self.act([turn for _, turn in pending])

    def take_token_use(self) -> TokenUse | None:
        """Return what it used since the last call; None for a player that asks no remote model."""
        return None


@dataclass(frozen=True)
class PlayerRequest:
    """The arguments for making a player.

    It draws from the streams called `stream`. A network takes its likeliest action where `deterministic`. Runs are
    found under `root`. A person reads on `screen`, by default stdout.
    """

    name: str
    games: Sequence[GameSpec]
    streams: Streams
    stream: str
    root: str | Path = "runs"
    deterministic: bool = True
    device: str = "cpu"
    screen: TextIO | None = None


def answer(pending: Sequence[tuple[Player, PendingTurn]]) -> list[Reply]:
    """Return the reply to each pending turn, in order; players that share a `batch_key` are one batch."""
    groups: dict[int, list[int]] = {}
    for index, (player, _) in enumerate(pending):
        groups.setdefault(id(player.batch_key), []).append(index)
    replies: dict[int, Reply] = {}
    for indices in groups.values():
        group = [pending[index] for index in indices]
        replies |= dict(zip(indices, group[0][0].act_together(group), strict=True))
    return [replies[index] for index in range(len(pending))]


class BotPlayer(Player):
    """A scripted bot, with a bot of its own for each game it plays."""

    kind: Kind = "bot"

    def __init__(self, name: str, bots: Mapping[GameSpec, GameBot]) -> None:
        self.name = name
        self.plays = frozenset(spec.id for spec in bots)
        self._bots = bots

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
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
        """Return an action for each row of `obs`."""
        ...


class PolicyPlayer(Player):
    """A network trained on an env, which sees the game and acts in it through the game's codec.

    It plays `game`, which `codec` is for, and no other. Unless `deterministic`, it draws from `generator`.
    """

    kind: Kind = "policy"

    def __init__(
        self,
        name: str,
        network: Network,
        game: str,
        codec: GameCodec,
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

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        seen = [self.codec.encode(turn.game) for turn in turns]
        observations = np.stack([observation for observation, _ in seen])
        masks = np.stack([mask for _, mask in seen])
        chosen = self.network.predict(observations, masks, self.deterministic, self._generator)
        actions = [self.codec.text(int(action)) for action in chosen]
        return [Reply(action, action) for action in actions]

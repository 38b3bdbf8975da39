"""Matches of two players at one game: every start is played from every seat, and the results are counted.

The player with the greater reward wins; in a game for more than two, the player whose seats have the greater mean.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ludus.envs.seats import GameFault, GameOutcome, SimultaneousGame, TurnGame
from ludus.league.players import PendingTurn, Player, Reply, TokenUse, TurnRecord, answer
from ludus.league.records import MatchRecord

_Z = 1.959963984540054  # 95 %
_MAX_FAILED_STARTS = 16  # skipped games without a played one, after which the others are not tried


@dataclass(frozen=True)
class WinTally:
    """Wins, draws and losses of the first of two players. Games that were cut off or skipped are not counted."""

    wins: int = 0
    draws: int = 0
    losses: int = 0

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses

    def summary(self) -> dict[str, Any]:
        """Return the counts, and the share of each with its 95 % interval (null without a game)."""
        counts = {"wins": self.wins, "draws": self.draws, "losses": self.losses}
        shares = {name: self._share(count) for name, count in counts.items()}
        return counts | {"shares": shares}

    def _share(self, count: int) -> dict[str, Any]:
        if not self.games:
            return {"rate": None, "interval": None}
        return {"rate": count / self.games, "interval": list(wilson(count, self.games))}


@dataclass(frozen=True)
class MatchResult:
    """Results of the first player against the second."""

    first: str
    second: str
    game: str
    total: WinTally
    by_seat: tuple[WinTally, ...]
    """One tally for each seat of the first player."""
    cut_off: int
    """Games that did not end by themselves."""
    skipped: tuple[str, ...]
    """One reason for each game that could not be played to its end."""
    mean_rewards: tuple[float, float]
    """Of the first and of the second, over the games that ended."""
    invalid: tuple[int, int]
    """Games in which an invalid move cost the first, and the second, the game."""
    mean_length: float
    token_use: tuple[TokenUse | None, TokenUse | None] = (None, None)
    """Of the first and of the second, where they are remote models."""
    records: tuple[MatchRecord, ...] = field(repr=False, default=())
    """Every game that was played, also those cut off, in order of its number."""


class _OpenGame:
    """A game in progress. `seats` has the player of each seat: 0 is the first player, 1 the second."""

    def __init__(self, number: int, game: TurnGame, seats: Sequence[int]) -> None:
        self.number = number
        self.game = game
        self.seats = seats
        self.moves: list[tuple[int, str]] = []
        self.turns: list[TurnRecord] = []
        self.seconds = 0.0
        self.fault: str | None = None

    def apply(self, reply: Reply) -> None:
        if reply.fault is not None:
            self.fault = reply.fault
            return
        seat = self.game.seat  # read before the move: after it, another seat is to move
        accepted = self.game.play(reply.action)
        self.moves.append((seat, reply.action))
        if reply.turn is not None:
            reply.turn.invalid = not accepted
            self.turns.append(reply.turn)

    def record(self, players: tuple[str, ...]) -> MatchRecord:
        return MatchRecord.of(
            self.number, self.game, players, moves=self.moves, turns=self.turns, seconds=self.seconds
        )


def play_matches(
    first: Player,
    second: Player,
    new_game: Callable[[], TurnGame],
    games: int,
    seed: int,
    *,
    side_by_side: int = 64,
    ended: Callable[[MatchRecord | None], None] | None = None,
    before_turn: Callable[[], None] = lambda: None,
) -> MatchResult:
    """Play `games` games, each made by `new_game`, between the two, `side_by_side` at a time.

    In game number i the first player sits on seat i modulo the number of seats and the second on all others; each
    seed, from `seed` upwards, is played once from every seat. At a game for one, both play each seed by themselves
    and their rewards are compared.

    A reply with a fault, or a game that cannot be started, ends that game without a result (`skipped`); after 16 of
    them and none played, all others are skipped too. `ended` is called with each game as it ends, or with None where it
    was skipped. `before_turn` may raise to stop the match.
    """
    match = _Match(first, second, new_game, games, seed, ended or (lambda record: None))
    while match.open or match.next < match.wanted:
        before_turn()
        match.fill(side_by_side)
        match.tick()
    return match.result()


class _Match:
    def __init__(
        self,
        first: Player,
        second: Player,
        new_game: Callable[[], TurnGame],
        games: int,
        seed: int,
        ended: Callable[[MatchRecord | None], None],
    ) -> None:
        self.players = (first, second)
        self.new_game = new_game
        self.games = games
        self.seed = seed
        self.ended = ended
        game = new_game()
        self.game_id, self.n_seats = game.spec.id, game.n_seats
        self.copies = 2 if self.n_seats == 1 else 1
        """Games that are played for each one that is counted."""
        self.wanted = games * self.copies
        self.open: list[_OpenGame] = []
        self.next = 0
        self.records: dict[int, MatchRecord] = {}
        self.skipped: dict[int, str] = {}

    def seating(self, number: int) -> tuple[list[int], int]:
        """Return the player of each seat in the game of this number, and its seed."""
        if self.n_seats == 1:
            return [number % 2], self.seed + number // 2
        place = number % self.n_seats
        return [int(seat != place) for seat in range(self.n_seats)], self.seed + number // self.n_seats

    def fill(self, side_by_side: int) -> None:
        while len(self.open) < side_by_side and self.next < self.wanted:
            number, self.next = self.next, self.next + 1
            if not self.records and len(self.skipped) >= _MAX_FAILED_STARTS:
                self.skip(number, next(reversed(self.skipped.values())))
                continue
            seats, seed = self.seating(number)
            game = self.new_game()
            try:
                game.reset(seed)
            except GameFault as fault:
                self.skip(number, fault.what)
            else:
                self.open.append(_OpenGame(number, game, seats))

    def tick(self) -> None:
        """Play one turn in every open game, all answered together."""
        waiting = [one for one in self.open if not one.game.over]  # a game may be over before its first turn
        began = time.perf_counter()
        replies = answer(
            [(self.players[one.seats[one.game.seat]], PendingTurn(one.game, one.number)) for one in waiting]
        )
        took = time.perf_counter() - began
        for one, reply in zip(waiting, replies, strict=True):
            one.apply(reply)
            one.seconds += took  # it waits for the slowest reply of the batch
        for one in self.open:
            if one.fault is not None:
                self.skip(one.number, one.fault)
            elif one.game.over:
                names = tuple(self.players[player].name for player in one.seats)
                self.records[one.number] = one.record(names)
                self.ended(self.records[one.number])
        self.open = [one for one in self.open if one.fault is None and not one.game.over]

    def skip(self, number: int, reason: str) -> None:
        self.skipped[number] = reason
        self.ended(None)

    def result(self) -> MatchResult:
        differences: list[list[float]] = [[] for _ in range(self.n_seats)]
        rewards: list[tuple[float, float]] = []
        cut_off, skipped, invalid = 0, [], [0, 0]
        for game in range(self.games):
            numbers = range(game * self.copies, (game + 1) * self.copies)
            reasons = [self.skipped[number] for number in numbers if number in self.skipped]
            if reasons:
                skipped.append(reasons[0])
                continue
            if any(self.records[number].cut_off for number in numbers):
                cut_off += 1
                continue
            own: list[list[float]] = [[], []]
            erred: set[int] = set()
            for number in numbers:
                record = self.records[number]
                for seat, player in enumerate(self.seating(number)[0]):
                    own[player].append(record.rewards[seat])
                    if record.invalid[seat]:
                        erred.add(player)
            for player in erred:
                invalid[player] += 1
            means = (statistics.mean(own[0]), statistics.mean(own[1]))  # exact: equal seats are a draw
            rewards.append(means)
            differences[game % self.n_seats].append(means[0] - means[1])
        records = [self.records[number] for number in sorted(self.records)]
        return MatchResult(
            first=self.players[0].name,
            second=self.players[1].name,
            game=self.game_id,
            total=_tally([one for seat in differences for one in seat]),
            by_seat=tuple(_tally(seat) for seat in differences),
            cut_off=cut_off,
            skipped=tuple(skipped),
            mean_rewards=(_mean([one for one, _ in rewards]), _mean([two for _, two in rewards])),
            invalid=(invalid[0], invalid[1]),
            mean_length=_mean([record.length for record in records]),
            token_use=(self.players[0].take_token_use(), self.players[1].take_token_use()),
            records=tuple(records),
        )


class Predicts(Protocol):
    """A policy for one seat of a `SimultaneousGame`."""

    def predict(self, obs: Any) -> Any: ...


def play_simultaneously(game: SimultaneousGame, seats: Sequence[Predicts], seed: int) -> GameOutcome:
    """Play one game between the policies at `seats`."""
    game.reset(seed)
    while not game.over:
        game.play([seat.predict(seen) for seat, seen in zip(seats, game.observations(), strict=True)])
    return game.outcome()


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of the share `successes` / `trials` (Wilson's score interval)."""
    if trials < 1:
        raise ValueError("a share of no trials")
    share, z2 = successes / trials, _Z * _Z
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = _Z / (1 + z2 / trials) * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials))
    # at the ends, rounding must not exclude the observed share
    return (0.0 if successes == 0 else centre - half), (1.0 if successes == trials else centre + half)


def _tally(differences: Sequence[float]) -> WinTally:
    return WinTally(
        sum(one > 0 for one in differences),
        sum(one == 0 for one in differences),
        sum(one < 0 for one in differences),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan

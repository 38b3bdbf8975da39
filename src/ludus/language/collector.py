"""Collect turns from matches: many games are open at once, and all pending turns of a player are answered together."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from ludus.config.language import GamesConfig, GameSpec
from ludus.envs.seats import GameFault
from ludus.errors import UserError
from ludus.language.collection_statistics import ReturnSpread, TurnEstimate, TurnTally
from ludus.language.player_pool import PlayerPool
from ludus.language.text_games.extraction import Extractor
from ludus.language.text_games.game import TextGame
from ludus.language.text_games.templates import Template
from ludus.language.turns import Turn, Turns
from ludus.league.league import League
from ludus.league.players import PendingTurn, Reply, answer
from ludus.league.records import MatchRecord
from ludus.rollout.collector import Collector
from ludus.runs.streams import Streams
from ludus.types import EpisodeRecord, Metrics

_log = logging.getLogger("ludus.rollout")
MAX_SKIPPED = 50  # matches in a row that could not be played to their end, after which the run stops


@dataclass(frozen=True)
class GameSetup:
    """A game as it is played here: its rules, how a turn becomes a prompt, how a completion becomes a move."""

    spec: GameSpec
    template: Template
    extractor: Extractor
    weight: float = 1.0

    @property
    def game(self) -> str:
        return self.spec.id

    def new_game(self) -> TextGame:
        return TextGame(self.spec, self.template, self.extractor)


@dataclass(eq=False)
class OpenMatch:
    """A match that is being played."""

    number: int
    table: int
    game: TextGame
    players: tuple[str, ...]
    learner_seat: int
    """The seat of the learner that this match was opened for."""
    turns: list[Turn] = field(default_factory=list)
    moves: list[tuple[int, str]] = field(default_factory=list)
    seconds: float = 0.0
    """Seconds in which its turns were played, in parallel with other matches."""
    group: int | None = None
    branch_at: int | None = None
    """The number of the learner's turn at which the match branches; None: it does not, or already has."""

    def record(self) -> MatchRecord:
        return MatchRecord.of(
            self.number,
            self.game,
            self.players,
            moves=self.moves,
            turns=self.turns,
            group=self.group,
            seconds=self.seconds,
        )


class MatchCollector(Collector):
    """Plays matches between the learners and opponents that the league chooses.

    A collection ends when the learners have taken `settings.turns` turns in finished games. With
    `settings.across_updates` games that are still open then continue under the next version, and games that ended
    beyond that number belong to the next collection. Without it, a game starts only while the open games are not
    expected to give enough turns, and all games are played to their end.
    """

    saves_games = True

    def __init__(
        self,
        tables: Sequence[GameSetup],
        league: League,
        pool: PlayerPool,
        settings: GamesConfig,
        streams: Streams,
    ) -> None:
        super().__init__()
        self.tables = tuple(tables)
        self.league = league
        self.settings = settings
        self.metrics: Metrics = {}
        self._pool = pool
        self._learners = pool.learners
        self._streams = streams
        self._rng = streams.numpy("matches")
        self._weights = np.array([table.weight for table in tables]) / sum(table.weight for table in tables)
        self._open: list[OpenMatch] = []
        self._next = 0
        self._skipped_in_a_row = 0
        self._spread = ReturnSpread(len(tables))
        self._lengths = TurnEstimate([table.spec.max_turns for table in tables])

    def collect(self, policy: Any = None) -> Turns:
        """Play until the learners have taken enough turns; `policy` is unused, since their players hold the weights.

        The samplers' caches are cleared first, as in a resumed run. Most of their content was computed with older
        weights and cannot be used.
        """
        self._pool.forget()
        self._tally = TurnTally()
        finished: list[MatchRecord] = []
        wanted, across = self.settings.turns, self.settings.across_updates
        taken = 0
        while True:
            for match in [match for match in self._open if match.game.over]:
                if across and taken >= wanted:
                    break
                self._open.remove(match)
                record = self._finish(match)
                if record is not None:
                    finished.append(record)
                    taken += self._taken(record.turns)
            if taken >= wanted and (across or not self._open):
                return self._experience(finished)
            self._open_matches(wanted - taken)
            self._tick()
            self._call_hook(taken)

    def barrier(self, number: int) -> None:
        """Clear the samplers' caches, which are not saved. Games are saved as their seed and moves."""
        self._pool.forget()

    def close(self) -> None:
        self._open.clear()

    def values(self) -> dict[str, Any]:
        return {
            "league": self.league.state_dict(),
            "roster": self._pool.state_dict(),
            "matches": {
                "next": self._next,
                "lost_in_a_row": self._skipped_in_a_row,
                "spread": self._spread.state_dict(),
                "lengths": self._lengths.state_dict(),
                "open": [_open_to_plain(match) for match in self._open],
            },
        }

    def load(self, tensors: dict[str, Any], values: dict[str, Any]) -> None:
        self.league.load_state_dict(values["league"])
        self._pool.load_state_dict(values["roster"])
        state = values["matches"]
        self._next = int(state["next"])
        self._skipped_in_a_row = int(state["lost_in_a_row"])
        self._spread.load_state_dict(state["spread"])
        if "lengths" in state:  # a run of an earlier version has none
            self._lengths.load_state_dict(state["lengths"])
        self._open = []
        for plain in state["open"]:
            try:
                self._open.append(_open_from_plain(plain, self.tables))
            except GameFault as fault:
                _log.warning("the open match %d is dropped: %s", plain["number"], fault.what)

    # Within

    def _taken(self, turns: Sequence[Turn]) -> int:
        return sum(turn.player in self._learners for turn in turns)

    def _expected(self, match: OpenMatch) -> float:
        """Return the learners' turns that a match will have had when it and its copies are over."""
        own = self._taken(match.turns)
        if match.game.over:
            return own
        return self._copies(match) * self._lengths.expected(match.table, own)

    def _open_matches(self, wanted: int) -> None:
        """Open games up to the number in the settings, while the turns expected of all are fewer than `wanted`.

        Games that can continue under the next version are always opened. A match that will branch counts as all its
        copies.
        """
        across = self.settings.across_updates
        number_open = sum(self._copies(match) for match in self._open if not match.game.over)
        expected = sum(self._expected(match) for match in self._open)
        while number_open < self.settings.open and (across or expected < wanted):
            number, self._next = self._next, self._next + 1
            index = int(self._rng.choice(len(self.tables), p=self._weights))
            table = self.tables[index]
            game = table.new_game()
            game.reset(self._streams.derive("match", number))
            if game.over:
                why = "it is over before it begins" if game.fault is None else game.fault.what
                self._skip(table.game, "the game", why)
                continue
            learner = self._learners[number % len(self._learners)]
            learner_seat = int(self._rng.integers(game.n_seats))
            players = tuple(
                learner
                if seat == learner_seat
                else self.league.choose_opponent(learner, table.game, self._rng)
                for seat in range(game.n_seats)
            )
            branch_at = None
            if self.settings.branch > 1:
                branch_at = self._spread.choose(index, self.settings.branch_at, self._rng)
            opened = OpenMatch(number, index, game, players, learner_seat, branch_at=branch_at)
            self._open.append(opened)
            number_open += self._copies(opened)
            expected += self._expected(opened)

    def _copies(self, match: OpenMatch) -> int:
        return 1 if match.branch_at is None else self.settings.branch

    def _tick(self) -> None:
        """Play one turn in every open match that is not over."""
        self._branch()
        began = time.perf_counter()
        moving = [(match, match.players[match.game.seat]) for match in self._open if not match.game.over]
        replies = answer(
            [(self._pool.player(name), PendingTurn(match.game, match.number)) for match, name in moving]
        )
        took = time.perf_counter() - began
        for (match, name), reply in zip(moving, replies, strict=True):
            match.seconds += took  # it waits for the slowest reply of the batch
            self._apply(match, name, reply)
        self._tally.acted(replies, took)

    def _apply(self, match: OpenMatch, name: str, reply: Reply) -> None:
        if reply.fault is not None:
            self._skip(match.game.spec.id, name, reply.fault)
            self._open = [other for other in self._open if other is not match]
            return
        seat = match.game.seat
        accepted = match.game.play(reply.action)
        match.moves.append((seat, reply.action))
        if reply.turn is not None:
            assert isinstance(reply.turn, Turn)
            match.turns.append(
                replace(
                    reply.turn, invalid=not accepted, group=match.group, env_reward=match.game.last_reward
                )
            )

    def _branch(self) -> None:
        """Branch the matches that have reached their branching turn."""
        for match in list(self._open):
            if match.branch_at is None or match.game.over or match.game.seat != match.learner_seat:
                continue
            if sum(turn.seat == match.learner_seat for turn in match.turns) < match.branch_at:
                continue
            try:
                games = [match.game.branch() for _ in range(self.settings.branch - 1)]
            except GameFault as fault:
                self._skip(match.game.spec.id, "the game", fault.what)
                self._open = [other for other in self._open if other is not match]
                continue
            match.branch_at, match.group = None, match.number
            match.turns = []  # they were played before the group began, so there is nothing to compare them with
            for game in games:
                copy = replace(match, number=self._next, game=game, turns=[], moves=list(match.moves))
                self._next += 1
                self._open.append(copy)

    def _finish(self, match: OpenMatch) -> MatchRecord | None:
        record = match.record()
        if match.game.fault is not None:  # the result does not depend on the players' turns
            self._tally.cut_off[record.game] += 1
            self._skip(record.game, "the game", match.game.fault.what)
            return None
        if record.cut_off:
            self._tally.cut_off[record.game] += 1
            if record.reason:
                _log.info("match %d of %s was cut off: %s", record.match, record.game, record.reason)
        self._skipped_in_a_row = 0
        self.league.record(record)
        self._tally.finished(record, match.learner_seat)
        own = sum(seat == match.learner_seat for seat, _ in match.moves)  # including those before it branched
        self._spread.update(match.table, own, record.rewards[match.learner_seat])
        self._lengths.update(match.table, self._taken(record.turns))
        return record

    def _skip(self, game: str, cause: str, fault: str) -> None:
        """Count a match that cannot continue. UserError after `MAX_SKIPPED` of them in a row."""
        self._tally.skipped[cause] += 1
        self._skipped_in_a_row += 1
        _log.warning(
            "a match of %s was skipped because of %s: %s", game, cause, fault.strip().splitlines()[-1]
        )
        if self._skipped_in_a_row >= MAX_SKIPPED:
            raise UserError(
                f"{MAX_SKIPPED} matches in a row could not be played, the last because of {cause}",
                where=fault.strip().splitlines()[-1],
                fix="check the games and the opponents of this config: ludus match RUN OPPONENT --env GAME",
            )

    def _experience(self, finished: list[MatchRecord]) -> Turns:
        turns = [turn for match in finished for turn in match.turns if turn.player in self._learners]
        for name, use in self._pool.take_token_use().items():
            self.league.count_requests(name, **asdict(use))
        self.metrics = self._tally.metrics(turns) | self.league.metrics()
        return Turns(
            steps=len(turns),
            episodes=[_episode(match, self._learners) for match in finished],
            turns=turns,
            matches=finished,
        )


def _episode(match: MatchRecord, learners: Sequence[str]) -> EpisodeRecord:
    """Return the match as an episode of the learner: the reward of its first seat, and success against others."""
    seats = [seat for seat, name in enumerate(match.players) if name in learners]
    reward = float(match.rewards[seats[0]])
    others = [match.rewards[seat] for seat in range(len(match.players)) if seat not in seats]
    return EpisodeRecord(reward, match.length, reward > max(others) if others else None)


def _open_to_plain(match: OpenMatch) -> dict[str, Any]:
    turns = []
    for turn in match.turns:
        plain = asdict(turn)
        for name in ("log_probs", "raw_log_probs"):
            plain[name] = [float(value) for value in plain[name]]
        turns.append(plain)
    return {
        "number": match.number,
        "table": match.table,
        "seed": match.game.seed,
        "actions": list(match.game.actions),
        "players": list(match.players),
        "home": match.learner_seat,
        "turns": turns,
        "moves": [list(move) for move in match.moves],
        "seconds": match.seconds,
        "group": match.group,
        "branch_at": match.branch_at,
    }


def _open_from_plain(plain: dict[str, Any], tables: Sequence[GameSetup]) -> OpenMatch:
    turns = []
    for saved in plain["turns"]:
        arrays = {name: np.array(saved[name], dtype=np.float32) for name in ("log_probs", "raw_log_probs")}
        tokens = {name: tuple(saved[name]) for name in ("prompt", "completion")}
        turns.append(Turn(**{**saved, **arrays, **tokens}))
    table = tables[plain["table"]]
    return OpenMatch(
        number=plain["number"],
        table=plain["table"],
        game=TextGame.replay(table.spec, plain["seed"], plain["actions"], table.template, table.extractor),
        players=tuple(plain["players"]),
        learner_seat=plain["home"],
        turns=turns,
        moves=[(seat, action) for seat, action in plain["moves"]],
        seconds=float(plain.get("seconds", 0.0)),
        group=plain["group"],
        branch_at=plain["branch_at"],
    )

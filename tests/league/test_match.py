"""Matches at real games: who sits where, whose reward is whose, and what is counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("textarena")

from ludus.config.language import GameSpec
from ludus.envs.seats import GameOutcome
from ludus.evaluation.players import make_bot
from ludus.language.text_games.game import TextGame
from ludus.league.match import MatchResult, WinTally, play_matches, play_simultaneously, wilson
from ludus.league.players import BotPlayer, PendingTurn, Player, Reply
from ludus.league.ratings import Ratings
from ludus.league.records import MatchRecord

TICTACTOE = GameSpec("TicTacToe-v0")
THREE = GameSpec("ThreePlayerTicTacToe-v0")
GUESS = GameSpec("GuessTheNumber-v0")


class Scripted(Player):
    """Plays what `choose` says; remembers every turn it was asked for."""

    kind = "bot"

    def __init__(self, name: str, choose: Callable[[PendingTurn], str | None]) -> None:
        self.name = name
        self.asked: list[tuple[int, int]] = []
        self.batches: list[int] = []
        self._choose = choose

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        self.asked += [(turn.match, turn.seat) for turn in turns]
        self.batches.append(len(turns))
        replies = []
        for turn in turns:
            assert turn.game.seat == turn.seat and not turn.game.over
            action = self._choose(turn)
            replies.append(Reply("", "", fault="no connection") if action is None else Reply(action, action))
        return replies


def first_free(order: Sequence[int]) -> Callable[[PendingTurn], str]:
    """The first cell of `order` that the text still offers."""

    def choose(turn: PendingTurn) -> str:
        taken = {action for action in turn.game.actions}
        return next(f"[{cell}]" for cell in order if f"[{cell}]" not in taken)

    return choose


def top_row() -> Scripted:
    return Scripted("top", first_free([0, 1, 2, 3, 4, 5, 6, 7, 8]))


def middle_row() -> Scripted:
    return Scripted("middle", first_free([3, 4, 5, 0, 1, 2, 6, 7, 8]))


def play(first: Player, second: Player, spec: GameSpec, games: int, **settings: object) -> MatchResult:
    return play_matches(
        first,
        second,
        partial(TextGame, spec),
        games,
        int(settings.pop("seed", 0)),
        **settings,
    )


def bot(name: str, spec: GameSpec, seed: int = 0) -> BotPlayer:
    return BotPlayer(name, {spec: make_bot(name, spec, np.random.default_rng(seed))})


def test_seats_rotate_and_every_seed_is_played_from_both() -> None:
    result = play(top_row(), middle_row(), TICTACTOE, 5, seed=40)
    assert [(record.match, record.players, record.seed) for record in result.records] == [
        (0, ("top", "middle"), 40),
        (1, ("middle", "top"), 40),
        (2, ("top", "middle"), 41),
        (3, ("middle", "top"), 41),
        (4, ("top", "middle"), 42),
    ]


def test_first_player_of_a_race_of_rows_wins_and_gets_the_reward() -> None:
    # each fills a row of its own: the one who begins has three in a row first
    top, middle = top_row(), middle_row()
    result = play(top, middle, TICTACTOE, 6)
    assert result.by_seat == (WinTally(wins=3), WinTally(losses=3))
    assert result.total == WinTally(wins=3, losses=3)
    assert result.mean_rewards == (0.0, 0.0)
    for record in result.records:
        assert record.rewards == (1.0, -1.0)  # player 0 began
        begins = ["[0]", "[1]", "[2]"] if record.players[0] == "top" else ["[3]", "[4]", "[5]"]
        assert [action for seat, action in record.moves if seat == 0] == begins
        assert [seat for seat, _ in record.moves] == [0, 1, 0, 1, 0]
        assert record.length == 5 and not record.cut_off
    # the top player was asked on seat 0 in even games and on seat 1 in odd ones
    assert {(number % 2, seat) for number, seat in top.asked} == {(0, 0), (1, 1)}
    assert {(number % 2, seat) for number, seat in middle.asked} == {(0, 1), (1, 0)}


def test_records_replay_to_the_same_end() -> None:
    result = play(bot("random", TICTACTOE, 1), bot("greedy", TICTACTOE, 2), TICTACTOE, 12)
    for record in result.records:
        game = TextGame.replay(TICTACTOE, record.seed, [action for _, action in record.moves])
        assert game.over and game.outcome().rewards == record.rewards


def test_player_who_makes_an_invalid_move_loses_the_game() -> None:
    stubborn = Scripted("stubborn", lambda turn: "[nowhere]")
    result = play(stubborn, bot("random", TICTACTOE), TICTACTOE, 6)
    assert result.total == WinTally(losses=6)
    assert result.by_seat == (WinTally(losses=3), WinTally(losses=3))
    assert result.invalid == (6, 0)
    for record in result.records:
        assert record.invalid == tuple(name == "stubborn" for name in record.players)
    assert play(bot("random", TICTACTOE), stubborn, TICTACTOE, 6).invalid == (0, 6)


def test_a_perfect_player_never_loses_from_any_seat() -> None:
    result = play(bot("minimax", TICTACTOE, 1), bot("random", TICTACTOE, 2), TICTACTOE, 40)
    assert result.total.losses == 0 and result.total.wins > 20
    assert [tally.games for tally in result.by_seat] == [20, 20]
    mirrored = play(bot("random", TICTACTOE, 2), bot("minimax", TICTACTOE, 1), TICTACTOE, 40)
    assert mirrored.total.wins == 0 and mirrored.total.losses > 20
    even = play(bot("minimax", TICTACTOE, 1), bot("minimax", TICTACTOE, 2), TICTACTOE, 10)
    assert even.total == WinTally(draws=10)


def test_at_a_table_of_three_the_second_fills_the_other_seats() -> None:
    winner = Scripted("winner", first_free([0, 1, 2, 3]))
    others = Scripted("others", first_free([5, 7, 9, 11, 13, 15, 17, 19, 21, 23]))
    result = play(winner, others, THREE, 6, seed=3)
    assert [record.players.index("winner") for record in result.records] == [0, 1, 2, 0, 1, 2]
    assert [record.seed for record in result.records] == [3, 3, 3, 4, 4, 4]
    assert result.total == WinTally(wins=6)
    assert result.by_seat == (WinTally(wins=2),) * 3
    for record in result.records:
        place = record.players.index("winner")
        assert record.rewards[place] == max(record.rewards) > min(record.rewards)
        assert {seat for seat, action in record.moves if action in ("[0]", "[1]", "[2]", "[3]")} == {place}


def guess_between(low: int, high: int) -> Callable[[PendingTurn], str]:
    def choose(turn: PendingTurn) -> str:
        least, most = low, high
        text = turn.game.observe().text
        for action in turn.game.actions:
            guess = int(action.strip("[]"))
            answer = text.split(f"[Player] [{guess}]")[-1].split("[Player]")[0]
            if "higher" in answer:
                least = max(least, guess + 1)
            elif "lower" in answer:
                most = min(most, guess - 1)
        return f"[{(least + most) // 2}]"

    return choose


def test_alone_both_play_the_same_seeds_and_are_compared() -> None:
    clever = Scripted("clever", guess_between(1, 20))
    mulish = Scripted("mulish", lambda turn: "[1]" if turn.game.turns % 2 else "[20]")
    result = play(clever, mulish, GUESS, 5, seed=7)
    assert [(record.players, record.seed) for record in result.records] == [
        ((name,), 7 + game) for game in range(5) for name in ("clever", "mulish")
    ]
    assert result.total.wins == 5 and result.by_seat == (result.total,)
    assert result.mean_rewards[0] == 1.0 > result.mean_rewards[1]


def test_a_fault_skips_the_game_and_only_that_one() -> None:
    flaky = Scripted("flaky", lambda turn: None if turn.match == 2 else first_free(range(9))(turn))
    ended: list[MatchRecord | None] = []
    result = play(flaky, middle_row(), TICTACTOE, 6, ended=ended.append)
    assert result.skipped == ("no connection",)
    assert result.total.games == 5 and [record.match for record in result.records] == [0, 1, 3, 4, 5]
    assert ended.count(None) == 1 and len(ended) == 6


def test_a_match_that_is_hopeless_is_given_up_early() -> None:
    absent = Scripted("absent", lambda turn: None)
    result = play(absent, middle_row(), TICTACTOE, 200, side_by_side=8)
    assert len(result.skipped) == 200 and result.total.games == 0
    assert len(absent.asked) < 40


def test_a_game_that_does_not_end_by_itself_is_no_draw() -> None:
    result = play(top_row(), middle_row(), GameSpec("TicTacToe-v0", max_turns=3), 4)
    assert result.cut_off == 4 and result.total == WinTally()
    assert all(record.cut_off and record.rewards == (0.0, 0.0) for record in result.records)
    assert np.isnan(result.mean_rewards[0])
    assert result.total.summary()["shares"]["wins"] == {"rate": None, "interval": None}


def test_a_game_that_is_over_before_its_first_turn_asks_nobody() -> None:
    top = top_row()
    result = play(top, middle_row(), GameSpec("TicTacToe-v0", max_turns=0), 2)
    assert result.cut_off == 2 and not top.asked


def test_each_player_is_asked_once_for_all_its_turns() -> None:
    top, middle = top_row(), middle_row()
    play(top, middle, TICTACTOE, 8, side_by_side=8)
    assert top.batches == [4, 4, 4, 4, 4]  # half of the games wait for it at every tick
    assert middle.batches == [4, 4, 4, 4, 4]
    one_by_one = top_row()
    play(one_by_one, middle_row(), TICTACTOE, 4, side_by_side=1)
    assert set(one_by_one.batches) == {1}


def test_the_same_seed_gives_the_same_games() -> None:
    def moves(seed: int) -> str:
        result = play(
            bot("random", TICTACTOE, seed), bot("greedy", TICTACTOE, seed), TICTACTOE, 10, seed=seed
        )
        return json.dumps([record.moves for record in result.records])

    assert moves(1) == moves(1) != moves(2)


def test_bots_of_known_strength_end_in_order_in_one_table() -> None:
    spec = GameSpec("ConnectFour-v0")
    names = ("random", "greedy", "minimax")
    ratings = Ratings()
    for one, two in (("random", "greedy"), ("greedy", "minimax"), ("random", "minimax")):
        for record in play(bot(one, spec, 1), bot(two, spec, 2), spec, 8).records:
            ratings.rate(dict(zip(record.players, record.rewards, strict=True)))
    assert sorted(names, key=lambda name: ratings[name].mu) == list(names)


class MatchingPennies:
    """Five rounds; seat 0 wins a point where both choose alike, else seat 1."""

    n_seats = 2
    observation_space = action_space = spaces.Discrete(2)

    def reset(self, seed: int) -> None:
        self.points, self.rounds, self.shown = 0.0, 0, seed % 2

    @property
    def over(self) -> bool:
        return self.rounds == 5

    def observations(self) -> list[int]:
        return [self.shown, 1 - self.shown]

    def play(self, actions: Sequence[int]) -> None:
        self.points += 1 if actions[0] == actions[1] else -1
        self.rounds += 1

    def outcome(self) -> GameOutcome:
        return GameOutcome((self.points, -self.points), "", (False, False), cut_off=False)


class Copies:
    def predict(self, obs: int) -> int:
        return obs


def test_in_a_simultaneous_game_every_seat_acts_on_its_own_observation() -> None:
    assert play_simultaneously(MatchingPennies(), [Copies(), Copies()], seed=1).rewards == (-5.0, 5.0)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # (p + z2/2n -/+ z sqrt(p(1-p)/n + z2/4n2)) / (1 + z2/n) with z = 1.959964, z2 = 3.841459
        (8, 10, 0.490162, 0.943318),  # (0.8 + 0.192073 -/+ 1.959964 * sqrt(0.016 + 0.0096036)) / 1.384146
        (
            50,
            100,
            0.403832,
            0.596168,
        ),  # (0.5 + 0.0192073 -/+ 1.959964 * sqrt(0.0025 + 0.000096036)) / 1.038415
        (0, 10, 0.0, 0.277533),  # z2 / (n + z2)
        (10, 10, 0.722467, 1.0),
        (1, 1, 0.206549, 1.0),  # 1 / (1 + z2)
    ],
)
def test_intervals_are_wilsons(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=1e-6)


def test_no_share_without_a_trial() -> None:
    with pytest.raises(ValueError, match="no trials"):
        wilson(0, 0)

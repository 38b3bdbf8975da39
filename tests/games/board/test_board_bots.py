"""Bots: minimax does not lose, greedy looks one move ahead, the equilibrium bot cannot be beaten."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ludus.config.language import GameSpec
from ludus.envs.seats import GameBot
from ludus.errors import UnknownName, UserError
from ludus.evaluation.players import make_bot
from ludus.games.board.bots import equilibrium
from ludus.games.board.rules import BET, CALL, CHECK, FOLD, Hand, KuhnPoker
from ludus.language.text_games.game import TextGame

pytest.importorskip("textarena")


def play(spec: GameSpec, seats: tuple[str, str], games: int) -> list[tuple[float, ...]]:
    rng = np.random.default_rng(0)
    bots: list[GameBot] = [make_bot(name, spec, rng) for name in seats]
    game = TextGame(spec)
    results = []
    for seed in range(games):
        game.reset(seed)
        while not game.over:
            assert game.play(bots[game.seat].act(game))
        results.append(game.outcome().rewards)
    return results


@pytest.mark.parametrize("other", ["random", "greedy"])
def test_minimax_never_loses_at_tictactoe(other: str) -> None:
    spec = GameSpec("TicTacToe-v0")
    assert all(first >= 0 for first, _ in play(spec, ("minimax", other), 30))
    assert all(second >= 0 for _, second in play(spec, (other, "minimax"), 30))
    assert set(play(spec, ("minimax", "minimax"), 10)) == {(0.0, 0.0)}


def test_minimax_wins_nim_whenever_it_begins_with_unequal_piles() -> None:
    assert set(play(GameSpec("Nim-v0"), ("minimax", "greedy"), 20)) == {(1.0, -1.0)}
    assert set(play(GameSpec("Nim-v0", kwargs={"piles": [2, 2]}), ("random", "minimax"), 20)) == {(-1.0, 1.0)}


def test_minimax_beats_greedy_and_greedy_beats_random_at_connect_four() -> None:
    spec = GameSpec("ConnectFour-v0")
    assert sum(first for first, _ in play(spec, ("greedy", "random"), 20)) > 10
    assert sum(first for first, _ in play(spec, ("minimax", "greedy"), 6)) >= 4


def test_minimax_takes_an_immediate_win() -> None:
    spec = GameSpec("TicTacToe-v0")
    game = TextGame.replay(spec, 0, ["[0]", "[8]", "[1]", "[7]"])
    for seed in range(5):
        assert make_bot("minimax", spec, np.random.default_rng(seed)).act(game) == "[2]"


def test_greedy_takes_and_blocks_immediate_wins() -> None:
    spec = GameSpec("TicTacToe-v0")
    bot = make_bot("greedy", spec, np.random.default_rng(0))
    assert bot.act(TextGame.replay(spec, 0, ["[0]", "[8]", "[1]", "[7]"])) == "[2]"
    assert bot.act(TextGame.replay(spec, 0, ["[0]", "[8]", "[1]"])) == "[2]"


def chances(hand: Hand) -> dict[int, float]:
    rules, rng = KuhnPoker(1, stakes=True), np.random.default_rng(0)
    drawn = [equilibrium(rules, hand, rng) for _ in range(300)]
    counted = {action: drawn.count(action) / 300 for action in rules.legal(hand)}
    # the bot's probabilities are 0, 1/3 or 1
    return {a: round(share * 3) / 3 for a, share in counted.items()}


def test_no_strategy_beats_the_equilibrium_bot() -> None:
    rules, rng = KuhnPoker(1, stakes=True), np.random.default_rng(0)
    deals = list(itertools.permutations(range(3), 2))

    def best_reply(me: int) -> float:
        """Return the most chips per round that seat `me` can win, over all its pure strategies."""
        plans = list(itertools.product((CHECK, BET), (CALL, FOLD)))

        def value(hand: Hand, plan: tuple[int, int]) -> float:
            result = rules.result(hand)
            if result is not None:
                return result[me]
            legal = rules.legal(hand)
            if hand.seat == me:
                action = next(choice for choice in plan if choice in legal)
                return value(rules.after(hand, action, rng), plan)
            return sum(
                chance * value(rules.after(hand, action, rng), plan)
                for action, chance in chances(hand).items()
                if chance
            )

        total = 0.0
        for card in range(3):
            mine = [deal for deal in deals if deal[me] == card]
            start = [Hand(deal, 0, 1, 1, (0, 0), 1) for deal in mine]
            total += max(sum(value(hand, plan) for hand in start) for plan in plans)
        return total / len(deals)

    # seat 1 begins, and the first player loses 1/18 of a chip per round
    assert best_reply(me=0) == pytest.approx(1 / 18)
    assert best_reply(me=1) == pytest.approx(-1 / 18)


def test_unknown_bot_or_bot_of_another_game_raises() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(UnknownName, match="did you mean 'minimax'"):
        make_bot("minmax", GameSpec("TicTacToe-v0"), rng)
    with pytest.raises(
        UserError, match=r"'minimax' does not play KuhnPoker-v0[\s\S]*random, greedy, equilibrium"
    ):
        make_bot("minimax", GameSpec("KuhnPoker-v0"), rng)
    with pytest.raises(UserError, match=r"'greedy' does not play Chess-v0[\s\S]*bots for it: random"):
        make_bot("greedy", GameSpec("Chess-v0"), rng)


def test_bots_use_the_given_generator() -> None:
    spec = GameSpec("TicTacToe-v0")
    game = TextGame(spec)
    game.reset(0)
    first, second = (make_bot("random", spec, np.random.default_rng(3)) for _ in range(2))
    assert [first.act(game) for _ in range(10)] == [second.act(game) for _ in range(10)]

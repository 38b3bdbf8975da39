"""Matches of board games with Ludus's own rules, without TextArena."""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import Any

import numpy as np
import pytest

from ludus.config.language import GameConfig
from ludus.envs.seats import make_game
from ludus.errors import MissingExtra, UserError
from ludus.evaluation.players import make_player
from ludus.games.board.game import BoardGame
from ludus.language.text_games import arena
from ludus.league.match import play_matches
from ludus.runs.streams import Streams

GAMES = ["TicTacToe-v0", "ConnectFour-v0", "Nim-v0", "KuhnPoker-v0"]


@pytest.fixture
def without_textarena(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> Any:
        return None if name == "textarena" else found(name, package)

    def missing() -> Any:
        raise MissingExtra("playing text games", "text")

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    monkeypatch.setattr(arena, "textarena", missing)


def mean_rewards(first: str, second: str, game: str, games: int) -> tuple[float, float]:
    config = GameConfig(id=game)
    one, two = (
        make_player(name, [config.spec()], streams=Streams(0), stream=name) for name in (first, second)
    )
    result = play_matches(one, two, partial(make_game, config), games, 0)
    assert result.invalid == (0, 0) and result.total.games == games
    return result.mean_rewards


@pytest.mark.parametrize("game", GAMES)
def test_bots_play_every_board_game_without_textarena(without_textarena: None, game: str) -> None:
    assert isinstance(make_game(GameConfig(id=game)), BoardGame)
    assert sum(mean_rewards("greedy", "random", game, 20)) == pytest.approx(0.0)


def test_bots_play_the_same_games_with_and_without_textarena(request: pytest.FixtureRequest) -> None:
    pytest.importorskip("textarena")
    with_it = [mean_rewards("minimax", "random", game, 10) for game in ("TicTacToe-v0", "Nim-v0-medium")]
    assert not isinstance(make_game(GameConfig(id="TicTacToe-v0")), BoardGame)
    request.getfixturevalue("without_textarena")
    assert with_it == [
        mean_rewards("minimax", "random", game, 10) for game in ("TicTacToe-v0", "Nim-v0-medium")
    ]


def test_first_illegal_move_is_rejected_and_the_second_loses(without_textarena: None) -> None:
    game = make_game(GameConfig(id="TicTacToe-v0"))
    game.reset(0)
    assert game.play("[4]") and not game.play("I pass") and game.seat == 1
    assert "not available" in game.observe().text and not game.over
    assert game.play("[0]") and not game.play("[0]") and not game.play("[0]")
    assert game.over and game.turns == 5
    assert game.outcome().rewards == (-1.0, 1.0) and game.outcome().invalid == (True, False)


def test_game_is_truncated_after_its_maximum_of_turns(without_textarena: None) -> None:
    game = make_game(GameConfig(id="TicTacToe-v0", max_turns=2))
    game.reset(0)
    assert game.play("[4]") and game.play("[0]") and game.over
    assert game.outcome().cut_off and game.outcome().rewards == (0.0, 0.0)


def test_the_mask_has_the_legal_moves(without_textarena: None) -> None:
    game = make_game(GameConfig(id="TicTacToe-v0"))
    game.reset(0)
    game.play("[4]")
    mask = game.mask()
    assert mask is not None and np.flatnonzero(~mask).tolist() == [4]
    assert game.observe().position == "....-...."


def test_game_that_needs_textarena_raises_without_it(without_textarena: None) -> None:
    with pytest.raises(MissingExtra):
        make_game(GameConfig(id="Chess-v0"))
    with pytest.raises(UserError, match="cannot be played by 3"):
        make_game(GameConfig(id="TicTacToe-v0", players=3))

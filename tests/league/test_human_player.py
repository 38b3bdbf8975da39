"""A person at the table: what is shown, what is read, and what happens when nobody is there."""

from __future__ import annotations

import io

import pytest

pytest.importorskip("textarena")

from ludus.config.language import GameSpec
from ludus.errors import UserError
from ludus.language.text_games.game import TextGame
from ludus.league.human import HumanPlayer
from ludus.league.players import PendingTurn


def test_every_seat_is_shown_what_is_new_to_it() -> None:
    game = TextGame(GameSpec("TicTacToe-v0"))
    game.reset(0)
    screen = io.StringIO()
    person = HumanPlayer(screen=screen, keyboard=io.StringIO("[0]\n\n  [4] \n[1]\n"))
    shown = []
    for _ in range(3):
        [reply] = person.act([PendingTurn(game, 0)])
        assert game.play(reply.action)
        shown.append(screen.getvalue())
        screen.truncate(0)
        screen.seek(0)
    assert game.actions == ["[0]", "[4]", "[1]"]
    assert ["You are Player 0" in text for text in shown] == [True, False, False]
    assert ["You are Player 1" in text for text in shown] == [False, True, False]
    assert "[Player 1] [4]" in shown[2] and "player 0, your move:" in shown[2]


def test_without_anybody_to_answer_the_match_ends() -> None:
    game = TextGame(GameSpec("TicTacToe-v0"))
    game.reset(0)
    with pytest.raises(UserError, match="the input ended"):
        HumanPlayer(screen=io.StringIO(), keyboard=io.StringIO("\n")).act([PendingTurn(game, 0)])

"""Which text games there are: every id of TextArena's, by how many they are played, the nearest of a wrong name."""

from __future__ import annotations

import pytest

from ludus.config.language import GameConfig, GameSpec
from ludus.errors import UnknownName, UserError
from ludus.language.text_games.catalog import (
    check_game,
    check_players,
    fewest_players,
    game_ids,
    games,
    player_counts,
)

pytest.importorskip("textarena")


def test_every_id_with_its_variants_is_there() -> None:
    ids = game_ids()
    assert {"TicTacToe-v0", "TicTacToe-v0-train", "TicTacToe-v0-raw", "Nim-v0-large", "2048-v0-3x3"} <= set(
        ids
    )
    assert len(ids) > 400 and ids == sorted(ids)
    kinds = [f"Nim-v0{size}{kind}" for size in ("", "-large", "-medium") for kind in ("", "-raw", "-train")]
    assert games()["Nim"] == sorted(kinds)


def test_an_unknown_id_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"unknown game 'ConectFour-v0'[\s\S]*'ConnectFour-v0'"):
        check_game("ConectFour-v0")
    with pytest.raises(UnknownName, match="unknown env 'NoSuch-v0'"):
        check_game("gym:NoSuch-v0")


@pytest.mark.parametrize(
    ("game_id", "counts"),
    [
        ("TicTacToe-v0", (2,)),
        ("2048-v0", (1,)),
        ("ThreePlayerTicTacToe-v0", (3,)),
        ("SettlersOfCatan-v0", (4,)),
        ("LiarsDice-v0", tuple(range(2, 16))),
        ("SecretMafia-v0", tuple(range(6, 16))),
        ("Briscola-v0", (2, 3, 4)),
        ("QuantumTicTacToe-v0", (2,)),
        ("SpiteAndMalice-v0", (2,)),
        ("Taboo-v0", (4, 6, 8, 10, 12, 14)),
    ],
)
def test_a_game_says_by_how_many_it_is_played(game_id: str, counts: tuple[int, ...]) -> None:
    assert fewest_players(GameSpec(game_id)) == counts[0]
    assert player_counts(GameSpec(game_id)) == counts


def test_games_that_would_start_with_one_player_are_given_enough() -> None:
    assert fewest_players(GameSpec("PublicGoodsGame-v0")) == 2


def test_a_config_is_a_spec() -> None:
    config = GameConfig(id="Nim-v0", players=2, kwargs={"piles": [1, 2]}, max_turns=7)
    assert config.spec() == GameSpec("Nim-v0", 2, {"piles": [1, 2]}, 7)
    assert hash(config.spec()) == hash(GameSpec("Nim-v0", 2, {"piles": [9]}, 7))
    check_players(config.spec())
    with pytest.raises(UserError, match="cannot be played by 5"):
        check_players(GameConfig(id="Nim-v0", players=5).spec())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (GameSpec("Klondike-v0"), r"Klondike-v0 cannot be read by Python 3[\s\S]*3.12"),
        (
            GameSpec("Nim-v0", kwargs={"pilez": [1]}),
            r"unexpected keyword argument 'pilez'[\s\S]*\{'pilez': \[1\]\}",
        ),
        (GameSpec("GuessWho-v0"), "OPENROUTER_API_KEY"),
    ],
)
def test_a_game_that_cannot_be_made_says_why(
    spec: GameSpec, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    with pytest.raises(UserError, match=message):
        fewest_players(spec)

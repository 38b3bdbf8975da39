"""Ludus's own fast rules match TextArena's: the same positions, legal moves and results."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from ludus.config.language import GameSpec
from ludus.games.board.codecs import GAMES, BoardCodec, codec_for
from ludus.games.board.rules import BET, CALL, CHECK, FOLD, ConnectFour, Hand, KuhnPoker
from ludus.language.text_games.arena import registry
from ludus.language.text_games.game import TextGame

pytest.importorskip("textarena")


def codec_of(game_id: str, **kwargs: Any) -> BoardCodec[Any]:
    codec = codec_for(game_id, kwargs)
    assert codec is not None
    return codec


def same_but_for_cards(own: Any, theirs: Any) -> bool:
    """Return whether both are the same position, except for cards of a new round, which TextArena deals at random."""
    return bool(own._replace(cards=theirs.cards) == theirs if isinstance(own, Hand) else own == theirs)


@pytest.mark.parametrize(
    ("game_id", "games"),
    [
        ("TicTacToe-v0", 300),
        ("ConnectFour-v0", 60),
        ("ConnectFour-v0-large", 10),
        ("Nim-v0", 200),
        ("Nim-v0-large", 40),
        ("KuhnPoker-v0", 200),
        ("KuhnPoker-v0-stakes", 300),
        ("KuhnPoker-v0-medium", 30),
    ],
)
def test_random_games_are_equal_under_both_rules(game_id: str, games: int) -> None:
    codec = codec_of(game_id)
    rules, rng = codec.rules, np.random.default_rng(1)
    game = TextGame(GameSpec(game_id, max_turns=1_000))
    endings = set()
    for seed in range(games):
        game.reset(seed)
        position = rules.start(rng)
        while not game.over:
            theirs = codec.position(game)
            assert same_but_for_cards(position, theirs)
            position = theirs
            assert rules.seat(position) == game.seat
            legal = rules.legal(position)
            action = int(rng.choice(legal))
            assert game.play(codec.text(action))
            assert codec.index(codec.text(action)) == action
            position = rules.after(position, action, rng)
            assert (rules.result(position) is not None) == game.over
        assert rules.result(position) == game.outcome().rewards
        assert len(rules.legal(position)) == 0 or rules.result(position) is None
        endings.add(game.outcome().rewards)
    assert len(endings) > 1


@pytest.mark.parametrize("game_id", ["TicTacToe-v0", "ConnectFour-v0", "Nim-v0", "KuhnPoker-v0"])
def test_textarena_rejects_exactly_the_masked_moves(game_id: str) -> None:
    codec, rng = codec_of(game_id), np.random.default_rng(2)
    game = TextGame(GameSpec(game_id))
    for seed in range(6):
        game.reset(seed)
        while not game.over:
            _, mask = codec.encode(game)
            if rng.random() < 0.3:
                accepted = [game.branch().play(codec.text(action)) for action in range(codec.rules.n_actions)]
                assert accepted == mask.tolist()
            game.play(codec.text(int(rng.choice(np.flatnonzero(mask)))))


def test_all_textarena_variants_are_known_with_their_sizes() -> None:
    names = ("TicTacToe", "ConnectFour", "Nim", "KuhnPoker")
    plain = {i for i in registry() if i.partition("-v")[0] in names and not i.endswith(("-train", "-raw"))}
    assert set(GAMES) == plain
    for game_id in GAMES:
        assert codec_of(game_id) is codec_of(f"{game_id}-train")
        spelled_out = codec_of(game_id, **registry()[game_id].kwargs)
        assert vars(spelled_out.rules) == vars(codec_of(game_id).rules)


def test_other_sizes_come_from_the_keyword_arguments() -> None:
    assert codec_of("Nim-v0", piles=[1, 2]).action_space.n == 3
    assert codec_of("ConnectFour-v0", num_cols=4).action_space.n == 4
    assert codec_for("Chess-v0") is None


def test_four_in_a_row_does_not_wrap_around_the_edge() -> None:
    rules, rng = ConnectFour(), np.random.default_rng(0)
    position = rules.start(rng)
    # seat 0 has the top of one column and the bottom of the next; no four of them are in a line
    for column in (0, 0, 0, 0, 6, 0, 6, 0, 1, 6, 1):
        position = rules.after(position, column, rng)
    assert rules.result(position) is None


def test_kuhn_poker_payoffs_match_hand_computation() -> None:
    rng = np.random.default_rng(0)
    for stakes, called in ((True, (2.0, -2.0)), (False, (1.0, -1.0))):
        rules = KuhnPoker(1, stakes=stakes)
        dealt = rules.start(rng)._replace(cards=(2, 0))
        assert dealt.seat == dealt.starter == 1

        def play(*actions: int, rules: KuhnPoker = rules, dealt: Hand = dealt) -> Any:
            position = dealt
            for action in actions:
                assert action in rules.legal(position)
                position = rules.after(position, action, rng)
            return rules.result(position)

        assert play(CHECK, CHECK) == (1.0, -1.0)
        assert play(BET, CALL) == called
        assert play(BET, FOLD) == (-1.0, 1.0)
        assert play(CHECK, BET, FOLD) == (1.0, -1.0)
        assert play(CHECK, BET, CALL) == called


def test_kuhn_poker_with_stakes_matches_openspiel() -> None:
    pyspiel = pytest.importorskip("pyspiel")
    rules, rng = KuhnPoker(1, stakes=True), np.random.default_rng(0)
    ends = 0

    def compare(theirs: Any, ours: Hand) -> None:
        nonlocal ends
        if theirs.is_terminal():
            ends += 1
            assert rules.result(ours) == (theirs.returns()[1], theirs.returns()[0])
            return
        assert ours.seat == 1 - theirs.current_player()
        passing, betting = (CHECK, BET) if ours.said <= 1 else (FOLD, CALL)
        for their_action, our_action in ((0, passing), (1, betting)):
            compare(theirs.child(their_action), rules.after(ours, our_action, rng))

    for first, second in itertools.permutations(range(3), 2):
        state = pyspiel.load_game("kuhn_poker").new_initial_state()
        compare(state.child(first).child(second), rules.start(rng)._replace(cards=(second, first)))
    assert ends == 6 * 5


def test_kuhn_poker_hides_the_other_card() -> None:
    codec = codec_of("KuhnPoker-v0")
    hand = Hand((0, 1), 0, 1, 1, (1, -1), 2)
    assert (codec.observe(hand, 1) == codec.observe(hand._replace(cards=(2, 1)), 1)).all()
    assert codec.observe(hand, 0).tolist() == pytest.approx([1, 0, 0, 1, 0, 0, 0, 2 / 3, 0.5 + 0.5 / 3])


def test_board_observation_is_from_the_players_view() -> None:
    game = TextGame(GameSpec("TicTacToe-v0"))
    game.reset(0)
    codec = codec_of("TicTacToe-v0")
    game.play("[0]")
    game.play("[4]")
    seen, mask = codec.encode(game)
    assert np.flatnonzero(seen).tolist() == [0, 9 + 4]
    assert np.flatnonzero(~mask).tolist() == [0, 4]
    assert np.flatnonzero(codec.observe(codec.position(game), 1)).tolist() == [4, 9]

    codec = codec_of("ConnectFour-v0")
    game = TextGame(GameSpec("ConnectFour-v0"))
    game.reset(0)
    game.play("[col 3]")
    game.play("[col 3]")
    assert np.flatnonzero(codec.encode(game)[0]).tolist() == [3 * 6, 42 + 3 * 6 + 1]

    codec = codec_of("Nim-v0")
    game = TextGame(GameSpec("Nim-v0"))
    game.reset(0)
    game.play("[1 4]")
    assert np.flatnonzero(codec.encode(game)[0]).tolist() == [3, 4, 9 + 5]


@pytest.mark.parametrize(
    ("game_id", "text", "action"),
    [
        ("TicTacToe-v0", "I take [ 4 ]", 4),
        ("TicTacToe-v0", "4", 4),
        ("TicTacToe-v0", "[9]", None),
        ("TicTacToe-v0", "hm", None),
        ("ConnectFour-v0", "[2] or [COL 3]", 3),
        ("ConnectFour-v0", "[col 7]", None),
        ("Nim-v0", "[1 2]", 3 + 1),
        ("Nim-v0", "[0 9]", None),
        ("KuhnPoker-v0", "[Fold]", FOLD),
        ("KuhnPoker-v0", "call", CALL),
        ("KuhnPoker-v0", "[raise]", None),
    ],
)
def test_actions_are_parsed_like_in_textarena(game_id: str, text: str, action: int | None) -> None:
    assert codec_of(game_id).index(text) == action

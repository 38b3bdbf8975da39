"""Players at a game with seats: networks through a codec, and players that answer in one batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ludus.config.language import GameSpec
from ludus.games.board.codecs import codec_for
from ludus.games.board.game import BoardGame
from ludus.league.players import PendingTurn, Player, PolicyPlayer, Reply, answer
from ludus.types import Array, BoolArray


def pending(*moves: str, match: int = 0) -> PendingTurn:
    codec = codec_for("TicTacToe-v0")
    assert codec is not None
    game = BoardGame(GameSpec("TicTacToe-v0"), codec)
    game.reset(0)
    for move in moves:
        assert game.play(move)
    return PendingTurn(game, match)


class Leftmost:
    """A network of sorts: the first action of those it may take; remembers what it was shown."""

    def __init__(self) -> None:
        self.seen: list[tuple[Array, BoolArray | None]] = []

    def predict(
        self,
        obs: Array,
        mask: BoolArray | None = None,
        deterministic: bool = True,
        generator: torch.Generator | None = None,
    ) -> Array:
        self.seen.append((obs, mask))
        assert mask is not None
        return mask.argmax(-1)


def test_a_network_sees_its_own_side_of_the_board_and_plays_the_legal_move_it_chose() -> None:
    codec = codec_for("TicTacToe-v0")
    assert codec is not None
    network = Leftmost()
    player = PolicyPlayer("net", network, "TicTacToe-v0", codec)
    replies = player.act([pending("[0]"), pending("[0]", "[4]"), pending()])
    assert [reply.action for reply in replies] == ["[1]", "[1]", "[0]"]
    [(obs, mask)] = network.seen
    assert mask is not None and mask.shape == (3, 9) and not mask[1, 0] and not mask[1, 4]
    own, other = obs[:, :9], obs[:, 9:]
    assert np.flatnonzero(other[0]).tolist() == [0] and not own[0].any()  # player 1 sees player 0's stone
    assert np.flatnonzero(own[1]).tolist() == [0] and np.flatnonzero(other[1]).tolist() == [4]
    assert all(reply.turn is None and reply.fault is None for reply in replies)


class Shouting(Player):
    """Answers with its name; players with the same hall answer together."""

    kind = "bot"

    def __init__(self, name: str, hall: object = None) -> None:
        self.name, self.hall = name, hall
        self.batches: list[int] = []

    @property
    def batch_key(self) -> object:
        return self.hall or self

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        return self.act_together([(self, turn) for turn in turns])

    def act_together(self, pending: Sequence[tuple[Player, PendingTurn]]) -> list[Reply]:
        self.batches.append(len(pending))
        return [Reply(f"{player.name}{turn.match}", "") for player, turn in pending]


def test_players_with_the_same_batch_key_are_asked_in_one_call_and_replies_keep_their_order() -> None:
    hall = object()
    ann, bob, cleo = Shouting("ann", hall), Shouting("bob", hall), Shouting("cleo")
    players = [ann, cleo, bob, ann]
    replies = answer([(player, pending(match=number)) for number, player in enumerate(players)])
    assert [reply.action for reply in replies] == ["ann0", "cleo1", "bob2", "ann3"]
    assert (ann.batches, bob.batches, cleo.batches) == ([3], [], [1])

"""The shipped TicTacToe preset in short: by self-play a model becomes clearly better than its warm start."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import pytest

from ludus.config.loading import load_config
from ludus.evaluation.players import make_player
from ludus.language.trainer import LanguageTrainer
from ludus.league.match import play_matches
from ludus.league.players import Player
from ludus.runs.streams import Streams
from ludus.training.factory import create_trainer

GAMES = 300
SHORTER = [
    "language.model_kwargs={layers: 2, hidden: 48, heads: 2, context: 16}",
    "games.open=64",
    "games.turns=512",
    "warmup.pairs=6000",
    "warmup.epochs=5",
    "warmup.learning_rate=3.0e-3",
    "hyperparams.learning_rate=1.0e-3",
    "hyperparams.mini_batch_size=64",
    "total_timesteps=40 updates",
    "evaluation.every=null",
    "checkpoint.every=null",
    "tracking.tensorboard=false",
    "threads=1",
    "seed=2",
]


@pytest.mark.long
def test_self_play_makes_the_tiny_model_better_than_its_warm_start(tmp_path: Path) -> None:
    trainer = create_trainer(None, load_config("tictactoe-tiny", [*SHORTER, f"save_dir={tmp_path}"]).config)
    assert isinstance(trainer, LanguageTrainer)
    trainer.train()
    (table,) = trainer.tables

    def not_lost(player: Player) -> float:
        """Share of games won or drawn against random."""
        opponent = make_player("random", [table.spec], streams=Streams(5))
        played = play_matches(player, opponent, table.new_game, GAMES, 5)
        return (played.total.wins + played.total.draws) / GAMES

    before, after = not_lost(trainer.pool.player("learner@0")), not_lost(trainer.pool.player("learner"))
    trainer.close()
    both = (before + after) / 2
    deviation = sqrt(2 * both * (1 - both) / GAMES)  # of the difference, were they equally good
    assert after - before > 3 * deviation, f"from {before:.0%} to {after:.0%}"

"""All seeds of an evaluation at once come out as they do one by one."""

from __future__ import annotations

from typing import Any

from ludus.envs.make import EnvSpec
from ludus.evaluation.evaluate import can_play_together, evaluate, play_episodes
from ludus.games.balatro.bot import RulesBot
from ludus.policies.base import RecurrentActor

SEEDS = [3, 1, 4, 15, 9]


def test_each_game_goes_as_it_would_alone() -> None:
    spec = EnvSpec("ludus/Balatro-v0", kwargs={"actions": "moves", "max_hand": 10}).resolve()
    bot = RulesBot()
    assert can_play_together(spec, bot)
    together = evaluate(bot, spec, SEEDS)
    alone = play_episodes(bot, [spec()], SEEDS)
    assert list(together.episodes) == alone
    assert len({episode.length for episode in alone}) > 1  # they ended at different times


def test_what_must_be_seen_or_remembered_is_played_one_by_one() -> None:
    spec = EnvSpec("ludus/Balatro-v0", kwargs={"actions": "moves"}).resolve()

    class Remembers(RulesBot, RecurrentActor):
        def predict_with_memory(self, *args: Any) -> Any: ...

    assert not can_play_together(spec, Remembers())
    assert not can_play_together(lambda: spec(), RulesBot())
    assert not can_play_together(EnvSpec("CartPole-v1"), RulesBot())

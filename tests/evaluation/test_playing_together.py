"""All seeds of an evaluation at once give the same results as one by one."""

from __future__ import annotations

from typing import Any

import pytest

from ludus.envs.make import EnvSpec
from ludus.evaluation.evaluate import can_play_together, evaluate, play_episodes
from ludus.games.balatro.bot import RulesBot
from ludus.policies.base import RecurrentActor

SEEDS = [3, 1, 4, 15, 9]


def test_batched_episodes_equal_single_episodes() -> None:
    spec = EnvSpec("ludus/Balatro-v0", kwargs={"actions": "moves", "max_hand": 10}).resolve()
    bot = RulesBot()
    assert can_play_together(spec, bot)
    together = evaluate(bot, spec, SEEDS)
    alone = play_episodes(bot, [spec()], SEEDS)
    assert list(together.episodes) == alone
    assert len({episode.length for episode in alone}) > 1  # they ended at different times


def test_batched_episodes_are_cut_like_single_ones() -> None:
    spec = EnvSpec("ludus/Balatro-v0", kwargs={"actions": "moves", "max_hand": 10}).resolve()
    together = evaluate(RulesBot(), spec, SEEDS, max_steps=12)
    alone = play_episodes(RulesBot(), [spec()], SEEDS, max_steps=12)
    assert [(one.length, one.capped) for one in together.episodes] == [
        (one.length, one.capped) for one in alone
    ]
    assert [one.reward for one in together.episodes] == pytest.approx([one.reward for one in alone], rel=1e-5)
    assert together.capped > 0


def test_rendered_or_recurrent_play_is_not_batched() -> None:
    spec = EnvSpec("ludus/Balatro-v0", kwargs={"actions": "moves"}).resolve()

    class Remembers(RulesBot, RecurrentActor):
        def predict_with_memory(self, *args: Any) -> Any: ...

    assert not can_play_together(spec, Remembers())
    assert not can_play_together(lambda: spec(), RulesBot())
    assert not can_play_together(EnvSpec("CartPole-v1"), RulesBot())

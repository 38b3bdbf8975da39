"""Publishing in self-play: the samplers and the league get the learners' new weights."""

from __future__ import annotations

from typing import Any

from ludus.language.player_pool import PlayerPool
from ludus.league.league import League
from ludus.training.base import Publisher


class SamplerPublisher(Publisher):
    """Sends the weights of every learner to the samplers, and its version number to the league."""

    def __init__(self, pool: PlayerPool, league: League) -> None:
        self._pool = pool
        self._league = league

    def send(self, learner: Any) -> None:
        for name in self._pool.learners:
            self._pool.publish(name, learner.version(name))
            self._league.members[name].version = learner.version(name)

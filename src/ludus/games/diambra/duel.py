"""Two players at one game: `DuelTable` seats two, `DuelEnv` is one seat of it with somebody at the other.

A seat observes what a single player does: the frame, stage and timer, its own states and the opponent's, its actions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import gymnasium as gym

from ludus.games.diambra.bots import make_bot
from ludus.games.diambra.env import DiambraEnv, Obs
from ludus.games.diambra.settings import filter_keys

SEATS = ("agent_0", "agent_1")


class DuelTable:
    """A game for two on one engine; both seats have the same spaces. `kwargs` are those of `DiambraEnv`.

    The reward of `step` is the first seat's, the second's is its negative; at the end of a game the info says in
    `rounds_ahead` how many rounds more the first seat won than the other, and in `is_success` whether it won.
    """

    def __init__(self, game_id: str, **kwargs: Any) -> None:
        kwargs.pop("opponent", None)
        self._env = DiambraEnv(game_id, **{**kwargs, "n_players": 2})
        wrappers = self._env.settings.wrappers_settings
        told: Any = self._env.observation_space
        keys = filter_keys(game_id, wrappers.model_copy(update={"role_relative": True}))
        own = {key: space for seat_key, space in told.items() if (key := _own_key(seat_key, SEATS[0]))}
        own = {key: space for key, space in own.items() if (key in keys if keys else key != "action")}
        if wrappers.add_last_action and not keys:
            own["action"] = told[f"{SEATS[0]}_action"]
        self.observation_space = gym.spaces.Dict(own)
        actions: Any = self._env.action_space
        self.action_space: gym.Space[Any] = actions[SEATS[0]]

    @property
    def env(self) -> DiambraEnv:
        """The env of both seats."""
        return self._env

    def reset(self, seed: int | None = None) -> tuple[list[Obs], dict[str, Any]]:
        """Start a game: what each seat observes, and the info."""
        obs, info = self._env.reset(seed=seed)
        return self._seats(obs), info

    def step(self, actions: list[Any]) -> tuple[list[Obs], float, bool, bool, dict[str, Any]]:
        """Both seats act at the same time."""
        obs, reward, terminated, truncated, info = self._env.step(dict(zip(SEATS, actions, strict=True)))
        if terminated:
            own, other = (float(obs[f"{SEATS[0]}_{player}_wins"][0]) for player in ("own", "opp"))
            info |= {"rounds_ahead": own - other, "is_success": own > other}
        return self._seats(obs), reward, terminated, truncated, info

    def close(self) -> None:
        self._env.close()

    def _seats(self, obs: Obs) -> list[Obs]:
        return [
            {
                key: obs[f"{seat}_{key}"] if f"{seat}_{key}" in obs else obs[key]
                for key in self.observation_space
            }
            for seat in SEATS
        ]


class DuelPlayer(Protocol):
    """Who has the other seat. `restart` tells from which random numbers the next game is played."""

    def restart(self, seed: int) -> None: ...

    def predict(self, obs: Any) -> Any: ...


MakePlayer = Callable[[gym.Space[Any], gym.Space[Any]], DuelPlayer]
"""From the spaces of a seat to somebody who plays there."""


class DuelEnv(gym.Env[Any, Any]):
    """One seat of a game for two; `opponent`, a bot's name or what makes a player, has the other."""

    metadata = DiambraEnv.metadata

    def __init__(self, game_id: str, *, opponent: str | MakePlayer = "random", **kwargs: Any) -> None:
        self._table = DuelTable(game_id, **kwargs)
        self.render_mode = self._table.env.render_mode
        self.observation_space = self._table.observation_space
        self.action_space = self._table.action_space
        make_player = partial(make_bot, opponent) if isinstance(opponent, str) else opponent
        try:
            self._opponent: DuelPlayer = make_player(self.observation_space, self.action_space)
        except BaseException:
            self._table.close()
            raise
        self._theirs: Obs = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Obs, dict[str, Any]]:
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31))
        self._opponent.restart(drawn)
        (own, self._theirs), info = self._table.reset(seed=drawn)
        return own, info

    def step(self, action: Any) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        reply = self._opponent.predict(self._theirs)
        (own, self._theirs), reward, terminated, truncated, info = self._table.step([action, reply])
        return own, reward, terminated, truncated, info

    def render(self) -> Any:
        return self._table.env.render()

    def close(self) -> None:
        self._table.close()


def _own_key(key: str, seat: str) -> str:
    """The key as the seat sees it; empty for one of the other seat."""
    if key.startswith(f"{seat}_"):
        return key.removeprefix(f"{seat}_")
    return "" if key.startswith(SEATS) else key

"""Games for two players: `DuelTable` has two seats, `DuelEnv` is one seat of it with an opponent at the other.

A seat has the same observations as a single player: the frame, stage and timer, both players' states, its actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import gymnasium as gym

from ludus.envs.seats import GameOutcome
from ludus.games.diambra.bots import make_bot
from ludus.games.diambra.env import DiambraEnv, Obs
from ludus.games.diambra.settings import filter_keys

SEATS = ("agent_0", "agent_1")


class DuelTable:
    """A `SimultaneousGame` for two on one engine with equal spaces. `kwargs` are those of `DiambraEnv`.

    `reward` is that of the first seat in the last step; the second seat gets its negative. At the end of a game `info`
    has `rounds_ahead`, the difference in won rounds from the first seat's view, and `is_success`, True if it won.
    """

    n_seats = 2

    def __init__(self, game_id: str, **kwargs: Any) -> None:
        kwargs.pop("opponent", None)
        self._env = DiambraEnv(game_id, **{**kwargs, "n_players": 2})
        wrappers = self._env.settings.wrappers_settings
        spaces: Any = self._env.observation_space
        keys = filter_keys(game_id, wrappers.model_copy(update={"role_relative": True}))
        own = {key: space for seat_key, space in spaces.items() if (key := _own_key(seat_key, SEATS[0]))}
        own = {key: space for key, space in own.items() if (key in keys if keys else key != "action")}
        if wrappers.add_last_action and not keys:
            own["action"] = spaces[f"{SEATS[0]}_action"]
        self.observation_space = gym.spaces.Dict(own)
        actions: Any = self._env.action_space
        self.action_space: gym.Space[Any] = actions[SEATS[0]]
        self._views: list[Obs] = []
        self._total = self.reward = 0.0
        self.terminated = self.truncated = False
        self.info: dict[str, Any] = {}

    @property
    def env(self) -> DiambraEnv:
        """The env of both seats."""
        return self._env

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated

    def reset(self, seed: int | None = None) -> None:
        obs, self.info = self._env.reset(seed=seed)
        self._views = self._seats(obs)
        self._total = self.reward = 0.0
        self.terminated = self.truncated = False

    def observations(self) -> list[Obs]:
        return self._views

    def play(self, actions: Sequence[Any]) -> None:
        obs, self.reward, self.terminated, self.truncated, self.info = self._env.step(
            dict(zip(SEATS, actions, strict=True))
        )
        self._total += self.reward
        if self.terminated:
            own, other = (float(obs[f"{SEATS[0]}_{player}_wins"][0]) for player in ("own", "opp"))
            self.info |= {"rounds_ahead": own - other, "is_success": own > other}
        self._views = self._seats(obs)

    def outcome(self) -> GameOutcome:
        rewards = (self._total, -self._total)
        return GameOutcome(rewards, "", (False, False), cut_off=not self.terminated)

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
    """The opponent at the other seat. `restart` sets the seed for the next game."""

    def restart(self, seed: int) -> None: ...

    def predict(self, obs: Any) -> Any: ...


MakePlayer = Callable[[gym.Space[Any], gym.Space[Any]], DuelPlayer]
"""A function that makes a player from the spaces of its seat."""


class DuelEnv(gym.Env[Any, Any]):
    """One seat of a game for two; `opponent` at the other seat is a bot's name or a function that makes a player."""

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
        self._opponent_obs: Obs = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Obs, dict[str, Any]]:
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31))
        self._opponent.restart(drawn)
        self._table.reset(seed=drawn)
        own, self._opponent_obs = self._table.observations()
        return own, self._table.info

    def step(self, action: Any) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        table = self._table
        table.play([action, self._opponent.predict(self._opponent_obs)])
        own, self._opponent_obs = table.observations()
        return own, table.reward, table.terminated, table.truncated, table.info

    def render(self) -> Any:
        return self._table.env.render()

    def close(self) -> None:
        self._table.close()


def _own_key(key: str, seat: str) -> str:
    """Return the key from the seat's view; empty for a key of the other seat."""
    if key.startswith(f"{seat}_"):
        return key.removeprefix(f"{seat}_")
    return "" if key.startswith(SEATS) else key

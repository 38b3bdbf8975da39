"""`diambra/<game>`: one game on one engine as a Gymnasium env, played through the official client."""

from __future__ import annotations

import importlib.util
import weakref
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from ludus.errors import MissingExtra
from ludus.games.diambra import engines
from ludus.games.diambra.settings import settings_for
from ludus.types import Array

Obs = dict[str, Array]
_EVENTS = ("round_done", "stage_done", "game_done", "episode_done")
_HIGHEST_SEED = 2**30  # the client adds the rank, and the engine uses 32 bits


def make_diambra(game_id: str, n_players: int = 1, **kwargs: Any) -> gym.Env[Any, Any]:
    """Make an env with an id `diambra/…`: the game for one player, or one seat of it for two."""
    if n_players == 2:
        from ludus.games.diambra.duel import DuelEnv

        return DuelEnv(game_id, **kwargs)
    return DiambraEnv(game_id, n_players=n_players, **kwargs)


class DiambraEnv(gym.Env[Any, Any]):
    """The game `game_id` with `kwargs` as settings (`DiambraSettings`), on engine `rank` or the first free one.

    Observations are the client's, flattened, each with the dtype of its space. With `n_players=2`, observations and
    actions of both seats are in one dict (`duel.py` splits them). Infos contain only events: `round_done`,
    `stage_done`, `game_done`, `episode_done`. The seed of `reset` determines the episodes.

    Raises ConfigError for invalid settings, MissingExtra, SimulatorsTaken, and SimulatorLost if the engine cannot be
    reached, hangs, dies or sends invalid answers; after that, only `close` can be called.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "human"], "render_fps": 10}  # noqa: RUF012 (Gymnasium declares it so)

    def __init__(
        self, game_id: str, *, rank: int | None = None, render_mode: str | None = None, **kwargs: Any
    ) -> None:
        self.settings = settings_for(game_id, kwargs)
        if importlib.util.find_spec("diambra") is None:
            raise MissingExtra(f"the env 'diambra/{game_id}'", "diambra", own_environment=True)
        from ludus.games.diambra import client

        self._client = client
        self.render_mode = render_mode
        self.engine = engines.take(rank)
        self._release = weakref.finalize(self, engines.give_back, self.engine)
        self._game: Any = None
        try:
            engines.wait_until_reachable(self.engine, self.settings.grpc_timeout)
            self._game = self._call(client.open_game, game_id, self.settings, self.engine, render_mode)
        except BaseException:
            self._release()
            raise
        self.observation_space = self._game.observation_space
        self.action_space = self._game.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Obs, dict[str, Any]]:
        super().reset(seed=seed)
        chosen = self._client.draw_options(self._game, self.settings, self.np_random) | (options or {})
        drawn = int(self.np_random.integers(_HIGHEST_SEED))
        obs, info = self._call(self._game.reset, seed=drawn, options=chosen)
        return self._typed(obs), self._events(info)

    def step(self, action: Any) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self._call(self._game.step, _plain(action))
        return self._typed(obs), float(reward), bool(terminated), bool(truncated), self._events(info)

    def render(self) -> Any:
        picture = self._game.render()
        if isinstance(picture, np.ndarray) and picture.ndim == 3 and picture.shape[2] == 1:
            return np.repeat(picture, 3, axis=2)
        return picture

    def close(self) -> None:
        """Close the game on the engine, if it still answers."""
        game, self._game = self._game, None
        if game is None:
            return
        self._release()
        try:
            game.close()
        except Exception:  # the client raises any error of the connection; closing must not fail
            game.unwrapped.arena_engine.client.channel.close()

    def _call(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the client. Its errors are the engine's failures, so they are raised with the engine's name."""
        try:
            return call(*args, **kwargs)
        except Exception as error:  # the client raises bare Exceptions, gRPC errors, and others
            raise engines.lost(self.engine, self._client.describe_failure(error)) from error

    def _typed(self, obs: dict[str, Any]) -> Obs:
        spaces: Any = self.observation_space
        return {key: np.asarray(obs[key], dtype=space.dtype)[()] for key, space in spaces.items()}

    def _events(self, info: dict[str, Any]) -> dict[str, Any]:
        return {name: True for name in _EVENTS if info.get(name)}


def _plain(action: Any) -> Any:
    """Return the action as Python integers, which protobuf needs."""
    if isinstance(action, dict):
        return {seat: _plain(own) for seat, own in action.items()}
    return np.asarray(action).tolist()

"""`BalatroEnv`: one game for Gymnasium. `vector.py` has many games at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from ludus.envs.episode_reports import REPORT
from ludus.envs.seeds import TextSeeds
from ludus.games.balatro import state as st
from ludus.games.balatro.actions import n_actions
from ludus.games.balatro.engine import begin, observe, step
from ludus.games.balatro.move_table import move_scratch, write_moves
from ludus.games.balatro.moves import N_MOVES
from ludus.games.balatro.render import draw_game, show
from ludus.games.balatro.report import episode_report
from ludus.games.balatro.seeds import run_seed_code, text_per_game
from ludus.games.balatro.settings import BalatroSettings, Rewards
from ludus.games.balatro.spaces import action_space, as_dict, dict_space, flat_space, move_space
from ludus.types import Array, BoolArray

NO_QUEUE = np.zeros(0, dtype=np.int64)
NO_LOG = np.zeros((0, 6))


class BalatroEnv(gym.Env[Any, Any], TextSeeds):
    """A run of Balatro, from the choice of the first blind to the end; `info["action_mask"]` marks the legal actions.

    The arguments are those of `BalatroSettings`. An illegal action changes nothing and costs `rewards["illegal"]`. At
    the end `info["is_success"]` is True for a won run, and `info["balatro"]` is its report. A curriculum sets the last
    ante with `set_difficulty`.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium declares it so)
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 4,
    }

    def __init__(
        self,
        deck: str = "Red Deck",
        stake: str | int = "White Stake",
        max_ante: int | None = 8,
        max_hand: int = 12,
        max_steps: int = 5_000,
        observation: str = "flat",
        actions: str = "cards",
        rewards: dict[str, float] | Rewards | None = None,
        render_mode: str | None = None,
    ) -> None:
        pay = BalatroSettings(rewards=rewards).rewards if rewards else Rewards()  # type: ignore[arg-type]  # read there
        self.settings = BalatroSettings(deck, stake, max_ante, max_hand, max_steps, observation, actions, pay)
        self.render_mode = render_mode
        self._moves = actions == "moves"
        self.action_space = move_space() if self._moves else action_space(max_hand)
        self._flat_space = flat_space(max_hand, self._moves)
        self.observation_space = (
            dict_space(max_hand, self._moves) if observation == "dict" else self._flat_space
        )
        self.last_ante = self.settings.last_ante
        self.games = st.Games.empty(1)
        self.settings.write_rewards(self.games)
        self._obs: Array = np.zeros((1, *self._flat_space.shape), dtype=np.float32)
        self._legal: BoolArray = np.zeros((1, n_actions(max_hand)), dtype=bool)
        self._mask: BoolArray = (
            np.zeros((1, int(self.action_space.n)), dtype=bool) if self._moves else self._legal
        )
        self._table: Array = np.zeros((1, N_MOVES), dtype=np.int64)
        self._scratch = move_scratch()
        self._reward = np.zeros(1)
        self._done = np.zeros(1, dtype=np.uint8)
        self._action = np.zeros(1, dtype=np.int64)
        self._final = st.Games.empty(0)
        self.forbid: Callable[[Array, BoolArray], None] | None = None
        """Clears flags of legal actions: called with the row `s` and the mask of `actions.py` before each decision."""

    def set_difficulty(self, difficulty: float) -> None:
        """Set the ante whose boss ends the run as won, from the next reset on."""
        self.last_ante = max(1, int(difficulty))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start a run, of the seed `options["seed"]` if that is given: a text of the real game."""
        super().reset(seed=seed)
        run_seed = run_seed_code(self.np_random, seed, text_per_game(options, 1)[0])
        s, f = self.games.s[0], self.games.f[0]
        begin(s, f, NO_QUEUE, run_seed, self.settings.deck_number, self.settings.stake_number, self.last_ante)
        self._observe()
        return self._observation(), {"action_mask": self._mask[0].copy()}

    def _observe(self) -> None:
        observe(self.games.s, self.games.f, self._obs, self._legal, self.settings.max_hand)
        self._finish_mask()

    def _finish_mask(self) -> None:
        if self.forbid is not None:
            self.forbid(self.games.s[0], self._legal[0])
        if self._moves:
            self._move()

    def _move(self) -> None:
        write_moves(
            self.games.s,
            self.games.f,
            self._legal,
            self._table,
            self._mask,
            self._obs,
            self.settings.max_hand,
            NO_QUEUE,
            NO_LOG,
            *self._scratch,
        )

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply one action; `actions.describe` puts it in words."""
        self._action[0] = self.engine_action(action)
        step(
            self.games.s,
            self.games.f,
            NO_QUEUE,
            self._action,
            self._obs,
            self._reward,
            self._done,
            self._legal,
            self._legal,
            self.settings.max_hand,
            self.settings.max_steps,
            0,
            self._final.s,
            self._final.f,
            self._obs,
            self._legal,
            NO_LOG,
        )
        self._finish_mask()
        done = int(self._done[0])
        info: dict[str, Any] = {"action_mask": self._mask[0].copy()}
        if done:
            info["balatro"] = info[REPORT] = episode_report(self.games.s[0], self.games.f[0])
            info["is_success"] = bool(self.games.s[0, st.WON])
        return self._observation(), float(self._reward[0]), done == 1, done == 2, info

    def engine_action(self, action: int) -> int:
        """Return the index in `actions.py` of an action of this env, as it is now; -1 for an unavailable move."""
        return int(self._table[0, action]) if self._moves else int(action)

    @property
    def last_action(self) -> int:
        """Return the index in `actions.py` of the last step's action."""
        return int(self._action[0])

    def action_masks(self) -> BoolArray:
        """Return the mask of the legal actions."""
        legal: BoolArray = self._mask[0].copy()
        return legal

    def snapshot(self) -> st.Games:
        """Return a copy of the game, for `restore`."""
        return self.games.copy()

    def restore(self, saved: st.Games) -> None:
        """Restore a snapshot. The same actions then lead to the same results."""
        self.games.put_back(saved)
        self._observe()

    def render(self) -> Any:
        """Return the table as text (`ansi`) or as a picture (`rgb_array`)."""
        if self.render_mode == "ansi":
            return show(self.games.s[0], self.games.f[0])
        if self.render_mode == "rgb_array":
            return draw_game(self.games.s[0], self.games.f[0])
        return None

    def _observation(self) -> Any:
        if self.settings.observation == "flat":
            return self._obs[0].copy()
        parts = as_dict(self._obs, self.games.s, self.settings.max_hand)
        return {name: part[0].copy() for name, part in parts.items()}

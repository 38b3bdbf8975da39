"""Many games of Balatro as one vector env: every step is one call of compiled code."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from ludus.envs.curriculum import Curriculum
from ludus.envs.episode_reports import REPORT
from ludus.envs.seeds import TextSeeds
from ludus.envs.vector.contract import (
    ChecksFinite,
    LazyFinalInfos,
    OwnGenerators,
    Snapshotting,
    StepResult,
    WrapperStates,
    WritesInPlace,
    seed_per_env,
    split_reset_mask,
)
from ludus.games.balatro import state as st
from ludus.games.balatro import step_threads
from ludus.games.balatro.actions import n_actions
from ludus.games.balatro.engine import begin
from ludus.games.balatro.env import NO_QUEUE
from ludus.games.balatro.moves import N_MOVES
from ludus.games.balatro.report import episode_report
from ludus.games.balatro.seeds import run_seed_code, text_per_game
from ludus.games.balatro.settings import BalatroSettings
from ludus.games.balatro.spaces import action_space, as_dict, dict_space, flat_space, move_space
from ludus.runs.limits import usable_cores
from ludus.types import Array, BoolArray, Observation

ENV_ID = "ludus/Balatro-v0"
GAMES_PER_THREAD = {"cards": 256, "moves": 64}  # fewer games finish before another thread has started

_referenced_once = [np.empty(0)]
_UNUSED = sys.getrefcount(_referenced_once[0])  # reference count of an array that only its list refers to
_CACHE_SIZE = 4


class _ArrayCache:
    """A cache of arrays of one shape. An array that nobody refers to is reused.

    The observations of a step are megabytes. Writing into new memory, which the system clears page by page, takes
    longer than the step.
    """

    def __init__(self, shape: tuple[int, ...], dtype: type) -> None:
        self._shape, self._dtype = shape, dtype
        self._arrays: list[Array] = []

    def take(self) -> Array:
        """Return an uninitialised array that nobody else refers to."""
        for k in range(len(self._arrays)):
            if sys.getrefcount(self._arrays[k]) == _UNUSED:
                return self._arrays[k]
        array: Array = np.empty(self._shape, dtype=self._dtype)
        if len(self._arrays) < _CACHE_SIZE:
            self._arrays.append(array)
        return array


@dataclass
class _RunningStep:
    """The arrays of a step that is running."""

    actions: Array
    obs: Array
    mask: BoolArray
    rewards: Array
    terminated: BoolArray
    truncated: BoolArray


class _FinalRows:
    """The last states and observations of the episodes that end in a step."""

    def __init__(
        self, n_envs: int, obs_size: int, n_actions: int, n_choices: int, pool: step_threads.StepThreadPool
    ) -> None:
        self.games = st.Games.empty(n_envs)
        self.returns = np.zeros(n_envs)
        self.obs: Array = np.zeros((n_envs, obs_size), dtype=np.float32)
        self.legal: BoolArray = np.zeros((n_envs, n_actions), dtype=bool)
        self.mask = self.legal if n_choices == n_actions else np.zeros((n_envs, n_choices), dtype=bool)
        pool.place(
            step_threads.FINAL_S, self.games.s, self.games.f, self.returns, self.obs, self.legal, self.mask
        )
        self.place = pool.board[step_threads.FINAL_S : step_threads.FINAL_MASK + 1].copy()


class BalatroVectorEnv(OwnGenerators, LazyFinalInfos, ChecksFinite, WritesInPlace, Snapshotting, TextSeeds):
    """`n_envs` games, stepped together; an episode that ends is reset in the same step (SAME_STEP).

    `curriculum` is the config's section of that name. Its difficulty is the last ante, the same for all games, and
    applies from each game's next episode. At most `threads` threads step the games, by default one per core; their
    number does not change the results.
    """

    _running: _RunningStep | None = (
        None  # on the class, because `__del__` also runs if the constructor failed
    )

    def __init__(
        self,
        n_envs: int,
        settings: BalatroSettings | None = None,
        curriculum: Mapping[str, Any] | None = None,
        threads: int | None = None,
    ) -> None:
        self.settings = settings or BalatroSettings()
        self.num_envs = n_envs
        self.env_id = ENV_ID
        max_hand = self.settings.max_hand
        self._moves = self.settings.actions == "moves"
        self._flat = flat_space(max_hand, self._moves)
        self.single_observation_space = (
            dict_space(max_hand, self._moves) if self.settings.observation == "dict" else self._flat
        )
        self.single_action_space = move_space() if self._moves else action_space(max_hand)
        self.observation_space = batch_space(self.single_observation_space, n_envs)
        self.action_space = batch_space(self.single_action_space, n_envs)
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}
        self.render_mode = None
        self.games = st.Games.empty(n_envs)
        self.settings.write_rewards(self.games)
        antes = {"initial": 1.0, "maximum": 8.0, **(curriculum or {})}
        self._curriculum = None if curriculum is None else Curriculum(**antes)
        self._make_generators(n_envs)
        self._returns = np.zeros(n_envs)
        self._legal: BoolArray = np.zeros((n_envs, n_actions(max_hand)), dtype=bool)
        self._table: Array = np.zeros((n_envs, N_MOVES), dtype=np.int64)
        self._given: tuple[Array, BoolArray] | None = None
        self._observations = _ArrayCache((n_envs, *self._flat.shape), np.float32)
        self._n_choices = int(self.single_action_space.n)
        self._masks = _ArrayCache((n_envs, self._n_choices), np.bool_)
        cores = min(threads or usable_cores(), n_envs // GAMES_PER_THREAD[self.settings.actions])
        pool = self._pool = step_threads.StepThreadPool(max(1, cores))
        pool.place(step_threads.GAMES_S, self.games.s, self.games.f, self._returns)
        if self._moves:
            pool.place(step_threads.TABLE, self._table)
        pool.board[step_threads.MAX_HAND], pool.board[step_threads.MAX_STEPS] = (
            max_hand,
            self.settings.max_steps,
        )
        sizes = int(self._flat.shape[0]), n_actions(max_hand), self._n_choices
        self._final, self._final_before = (_FinalRows(n_envs, *sizes, pool) for _ in range(2))

    @property
    def last_ante(self) -> int:
        """The ante whose boss ends an episode that starts now."""
        if self._curriculum is None:
            return self.settings.last_ante
        return max(1, int(self._curriculum.difficulty))

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode in every game. A seed s gives game i the seed s + i, a list its element.

        `options["seed"]`, a text or a list with a text or None for each game, goes before. `options["reset_mask"]`, a
        bool array, names the games to reset; the others continue.
        """
        self._require_open()
        self._finish_running_step()
        chosen, _ = split_reset_mask(options, self.num_envs)
        texts = text_per_game(options, self.num_envs)
        settings, last_ante = self.settings, self.last_ante
        self._returns[slice(None) if chosen is None else chosen] = 0.0
        for i, one in enumerate(seed_per_env(seed, self.num_envs)):
            if chosen is not None and not chosen[i]:
                continue
            run_seed = run_seed_code(self._rng(i, one), one, texts[i])
            s, f = self.games.s[i], self.games.f[i]
            begin(s, f, NO_QUEUE, run_seed, settings.deck_number, settings.stake_number, last_ante)
        return self._observe()

    def _observe(self) -> tuple[Observation, dict[str, Any]]:
        obs, mask = self._new_rows()
        self._legal = self._legal if self._moves else mask
        nothing: BoolArray = np.empty(0, dtype=np.bool_)
        self._begin(
            0, _RunningStep(np.empty(0, np.int64), obs, mask, np.empty(0), nothing, nothing), self._legal
        )
        self._finish_running_step()
        return self._as_observation(obs, self.games), {"action_mask": mask}

    def _begin(self, stepping: int, step: _RunningStep, legal: BoolArray) -> None:
        self._running = step  # keeps the arrays alive until they are written
        ends = step.terminated, step.truncated
        self._pool.begin(stepping, step.actions, step.obs, step.rewards, *ends, self._legal, legal, step.mask)

    def step(self, actions: Any) -> StepResult:
        """Step every game; an episode that ends is reset in the same step."""
        self.step_async(actions)
        obs, rewards, terminated, truncated, infos = self.step_wait()
        ended = np.flatnonzero(terminated | truncated)
        if len(ended):
            infos |= self.final_infos(ended)
        return obs, rewards, terminated, truncated, infos

    def step_async(self, actions: Any) -> None:
        """Start a step on the threads."""
        self._require_open()
        self._finish_running_step()
        n = self.num_envs
        obs, mask = self._new_rows()
        actions = np.ascontiguousarray(actions, dtype=np.int64)
        if actions.shape != (n,):
            raise ValueError(f"expected {n} actions, one per game, got an array of shape {actions.shape}")
        if self._moves:
            actions = self._table[np.arange(n), actions]
        self._final, self._final_before = self._final_before, self._final
        self._pool.board[step_threads.FINAL_S : step_threads.FINAL_MASK + 1] = self._final.place
        step = _RunningStep(actions, obs, mask, np.empty(n), *np.empty((2, n), dtype=np.bool_))
        self._begin(1, step, self._legal if self._moves else mask)

    def step_wait(self) -> StepResult:
        assert self._running is not None
        step = self._running
        self._finish_running_step()
        obs = self._as_observation(step.obs, self.games)
        return obs, step.rewards, step.terminated, step.truncated, {"action_mask": step.mask}

    def _finish_running_step(self) -> None:
        """Wait for a step that is still running because the caller was interrupted."""
        stepping = self._running
        if stepping is None:
            return
        self.finite = self._pool.wait()
        self._running = None
        if not self._moves:
            self._legal = stepping.mask
        if self._curriculum is not None and len(stepping.actions):  # else the games were only observed
            ended = np.flatnonzero(stepping.terminated | stepping.truncated)
            for won in self._final.games.s[ended, st.WON]:
                self._curriculum.record(bool(won))
            self.games.s[ended, st.LAST_ANTE] = self.last_ante

    def close_extras(self, **kwargs: Any) -> None:
        """Wait for the threads: they write into arrays of this env."""
        self._finish_running_step()

    def __del__(self) -> None:
        if self._running is not None and self._pool.is_ours():
            self._finish_running_step()

    def write_into(self, obs: Array, mask: BoolArray) -> None:
        """Make the next step, or reset, write into these arrays and return them.

        A mask that a step returned may be passed unchanged for the next one; then less of it is written.
        """
        for array, kind, width in ((obs, np.float32, self._flat.shape[0]), (mask, np.bool_, self._n_choices)):
            assert array.flags.c_contiguous and array.dtype == kind and array.shape == (self.num_envs, width)
        self._given = obs, mask

    def _new_rows(self) -> tuple[Array, BoolArray]:
        if self._given is not None:
            given, self._given = self._given, None
            return given
        return self._observations.take(), self._masks.take()

    def final_infos(self, indices: Array) -> dict[str, Any]:
        n = self.num_envs
        final = self._final if self._running is None else self._final_before
        rows, floats = final.games.s, final.games.f
        final_obs, reports, masks = (np.empty(n, dtype=object) for _ in range(3))
        success, present = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        returns, lengths = np.zeros(n), np.zeros(n, dtype=np.int64)
        present[indices], returns[indices] = True, final.returns[indices]
        for i in indices.tolist():
            report = reports[i] = episode_report(rows[i], floats[i])
            success[i], lengths[i] = report["won"], report["length"]
            final_obs[i], masks[i] = final.obs[i].copy(), final.mask[i].copy()
        if self.settings.observation == "dict":
            for i in indices.tolist():
                parts = as_dict(final_obs[i][None], rows[i][None], self.settings.max_hand)
                final_obs[i] = {key: part[0] for key, part in parts.items()}
        episode = {"r": returns, "l": lengths}
        return {
            "final_obs": final_obs,
            "_final_obs": present,
            "final_info": {
                "is_success": success,
                "_is_success": present,
                "episode": episode,
                "_episode": present,
                "balatro": reports,
                "_balatro": present,
                REPORT: reports,
                f"_{REPORT}": present,
                "action_mask": masks,
                "_action_mask": present,
            },
            "_final_info": present,
        }

    def snapshot(self) -> dict[str, Any]:
        """Return the state of all games and their random numbers, for `restore`."""
        self._finish_running_step()
        rngs = [None if rng is None else rng.bit_generator.state for rng in self._rngs]
        curriculum = None if self._curriculum is None else self._curriculum.state_dict()
        return {
            "games": self.games.copy(),
            "rngs": rngs,
            "returns": self._returns.copy(),
            "curriculum": curriculum,
        }

    def restore(self, saved: Mapping[str, Any]) -> tuple[Observation, dict[str, Any]]:
        """Restore a snapshot. Returns observations and infos, like `reset`."""
        self._finish_running_step()
        self.games.put_back(saved["games"])
        self._returns[:] = saved["returns"]
        for i, state in enumerate(saved["rngs"]):
            if state is None:
                self._rngs[i] = None
            else:
                rng = self._rngs[i] = np_random(0)[0]
                rng.bit_generator.state = state
                self._rng_seeds[i] = -1
        if self._curriculum is not None:
            self._curriculum.load_state_dict(saved["curriculum"])
        return self._observe()

    def save_games(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return `snapshot` as arrays and JSON data."""
        saved = self.snapshot()
        arrays = {"s": saved["games"].s, "f": saved["games"].f, "returns": saved["returns"]}
        return arrays, {"rngs": saved["rngs"], "curriculum": saved["curriculum"]}

    def load_games(
        self, arrays: Mapping[str, Array], values: Mapping[str, Any]
    ) -> tuple[Observation, dict[str, Any]]:
        games = st.Games(arrays["s"], arrays["f"])
        return self.restore({**values, "games": games, "returns": arrays["returns"]})

    def wrapper_states(self) -> WrapperStates:
        """Return the state of the curriculum, which is a wrapper in other backends."""
        one = [] if self._curriculum is None else [self._curriculum.state_dict()]
        return [one for _ in range(self.num_envs)]

    def load_wrapper_states(self, states: Sequence[Sequence[dict[str, Any]]]) -> None:
        if self._curriculum is not None and states and states[0]:
            self._curriculum.load_state_dict(states[0][0])

    def _as_observation(self, obs: Array, games: st.Games) -> Observation:
        if self.settings.observation == "flat":
            return obs
        return as_dict(obs, games.s, self.settings.max_hand)


def make_vector(
    num_envs: int,
    *,
    max_episode_steps: int | None = None,
    curriculum: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> BalatroVectorEnv:
    """Return `num_envs` games with the keyword arguments of `BalatroEnv`: Gymnasium's `vector_entry_point`."""
    if max_episode_steps is not None:
        kwargs["max_steps"] = max_episode_steps
    if kwargs.get("rewards") is None:
        kwargs.pop("rewards", None)
    return BalatroVectorEnv(num_envs, BalatroSettings(**kwargs), curriculum)

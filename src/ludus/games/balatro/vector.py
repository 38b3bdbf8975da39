"""Many games of Balatro as one vector env: every step is one call of the compiled kernel."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ludus.envs.vector.base import seed_per_env
from ludus.envs.vector.process import usable_cores
from ludus.games.balatro import state as st
from ludus.games.balatro.actions import n_actions
from ludus.games.balatro.crew import FINAL_MASK, FINAL_S, GAMES_S, MAX_HAND, MAX_STEPS, TABLE, StepThreadPool
from ludus.games.balatro.curriculum import AnteCurriculum
from ludus.games.balatro.engine import begin
from ludus.games.balatro.env import NO_QUEUE, SEED_LIMIT
from ludus.games.balatro.moves import N_MOVES
from ludus.games.balatro.report import episode_report
from ludus.games.balatro.settings import BalatroSettings
from ludus.games.balatro.spaces import action_space, as_dict, dict_space, flat_space, move_space
from ludus.types import Array, BoolArray, Observation

if TYPE_CHECKING:
    from ludus.envs.make import EnvSpec

ENV_ID = "ludus/Balatro-v0"
GAMES_PER_THREAD = {"cards": 256, "moves": 64}  # fewer are done before a thread has begun

_held_once = [np.empty(0)]
_NOBODY_ELSE = sys.getrefcount(_held_once[0])  # of an array that only its list knows
_SHELF_SIZE = 4


class _Shelf:
    """Arrays of one shape, to be filled anew. One that its last reader let go of is given out again.

    The observations of a step are megabytes. To write into memory that the system has to clear first, page by page,
    takes longer than to play the step.
    """

    def __init__(self, shape: tuple[int, ...], dtype: type) -> None:
        self._shape, self._dtype = shape, dtype
        self._arrays: list[Array] = []

    def take(self) -> Array:
        """An array that nobody else holds, with anything in it."""
        for k in range(len(self._arrays)):
            if sys.getrefcount(self._arrays[k]) == _NOBODY_ELSE:
                return self._arrays[k]
        array: Array = np.empty(self._shape, dtype=self._dtype)
        if len(self._arrays) < _SHELF_SIZE:
            self._arrays.append(array)
        return array


@dataclass
class _Stepping:
    """A step that is being played, and where it is written."""

    actions: Array
    obs: Array
    mask: BoolArray
    rewards: Array
    terminated: BoolArray
    truncated: BoolArray


class _Endings:
    """The last rows of runs that end in a step, and what was seen there."""

    def __init__(
        self, n_envs: int, obs_size: int, n_actions: int, n_choices: int, crew: StepThreadPool
    ) -> None:
        self.games = st.Games.empty(n_envs)
        self.returns = np.zeros(n_envs)
        self.obs: Array = np.zeros((n_envs, obs_size), dtype=np.float32)
        self.legal: BoolArray = np.zeros((n_envs, n_actions), dtype=bool)
        self.mask = self.legal if n_choices == n_actions else np.zeros((n_envs, n_choices), dtype=bool)
        crew.place(FINAL_S, self.games.s, self.games.f, self.returns, self.obs, self.legal, self.mask)
        self.place = crew.board[FINAL_S : FINAL_MASK + 1].copy()


def unsupported_reason(spec: EnvSpec) -> str | None:
    """None when this vector env can stand in for the envs of `spec`, else the reason."""
    if spec.id != ENV_ID:
        return f"{spec.id} is not Balatro"
    if spec.wrappers or spec.frame_stack > 1 or spec.frame_skip > 1:
        return "the env has wrappers"
    if spec.render_mode is not None:
        return "it draws no pictures"
    return None


class BalatroVectorEnv(VectorEnv[Any, Any, Any]):
    """`n_envs` games, stepped together; an ended run is followed by a new one in the same step (SAME_STEP).

    Takes `deck`, `stake`, … as `BalatroSettings` does, and a curriculum as the config writes it: its difficulty is the
    last ante, one for all games, and holds from each game's next run. `threads` is how many step at most; None: one for
    every core. The games come out the same.
    """

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
        self._stepping: _Stepping | None = None
        self.finite = True
        self._curriculum = None if curriculum is None else AnteCurriculum(**curriculum)
        self._rngs: list[np.random.Generator | None] = [None] * n_envs
        self._returns = np.zeros(n_envs)
        self._legal: BoolArray = np.zeros((n_envs, n_actions(max_hand)), dtype=bool)
        self._table: Array = np.zeros((n_envs, N_MOVES), dtype=np.int64)
        self._given: tuple[Array, BoolArray] | None = None
        self._observations = _Shelf((n_envs, *self._flat.shape), np.float32)
        self._n_choices = int(self.single_action_space.n)
        self._masks = _Shelf((n_envs, self._n_choices), np.bool_)
        cores = min(threads or usable_cores(), n_envs // GAMES_PER_THREAD[self.settings.actions])
        crew = self._crew = StepThreadPool(max(1, cores))
        crew.place(GAMES_S, self.games.s, self.games.f, self._returns)
        if self._moves:
            crew.place(TABLE, self._table)
        crew.board[MAX_HAND], crew.board[MAX_STEPS] = max_hand, self.settings.max_steps
        sizes = int(self._flat.shape[0]), n_actions(max_hand), self._n_choices
        self._final, self._final_before = (_Endings(n_envs, *sizes, crew) for _ in range(2))

    @classmethod
    def of_spec(cls, spec: EnvSpec, n_envs: int) -> BalatroVectorEnv:
        """The vector env that a config names."""
        kwargs = dict(spec.kwargs)
        if spec.max_episode_steps is not None:
            kwargs["max_steps"] = spec.max_episode_steps
        if kwargs.get("rewards") is None:
            kwargs.pop("rewards", None)
        return cls(n_envs, BalatroSettings(**kwargs), spec.curriculum)

    @property
    def last_ante(self) -> int:
        """The ante whose boss ends a run that begins now."""
        if self._curriculum is None:
            return self.settings.last_ante
        return max(1, int(self._curriculum.difficulty))

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts a run in every game. A seed s gives game i the seed s + i, a list its element."""
        self._settle()
        settings, last_ante = self.settings, self.last_ante
        self._returns[:] = 0.0
        for i, one in enumerate(seed_per_env(seed, self.num_envs)):
            rng = self._rngs[i]
            if one is not None or rng is None:
                rng = self._rngs[i] = np_random(one)[0]
            run_seed = int(rng.integers(SEED_LIMIT))
            s, f = self.games.s[i], self.games.f[i]
            begin(s, f, NO_QUEUE, run_seed, settings.deck_number, settings.stake_number, last_ante)
        return self._look()

    def _look(self) -> tuple[Observation, dict[str, Any]]:
        obs, mask = self._new_rows()
        self._legal = self._legal if self._moves else mask
        nothing: BoolArray = np.empty(0, dtype=np.bool_)
        self._begin(
            0, _Stepping(np.empty(0, np.int64), obs, mask, np.empty(0), nothing, nothing), self._legal
        )
        self._settle()
        return self._shown(obs, self.games), {"action_mask": mask}

    def _begin(self, stepping: int, step: _Stepping, legal: BoolArray) -> None:
        self._stepping = step  # which holds the arrays until they are written
        ends = step.terminated, step.truncated
        self._crew.begin(stepping, step.actions, step.obs, step.rewards, *ends, self._legal, legal, step.mask)

    def step(self, actions: Any) -> tuple[Observation, Array, Array, Array, dict[str, Any]]:
        """One action in every game; a run that ends is followed by a new one at once."""
        self.begin_step(actions)
        obs, rewards, terminated, truncated, infos = self.end_step()
        ended = np.flatnonzero(terminated | truncated)
        if len(ended):
            infos |= self.endings(ended)
        return obs, rewards, terminated, truncated, infos

    def begin_step(self, actions: Any) -> None:
        """Let the threads play one action in every game. Nothing else may be asked of it before `end_step`."""
        self._settle()
        n = self.num_envs
        obs, mask = self._new_rows()
        actions = np.ascontiguousarray(actions, dtype=np.int64)
        if actions.shape != (n,):
            raise ValueError(f"{n} games take {n} actions, not an array of shape {actions.shape}")
        if self._moves:
            actions = self._table[np.arange(n), actions]
        self._final, self._final_before = self._final_before, self._final
        self._crew.board[FINAL_S : FINAL_MASK + 1] = self._final.place
        step = _Stepping(actions, obs, mask, np.empty(n), *np.empty((2, n), dtype=np.bool_))
        self._begin(1, step, self._legal if self._moves else mask)

    def end_step(self) -> tuple[Observation, Array, Array, Array, dict[str, Any]]:
        """What `step` returns, less the `endings`; `finite` tells whether every number of it is."""
        assert self._stepping is not None
        step = self._stepping
        self._settle()
        obs = self._shown(step.obs, self.games)
        return obs, step.rewards, step.terminated, step.truncated, {"action_mask": step.mask}

    def _settle(self) -> None:
        """Wait for the step that is being played, if there is one: whoever began it may have been interrupted."""
        stepping = self._stepping
        if stepping is None:
            return
        self.finite = self._crew.wait()
        self._stepping = None
        if not self._moves:
            self._legal = stepping.mask
        if self._curriculum is not None and len(stepping.actions):  # else the games were only looked at
            ended = np.flatnonzero(stepping.terminated | stepping.truncated)
            for won in self._final.games.s[ended, st.WON]:
                self._curriculum.record(bool(won))
            self.games.s[ended, st.LAST_ANTE] = self.last_ante

    def close_extras(self, **kwargs: Any) -> None:
        """The threads write into arrays of this env: they must have ended their step before it goes."""
        self._settle()

    def __del__(self) -> None:
        if getattr(self, "_stepping", None) is not None and self._crew.is_ours():
            self._settle()

    def write_into(self, obs: Array, mask: BoolArray) -> None:
        """The next step (or reset) writes its observations and masks into these arrays and returns them.

        A mask that a step returned may be given to the next one, as it was returned: then less of it is written.
        """
        for array, kind, width in ((obs, np.float32, self._flat.shape[0]), (mask, np.bool_, self._n_choices)):
            assert array.flags.c_contiguous and array.dtype == kind and array.shape == (self.num_envs, width)
        self._given = obs, mask

    def _new_rows(self) -> tuple[Array, BoolArray]:
        if self._given is not None:
            given, self._given = self._given, None
            return given
        return self._observations.take(), self._masks.take()

    def endings(self, indices: Array) -> dict[str, Any]:
        """Last observations and reports of the runs that ended, as gymnasium's SAME_STEP wants them.

        `indices` are the games in which one ended in the step that `end_step` ended last; the next step may have
        begun.
        """
        n = self.num_envs
        final = self._final if self._stepping is None else self._final_before
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
                "action_mask": masks,
                "_action_mask": present,
            },
            "_final_info": present,
        }

    def snapshot(self) -> dict[str, Any]:
        """Everything that decides what follows, to be given to `restore`."""
        self._settle()
        rngs = [None if rng is None else rng.bit_generator.state for rng in self._rngs]
        curriculum = None if self._curriculum is None else self._curriculum.state_dict()
        return {
            "games": self.games.copy(),
            "rngs": rngs,
            "returns": self._returns.copy(),
            "curriculum": curriculum,
        }

    def restore(self, saved: Mapping[str, Any]) -> tuple[Observation, dict[str, Any]]:
        """Goes back to a snapshot; returns what `reset` would: the observations and masks there."""
        self._settle()
        self.games.put_back(saved["games"])
        self._returns[:] = saved["returns"]
        for i, state in enumerate(saved["rngs"]):
            if state is None:
                self._rngs[i] = None
            else:
                rng = self._rngs[i] = np_random(0)[0]
                rng.bit_generator.state = state
        if self._curriculum is not None:
            self._curriculum.load_state_dict(saved["curriculum"])
        return self._look()

    def saved_games(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """`snapshot` as arrays and plain data, for a checkpoint."""
        saved = self.snapshot()
        arrays = {"s": saved["games"].s, "f": saved["games"].f, "returns": saved["returns"]}
        return arrays, {"rngs": saved["rngs"], "curriculum": saved["curriculum"]}

    def load_games(
        self, arrays: Mapping[str, Array], values: Mapping[str, Any]
    ) -> tuple[Observation, dict[str, Any]]:
        """Goes on with what `saved_games` gave; returns what `reset` would."""
        games = st.Games(arrays["s"], arrays["f"])
        return self.restore({**values, "games": games, "returns": arrays["returns"]})

    def wrapper_states(self) -> list[list[dict[str, Any]]]:
        """The curriculum, as the other backends give the states of their wrappers."""
        one = [] if self._curriculum is None else [self._curriculum.state_dict()]
        return [one for _ in range(self.num_envs)]

    def load_wrapper_states(self, states: Sequence[Sequence[dict[str, Any]]]) -> None:
        """Restores what `wrapper_states` returned."""
        if self._curriculum is not None and states and states[0]:
            self._curriculum.load_state_dict(states[0][0])

    def _shown(self, obs: Array, games: st.Games) -> Observation:
        if self.settings.observation == "flat":
            return obs
        return as_dict(obs, games.s, self.settings.max_hand)

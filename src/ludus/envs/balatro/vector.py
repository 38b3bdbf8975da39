"""Many games of Balatro as one vector env: every step is one call of the compiled kernel."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ludus.envs.balatro import state as st
from ludus.envs.balatro.actions import n_actions
from ludus.envs.balatro.curriculum import AnteCurriculum
from ludus.envs.balatro.engine import begin, look, step
from ludus.envs.balatro.env import NO_LOG, NO_QUEUE, SEED_LIMIT
from ludus.envs.balatro.move_table import write_moves
from ludus.envs.balatro.moves import N_MOVES
from ludus.envs.balatro.observation import observation_size
from ludus.envs.balatro.report import episode_report
from ludus.envs.balatro.settings import Settings
from ludus.envs.balatro.spaces import action_space, as_dict, dict_space, flat_space, move_space
from ludus.envs.finite import both_finite
from ludus.envs.vector.base import seed_per_env
from ludus.envs.vector.part_threads import part_threads
from ludus.envs.vector.process import usable_cores
from ludus.types import Array, BoolArray, Observation

if TYPE_CHECKING:
    from ludus.envs.make import EnvSpec

ENV_ID = "ludus/Balatro-v0"
Result = TypeVar("Result")
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

    wait: Callable[[], list[bool]]
    obs: Array
    mask: BoolArray
    rewards: Array
    done: Array
    legal: BoolArray


def why_not(spec: EnvSpec) -> str | None:
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

    Takes `deck`, `stake`, … as `Settings` does, and a curriculum as the config writes it: its difficulty is the last
    ante, one for all games, and holds from each game's next run. `threads` is how many step at most; None: one for
    every core. The games come out the same.
    """

    def __init__(
        self,
        n_envs: int,
        settings: Settings | None = None,
        curriculum: Mapping[str, Any] | None = None,
        threads: int | None = None,
    ) -> None:
        self.settings = settings or Settings()
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
        self._final, self._final_before = st.Games.empty(n_envs), st.Games.empty(n_envs)
        self._stepping: _Stepping | None = None
        self.finite = True
        self._curriculum = None if curriculum is None else AnteCurriculum(**curriculum)
        self._rngs: list[np.random.Generator | None] = [None] * n_envs
        self._returns = np.zeros(n_envs)
        self._legal: BoolArray = np.zeros((n_envs, n_actions(max_hand)), dtype=bool)
        self._table: Array = np.zeros((n_envs, N_MOVES), dtype=np.int64)
        self._given: tuple[Array, BoolArray] | None = None
        self._observations = _Shelf((n_envs, *self._flat.shape), np.float32)
        self._masks = _Shelf((n_envs, int(self.single_action_space.n)), np.bool_)
        cores = min(threads or usable_cores(), n_envs // GAMES_PER_THREAD[self.settings.actions])
        self._threads = part_threads(cores) if cores > 1 else None
        edges = np.linspace(0, n_envs, max(1, cores) + 1).astype(int)
        self._parts = [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]

    @classmethod
    def of_spec(cls, spec: EnvSpec, n_envs: int) -> BalatroVectorEnv:
        """The vector env that a config names."""
        kwargs = dict(spec.kwargs)
        if spec.max_episode_steps is not None:
            kwargs["max_steps"] = spec.max_episode_steps
        if kwargs.get("rewards") is None:
            kwargs.pop("rewards", None)
        return cls(n_envs, Settings(**kwargs), spec.curriculum)

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
        max_hand = self.settings.max_hand
        legal = self._legal if self._moves else mask

        def look_at(rows: slice) -> None:
            look(self.games.s[rows], self.games.f[rows], obs[rows], legal[rows], max_hand)
            if self._moves:
                self._move(self.games, rows, legal, self._table, mask, obs)

        self._begin(look_at)()
        self._legal = legal
        return self._shown(obs, self.games), {"action_mask": mask}

    def _move(
        self, games: st.Games, rows: slice, legal: BoolArray, table: Array, mask: BoolArray, obs: Array
    ) -> None:
        """Which moves can be chosen, what each of them is, and what is worked out."""
        max_hand = self.settings.max_hand
        room = st.Games.empty(1)
        write_moves(
            games.s[rows],
            games.f[rows],
            legal[rows],
            table[rows],
            mask[rows],
            obs[rows],
            observation_size(max_hand),
            max_hand,
            NO_QUEUE,
            NO_LOG,
            room.s[0],
            room.f[0],
        )

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
        n, settings = self.num_envs, self.settings
        obs, mask = self._new_rows()
        rewards = np.empty(n)
        done = np.empty(n, dtype=np.uint8)
        actions = np.ascontiguousarray(actions, dtype=np.int64)
        if self._moves:
            actions = self._table[np.arange(n), actions]
        legal = self._legal if self._moves else mask
        self._final, self._final_before = self._final_before, self._final

        def step_some(rows: slice) -> bool:
            step(
                self.games.s[rows],
                self.games.f[rows],
                NO_QUEUE,
                actions[rows],
                obs[rows],
                rewards[rows],
                done[rows],
                self._legal[rows],
                legal[rows],
                settings.max_hand,
                settings.max_steps,
                1,
                self._final.s[rows],
                self._final.f[rows],
                NO_LOG,
            )
            if self._moves:
                self._move(self.games, rows, legal, self._table, mask, obs)
            return bool(both_finite(obs[rows], rewards[rows]))  # here, while it is in this core's cache

        self._stepping = _Stepping(self._begin(step_some), obs, mask, rewards, done, legal)

    def end_step(self) -> tuple[Observation, Array, Array, Array, dict[str, Any]]:
        """What `step` returns, less the `endings`; `finite` tells whether every number of it is."""
        assert self._stepping is not None
        stepping, self._stepping = self._stepping, None
        self.finite = all(stepping.wait())
        self._legal = stepping.legal
        self._returns += stepping.rewards
        done = stepping.done
        if self._curriculum is not None:
            ended = np.flatnonzero(done)
            for won in self._final.s[ended, st.WON]:
                self._curriculum.record(bool(won))
            self.games.s[ended, st.LAST_ANTE] = self.last_ante
        return (
            self._shown(stepping.obs, self.games),
            stepping.rewards,
            done == 1,
            done == 2,
            {"action_mask": stepping.mask},
        )

    def _settle(self) -> None:
        """Wait for a step that nobody will end: whoever began it was interrupted."""
        if self._stepping is not None:
            stepping, self._stepping = self._stepping, None
            stepping.wait()

    def _begin(self, work: Callable[[slice], Result]) -> Callable[[], list[Result]]:
        """Have `work` done on every part of the games; what is returned waits for its results."""
        if self._threads is None:
            return lambda: [work(slice(0, self.num_envs))]
        return self._threads.begin(work, self._parts)

    def write_into(self, obs: Array, mask: BoolArray) -> None:
        """The next step (or reset) writes its observations and masks into these arrays and returns them."""
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
        last = st.Games(final.s[indices], final.f[indices])
        obs: Array = np.empty((len(indices), *self._flat.shape), dtype=np.float32)
        legal: BoolArray = np.empty((len(indices), self._legal.shape[1]), dtype=bool)
        look(last.s, last.f, obs, legal, self.settings.max_hand)
        mask = legal
        if self._moves:
            mask = np.empty((len(indices), N_MOVES), dtype=bool)
            table: Array = np.empty((len(indices), N_MOVES), dtype=np.int64)
            self._move(last, slice(0, len(indices)), legal, table, mask, obs)
        mask[~mask.any(axis=1)] = (
            True  # nothing is chosen after the end, but a masked softmax must stay finite
        )
        shown = self._shown(obs, last)
        final_obs, reports, masks = (np.empty(n, dtype=object) for _ in range(3))
        success, present = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        lengths = np.zeros(n, dtype=np.int64)
        success[indices] = last.s[:, st.WON]
        lengths[indices] = last.s[:, st.STEPS]
        present[indices] = True
        for k, i in enumerate(indices.tolist()):
            final_obs[i] = (
                {key: part[k] for key, part in shown.items()} if isinstance(shown, dict) else shown[k]
            )
            reports[i] = episode_report(last.s[k], last.f[k])
            masks[i] = mask[k]
        episode = {"r": self._returns.copy(), "l": lengths}
        self._returns[indices] = 0.0
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

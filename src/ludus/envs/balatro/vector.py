"""Many games of Balatro as one vector env: every step is one call of the compiled kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ludus.envs.balatro import state as st
from ludus.envs.balatro.curriculum import AnteCurriculum
from ludus.envs.balatro.engine import begin, look, step
from ludus.envs.balatro.env import NO_LOG, NO_QUEUE, SEED_LIMIT
from ludus.envs.balatro.report import episode_report
from ludus.envs.balatro.settings import Settings
from ludus.envs.balatro.spaces import action_space, as_dict, dict_space, flat_space
from ludus.envs.vector.base import seed_per_env
from ludus.types import Array, BoolArray, Observation

if TYPE_CHECKING:
    from ludus.envs.make import EnvSpec

ENV_ID = "ludus/Balatro-v0"


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
    ante, one for all games, and holds from each game's next run.
    """

    def __init__(
        self,
        n_envs: int,
        settings: Settings | None = None,
        curriculum: Mapping[str, Any] | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.num_envs = n_envs
        self.env_id = ENV_ID
        max_hand = self.settings.max_hand
        self._flat = flat_space(max_hand)
        self.single_observation_space = (
            dict_space(max_hand) if self.settings.observation == "dict" else self._flat
        )
        self.single_action_space = action_space(max_hand)
        self.observation_space = batch_space(self.single_observation_space, n_envs)
        self.action_space = batch_space(self.single_action_space, n_envs)
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}
        self.render_mode = None
        self.games = st.Games.empty(n_envs)
        self.settings.write_rewards(self.games)
        self._final = st.Games.empty(n_envs)
        self._curriculum = None if curriculum is None else AnteCurriculum(**curriculum)
        self._rngs: list[np.random.Generator | None] = [None] * n_envs
        self._returns = np.zeros(n_envs)
        self._mask: BoolArray = np.zeros((n_envs, int(self.single_action_space.n)), dtype=bool)

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
        obs = self._new_observations()
        self._mask = np.empty_like(self._mask)
        look(self.games.s, self.games.f, obs, self._mask, self.settings.max_hand)
        return self._shown(obs, self.games), {"action_mask": self._mask}

    def step(self, actions: Any) -> tuple[Observation, Array, Array, Array, dict[str, Any]]:
        """One action in every game; a run that ends is followed by a new one at once."""
        n = self.num_envs
        obs = self._new_observations()
        rewards = np.empty(n)
        done = np.empty(n, dtype=np.uint8)
        mask = np.empty_like(self._mask)
        ended = step(
            self.games.s,
            self.games.f,
            NO_QUEUE,
            np.ascontiguousarray(actions, dtype=np.int64),
            obs,
            rewards,
            done,
            self._mask,
            mask,
            self.settings.max_hand,
            self.settings.max_steps,
            1,
            self._final.s,
            self._final.f,
            NO_LOG,
        )
        self._mask = mask
        self._returns += rewards
        infos: dict[str, Any] = {"action_mask": mask}
        if ended:
            infos |= self._endings(np.flatnonzero(done))
        return self._shown(obs, self.games), rewards, done == 1, done == 2, infos

    def _endings(self, indices: Array) -> dict[str, Any]:
        """Last observations and reports of the runs that ended, as gymnasium's SAME_STEP wants them."""
        n = self.num_envs
        last = st.Games(self._final.s[indices], self._final.f[indices])
        obs: Array = np.empty((len(indices), *self._flat.shape), dtype=np.float32)
        mask: BoolArray = np.empty((len(indices), self._mask.shape[1]), dtype=bool)
        look(last.s, last.f, obs, mask, self.settings.max_hand)
        mask[~mask.any(axis=1)] = (
            True  # nothing is chosen after the end, but a masked softmax must stay finite
        )
        shown = self._shown(obs, last)
        final_obs, reports, masks = (np.full(n, None, dtype=object) for _ in range(3))
        success, present = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        for k, i in enumerate(indices):
            final_obs[i] = (
                {key: part[k] for key, part in shown.items()} if isinstance(shown, dict) else shown[k]
            )
            reports[i] = episode_report(last.s[k], last.f[k])
            masks[i] = mask[k]
            success[i] = bool(last.s[k, st.WON])
            present[i] = True
        if self._curriculum is not None:
            for i in indices:
                self._curriculum.record(bool(success[i]))
            self.games.s[indices, st.LAST_ANTE] = self.last_ante
        episode = {"r": self._returns.copy(), "l": self._final.s[:, st.STEPS].copy()}
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

    def wrapper_states(self) -> list[list[dict[str, Any]]]:
        """The curriculum, as the other backends give the states of their wrappers."""
        one = [] if self._curriculum is None else [self._curriculum.state_dict()]
        return [one for _ in range(self.num_envs)]

    def load_wrapper_states(self, states: Sequence[Sequence[dict[str, Any]]]) -> None:
        """Restores what `wrapper_states` returned."""
        if self._curriculum is not None and states and states[0]:
            self._curriculum.load_state_dict(states[0][0])

    def _new_observations(self) -> Array:
        return np.empty((self.num_envs, *self._flat.shape), dtype=np.float32)

    def _shown(self, obs: Array, games: st.Games) -> Observation:
        if self.settings.observation == "flat":
            return obs
        return as_dict(obs, games.s, self.settings.max_hand)

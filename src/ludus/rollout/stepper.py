"""Steps a vector env and tracks its current observations, action masks, episode returns and resets.

The stepper supports all of Gymnasium's autoreset modes. A collector sees the same in each: the observations, their true
successors, and which steps are valid experience. The stepper also checks everything an env returns for NaN and infinity
and raises EnvFault before any of it is learned from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from ludus.envs.episode_reports import REPORT
from ludus.envs.finite import all_finite, first_bad, step_is_finite
from ludus.envs.masks import first_blocked, part_starts
from ludus.envs.user_code import report_problem
from ludus.envs.vector.contract import (
    AsyncStepping,
    ChecksFinite,
    LazyFinalInfos,
    Snapshotting,
    VectorBackend,
)
from ludus.errors import EnvFault
from ludus.types import Array, BoolArray, EpisodeRecord, Observation

SeedFor = Callable[[int, int], int]
"""Maps (barrier number, env index) to the seed of that env's reset."""


@dataclass
class VectorStep:
    """The result of one vector step.

    `final_obs` maps each env whose episode ended and was reset in this step to its last observation; `final_infos` are
    the infos of those observations. For every other env the next observation is the stepper's `obs`. `valid` is False
    for an env that did not take part: it was being reset, or its episode was dropped.
    """

    rewards: Array
    terminated: BoolArray
    truncated: BoolArray
    ended: BoolArray
    valid: BoolArray
    final_obs: dict[int, Any]
    final_infos: dict[str, Any]
    episodes: list[EpisodeRecord]

    def final_masks(self, width: int) -> dict[int, BoolArray]:
        """Return the mask over `width` actions at each of `final_obs`; all legal if the env gave no mask."""
        masks = {}
        given = info_column(self.final_infos, "action_mask", np.array(list(self.final_obs), dtype=np.int64))
        for (index, obs), mask in zip(self.final_obs.items(), given, strict=True):
            if mask is None and isinstance(obs, dict):
                mask = obs.get("action_mask")
            masks[index] = np.ones(width, dtype=bool)
            if mask is not None and np.any(mask):  # after the end of a game there may be no legal action
                masks[index][:] = np.reshape(mask, -1)
        return masks


@dataclass
class PendingStep:
    """A step that the envs have returned and `finish_step` has not processed yet."""

    obs_before: Observation
    actions: Array
    rewards: Array
    terminated: BoolArray
    truncated: BoolArray
    valid: BoolArray
    obs: Observation
    infos: dict[str, Any]
    final_obs: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ended: BoolArray = self.terminated | self.truncated
        self.any_ended = bool(self.ended.any())


class Stepper:
    """Wraps a vector env; `obs` and `masks` belong to the next action.

    `step` is `step_async`, `step_wait` and `finish_step` in one call. A caller of the three can run `finish_step`
    for one step while the envs compute the next.
    """

    def __init__(
        self,
        envs: VectorEnv[Any, Any, Any],
        seed_for: SeedFor,
        *,
        reports_episodes: bool = False,
        rebuild: bool = True,
        first_env: int = 0,
    ) -> None:
        """`rebuild` allows a barrier to rebuild the envs; pass False for an env instance of the user.

        `first_env` is the index of the first env among all envs of the run, for error messages.
        """
        self.envs = envs
        self.backend = envs if isinstance(envs, VectorBackend) else None
        self._async = envs if isinstance(envs, AsyncStepping) else None
        self._lazy_finals = envs if isinstance(envs, LazyFinalInfos) else None
        self._checks_finite = envs if isinstance(envs, ChecksFinite) else None
        self._snapshotting = envs if isinstance(envs, Snapshotting) else None
        # any other vector env takes one seed, as Gymnasium's base class has it
        self._takes_seeds = self.backend is not None or isinstance(
            envs.unwrapped, SyncVectorEnv | AsyncVectorEnv
        )
        self._rebuild = rebuild
        self.n_envs: int = envs.num_envs
        self._seed_for = seed_for
        self._first_env = first_env
        self._reports_episodes = reports_episodes
        self._mode = AutoresetMode(envs.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        self._returns = np.zeros(self.n_envs)
        self._lengths = np.zeros(self.n_envs, dtype=np.int64)
        self._resetting: BoolArray | None = None  # envs whose episode ended in the last step
        self._seeds: list[int | None] = [None] * self.n_envs
        self._all_valid = np.ones(self.n_envs, dtype=bool)
        self._part_starts = part_starts(envs.single_action_space)
        self._actions: Array = np.zeros(0)
        self._pending: PendingStep | None = None
        self._last: tuple[PendingStep, VectorStep] | None = None
        self._finished: VectorStep | None = None  # finished by `last_step`, ahead of `finish_step`
        self.obs: Observation = {}
        self.masks: BoolArray | None = None

    def barrier(self, number: int) -> None:
        """End open episodes and reset every env to a state that depends only on the run's seed and `number`."""
        if self._rebuild and self.backend is not None:
            self.backend.rebuild()  # some envs (BipedalWalker) remember earlier episodes despite a seeded reset
        self.restart([self._seed_for(number, index) for index in range(self.n_envs)])

    def restart(self, seeds: list[int] | None = None) -> None:
        """End open episodes and reset every env, with `seeds` or its current random state."""
        if seeds is not None:
            self._seeds = list(seeds)
        seed: Any = seeds if seeds is None or self._takes_seeds else seeds[0]
        obs, infos = self.envs.reset(seed=seed)
        if not all_finite(obs):
            raise self._not_finite("observation", obs, np.zeros_like(self._lengths), {"observations": obs})
        self._returns[:] = 0.0
        self._lengths[:] = 0
        self._set_current(obs, infos)

    @property
    def can_save_games(self) -> bool:
        """True if `save_games` and `load_games` are supported."""
        return self._snapshotting is not None

    def save_games(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the open episodes as arrays and JSON data, for `load_games`."""
        assert self._snapshotting is not None
        self._finish_pending()
        arrays, values = self._snapshotting.save_games()
        return {**arrays, "tally.returns": self._returns, "tally.lengths": self._lengths}, values

    def load_games(self, arrays: dict[str, Array], values: dict[str, Any]) -> None:
        """Continue the episodes that `save_games` returned."""
        assert self._snapshotting is not None
        self._returns[:] = arrays["tally.returns"]
        self._lengths[:] = arrays["tally.lengths"]
        self._set_current(*self._snapshotting.load_games(arrays, values))

    def step(self, actions: Array) -> VectorStep:
        """Step every env with `actions` of the env's action space. Raises EnvFault for NaN or infinity."""
        self.step_async(actions)
        self.step_wait()
        return self.finish_step()

    def step_async(self, actions: Array) -> None:
        """Start a step. Envs with `AsyncStepping` compute it in the background."""
        self._actions = actions
        if self._async is not None:
            self._async.step_async(actions)

    def step_wait(self) -> int:
        """Wait for the step and update `obs` and `masks`. Returns the number of envs that took part.

        Raises EnvFault for NaN or infinity. Call `finish_step` for the rest, now or after the next `step_async`.
        """
        self._finish_pending()
        actions, obs_before = self._actions, self.obs
        obs, rewards, terminated, truncated, infos = (
            self._async.step_wait() if self._async is not None else self.envs.step(actions)
        )
        checks_finite = self._checks_finite
        if not (step_is_finite(obs, rewards) if checks_finite is None else checks_finite.finite):
            reset = terminated | truncated if self._mode is AutoresetMode.SAME_STEP else None
            raise self._bad_step(obs_before, actions, obs, rewards, self._lengths + 1, reset)
        valid = self._all_valid
        # Gymnasium adds `_dropped` to an env's own info called `dropped`; the backends do not.
        if "dropped" in infos and "_dropped" not in infos:
            valid = ~np.asarray(infos["dropped"], dtype=bool)
            self._clear(np.flatnonzero(~valid))
        if self._mode is AutoresetMode.NEXT_STEP and self._resetting is not None:
            valid = valid & ~self._resetting

        if valid is not self._all_valid:
            rewards, terminated, truncated = (
                np.where(valid, rewards, 0.0),
                terminated & valid,
                truncated & valid,
            )
        pending = PendingStep(obs_before, actions, rewards, terminated, truncated, valid, obs, infos)
        masks = self._masks_of(obs, infos, None if self._mode is AutoresetMode.SAME_STEP else pending.ended)
        if self._mode is AutoresetMode.DISABLED and pending.any_ended:
            pending.final_obs = {int(i): take(obs, int(i)) for i in np.flatnonzero(pending.ended)}
            obs, infos = self.envs.reset(options={"reset_mask": pending.ended})
            if not all_finite(obs):
                raise self._bad_step(obs_before, actions, obs, rewards, self._lengths + valid, pending.ended)
            fresh = read_masks(obs, infos)
            if masks is None:
                masks = fresh
            else:  # these infos have masks of the envs that were reset only
                masks = np.where(pending.ended[:, None], True if fresh is None else fresh, masks)
            masks = self._legal(masks)
        self._resetting = pending.ended if pending.any_ended else None
        self.obs = obs
        self.masks = masks
        self._pending = pending
        return self.n_envs if valid is self._all_valid else int(valid.sum())

    def finish_step(self) -> VectorStep:
        """Update episode returns and lengths and return the step that `step_wait` received. Call it once per step."""
        finished, self._finished = self._finished, None
        if finished is not None:
            return finished
        pending, self._pending = self._pending, None
        assert pending is not None
        self._returns += pending.rewards
        self._lengths += pending.valid
        episodes: list[EpisodeRecord] = []
        final_obs, last_infos = pending.final_obs, pending.infos
        if pending.any_ended:
            indices = np.flatnonzero(pending.ended)
            if self._mode is AutoresetMode.SAME_STEP:
                if self._lazy_finals is not None:
                    last_infos = self._lazy_finals.final_infos(indices)
                final_obs = {i: last_infos["final_obs"][i] for i in indices.tolist()}
                last_infos = last_infos.get("final_info", {})
                if not all_finite(stack(list(final_obs.values()))):
                    raise self._bad_step(
                        pending.obs_before,
                        pending.actions,
                        successors(pending.obs, final_obs),
                        pending.rewards,
                        self._lengths,
                    )
            episodes = self._episode_records(indices, last_infos)
            self._clear(indices)
        step = VectorStep(
            rewards=np.asarray(pending.rewards, dtype=np.float64),
            terminated=pending.terminated,
            truncated=pending.truncated,
            ended=pending.ended,
            valid=pending.valid,
            final_obs=final_obs,
            final_infos=last_infos,
            episodes=episodes,
        )
        self._last = (pending, step)
        return step

    def last_step(self) -> tuple[PendingStep, VectorStep]:
        """Return the last step as the envs returned it, and its result, also before `finish_step` was called."""
        if self._pending is not None:
            self._finished = self.finish_step()
        assert self._last is not None
        return self._last

    def _finish_pending(self) -> None:
        """Finish the last step if the caller was interrupted between `step_wait` and `finish_step`."""
        if self._pending is not None:
            self.finish_step()
        self._finished = None

    def _set_current(self, obs: Observation, infos: dict[str, Any]) -> None:
        """Set the observations and masks after a reset."""
        self.obs = obs
        self.masks = self._legal(read_masks(obs, infos))
        self._resetting = None
        self._pending = None
        self._finished = None

    def _bad_step(
        self,
        obs_before: Observation,
        actions: Array,
        obs: Observation,
        rewards: Array,
        steps: Array,
        reset: BoolArray | None = None,
    ) -> EnvFault:
        """Return the error for a step with a NaN or infinity; `steps` is the length of each episode with it.

        For envs in `reset`, the observation already belongs to the reset of the next episode.
        """
        evidence = {
            "observations_before": obs_before,
            "actions": actions,
            "observations": obs,
            "rewards": rewards,
        }
        if not all_finite(rewards):
            return self._not_finite("reward", rewards, steps, evidence)
        return self._not_finite(
            "observation", obs, steps if reset is None else np.where(reset, 0, steps), evidence
        )

    def _not_finite(
        self, what: str, numbers: Observation, steps: Array, evidence: dict[str, Any]
    ) -> EnvFault:
        found = first_bad(numbers)
        assert found is not None
        key, (env, *index), value = found
        place = f"{f'.{key}' if key else ''}{index or ''}"
        when = f"step {steps[env]} of its episode" if steps[env] else "the reset"
        error = self._fault(
            env,
            f"env {self._first_env + env} gave {what}{place} = {value!r} at {when}; no update has used it",
        )
        error.evidence = {**evidence, "env": np.array(env), "episode_steps": steps}
        return error

    def _fault(self, env: int, what: str) -> EnvFault:
        return EnvFault(
            what,
            worker=self._first_env + env,
            env_id=(self.backend.env_id if self.backend is not None else "") or type(self.envs).__name__,
            seed=self._seeds[env],
        )

    def _masks_of(
        self, obs: Observation, infos: dict[str, Any], over: BoolArray | None = None
    ) -> BoolArray | None:
        """Read the masks of a step. If there were masks before and none now, everything is legal.

        An env in `over` shows the end of its episode, where there may be no legal action: it takes none.
        """
        masks = read_masks(obs, infos)
        if masks is None:
            return None if self.masks is None else np.ones_like(self.masks)
        return self._legal(masks, over)

    def _legal(self, masks: BoolArray | None, over: BoolArray | None = None) -> BoolArray | None:
        """Return `masks`; EnvFault for an env that leaves no legal action. A backend with `ChecksFinite` is trusted."""
        if masks is None or self._checks_finite is not None:
            return masks
        while (env := first_blocked(masks, self._part_starts)) is not None:
            if over is None or not over[env]:
                raise self._fault(env, "its action mask leaves no legal action")
            masks = with_rows(masks, {env: True})
        return masks

    def _episode_records(self, indices: Array, infos: dict[str, Any]) -> list[EpisodeRecord]:
        """Return the records of the episodes that ended in the envs `indices`.

        An episode that only a wrapper ended (at a lost life, for example) has no record.
        """
        records = []
        rows = zip(
            indices.tolist(),
            *(info_column(infos, key, indices) for key in ("is_success", "episode", REPORT)),
            strict=True,
        )
        for index, success, reported, report in rows:
            try:
                if reported is not None:
                    reward, length = float(_number(reported["r"])), int(_number(reported["l"]))
                elif self._reports_episodes:
                    continue
                else:
                    reward, length = float(self._returns[index]), int(self._lengths[index])
            except Exception:  # the user's env may report anything
                raise self._fault(index, report_problem(reported, report)) from None
            if not math.isfinite(reward) or (report is not None and self._checks_finite is None):
                problem = report_problem(reported, report)
                if problem:
                    raise self._fault(index, problem)
            records.append(EpisodeRecord(reward, length, None if success is None else bool(success), report))
        return records

    def _clear(self, indices: Array) -> None:
        self._returns[indices] = 0.0
        self._lengths[indices] = 0


def read_masks(obs: Observation, infos: dict[str, Any]) -> BoolArray | None:
    """Return the action masks of a vector step, or None. If some envs give masks, the others may do everything."""
    given = infos.get("action_mask")
    if given is None and isinstance(obs, dict):
        given = obs.get("action_mask")
    if given is None:
        return None
    rows = infos.get("_action_mask")
    if rows is None or (rows.all() and given.dtype != object):
        return np.asarray(given, dtype=bool)
    masks: BoolArray = np.ones((len(given), np.size(given[rows.argmax()])), dtype=bool)
    for index in np.flatnonzero(rows):
        masks[index] = np.reshape(given[index], -1)
    return masks


def successors(obs: Observation, final_obs: dict[int, Any]) -> Observation:
    """Return the true next observations: `obs`, with the last observation of each episode that ended."""
    if not final_obs:
        return obs
    if isinstance(obs, dict):
        return {
            key: with_rows(value, {i: final[key] for i, final in final_obs.items()})
            for key, value in obs.items()
        }
    return with_rows(obs, final_obs)


def with_rows(batch: Array, rows: dict[int, Any]) -> Array:
    """Return a copy of `batch` with some rows replaced."""
    batch = batch.copy()
    for index, row in rows.items():
        batch[index] = row
    return batch


def take(obs: Observation, index: int) -> Any:
    """Return a copy of one env's observation."""
    if isinstance(obs, dict):
        return {key: np.array(value[index]) for key, value in obs.items()}
    return np.array(obs[index])


def stack(observations: list[Any]) -> Observation:
    """Stack single observations into a batch."""
    if isinstance(observations[0], dict):
        return {key: np.stack([obs[key] for obs in observations]) for key in observations[0]}
    return np.stack(observations)


def info_column(infos: dict[str, Any], key: str, indices: Array) -> list[Any]:
    """Return entry `key` of the envs `indices` from Gymnasium's vectorised infos; None if an env has no entry."""
    value = infos.get(key)
    if value is None:
        return [None] * len(indices)
    if isinstance(value, dict):  # Gymnasium vectorises nested dicts too
        names = [name for name in value if not name.startswith("_")]
        columns = [
            (name, info_column(value, name, indices), info_given(value, name, indices)) for name in names
        ]
        rows: list[Any] = [
            {name: column[k] for name, column, there in columns if there[k]} for k in range(len(indices))
        ]
    else:
        rows = [_plain(value[index]) for index in indices]
    return [row if there else None for row, there in zip(rows, info_given(infos, key, indices), strict=True)]


def info_given(infos: dict[str, Any], key: str, indices: Array) -> list[bool]:
    there = infos.get(f"_{key}")
    return [True] * len(indices) if there is None else np.asarray(there)[indices].tolist()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _number(value: Any) -> Any:
    """Return the number that `value` is or contains."""
    return value if isinstance(value, int | float) else np.squeeze(value)

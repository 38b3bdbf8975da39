"""Steps a vector env and keeps the books: current observations, masks, episode tallies, resets.

It honours each of Gymnasium's autoreset modes, so that collectors see one simple picture: what was observed,
what followed it truly, and which steps carry experience at all. Whatever an env returns passes here first, so here
it is also looked at for NaN and infinity: an env that gives one ends the run before anything has learnt from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from ludus.envs.finite import all_finite, first_bad, step_is_finite
from ludus.errors import EnvFault
from ludus.types import Array, BoolArray, EpisodeRecord, Observation

REPORT = "balatro"  # where a game tells how an episode went
SeedFor = Callable[[int, int], int]
"""(barrier number, env index) to the seed that env starts with."""


@dataclass
class Step:
    """The outcome of one vector step.

    `final_obs` holds, for each env whose episode ended here and was reset at once, its true last observation, and
    `final_infos` what the envs told with it. For every other env the successor is the stepper's current observation.
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
        """Which of `width` actions are legal at each of `final_obs`: all of them where no mask is given."""
        masks = {}
        given = _column(self.final_infos, "action_mask", np.array(list(self.final_obs), dtype=np.int64))
        for (index, obs), mask in zip(self.final_obs.items(), given, strict=True):
            if mask is None and isinstance(obs, dict):
                mask = obs.get("action_mask")
            masks[index] = np.ones(width, dtype=bool)
            if mask is not None:
                masks[index][:] = np.reshape(mask, -1)
        return masks


@dataclass
class _Played:
    """What the envs gave for `actions`, with the rewards and ends of those that took part."""

    before: Observation
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
    """Wraps a vector env; `obs` and `masks` are always those of the next decision.

    `step` does it all. It is `send`, `receive` and `account` one after the other; who calls them himself can keep
    the books of a step while the envs play the next.
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
        """`rebuild` says that the envs may be built anew at a barrier: not so for an instance the user gave.

        `first_env` is the number of the first env among all of the run, for messages.
        """
        self.envs = envs
        self._rebuild = rebuild and hasattr(envs, "rebuild")
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
        self._plays_beside = hasattr(envs, "begin_step")
        self._looks_itself = self._plays_beside and hasattr(envs, "finite")
        self._tells_endings = self._plays_beside and hasattr(envs, "endings")
        self._sent: Array = np.zeros(0)
        self._played: _Played | None = None
        self.obs: Observation = {}
        self.masks: BoolArray | None = None

    def barrier(self, number: int) -> None:
        """Bring every env to a start that depends on nothing but the run's seed and `number`.

        Open episodes end here. Whoever resumes from checkpoint `number` finds the envs as they are now.
        """
        if self._rebuild:  # a seeded reset is not enough: some envs (BipedalWalker) remember earlier episodes
            self.envs.rebuild()  # type: ignore[attr-defined]  # Ludus's own backends have it
        seeds = [self._seed_for(number, index) for index in range(self.n_envs)]
        self.restart(seeds)

    def restart(self, seeds: list[int] | None = None) -> None:
        """Begin a new episode in every env, from `seeds` or wherever its random numbers are; open ones end."""
        if seeds is not None:
            self._seeds = list(seeds)
        obs, infos = self.envs.reset(seed=seeds)  # type: ignore[arg-type]  # Gymnasium's own take a list too
        if not all_finite(obs):
            raise self._not_finite("observation", obs, np.zeros_like(self._lengths), {"observations": obs})
        self.obs = obs
        self.masks = read_masks(self.obs, infos)
        self._returns[:] = 0.0
        self._lengths[:] = 0
        self._resetting = None
        self._played = None

    @property
    def can_save_games(self) -> bool:
        """Whether the games can be saved as they stand, and gone on with."""
        return hasattr(self.envs, "saved_games")

    def saved_games(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """The open episodes, as arrays and plain data, for `load_games`."""
        self._account_if_nobody_did()
        arrays, values = self.envs.saved_games()  # type: ignore[attr-defined]  # see `can_save_games`
        return {**arrays, "tally.returns": self._returns, "tally.lengths": self._lengths}, values

    def load_games(self, arrays: dict[str, Array], values: dict[str, Any]) -> None:
        """Go on with the episodes that `saved_games` gave."""
        self.obs, infos = self.envs.load_games(arrays, values)  # type: ignore[attr-defined]
        self.masks = read_masks(self.obs, infos)
        self._returns[:] = arrays["tally.returns"]
        self._lengths[:] = arrays["tally.lengths"]
        self._resetting = None
        self._played = None

    def step(self, actions: Array) -> Step:
        """Take one step in every env with env-ready `actions`. EnvFault where one gives a number that is none."""
        self.send(actions)
        self.receive()
        return self.account()

    def send(self, actions: Array) -> None:
        """Begin a step. Envs that can (`begin_step`) play it while the caller does something else."""
        self._sent = actions
        if self._plays_beside:
            self.envs.begin_step(actions)  # type: ignore[attr-defined]  # see `_plays_beside`

    def receive(self) -> int:
        """End the step: `obs` and `masks` are the next ones. Returns how many envs have taken part in it.

        EnvFault where an env gives a number that is none. `account` tells the rest, now or after the next `send`.
        """
        self._account_if_nobody_did()
        envs: Any = self.envs
        actions, before = self._sent, self.obs
        obs, rewards, terminated, truncated, infos = (
            envs.end_step() if self._plays_beside else envs.step(actions)
        )
        if not (envs.finite if self._looks_itself else step_is_finite(obs, rewards)):
            begun = terminated | truncated if self._mode is AutoresetMode.SAME_STEP else None
            raise self._bad_step(before, actions, obs, rewards, self._lengths + 1, begun)
        valid = self._all_valid
        # Beside an env's own info of that name Gymnasium puts `_dropped`.
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
        played = _Played(before, actions, rewards, terminated, truncated, valid, obs, infos)
        masks = self._masks_of(obs, infos)
        if self._mode is AutoresetMode.DISABLED and played.any_ended:
            played.final_obs = {int(i): take(obs, int(i)) for i in np.flatnonzero(played.ended)}
            obs, infos = envs.reset(options={"reset_mask": played.ended})
            if not all_finite(obs):
                raise self._bad_step(before, actions, obs, rewards, self._lengths + valid, played.ended)
            fresh = read_masks(obs, infos)
            if masks is None:
                masks = fresh
            else:  # this reset tells the masks of the envs that it reset, and of no other
                masks = np.where(played.ended[:, None], True if fresh is None else fresh, masks)
        self._resetting = played.ended if played.any_ended else None
        self.obs = obs
        self.masks = masks
        self._played = played
        return self.n_envs if valid is self._all_valid else int(valid.sum())

    def account(self) -> Step:
        """Keep the books of the step that was received last, and tell what came of it. To be called once for each."""
        played, self._played = self._played, None
        assert played is not None
        self._returns += played.rewards
        self._lengths += played.valid
        episodes: list[EpisodeRecord] = []
        final_obs, last_infos = played.final_obs, played.infos
        if played.any_ended:
            indices = np.flatnonzero(played.ended)
            if self._mode is AutoresetMode.SAME_STEP:
                if self._tells_endings:
                    last_infos = self.envs.endings(indices)  # type: ignore[attr-defined]
                final_obs = {i: last_infos["final_obs"][i] for i in indices.tolist()}
                last_infos = last_infos.get("final_info", {})
                if not all_finite(stack(list(final_obs.values()))):
                    raise self._bad_step(
                        played.before,
                        played.actions,
                        successors(played.obs, final_obs),
                        played.rewards,
                        self._lengths,
                    )
            episodes = self._finish(indices, last_infos)
            self._clear(indices)
        return Step(
            rewards=np.asarray(played.rewards, dtype=np.float64),
            terminated=played.terminated,
            truncated=played.truncated,
            ended=played.ended,
            valid=played.valid,
            final_obs=final_obs,
            final_infos=last_infos,
            episodes=episodes,
        )

    def _account_if_nobody_did(self) -> None:
        """A collection may be broken off between `receive` and `account`."""
        if self._played is not None:
            self.account()

    def _bad_step(
        self,
        before: Observation,
        actions: Array,
        obs: Observation,
        rewards: Array,
        steps: Array,
        begun: BoolArray | None = None,
    ) -> EnvFault:
        """The error for a step, the one of number `steps` in each episode, that gave a number which is not finite.

        Where `begun`, the observation already is that of the next episode's reset.
        """
        kept = {
            "observations_before": before,
            "actions": actions,
            "observations": obs,
            "rewards": rewards,
        }
        if not all_finite(rewards):
            return self._not_finite("reward", rewards, steps, kept)
        return self._not_finite(
            "observation", obs, steps if begun is None else np.where(begun, 0, steps), kept
        )

    def _not_finite(self, what: str, numbers: Observation, steps: Array, kept: dict[str, Any]) -> EnvFault:
        found = first_bad(numbers)
        assert found is not None
        key, (env, *index), value = found
        place = f"{f'.{key}' if key else ''}{index or ''}"
        when = f"step {steps[env]} of its episode" if steps[env] else "the reset"
        error = EnvFault(
            f"env {self._first_env + env} gave {what}{place} = {value!r} at {when}; nothing has learnt from it",
            worker=self._first_env + env,
            env_id=str(getattr(self.envs, "env_id", "") or type(self.envs).__name__),
            seed=self._seeds[env],
        )
        error.evidence = {**kept, "env": np.array(env), "episode_steps": steps}
        return error

    def _masks_of(self, obs: Observation, infos: dict[str, Any]) -> BoolArray | None:
        """`read_masks`; where masks were there before and none is now, everything is legal."""
        masks = read_masks(obs, infos)
        return np.ones_like(self.masks) if masks is None and self.masks is not None else masks

    def _finish(self, indices: Array, infos: dict[str, Any]) -> list[EpisodeRecord]:
        """The records of the episodes that ended in the envs `indices`; none where a wrapper cut only a part of it."""
        records = []
        rows = zip(
            indices.tolist(),
            *(_column(infos, key, indices) for key in ("is_success", "episode", REPORT)),
            strict=True,
        )
        for index, success, reported, report in rows:
            if reported is not None:
                reward, length = float(_number(reported["r"])), int(_number(reported["l"]))
            elif self._reports_episodes:
                continue
            else:
                reward, length = float(self._returns[index]), int(self._lengths[index])
            records.append(EpisodeRecord(reward, length, None if success is None else bool(success), report))
        return records

    def _clear(self, indices: Array) -> None:
        self._returns[indices] = 0.0
        self._lengths[indices] = 0


def read_masks(obs: Observation, infos: dict[str, Any]) -> BoolArray | None:
    """The action masks of a vector step, None where no env gives one. An env beside that gives none may do all."""
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
    """The current observations, with the true last one in place of each that was reset."""
    if not final_obs:
        return obs
    if isinstance(obs, dict):
        return {
            key: with_rows(value, {i: final[key] for i, final in final_obs.items()})
            for key, value in obs.items()
        }
    return with_rows(obs, final_obs)


def with_rows(batch: Array, rows: dict[int, Any]) -> Array:
    """A copy of `batch` with some of its rows replaced."""
    batch = batch.copy()
    for index, row in rows.items():
        batch[index] = row
    return batch


def take(obs: Observation, index: int) -> Any:
    """The observation of one env, copied out of a batch."""
    if isinstance(obs, dict):
        return {key: np.array(value[index]) for key, value in obs.items()}
    return np.array(obs[index])


def stack(observations: list[Any]) -> Observation:
    """Single observations as a batch."""
    if isinstance(observations[0], dict):
        return {key: np.stack([obs[key] for obs in observations]) for key in observations[0]}
    return np.stack(observations)


def _column(infos: dict[str, Any], key: str, indices: Array) -> list[Any]:
    """Entry `key` of the envs `indices` in Gymnasium's vectorised infos; None where an env has none."""
    value = infos.get(key)
    if value is None:
        return [None] * len(indices)
    if isinstance(value, dict):  # Gymnasium makes arrays of what is in it too, however deep
        names = [name for name in value if not name.startswith("_")]
        columns = [(name, _column(value, name, indices), _has(value, name, indices)) for name in names]
        rows: list[Any] = [
            {name: column[k] for name, column, there in columns if there[k]} for k in range(len(indices))
        ]
    else:
        rows = [_plain(value[index]) for index in indices]
    return [row if there else None for row, there in zip(rows, _has(infos, key, indices), strict=True)]


def _has(infos: dict[str, Any], key: str, indices: Array) -> list[bool]:
    there = infos.get(f"_{key}")
    return [True] * len(indices) if there is None else np.asarray(there)[indices].tolist()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _number(value: Any) -> Any:
    """The one number that `value` is or holds."""
    return value if isinstance(value, int | float) else np.squeeze(value)

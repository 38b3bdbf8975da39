"""Collectors of vector envs: fixed-length rollouts for on-policy learners, single transitions for replay."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from ludus.envs.vector import threads
from ludus.envs.vector.contract import WritesInPlace
from ludus.policies.actor_critic import ActorCritic
from ludus.policies.base import Policy
from ludus.policies.observations import RewardNormalizer, to_tensor
from ludus.rollout.experience import Cuts, Experience, Rollout, Transitions
from ludus.rollout.stepper import Stepper, VectorStep, stack, successors, with_rows
from ludus.types import Array, BoolArray, EpisodeRecord, Metrics, Observation

_REWARDS = "reward_normalizer."
_GAMES = "open_games."
LARGE = 1 << 24  # bytes of observations from which on the memory of a rollout is reused
StepHook = Callable[[int], bool]
"""Called after each vector step with the env steps of this collection so far; returning False stops it."""


class CollectionStopped(Exception):
    """Raised when the step hook asks to stop; experience since the last update is dropped."""


class Collector(ABC):
    """Collects experience with a policy. Owns the envs and their part of a checkpoint."""

    seeded = True
    """True if a seed always starts the same episode, as exact resume needs."""
    reward_scale = 1.0
    """The env reward that equals a learner's reward of 1."""
    saves_games = False
    """True if a checkpoint holds the open episodes; a resumed run continues them and needs no barrier."""

    def __init__(self) -> None:
        self.step_hook: StepHook | None = None
        self.steps_left: Callable[[], int] | None = None
        """Returns the env steps to the end of the run; None: the run does not end at a number of steps."""

    @abstractmethod
    def collect(self, policy: Any) -> Experience:
        """Collect the experience of one update with `policy`; less at the end of the run."""

    @abstractmethod
    def barrier(self, number: int) -> None:
        """Bring the envs to the state from which a run resumed from checkpoint `number` continues."""

    @abstractmethod
    def close(self) -> None:
        """Close the envs."""

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the tensors to save in `learner.safetensors`."""
        return {}

    def values(self) -> dict[str, Any]:
        """Return the JSON data to save at the top level of `state.json`."""
        return {}

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        """Restore what `tensors()` and `values()` returned; both arguments may hold other entries."""

    def take_metrics(self) -> Metrics:
        """Return metrics since the last call."""
        return {}

    def step_locals(self) -> dict[str, Any]:
        """Return the last vector step for `callback.locals`; empty where other processes step the envs."""
        return {}

    def _call_hook(self, steps: int) -> None:
        if self.step_hook is not None and not self.step_hook(steps):
            raise CollectionStopped


class EnvCollector(Collector):
    """A collector that steps a vector env."""

    def __init__(
        self,
        stepper: Stepper,
        *,
        n_steps: int,
        generator: torch.Generator,
        reward_normalizer: RewardNormalizer | None = None,
    ) -> None:
        super().__init__()
        self.stepper = stepper
        self.n_steps = n_steps
        self.reward_normalizer = reward_normalizer
        self._generator = generator
        self._storage: _RolloutStorage | None = None
        self._started = False

    @property
    def seeded(self) -> bool:  # type: ignore[override]  # depends on the envs
        return self.stepper.backend is None or self.stepper.backend.seeded

    @property
    def reward_scale(self) -> float:  # type: ignore[override]  # it changes while rewards are normalised
        return 1.0 if self.reward_normalizer is None else self.reward_normalizer.unit

    @property
    def saves_games(self) -> bool:  # type: ignore[override]  # depends on the envs
        return self.stepper.can_save_games

    def barrier(self, number: int) -> None:
        """Restart the envs; envs whose open episodes are saved start once and then continue."""
        if not (self.saves_games and self._started):
            self.begin(number)

    def begin(self, number: int) -> None:
        """Restart the envs from the seeds of barrier `number`."""
        self._started = True
        self.stepper.barrier(number)
        if self.reward_normalizer is not None:
            self.reward_normalizer.reset_returns()

    def vector_steps(self, n_steps: int) -> int:
        """Return `n_steps`, or the fewer vector steps that reach the end of the run."""
        if self.steps_left is None:
            return n_steps
        return max(1, min(n_steps, -(-self.steps_left() // self.stepper.n_envs)))

    def close(self) -> None:
        self.stepper.envs.close()

    def tensors(self) -> dict[str, torch.Tensor]:
        state = {} if self.reward_normalizer is None else self.reward_normalizer.state_dict()
        saved = {f"{_REWARDS}{key}": torch.as_tensor(array) for key, array in state.items()}
        if self.saves_games:
            arrays, _ = self.stepper.save_games()
            saved |= {f"{_GAMES}{key}": torch.as_tensor(array) for key, array in arrays.items()}
        return saved

    def values(self) -> dict[str, Any]:
        values = {"collector": self.counters(), "wrappers": self.wrapper_states()}
        return values | ({"open_games": self.stepper.save_games()[1]} if self.saves_games else {})

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        self.load_counters(values["collector"])
        if self.reward_normalizer is not None:
            self.reward_normalizer.load_state_dict(
                {k.removeprefix(_REWARDS): v.numpy() for k, v in tensors.items() if k.startswith(_REWARDS)}
            )
        self.load_wrapper_states(values["wrappers"])
        if self.saves_games and "open_games" in values:
            arrays = {k.removeprefix(_GAMES): v.numpy() for k, v in tensors.items() if k.startswith(_GAMES)}
            self.stepper.load_games(arrays, values["open_games"])
            self._started = True

    def wrapper_states(self) -> list[Any]:
        """Return the states of the wrappers of each env; empty if the envs cannot save them."""
        return [] if self.stepper.backend is None else self.stepper.backend.wrapper_states()

    def load_wrapper_states(self, states: list[Any]) -> None:
        if states and self.stepper.backend is not None:
            self.stepper.backend.load_wrapper_states(states)

    def take_metrics(self) -> Metrics:
        """Return the `time/` metrics of the envs; a resumed run does not have to reproduce those."""
        metrics = {} if self.stepper.backend is None else self.stepper.backend.take_metrics()
        return {name: value for name, value in metrics.items() if name.startswith("time/")}

    def step_locals(self) -> dict[str, Any]:
        from ludus.rollout.step_infos import step_locals  # for callbacks only

        return step_locals(*self.stepper.last_step(), self.stepper.obs)

    def counters(self) -> dict[str, Any]:
        """Return the collector's counters as JSON data."""
        return {}

    def load_counters(self, counters: dict[str, Any]) -> None:
        """Restore what `counters` returned."""


class RolloutCollector(EnvCollector):
    """Collects `n_steps` steps of every env, with the policy's values and log-probabilities."""

    keeps_cuts = False
    """If True, rollouts hold their `cuts`."""

    def __init__(self, stepper: Stepper, **kwargs: Any) -> None:
        super().__init__(stepper, **kwargs)
        self._writes_in_place = stepper.envs if isinstance(stepper.envs, WritesInPlace) else None

    def collect(self, policy: ActorCritic) -> Rollout:
        stepper, T = self.stepper, self.vector_steps(self.n_steps)
        rollout = self._rollout_storage(policy, T)
        if policy.fast is not None:
            policy.fast.begin_rollout(T)
        episodes: list[EpisodeRecord] = []
        truncated_ends: list[tuple[int, int, Any]] = []
        if policy.training:
            policy.eval()
        taken = 0

        def store(t: int, chosen: tuple[Array, Array, Array]) -> None:
            step = stepper.finish_step()
            rollout.store_step(t, *chosen, step)
            rollout.rewards[t] = self._reward(step)
            episodes.extend(step.episodes)
            truncated_ends.extend((t, i, obs) for i, obs in step.final_obs.items() if not step.terminated[i])

        chosen: tuple[Array, Array, Array] | None = None
        for t in range(T):
            obs, masks = rollout.store_obs(t, self._normalize(policy, stepper.obs), stepper.masks)
            previous, chosen = chosen, self._act(policy, obs, masks)
            if self._writes_in_place is not None and policy.obs_normalizer is None:
                rollout.lend(t + 1, self._writes_in_place)
            stepper.step_async(policy.to_env(chosen[0]))
            if previous is not None:
                store(t - 1, previous)  # while the envs step
            taken += stepper.step_wait()
            try:
                self._call_hook(taken)
            except CollectionStopped:
                store(t, chosen)  # the reward statistics must include every step the envs took
                raise
        assert chosen is not None
        store(T - 1, chosen)

        rollout.next_values[:-1] = rollout.values[1:]
        rollout.next_values[-1] = self._values(policy, stepper.obs)
        truncated = stack([obs for _, _, obs in truncated_ends]) if truncated_ends else None
        if truncated is not None:
            values = self._values(policy, truncated)
            for (t, i, _), value in zip(truncated_ends, values, strict=True):
                rollout.next_values[t, i] = value
        ends = rollout.ends.copy()
        ends[:-1] |= ~rollout.valid[1:]  # a dropped or resetting step separates two episodes
        return Rollout(
            steps=int(rollout.valid.sum()),
            episodes=episodes,
            obs=rollout.all_obs(),
            actions=rollout.actions,
            log_probs=rollout.log_probs,
            values=rollout.values,
            next_values=rollout.next_values,
            rewards=rollout.rewards,
            terminated=rollout.terminated,
            ends=ends,
            valid=rollout.valid,
            masks=None if rollout.masks is None else rollout.masks[:-1],
            cuts=self._cuts(policy, T, truncated_ends, truncated) if self.keeps_cuts else None,
        )

    def _rollout_storage(self, policy: ActorCritic, n_steps: int) -> _RolloutStorage:
        """Return the memory of a rollout. Large memory is reused, because allocating it is slow."""
        storage = self._storage
        # rollouts with cuts may be kept for later
        if storage is None or not storage.large or storage.shape[0] != n_steps or self.keeps_cuts:
            pinned = policy.device.type == "cuda"
            storage = self._storage = _RolloutStorage(n_steps, self.stepper.n_envs, pinned=pinned)
        return storage

    def _cuts(
        self, policy: Policy, n_steps: int, ends: list[tuple[int, int, Any]], truncated: Observation | None
    ) -> Cuts:
        last, n = self.stepper.obs, self.stepper.n_envs
        # for an episode truncated at the last step, the later of the two entries counts
        obs = last if truncated is None else _concatenate(last, truncated)
        normalizer = policy.obs_normalizer
        return Cuts(
            times=np.array([n_steps - 1] * n + [t for t, _, _ in ends], dtype=np.int64),
            envs=np.array([*range(n), *(i for _, i, _ in ends)], dtype=np.int64),
            obs=obs if normalizer is None else normalizer.normalize(obs),
        )

    def _normalize(self, policy: Policy, obs: Observation) -> Observation:
        """Update the running statistics with `obs` and return it as the network gets it."""
        normalizer = policy.obs_normalizer
        return obs if normalizer is None else normalizer.update_and_normalize(obs)

    def _act(
        self, policy: ActorCritic, seen: Observation, masks: BoolArray | None
    ) -> tuple[Array, Array, Array]:
        """Return actions, log-probabilities and values."""
        if policy.fast is not None:
            return policy.fast.act(seen, masks)
        with torch.inference_mode():
            chosen = policy.act_and_value(
                to_tensor(seen, policy.device), _mask_tensor(masks, policy), self._generator
            )
        action, log_prob, value = (part.cpu().numpy() for part in chosen)
        return action, log_prob, value

    def _values(self, policy: ActorCritic, obs: Observation) -> Array:
        if policy.fast is not None:
            normalizer = policy.obs_normalizer
            return np.asarray(policy.fast.values(obs if normalizer is None else normalizer.normalize(obs)))
        with torch.inference_mode():
            return np.asarray(policy.value(policy.prepare(obs)).cpu().numpy())

    def _reward(self, step: VectorStep) -> Array:
        if self.reward_normalizer is None:
            return np.asarray(step.rewards)
        return self.reward_normalizer.update_and_scale(step.rewards, step.ended, step.valid)


class ReplayCollector(EnvCollector):
    """Collects `n_steps` transitions of every env; the first `warmup` env steps use uniformly random actions."""

    def __init__(self, *args: Any, warmup: int, rng: np.random.Generator, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._warmup_left = warmup
        self._rng = rng

    def collect(self, policy: Policy) -> Transitions:
        stepper, N = self.stepper, self.stepper.n_envs
        parts: list[tuple[Observation, Array, Array, Observation, BoolArray, Any, Any, BoolArray]] = []
        episodes: list[EpisodeRecord] = []
        if policy.training:
            policy.eval()
        taken = 0
        for _ in range(self.vector_steps(self.n_steps)):
            obs, masks = stepper.obs, stepper.masks
            seen = obs if policy.obs_normalizer is None else policy.obs_normalizer.update_and_normalize(obs)
            if self._warmup_left > 0:
                actions = random_actions(policy.action_space, N, masks, self._rng)
                self._warmup_left -= N
            else:
                actions = self._act(policy, seen, masks)
            step = stepper.step(policy.to_env(actions))
            if self.reward_normalizer is not None:
                self.reward_normalizer.update_and_scale(step.rewards, step.ended, step.valid)
            next_obs = successors(stepper.obs, step.final_obs)
            next_masks = stepper.masks
            if next_masks is not None and step.final_obs:
                next_masks = with_rows(next_masks, step.final_masks(next_masks.shape[1]))
            parts.append(
                (obs, actions, step.rewards, next_obs, step.terminated, masks, next_masks, step.valid)
            )
            episodes += step.episodes
            taken += int(step.valid.sum())
            self._call_hook(taken)
        return _join(parts, episodes=episodes)

    def _act(self, policy: Policy, seen: Observation, masks: BoolArray | None) -> Array:
        if policy.fast is not None:
            return np.asarray(policy.fast.act(seen, masks))
        with torch.inference_mode():
            chosen = policy.act(
                to_tensor(seen, policy.device),
                _mask_tensor(masks, policy),
                deterministic=False,
                generator=self._generator,
            )
        return np.asarray(chosen.cpu().numpy())

    def counters(self) -> dict[str, Any]:
        return {"warmup_left": self._warmup_left}

    def load_counters(self, counters: dict[str, Any]) -> None:
        self._warmup_left = int(counters["warmup_left"])


class _RolloutStorage:
    """The arrays of one rollout, allocated at the first step.

    Observations and masks have one step more than the rest, so that envs with `WritesInPlace` can write the next
    observations where they will be stored.
    """

    def __init__(self, n_steps: int, n_envs: int, pinned: bool) -> None:
        shape = (n_steps, n_envs)
        self._pinned = pinned
        self.shape = shape
        self.rewards: Array = np.zeros(shape, dtype=np.float32)
        self.values: Array = np.zeros(shape, dtype=np.float32)
        self.next_values: Array = np.zeros(shape, dtype=np.float32)
        self.log_probs: Array = np.zeros(shape, dtype=np.float32)
        self.terminated: BoolArray = np.zeros(shape, dtype=bool)
        self.ends: BoolArray = np.zeros(shape, dtype=bool)
        self.valid: BoolArray = np.ones(shape, dtype=bool)
        self.obs: Observation = {}
        self.actions: Array = np.zeros(0)
        self.masks: BoolArray | None = None

    @property
    def large(self) -> bool:
        """Return True if the memory is worth reusing. That of Dict observations is never reused."""
        return not isinstance(self.obs, dict) and self.obs.nbytes >= LARGE

    def all_obs(self) -> Observation:
        """Return the observations of all steps."""
        if isinstance(self.obs, dict):
            return {key: value[:-1] for key, value in self.obs.items()}
        return self.obs[:-1]

    def lend(self, t: int, envs: WritesInPlace) -> None:
        """Let the envs write their next observations and masks into the memory of step `t`."""
        if not isinstance(self.obs, dict) and self.masks is not None:
            envs.write_into(self.obs[t], self.masks[t])

    def store_obs(
        self, t: int, obs: Observation, masks: BoolArray | None
    ) -> tuple[Observation, BoolArray | None]:
        """Store the observations and masks of step `t` and return the stored arrays."""
        if t == 0 and isinstance(self.obs, dict):
            self._allocate(obs)
        if masks is not None:
            if self.masks is None:  # the first mask may come late: everything was legal before
                self.masks = self._empty(masks)
                self.masks[:t] = True
            masks = _copy_into(masks, self.masks[t])
        if isinstance(self.obs, dict):
            for key, value in self.obs.items():
                value[t] = obs[key]
            return obs, masks
        return _copy_into(np.asarray(obs), self.obs[t]), masks

    def store_step(self, t: int, actions: Array, log_probs: Array, values: Array, step: VectorStep) -> None:
        """Store the actions of step `t` and their results."""
        if t == 0 and self.actions.shape[1:] != actions.shape:
            self.actions = np.empty((self.shape[0], *actions.shape), dtype=actions.dtype)
        self.actions[t] = actions
        self.log_probs[t] = log_probs
        self.values[t] = values
        self.terminated[t] = step.terminated
        self.ends[t] = step.ended
        self.valid[t] = step.valid

    def _allocate(self, obs: Observation) -> None:
        if isinstance(obs, dict):
            self.obs = {key: self._empty(value) for key, value in obs.items()}
        else:
            self.obs = self._empty(obs)

    def _empty(self, like: Array) -> Array:
        """Return uninitialised memory for all steps and one more, pinned if the policy is on a GPU."""
        shape = (self.shape[0] + 1, *like.shape)
        if not self._pinned:
            return np.empty(shape, dtype=like.dtype)
        kind = torch.from_numpy(np.empty(0, dtype=like.dtype)).dtype
        return torch.empty(shape, dtype=kind, pin_memory=True).numpy()


def _copy_into(array: Array, place: Array) -> Array:
    """Copy `array` into `place`, unless it is large and already there, and return `place`."""
    if array.nbytes < threads.LARGE:
        np.copyto(place, array)
    elif array.ctypes.data != place.ctypes.data:
        threads.on_rows(array, lambda rows: np.copyto(place[rows], array[rows]))
    return place


def random_actions(
    space: spaces.Space[Any], n: int, masks: BoolArray | None, rng: np.random.Generator
) -> Array:
    """Return uniform actions as a policy gives them: legal indices from 0, or flat in [-1, 1] for Box."""
    if isinstance(space, spaces.Box):
        return rng.uniform(-1.0, 1.0, size=(n, math.prod(space.shape))).astype(np.float32)
    if not isinstance(space, spaces.Discrete):
        raise TypeError(f"no random actions for {space}")
    if masks is None:
        return rng.integers(0, int(space.n), size=n)
    chosen: Array = np.argmax(np.where(masks, rng.random(masks.shape), -1.0), axis=1)
    return chosen


def _concatenate(first: Observation, second: Observation) -> Observation:
    if isinstance(first, dict):
        return {key: np.concatenate([value, second[key]]) for key, value in first.items()}
    return np.concatenate([first, second])


def _mask_tensor(masks: BoolArray | None, policy: Policy) -> torch.Tensor | None:
    return None if masks is None else torch.as_tensor(masks, device=policy.device)


def _join(parts: list[Any], *, episodes: list[EpisodeRecord]) -> Transitions:
    obs, actions, rewards, next_obs, terminated, masks, next_masks, valid = zip(*parts, strict=True)
    keep = np.concatenate(valid)

    def join(arrays: Any) -> Any:
        if isinstance(arrays[0], dict):
            return {key: join([array[key] for array in arrays]) for key in arrays[0]}
        joined = np.concatenate(arrays) if len(arrays) > 1 else np.asarray(arrays[0])
        return joined if keep.all() else joined[keep]

    return Transitions(
        steps=int(keep.sum()),
        episodes=episodes,
        obs=join(obs),
        actions=join(actions),
        rewards=join(rewards),
        next_obs=join(next_obs),
        terminated=join(terminated),
        masks=None if (given := _fill(masks)) is None else join(given),
        next_masks=None if (given := _fill(next_masks)) is None else join(given),
    )


def _fill(masks: Any) -> list[BoolArray] | None:
    """Masks of consecutive steps, all legal before the first one was given; None where none was."""
    known = next((mask for mask in masks if mask is not None), None)
    return None if known is None else [np.ones_like(known) if mask is None else mask for mask in masks]

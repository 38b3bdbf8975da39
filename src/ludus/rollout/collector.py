"""The collectors of vector envs: fixed-length rollouts for on-policy learners, single transitions for replay."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from ludus.envs.vector import row_threads
from ludus.policies.actor_critic import ActorCritic
from ludus.policies.base import Policy
from ludus.policies.observations import RewardNormalizer, to_tensor
from ludus.rollout.experience import Cuts, Experience, Rollout, Transitions
from ludus.rollout.stepper import Step, Stepper, stack, successors, with_rows
from ludus.types import Array, BoolArray, EpisodeRecord, Metrics, Observation

_REWARDS = "reward_normalizer."
_GAMES = "open_games."
LARGE = 1 << 24
StepHook = Callable[[int], bool]
"""Called after each vector step with the env steps of this collection so far; False ends it at once."""


class CollectionStopped(Exception):
    """The step hook asked to stop; what was collected since the last update is dropped."""


class Collector(ABC):
    """Plays with a policy. Owns the games and everything that must survive a checkpoint about playing."""

    seeded = True
    """Whether the games can be brought to the same start again, as exact resume needs."""
    reward_scale = 1.0
    """What a reward of 1 that the learner sees is worth in the env's own reward."""
    saves_games = False
    """Whether a checkpoint holds the open games, so that a resumed run goes on with them and needs no barrier."""

    def __init__(self) -> None:
        self.step_hook: StepHook | None = None

    @abstractmethod
    def collect(self, policy: Any) -> Experience:
        """Play with `policy` until there is enough for one update."""

    @abstractmethod
    def barrier(self, number: int) -> None:
        """Come to the common point of checkpoint `number`, from which a resumed run goes on too."""

    @abstractmethod
    def close(self) -> None:
        """Close the games."""

    def tensors(self) -> dict[str, torch.Tensor]:
        """What about playing must survive a checkpoint, for `learner.safetensors`."""
        return {}

    def values(self) -> dict[str, Any]:
        """The same as plain data, for `state.json`: its keys stand at the top there."""
        return {}

    def load(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        """Take up what `tensors` and `values` gave; both may hold more than that."""

    def take_metrics(self) -> Metrics:
        """Figures about playing since the last call, for the next row."""
        return {}

    def _call_hook(self, steps: int) -> None:
        if self.step_hook is not None and not self.step_hook(steps):
            raise CollectionStopped


class EnvCollector(Collector):
    """A collector that steps vector envs."""

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
        self._kept: _Storage | None = None
        self._begun = False

    @property
    def seeded(self) -> bool:  # type: ignore[override]  # simulators that take no seed know it themselves
        return bool(getattr(self.stepper.envs, "seeded", True))

    @property
    def reward_scale(self) -> float:  # type: ignore[override]  # it moves while rewards are normalised
        return 1.0 if self.reward_normalizer is None else self.reward_normalizer.unit

    @property
    def saves_games(self) -> bool:  # type: ignore[override]  # the envs know it
        return self.stepper.can_save_games

    def barrier(self, number: int) -> None:
        """`begin`, but games that are saved as they stand begin once and then go on."""
        if not (self.saves_games and self._begun):
            self.begin(number)

    def begin(self, number: int) -> None:
        """See `Stepper.barrier`."""
        self._begun = True
        self.stepper.barrier(number)
        if self.reward_normalizer is not None:
            self.reward_normalizer.reset_returns()

    def close(self) -> None:
        self.stepper.envs.close()

    def tensors(self) -> dict[str, torch.Tensor]:
        state = {} if self.reward_normalizer is None else self.reward_normalizer.state_dict()
        saved = {f"{_REWARDS}{key}": torch.as_tensor(array) for key, array in state.items()}
        if self.saves_games:
            arrays, _ = self.stepper.saved_games()
            saved |= {f"{_GAMES}{key}": torch.as_tensor(array) for key, array in arrays.items()}
        return saved

    def values(self) -> dict[str, Any]:
        values = {"collector": self.counters(), "wrappers": self.wrapper_states()}
        return values | ({"open_games": self.stepper.saved_games()[1]} if self.saves_games else {})

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
            self._begun = True

    def wrapper_states(self) -> list[Any]:
        """What the wrappers of each env remember; empty where none can."""
        envs: Any = self.stepper.envs
        return envs.wrapper_states() if hasattr(envs, "wrapper_states") else []

    def load_wrapper_states(self, states: list[Any]) -> None:
        if states:
            envs: Any = self.stepper.envs
            envs.load_wrapper_states(states)

    def take_metrics(self) -> Metrics:
        """What the envs have to tell about their time: only `time/` names, which no resume must reproduce."""
        envs: Any = self.stepper.envs
        told: Metrics = envs.take_metrics() if hasattr(envs, "take_metrics") else {}
        return {name: value for name, value in told.items() if name.startswith("time/")}

    def counters(self) -> dict[str, Any]:
        """What of playing is counted, as plain data."""
        return {}

    def load_counters(self, counters: dict[str, Any]) -> None:
        """Take up what `counters` gave."""


class RolloutCollector(EnvCollector):
    """`n_steps` steps of every env, with values and log-probabilities of the policy that played them."""

    keeps_cuts = False
    """Whether rollouts hold their `cuts`."""

    def collect(self, policy: ActorCritic) -> Rollout:
        stepper, T = self.stepper, self.n_steps
        rollout = self._storage(policy)
        expect = getattr(policy.fast, "expect", None)
        if expect is not None:
            expect(T)
        episodes: list[EpisodeRecord] = []
        truncated_ends: list[tuple[int, int, Any]] = []
        if policy.training:
            policy.eval()
        taken = 0

        def keep(t: int, chosen: tuple[Array, Array, Array]) -> None:
            step = stepper.account()
            rollout.put(t, *chosen, step)
            rollout.rewards[t] = self._reward(step)
            episodes.extend(step.episodes)
            truncated_ends.extend((t, i, obs) for i, obs in step.final_obs.items() if not step.terminated[i])

        chosen: tuple[Array, Array, Array] | None = None
        for t in range(T):
            seen, masks = rollout.put_seen(t, self._see(policy, stepper.obs), stepper.masks)
            before, chosen = chosen, self._act(policy, seen, masks)
            if policy.obs_normalizer is None:
                rollout.offer(t + 1, stepper.envs)
            stepper.send(policy.to_env(chosen[0]))
            if before is not None:
                keep(t - 1, before)  # while the envs play
            taken += stepper.receive()
            try:
                self._call_hook(taken)
            except CollectionStopped:
                keep(t, chosen)  # what is remembered of rewards is that of the games as they stand
                raise
        assert chosen is not None
        keep(T - 1, chosen)

        rollout.next_values[:-1] = rollout.values[1:]
        rollout.next_values[-1] = self._values(policy, stepper.obs)
        truncated = stack([obs for _, _, obs in truncated_ends]) if truncated_ends else None
        if truncated is not None:
            values = self._values(policy, truncated)
            for (t, i, _), value in zip(truncated_ends, values, strict=True):
                rollout.next_values[t, i] = value
        ends = rollout.ends.copy()
        ends[:-1] |= ~rollout.valid[1:]  # what follows a dropped or resetting step is another episode
        return Rollout(
            steps=int(rollout.valid.sum()),
            episodes=episodes,
            obs=rollout.seen(),
            actions=rollout.actions,
            log_probs=rollout.log_probs,
            values=rollout.values,
            next_values=rollout.next_values,
            rewards=rollout.rewards,
            terminated=rollout.terminated,
            ends=ends,
            valid=rollout.valid,
            masks=None if rollout.masks is None else rollout.masks[:-1],
            cuts=self._cuts(policy, truncated_ends, truncated) if self.keeps_cuts else None,
        )

    def _storage(self, policy: ActorCritic) -> _Storage:
        """The memory of a rollout; a large one is used again, because to get so much anew takes a while."""
        kept = self._kept
        if kept is None or not kept.large or self.keeps_cuts:  # who wants cuts may keep rollouts for later
            pinned = policy.device.type == "cuda"
            kept = self._kept = _Storage(self.n_steps, self.stepper.n_envs, pinned=pinned)
        return kept

    def _cuts(self, policy: Policy, ends: list[tuple[int, int, Any]], truncated: Observation | None) -> Cuts:
        last, n = self.stepper.obs, self.stepper.n_envs
        # an episode truncated at the last step stands behind what follows it here: the later entry counts
        obs = last if truncated is None else _concatenate(last, truncated)
        normalizer = policy.obs_normalizer
        return Cuts(
            times=np.array([self.n_steps - 1] * n + [t for t, _, _ in ends], dtype=np.int64),
            envs=np.array([*range(n), *(i for _, i, _ in ends)], dtype=np.int64),
            obs=obs if normalizer is None else normalizer.normalize(obs),
        )

    def _see(self, policy: Policy, obs: Observation) -> Observation:
        """`obs` as the network gets it; the running statistics learn from it first."""
        normalizer = policy.obs_normalizer
        return obs if normalizer is None else normalizer.see(obs)

    def _act(
        self, policy: ActorCritic, seen: Observation, masks: BoolArray | None
    ) -> tuple[Array, Array, Array]:
        if policy.fast is not None:
            actions, log_probs, values = policy.fast.act(seen, masks)
            return actions, log_probs, values
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

    def _reward(self, step: Step) -> Array:
        if self.reward_normalizer is None:
            return np.asarray(step.rewards)
        return self.reward_normalizer.see(step.rewards, step.ended, step.valid)


class ReplayCollector(EnvCollector):
    """`n_steps` transitions of every env; uniformly random actions for the first `warmup` env steps."""

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
        for _ in range(self.n_steps):
            obs, masks = stepper.obs, stepper.masks
            seen = obs if policy.obs_normalizer is None else policy.obs_normalizer.see(obs)
            if self._warmup_left > 0:
                actions = random_actions(policy.action_space, N, masks, self._rng)
                self._warmup_left -= N
            else:
                actions = self._act(policy, seen, masks)
            step = stepper.step(policy.to_env(actions))
            if self.reward_normalizer is not None:
                self.reward_normalizer.see(step.rewards, step.ended, step.valid)
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


class _Storage:
    """The arrays of one rollout, shaped after the first step that is put in.

    Observations and masks have room for one step more: envs that can (`write_into`) write what follows a step right
    where it will be stored.
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
        """Whether it holds so much that it should be used again. Dict observations are not worth the trouble."""
        return not isinstance(self.obs, dict) and self.obs.nbytes >= LARGE

    def seen(self) -> Observation:
        """The observations of all steps."""
        if isinstance(self.obs, dict):
            return {key: value[:-1] for key, value in self.obs.items()}
        return self.obs[:-1]

    def offer(self, t: int, envs: Any) -> None:
        """Let the envs write what they are about to return into the place of step `t`."""
        if isinstance(self.obs, dict) or self.masks is None or not hasattr(envs, "write_into"):
            return
        envs.write_into(self.obs[t], self.masks[t])

    def put_seen(
        self, t: int, obs: Observation, masks: BoolArray | None
    ) -> tuple[Observation, BoolArray | None]:
        """Keep what is seen before step `t`; returns it as it is kept."""
        if t == 0 and isinstance(self.obs, dict):
            self._allocate(obs)
        if masks is not None:
            if self.masks is None:  # an env may give its first mask late: all was legal until then
                self.masks = self._empty(masks)
                self.masks[:t] = True
            masks = _keep(masks, self.masks[t])
        if isinstance(self.obs, dict):
            for key, value in self.obs.items():
                value[t] = obs[key]
            return obs, masks
        return _keep(np.asarray(obs), self.obs[t]), masks

    def put(self, t: int, actions: Array, log_probs: Array, values: Array, step: Step) -> None:
        """Keep what was done at step `t`, and what came of it."""
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
        """Memory for the steps and one more; for a GPU such that it can fetch them by itself."""
        shape = (self.shape[0] + 1, *like.shape)
        if not self._pinned:
            return np.empty(shape, dtype=like.dtype)
        kind = torch.from_numpy(np.empty(0, dtype=like.dtype)).dtype
        return torch.empty(shape, dtype=kind, pin_memory=True).numpy()


def _keep(array: Array, place: Array) -> Array:
    """`array`, in `place`: copied, but a large one that is there already."""
    if array.nbytes < row_threads.LARGE:
        np.copyto(place, array)
    elif array.ctypes.data != place.ctypes.data:
        row_threads.on_rows(array, lambda rows: np.copyto(place[rows], array[rows]))
    return place


def random_actions(
    space: spaces.Space[Any], n: int, masks: BoolArray | None, rng: np.random.Generator
) -> Array:
    """Uniform actions in the policy's own terms: indices from 0 (legal ones only), or flat in [-1, 1] for Box."""
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

"""Plays whole episodes with a policy and measures the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

import gymnasium as gym
import numpy as np

from ludus.envs.episode_reports import REPORT, EpisodeReports, gather_reports
from ludus.envs.make import EnvSpec
from ludus.envs.vector import batched
from ludus.envs.wrappers import EpisodeReport
from ludus.errors import EnvFault, LudusError, SimulatorsTaken
from ludus.policies.base import RecurrentActor
from ludus.rollout.stepper import read_masks, stack
from ludus.types import Array, BoolArray, EpisodeRecord, Metrics, Observation

Env = gym.Env[Any, Any]
MAX_ENVS = 16
_MOST_TOGETHER = 1024


class EvaluationStopped(Exception):
    """Raised by the caller's own hook between two steps, to cancel an evaluation or a video."""


class Actor(Protocol):
    """A policy or a bot: it chooses actions. One with a memory of the episode is also a `RecurrentActor`."""

    def predict(
        self, obs: Observation, mask: BoolArray | None = None, deterministic: bool = True
    ) -> Array: ...


@dataclass(frozen=True)
class EvaluationResult:
    """The episodes of one evaluation, in the order of their seeds."""

    episodes: tuple[EpisodeRecord, ...]

    @property
    def rewards(self) -> Array:
        return np.array([episode.reward for episode in self.episodes])

    @property
    def mean_reward(self) -> float:
        return float(self.rewards.mean())

    @property
    def std_reward(self) -> float:
        return float(self.rewards.std())

    @property
    def mean_length(self) -> float:
        return float(np.mean([episode.length for episode in self.episodes]))

    @property
    def success_rate(self) -> float | None:
        known = [episode.success for episode in self.episodes if episode.success is not None]
        return float(np.mean(known)) if known else None

    def metrics(self) -> Metrics:
        """Return the result under the metric names of `metrics.jsonl`."""
        metrics = {
            "eval/mean_reward": self.mean_reward,
            "eval/std_reward": self.std_reward,
            "eval/mean_ep_length": self.mean_length,
        }
        if self.success_rate is not None:
            metrics["eval/success_rate"] = self.success_rate
        reports = self.reports()
        if reports is not None:
            metrics = {f"eval/{name}": value for name, value in reports.metrics().items()} | metrics
        return metrics

    def reports(self) -> EpisodeReports | None:
        """Return the summary of what the game reported of its episodes; None where it reports nothing."""
        return gather_reports(self.episodes)

    def summary(self) -> dict[str, Any]:
        """Return the result as JSON data, for `--json`."""
        rewards = self.rewards
        summary: dict[str, Any] = {
            "mean_reward": self.mean_reward,
            "std_reward": self.std_reward,
            "min_reward": float(rewards.min()),
            "max_reward": float(rewards.max()),
            "mean_length": self.mean_length,
            "episodes": len(self.episodes),
        }
        if self.success_rate is not None:
            summary["success_rate"] = self.success_rate
        reports = self.reports()
        if reports is not None:
            # through JSON: keys that are numbers become text
            summary[reports.kind] = json.loads(json.dumps(reports.get_summary()))
        return summary


def evaluate(
    actor: Actor,
    make_env: Callable[[], Env],
    seeds: Sequence[int],
    *,
    deterministic: bool = True,
    before_step: Callable[[], None] = lambda: None,
) -> EvaluationResult:
    """Play one episode from each seed to its end, in several envs at a time.

    The envs are built for this evaluation and closed after it, so the result depends only on the policy and the
    seeds. `before_step` may raise to cancel it.
    """
    if can_play_together(make_env, actor):
        return EvaluationResult(
            tuple(
                play_together(
                    actor, cast(Any, make_env), seeds, deterministic=deterministic, before_step=before_step
                )
            )
        )
    envs = _several(make_env, min(MAX_ENVS, len(seeds)))
    try:
        return EvaluationResult(
            tuple(play_episodes(actor, envs, seeds, deterministic=deterministic, before_step=before_step))
        )
    finally:
        for env in envs:
            env.close()


def _several(make_env: Callable[[], Env], number: int) -> list[Env]:
    """Build `number` envs, or as many as there are free simulators."""
    envs: list[Env] = []
    try:
        while len(envs) < number:
            envs.append(make_env())
    except SimulatorsTaken:
        if not envs:
            raise
    except BaseException:
        for env in envs:
            env.close()
        raise
    return envs


def play_episodes(
    actor: Actor,
    envs: Sequence[Env],
    seeds: Sequence[int],
    *,
    deterministic: bool = True,
    before_step: Callable[[], None] = lambda: None,
) -> list[EpisodeRecord]:
    """Play one episode per seed on the given envs; an env that finishes takes the next seed."""
    records: dict[int, EpisodeRecord] = {}
    waiting = iter(enumerate(seeds))
    playing = [opened for env in envs if (opened := _next_game(env, waiting)) is not None]
    while playing:
        before_step()
        actions = choose(actor, [game for _, game in playing], deterministic=deterministic)
        going: list[tuple[int, EpisodeState]] = []
        for (number, game), action in zip(playing, actions, strict=True):
            record = game.step(action)
            if record is None:
                going.append((number, game))
                continue
            records[number] = record
            opened = _next_game(game.env, waiting)
            if opened is not None:
                going.append(opened)
        playing = going
    return [records[index] for index in range(len(seeds))]


def choose(actor: Actor, games: Sequence[EpisodeState], *, deterministic: bool = True) -> Array:
    """Return the actor's action in each of the games, computed as one batch."""
    masks = [game.mask for game in games if game.mask is not None]
    legal = None
    if masks:  # an env without a mask in this step allows everything
        everything = np.ones_like(masks[0])
        legal = np.stack([everything if game.mask is None else game.mask for game in games])
    obs = stack([game.obs for game in games])
    if not isinstance(actor, RecurrentActor):
        return actor.predict(obs, legal, deterministic=deterministic)
    actions, memories = actor.predict_with_memory(obs, [game.memory for game in games], legal, deterministic)
    for game, memory in zip(games, memories, strict=True):
        game.memory = memory
    return np.asarray(actions)


def _next_game(env: Env, waiting: Iterator[tuple[int, int]]) -> tuple[int, EpisodeState] | None:
    """Start the next episode on `env`; None if there is none left."""
    following = next(waiting, None)
    return None if following is None else (following[0], EpisodeState(env, following[1]))


class EpisodeState:
    """The state of one episode on one env, from its seeded reset to its end."""

    def __init__(self, env: Env, seed: int) -> None:
        self.env = env
        self._reports_episodes = env_reports_episodes(env)
        self._seed = seed
        self.reward, self.length = 0.0, 0
        self.last_reward = 0.0
        self.ended: Literal["terminated", "truncated"] | None = None
        self.memory: Any = None  # of a RecurrentActor
        self.obs, self.info = guarded(env, seed, "reset", seed=seed)
        self.mask = _mask(self.info)

    def step(self, action: Any) -> EpisodeRecord | None:
        """Step the env. Returns the episode's record if it ended."""
        self.obs, reward, terminated, truncated, info = guarded(self.env, self._seed, "step", action)
        self.mask, self.info = _mask(info), info
        self.last_reward = float(reward)
        self.reward += self.last_reward
        self.length += 1
        if not (terminated or truncated):
            return None
        episode = info.get("episode")
        if episode is not None:  # the episode without the changes of wrappers
            self.reward, self.length = float(np.squeeze(episode["r"])), int(np.squeeze(episode["l"]))
        elif self._reports_episodes:  # only a wrapper ended it (at a lost life): the game continues
            self.obs, self.info = guarded(self.env, self._seed, "reset")
            self.mask = _mask(self.info)
            self.memory = None
            return None
        self.ended = "terminated" if terminated else "truncated"
        success = info.get("is_success")
        return EpisodeRecord(
            self.reward, self.length, None if success is None else bool(success), info.get(REPORT)
        )


def guarded(env: Env, seed: int, method: str, /, *args: Any, **kwargs: Any) -> Any:
    """Call a method of the env. What it raises becomes an EnvFault with the env's own traceback."""
    try:
        return getattr(env, method)(*args, **kwargs)
    except LudusError:
        raise
    except Exception as error:  # the user's env may raise anything
        from ludus.envs.vector.chunk import user_traceback

        raise EnvFault(
            f"{method}() raised {type(error).__name__}: {error}",
            worker=0,
            env_id=env.spec.id if env.spec is not None else type(env.unwrapped).__name__,
            seed=seed,
            user_traceback=user_traceback(error),
        ) from error


def _mask(info: dict[str, Any]) -> BoolArray | None:
    mask = info.get("action_mask")
    return None if mask is None else np.asarray(mask, dtype=bool).reshape(-1)


def env_reports_episodes(env: Env) -> bool:
    """Return whether the env reports raw episodes in `info["episode"]`; other ends are then not an episode's end."""
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, EpisodeReport):
            return True
        layer = layer.env
    return False


def can_play_together(make_env: Callable[[], Any], actor: Any) -> bool:
    """Return whether the game steps many episodes at once and the actor needs no memory."""
    return (
        isinstance(make_env, EnvSpec)
        and make_env.support.batched_evaluation
        and batched.unsupported_reason(make_env) is None
        and not isinstance(actor, RecurrentActor)
    )


def play_together(
    actor: Any,
    spec: EnvSpec,
    seeds: Sequence[int],
    *,
    deterministic: bool = True,
    before_step: Callable[[], None] = lambda: None,
) -> list[EpisodeRecord]:
    """Play one episode per seed in batched envs; each is as it would be alone."""
    records: list[EpisodeRecord] = []
    for start in range(0, len(seeds), _MOST_TOGETHER):
        records += _play_batch(
            actor, spec, list(seeds[start : start + _MOST_TOGETHER]), deterministic, before_step
        )
    return records


def _play_batch(
    actor: Any, spec: EnvSpec, seeds: list[int], deterministic: bool, before_step: Callable[[], None]
) -> list[EpisodeRecord]:
    envs: Any = batched.make_batched(spec, len(seeds))
    records: list[EpisodeRecord | None] = [None] * len(seeds)
    try:
        obs, infos = envs.reset(seed=seeds)
        while any(record is None for record in records):
            before_step()
            actions = actor.predict(obs, read_masks(obs, infos), deterministic=deterministic)
            obs, _, terminated, truncated, infos = envs.step(actions)
            for index in np.flatnonzero(terminated | truncated):
                if records[index] is None:  # the games that follow are nobody's
                    records[index] = _record_of(infos["final_info"], int(index))
    finally:
        envs.close()
    return [record for record in records if record is not None]


def _record_of(info: dict[str, Any], index: int) -> EpisodeRecord:
    episode = info["episode"]
    return EpisodeRecord(
        float(episode["r"][index]),
        int(episode["l"][index]),
        bool(info["is_success"][index]),
        info[REPORT][index],
    )

"""Plays whole episodes with a policy and measures the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import gymnasium as gym
import numpy as np

from ludus.envs.episode_reports import REPORT, EpisodeReports, gather_reports
from ludus.envs.finite import all_finite, first_bad
from ludus.envs.make import EnvSpec
from ludus.envs.masks import first_blocked, part_starts
from ludus.envs.user_code import build, close_env, faults_of, flag_problem, name_of, report_problem
from ludus.envs.vector import batched
from ludus.envs.wrappers import EpisodeReport
from ludus.errors import EnvFault, SimulatorsTaken, UserError, describe_error
from ludus.policies.base import RecurrentActor
from ludus.policies.observations import check_observation
from ludus.rollout.stepper import read_masks, stack
from ludus.types import Array, BoolArray, EpisodeRecord, Metrics, Observation

if TYPE_CHECKING:
    from ludus.envs.seeds import EpisodeSeed

Env = gym.Env[Any, Any]
MAX_ENVS = 16
STEPS_WITHOUT_LIMIT = 27_000
"""Steps after which an episode is cut on an env without a time limit; the limit of an Atari game."""
_MAX_TOGETHER = 1024


class EvaluationStopped(Exception):
    """Raised by the caller's own hook between two steps, to cancel an evaluation or a video."""


class Actor(Protocol):
    """A policy or a bot: it chooses actions. One with a memory of the episode is also a `RecurrentActor`."""

    def predict(
        self, obs: Observation, mask: BoolArray | None = None, deterministic: bool = True
    ) -> Array: ...


@dataclass(frozen=True)
class EvaluationResult:
    """The episodes of one evaluation, in the order of their seeds.

    Without a single episode (every game was skipped) the means are NaN, and there are no metrics.
    """

    episodes: tuple[EpisodeRecord, ...]

    @property
    def rewards(self) -> Array:
        return np.array([episode.reward for episode in self.episodes])

    @property
    def mean_reward(self) -> float:
        return float(self.rewards.mean()) if self.episodes else float("nan")

    @property
    def std_reward(self) -> float:
        return float(self.rewards.std()) if self.episodes else float("nan")

    @property
    def mean_length(self) -> float:
        lengths = [episode.length for episode in self.episodes]
        return float(np.mean(lengths)) if lengths else float("nan")

    @property
    def success_rate(self) -> float | None:
        known = [episode.success for episode in self.episodes if episode.success is not None]
        if not known:
            return None
        cut = [False for episode in self.episodes if episode.success is None and episode.capped]
        return float(np.mean(known + cut))

    @property
    def capped(self) -> int:
        """The number of episodes that were cut because they did not end."""
        return sum(episode.capped for episode in self.episodes)

    def metrics(self) -> Metrics:
        """Return the result under the metric names of `metrics.jsonl`."""
        if not self.episodes:
            return {}
        metrics = {
            "eval/mean_reward": self.mean_reward,
            "eval/std_reward": self.std_reward,
            "eval/mean_ep_length": self.mean_length,
        }
        if self.success_rate is not None:
            metrics["eval/success_rate"] = self.success_rate
        if self.capped:
            metrics["eval/capped_episodes"] = float(self.capped)
        for reports in self.reports():
            metrics = {f"eval/{name}": value for name, value in reports.metrics().items()} | metrics
        return metrics

    def reports(self) -> list[EpisodeReports]:
        """Return the summaries of the game's reports on its episodes, one for each kind of report."""
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
            "capped_episodes": self.capped,
        }
        if self.success_rate is not None:
            summary["success_rate"] = self.success_rate
        for reports in self.reports():
            # JSON round trip: keys that are numbers become strings
            summary[reports.kind] = json.loads(json.dumps(reports.get_summary()))
        return summary


def evaluate(
    actor: Actor,
    make_env: Callable[[], Env],
    seeds: Sequence[EpisodeSeed],
    *,
    deterministic: bool = True,
    max_steps: int | None = None,
    before_step: Callable[[], None] = lambda: None,
) -> EvaluationResult:
    """Play one episode per seed to its end, in several envs at a time; `max_steps` is as in `step_limit`.

    The envs are built for this evaluation and closed after it, so the result depends only on the policy and the
    seeds. `before_step` may raise to cancel it.
    """
    options: Any = {"deterministic": deterministic, "max_steps": max_steps, "before_step": before_step}
    if can_play_together(make_env, actor):
        return EvaluationResult(tuple(play_together(actor, cast(Any, make_env), seeds, **options)))
    envs = _several(make_env, min(MAX_ENVS, len(seeds)))
    try:
        return EvaluationResult(tuple(play_episodes(actor, envs, seeds, **options)))
    finally:
        for env in envs:
            close_env(env)


def _several(make_env: Callable[[], Env], number: int) -> list[Env]:
    """Build `number` envs, or as many as there are free simulators."""
    envs: list[Env] = []
    try:
        while len(envs) < number:
            envs.append(build(make_env))
    except SimulatorsTaken:
        if not envs:
            raise
    except BaseException:
        for env in envs:
            close_env(env)
        raise
    return envs


def play_episodes(
    actor: Actor,
    envs: Sequence[Env],
    seeds: Sequence[EpisodeSeed],
    *,
    deterministic: bool = True,
    max_steps: int | None = None,
    before_step: Callable[[], None] = lambda: None,
) -> list[EpisodeRecord]:
    """Play one episode per seed on the given envs; an env that finishes takes the next seed."""
    records: dict[int, EpisodeRecord] = {}
    waiting = iter(enumerate(seeds))
    playing = [opened for env in envs if (opened := _next_game(env, waiting, max_steps)) is not None]
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
            opened = _next_game(game.env, waiting, max_steps)
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
        blocked = first_blocked(legal, part_starts(games[0].env.action_space))
        if blocked is not None:
            raise games[blocked].fault("its action mask leaves no legal action")
    obs = _stack_checked(games)
    if not isinstance(actor, RecurrentActor):
        return actor.predict(obs, legal, deterministic=deterministic)
    actions, memories = actor.predict_with_memory(obs, [game.memory for game in games], legal, deterministic)
    for game, memory in zip(games, memories, strict=True):
        game.memory = memory
    return np.asarray(actions)


def _stack_checked(games: Sequence[EpisodeState]) -> Observation:
    """Return the observations as a batch. Raises EnvFault if they do not fit together or are not finite."""
    try:
        obs = stack([game.obs for game in games])
    except Exception as error:  # the user's envs may return anything
        raise games[0].fault(f"observations of its envs differ: {describe_error(error)}") from None
    if not all_finite(obs):
        found = first_bad(obs)
        assert found is not None
        key, (row, *index), value = found
        raise games[row].fault(f"it gave observation{f'.{key}' if key else ''}{index or ''} = {value!r}")
    try:
        check_observation(games[0].env.observation_space, obs)
    except UserError as error:
        raise games[0].fault(error.what) from None
    return obs


def _next_game(
    env: Env, waiting: Iterator[tuple[int, EpisodeSeed]], max_steps: int | None
) -> tuple[int, EpisodeState] | None:
    """Start the next episode on `env`; None if no seeds are left."""
    following = next(waiting, None)
    if following is None:
        return None
    return following[0], EpisodeState(env, following[1], step_limit(env, max_steps))


def step_limit(env: Env, max_steps: int | None) -> int | None:
    """Return the number of steps after which an episode on `env` is cut: `max_steps`, or `default_step_limit`."""
    return default_step_limit(env) if max_steps is None else max_steps


def default_step_limit(env: Env) -> int | None:
    """Return None for an env with a time limit, otherwise STEPS_WITHOUT_LIMIT: its episodes may never end."""
    if any(isinstance(layer, gym.wrappers.TimeLimit) for layer in _layers(env)):
        return None
    spec = env.spec
    # Atari games count their frames themselves
    declared = spec is not None and (
        spec.max_episode_steps is not None or spec.kwargs.get("max_num_frames_per_episode") is not None
    )
    return None if declared else STEPS_WITHOUT_LIMIT


class EpisodeState:
    """The state of one episode on one env, from its seeded reset to its end, at the latest after `limit` steps."""

    def __init__(self, env: Env, seed: EpisodeSeed, limit: int | None = None) -> None:
        self.env = env
        self._limit = limit
        self._steps = 0
        self._report = _episode_report(env)
        self._seed = seed
        self.reward, self.length = 0.0, 0
        self.last_reward = 0.0
        self.ended: Literal["terminated", "truncated", "cut"] | None = None
        self.memory: Any = None  # of a RecurrentActor
        self._reset(**_reset_arguments(env, seed))

    def step(self, action: Any) -> EpisodeRecord | None:
        """Step the env. Returns the episode's record if it ended."""
        with faults_of(name_of(self.env), self._seed, "step()"):
            self.obs, reward, terminated, truncated, info = self.env.step(action)
            self.mask, self.info = _mask(info), info
            self.last_reward = float(reward)
            over = bool(terminated or truncated)
        self.reward += self.last_reward
        self.length += 1
        self._steps += 1
        if not over:
            return self._cut() if self._steps == self._limit else None
        episode = info.get("episode")
        problem = flag_problem(terminated, truncated) or report_problem(episode, info.get(REPORT))
        if problem:
            raise self.fault(problem)
        if episode is not None:  # the episode without the changes of wrappers
            self.reward, self.length = float(np.squeeze(episode["r"])), int(np.squeeze(episode["l"]))
        elif self._report is not None:  # only a wrapper ended it (at a lost life): the game continues
            self._reset()
            self.memory = None
            return self._cut() if self._steps == self._limit else None
        self.ended = "terminated" if terminated else "truncated"
        success = info.get("is_success")
        return EpisodeRecord(
            self.reward, self.length, None if success is None else bool(success), info.get(REPORT)
        )

    def _cut(self) -> EpisodeRecord:
        """Return the record of an episode that reached the limit before its end."""
        self.ended = "cut"
        if self._report is not None:
            self.reward, self.length = self._report.so_far()
        return EpisodeRecord(self.reward, self.length, capped=True)

    def _reset(self, **arguments: Any) -> None:
        with faults_of(name_of(self.env), self._seed, "reset()"):
            self.obs, self.info = self.env.reset(**arguments)
            self.mask = _mask(self.info)

    def fault(self, what: str) -> EnvFault:
        """Return the error for something wrong with this env."""
        return EnvFault(what, worker=0, env_id=name_of(self.env), seed=self._seed)


def _reset_arguments(env: Any, seed: EpisodeSeed | list[EpisodeSeed]) -> dict[str, Any]:
    """Return the arguments of `reset` for a seed, or for one per env. UserError for a text that `env` does not take."""
    if not any(isinstance(one, str) for one in (seed if isinstance(seed, list) else [seed])):
        return {"seed": seed}
    from ludus.envs.seeds import reset_arguments  # only here: few evaluations have such seeds

    return reset_arguments(env, seed)


def _mask(info: dict[str, Any]) -> BoolArray | None:
    mask = info.get("action_mask")
    return None if mask is None else np.asarray(mask, dtype=bool).reshape(-1)


def _episode_report(env: Env) -> EpisodeReport | None:
    """Return the wrapper that reports raw episodes in `info["episode"]`; if there is one, other ends are ignored."""
    return next((layer for layer in _layers(env) if isinstance(layer, EpisodeReport)), None)


def _layers(env: Env) -> Iterator[Any]:
    """Yield the wrappers of `env`, outermost first."""
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        yield layer
        layer = layer.env


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
    seeds: Sequence[EpisodeSeed],
    *,
    deterministic: bool = True,
    max_steps: int | None = None,
    before_step: Callable[[], None] = lambda: None,
) -> list[EpisodeRecord]:
    """Play one episode per seed in batched envs; each is the same as it would be alone."""
    records: list[EpisodeRecord] = []
    limit = max_steps or max(STEPS_WITHOUT_LIMIT, spec.max_episode_steps or 0)
    for start in range(0, len(seeds), _MAX_TOGETHER):
        records += _play_batch(
            actor, spec, list(seeds[start : start + _MAX_TOGETHER]), deterministic, limit, before_step
        )
    return records


def _play_batch(
    actor: Any,
    spec: EnvSpec,
    seeds: list[EpisodeSeed],
    deterministic: bool,
    limit: int,
    before_step: Callable[[], None],
) -> list[EpisodeRecord]:
    envs: Any = batched.make_batched(spec, len(seeds))
    records: list[EpisodeRecord | None] = [None] * len(seeds)
    sums = np.zeros(len(seeds))
    try:
        obs, infos = envs.reset(**_reset_arguments(envs, seeds))
        for _ in range(limit):
            before_step()
            actions = actor.predict(obs, read_masks(obs, infos), deterministic=deterministic)
            obs, rewards, terminated, truncated, infos = envs.step(actions)
            sums += rewards
            for index in np.flatnonzero(terminated | truncated):
                if records[index] is None:  # episodes after the first are ignored
                    records[index] = _record_of(infos["final_info"], int(index))
            if all(record is not None for record in records):
                break
    finally:
        envs.close()
    return [
        EpisodeRecord(float(total), limit, capped=True) if record is None else record
        for record, total in zip(records, sums, strict=True)
    ]


def _record_of(info: dict[str, Any], index: int) -> EpisodeRecord:
    episode = info["episode"]
    return EpisodeRecord(
        float(episode["r"][index]),
        int(episode["l"][index]),
        bool(info["is_success"][index]),
        info[REPORT][index],
    )

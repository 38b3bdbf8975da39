"""Names of policies, and loading a policy by its name.

A name is `RUN`, `RUN@best`, `RUN@latest`, `RUN@000000100000`, `preset:NAME` (the newest run of that preset), an agent
of Ludus, or a bot: `random`, or one of a plugin for its game. RUN is a path, a unique run name, or `latest`. The path
of one checkpoint, as returned by `save_model()`, names that checkpoint.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from ludus.algorithms.learner import LearnerContext
from ludus.config.loading import load_config
from ludus.config.own_modules import is_run
from ludus.config.requests import requests_to_play, require_all
from ludus.config.schema import TrainerConfig
from ludus.config.trained_here import trust_in_run
from ludus.envs.make import EnvSpec
from ludus.envs.masks import sample_legal
from ludus.envs.spaces import space_from_json
from ludus.errors import CheckpointError, LudusError, UnknownName, UserError, describe_error, require_types
from ludus.evaluation.agents import find_agent, is_agent
from ludus.plugins import find, references
from ludus.policies.base import Policy, RecurrentActor, load_policy_tensors
from ludus.runs.checkpoints import Checkpoint, CheckpointManager
from ludus.runs.directory import RunDirectory, find_run, list_runs, split_policy_ref
from ludus.runs.hints import step_of
from ludus.runs.streams import Streams
from ludus.types import Array, BoolArray, Observation

RANDOM = "random"


@dataclass
class LoadedPolicy:
    """A policy that can act, with its run: None for a bot, and for an agent that comes with Ludus."""

    name: str
    actor: Any
    config: TrainerConfig | None = None
    run: RunDirectory | None = None
    checkpoint: Checkpoint | None = None

    def predict(self, obs: Observation, mask: BoolArray | None = None, deterministic: bool = True) -> Array:
        """Return the action for one observation, or the actions for a batch."""
        with nullcontext() if self.config is not None else _bot_at_work(self.name):
            actions: Array = self.actor.predict(obs, mask, deterministic=deterministic)
        return actions

    def reward_scale(self) -> float | None:
        """Return the `reward_scale` for `PolicyProbe`; None if its checkpoint does not have it."""
        if self.config is None or self.checkpoint is None or not self.config.normalize_reward:
            return 1.0
        with self.checkpoint.understood():
            scale = self.checkpoint.state().get("reward_scale")
            return None if scale is None else float(scale)

    def env_spec(self) -> EnvSpec:
        """Return the env it was trained on. UserError if the run's config has none, or asks for consent."""
        spec = self.configured_env()
        assert self.config is not None
        return spec.support.bind(spec, self.config.save_dir)

    def configured_env(self) -> EnvSpec:
        """Return `env_spec` before the names of other runs in it are resolved."""
        if self.config is not None and self.config.language is not None:
            raise UserError(
                f"'{self.name}' is a language model that plays text games, not an env",
                fix=f"see its games: ludus games {shlex.quote(self.name.partition('@')[0])}; or ludus match",
            )
        if self.config is None or self.config.env is None:
            raise UserError(f"'{self.name}' has no env to play", fix="give one with --env")
        curriculum = self.config.curriculum.held() if self.config.curriculum else None
        trust = trust_in_run(self.config)
        spec = EnvSpec(**self.config.env.model_dump(), curriculum=curriculum, trust=trust)
        with trust.applied():
            place = self.name if self.run is None else str(self.run.config_path)
            require_all(spec.requests(), place)
        return spec


class LoadedRecurrentPolicy(LoadedPolicy, RecurrentActor):
    """A loaded policy whose actor is a RecurrentActor."""

    def predict_with_memory(
        self,
        obs: Observation,
        memories: list[Any],
        mask: BoolArray | None = None,
        deterministic: bool = True,
    ) -> tuple[Array, list[Any]]:
        actor: RecurrentActor = self.actor
        return actor.predict_with_memory(obs, memories, mask, deterministic)


class RandomBot:
    """Plays uniformly among the legal actions. `observation_space` distinguishes one observation from a batch."""

    def __init__(
        self,
        action_space: spaces.Space[Any],
        seed: int = 0,
        observation_space: spaces.Space[Any] | None = None,
    ) -> None:
        self.action_space = action_space
        self.action_space.seed(seed)
        self.observation_space = observation_space

    def predict(self, obs: Observation, mask: BoolArray | None = None, deterministic: bool = True) -> Array:
        space = self.observation_space
        if isinstance(obs, dict):
            key, sample = next(iter(obs.items()))
            space = space[key] if isinstance(space, spaces.Dict) else None
        else:
            sample = obs
        if space is not None and np.ndim(sample) == len(space.shape or ()):
            return np.asarray(sample_legal(self.action_space, mask))
        masks = [None] * len(sample) if mask is None else list(mask)
        return np.array([sample_legal(self.action_space, row) for row in masks])


class WordsOnly:
    """Placeholder for the policy of a language run, which plays text games and cannot act in an env."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        raise UserError(
            f"'{self._name}' is a language model: it plays text games, not envs",
            fix=f"ludus match {self._name} random",
        )


def load(
    ref: str | Path,
    root: str | Path = "runs",
    *,
    action_space: spaces.Space[Any] | None = None,
    observation_space: spaces.Space[Any] | None = None,
) -> LoadedPolicy:
    """Load the policy named `ref`; runs are searched under `root`.

    A bot needs the `action_space`, and the `observation_space` to distinguish one observation from a batch.
    """
    require_types("load", ref=(ref, (str, Path)), root=(root, (str, Path)))
    name = str(ref)
    if is_bot(name):
        if action_space is None:
            raise UserError(f"the bot '{name}' needs an env", fix="give one with --env")
        make_bot = find("bots", name)
        if make_bot is not None:
            with _bot_at_work(name):
                return LoadedPolicy(name, make_bot(observation_space, action_space))
        return LoadedPolicy(name, RandomBot(action_space, observation_space=observation_space))
    run, checkpoint = find_checkpoint(name, root)
    config = load_config(run.config_path).config
    if config.language is not None:
        actor: Any = WordsOnly(name)
    else:
        with trust_in_run(config).applied():
            require_all(requests_to_play(config), str(run.config_path))
            actor = build_policy(config, checkpoint)
    loaded = LoadedRecurrentPolicy if isinstance(actor, RecurrentActor) else LoadedPolicy
    return loaded(name, actor, config, None if is_agent(run) else run, checkpoint)


@contextmanager
def _bot_at_work(name: str) -> Iterator[None]:
    """Turn an error of a bot that is used on another env into a UserError."""
    try:
        yield
    except LudusError:
        raise
    except Exception as error:  # a plugin's bot may raise anything
        raise UserError(
            f"the bot '{name}' cannot play this env ({describe_error(error)})",
            fix="leave --env out to play its own env, or use another bot: random plays every env",
        ) from error


def is_bot(name: str) -> bool:
    """Return whether `name` is a scripted policy: `random`, or one of a plugin."""
    return name == RANDOM or name in references("bots")


def find_checkpoint(ref: str, root: str | Path = "runs") -> tuple[RunDirectory, Checkpoint]:
    """Return the run and checkpoint of `ref`; without `@…`, the best one if there is one, otherwise the latest."""
    run_ref, which = _split(ref)
    run = _find_run(run_ref, Path(root))
    manager = CheckpointManager(run.checkpoints_dir)
    checkpoint = manager.find(which) if which is not None else manager.best() or manager.latest()
    if checkpoint is None:
        raise CheckpointError(
            "this run has no checkpoint yet",
            where=str(run.path),
            fix="train longer, or set checkpoint.every lower",
        )
    checkpoint.verify()
    return run, checkpoint


def find_league(ref: str, root: str | Path = "runs") -> tuple[RunDirectory, Checkpoint]:
    """Return the run of `ref`, and the checkpoint with its league: the newest one that contains the whole run."""
    run_ref, which = _split(ref)
    run = _find_run(run_ref, Path(root))
    manager = CheckpointManager(run.checkpoints_dir)
    whole = [one for one in reversed(manager.list()) if one.resumable] if which is None else []
    return run, whole[0] if whole else manager.find(which or "latest")


def build_policy(config: TrainerConfig, checkpoint: Checkpoint) -> Policy:
    """Return the policy of a checkpoint, on the CPU, without its env."""
    state = checkpoint.state()
    with checkpoint.understood():
        observation_space, action_space = (
            space_from_json(state[name]) for name in ("observation_space", "action_space")
        )
    policy: Policy = new_learner(config, observation_space, action_space).policy
    load_policy_tensors(policy, checkpoint)
    return policy.eval()


def new_learner(
    config: TrainerConfig, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
) -> Any:
    """Return a learner of `config` with new networks, on the CPU, to use its policy."""
    entry = config.algorithm_entry()
    if entry.learner is None:
        raise UserError(f"the algorithm '{config.algorithm}' does not support loading its policy")
    random_state = torch.get_rng_state()
    hyperparams: Any = config.typed_hyperparams()
    learner = entry.learner(
        LearnerContext(
            observation_space=observation_space,
            action_space=action_space,
            n_envs=1,
            hyperparams=hyperparams,
            policy=config.policy,
            normalize_obs=config.normalize_obs,
            device=torch.device("cpu"),
            streams=Streams(config.seed),
            reward_normalizer=None,
            to_play=True,
        ),
        hyperparams,
    )
    torch.set_rng_state(random_state)  # loading must not change the global random state
    return learner


def _split(ref: str) -> tuple[str, str | None]:
    """Split `ref`, which may also be the path of a checkpoint, into run and checkpoint."""
    path = Path(ref).absolute()
    if step_of(path.name) is not None and is_run(path.parents[1]):
        return str(path.parents[1]), path.name
    return split_policy_ref(ref)


def _find_run(ref: str, root: Path) -> RunDirectory:
    if not ref.startswith("preset:"):
        try:
            return find_run(ref, root)
        except UnknownName:  # the user's own runs take precedence
            agent = find_agent(ref)
            if agent is None:
                raise
            return agent
    preset = ref.removeprefix("preset:")
    for run in list_runs(root):
        if run.info().get("preset") == preset:
            return run
    raise UserError(
        f"no run of the preset '{preset}' found", where=str(root), fix=f"train one: ludus train {preset}"
    )

"""One way to name a policy, and from the name to something that plays.

`RUN`, `RUN@best`, `RUN@latest`, `RUN@000000100000`, `preset:NAME` (the newest run of that preset), an agent that comes
with Ludus, or a bot: `random`, or one that a plugin brings for its game. RUN is a path, a unique run name, or `latest`.
The path of one checkpoint, as `save_model()` returns it, names that checkpoint.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from ludus.algorithms.learner import LearnerContext
from ludus.config.loading import load_config
from ludus.config.schema import TrainerConfig
from ludus.envs.make import EnvSpec
from ludus.envs.masks import sample_legal
from ludus.envs.spaces import space_from_json
from ludus.errors import CheckpointError, UnknownName, UserError
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
    """A policy that plays, with the run it came from: None for a bot, and for an agent that comes with Ludus."""

    name: str
    actor: Any
    config: TrainerConfig | None = None
    run: RunDirectory | None = None
    checkpoint: Checkpoint | None = None

    def predict(self, obs: Observation, mask: BoolArray | None = None, deterministic: bool = True) -> Array:
        """The action for one observation, or the actions for a batch of them."""
        actions: Array = self.actor.predict(obs, mask, deterministic=deterministic)
        return actions

    def reward_scale(self) -> float | None:
        """What a reward of 1 was worth to it, as `PolicyProbe` wants it; None where its checkpoint does not tell."""
        if self.config is None or self.checkpoint is None or not self.config.normalize_reward:
            return 1.0
        with self.checkpoint.understood():
            scale = self.checkpoint.state().get("reward_scale")
            return None if scale is None else float(scale)

    def env_spec(self) -> EnvSpec:
        """The env it was trained on. UserError when the run's config does not name one."""
        if self.config is not None and self.config.language is not None:
            raise UserError(
                f"'{self.name}' is a language model that plays text games, not an env",
                fix=f"read its games: ludus games {shlex.quote(self.name.partition('@')[0])}; or ludus match",
            )
        if self.config is None or self.config.env is None:
            raise UserError(f"'{self.name}' does not say which env to play", fix="give one with --env")
        curriculum = self.config.curriculum.held() if self.config.curriculum else None
        spec = EnvSpec(**self.config.env.model_dump(), curriculum=curriculum)
        return spec.support.bind(spec, self.config.save_dir)


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
    """Plays uniformly among the legal actions. Told the `observation_space`, it knows one from a batch."""

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
    """In the place of a language run's policy: it reads and writes text, and acts in no env."""

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
    """The policy named `ref`, looking for runs under `root`.

    A bot needs the `action_space` it plays in, and the `observation_space` to take one observation at a time.
    """
    name = str(ref)
    if is_bot(name):
        if action_space is None:
            raise UserError(f"the bot '{name}' needs to know the env", fix="give one with --env")
        make_bot = find("bots", name)
        if make_bot is not None:
            return LoadedPolicy(name, make_bot(observation_space, action_space))
        return LoadedPolicy(name, RandomBot(action_space, observation_space=observation_space))
    run, checkpoint = find_checkpoint(name, root)
    config = load_config(run.config_path).config
    actor = WordsOnly(name) if config.language is not None else build_policy(config, checkpoint)
    loaded = LoadedRecurrentPolicy if isinstance(actor, RecurrentActor) else LoadedPolicy
    return loaded(name, actor, config, None if is_agent(run) else run, checkpoint)


def is_bot(name: str) -> bool:
    """Return whether `name` is a scripted policy: `random`, or one that a plugin brings."""
    return name == RANDOM or name in references("bots")


def find_checkpoint(ref: str, root: str | Path = "runs") -> tuple[RunDirectory, Checkpoint]:
    """The run and checkpoint that `ref` names; without `@…`, the best one if there is one, else the latest."""
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
    """The run that `ref` names, and the checkpoint with its league: the newest one that holds all of the run."""
    run_ref, which = _split(ref)
    run = _find_run(run_ref, Path(root))
    manager = CheckpointManager(run.checkpoints_dir)
    whole = [one for one in reversed(manager.list()) if one.resumable] if which is None else []
    return run, whole[0] if whole else manager.find(which or "latest")


def build_policy(config: TrainerConfig, checkpoint: Checkpoint) -> Policy:
    """The policy of a checkpoint, on the CPU, without its env."""
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
    """A learner as `config` describes it with new networks, on the CPU, for the sake of its policy."""
    entry = config.algorithm_entry()
    if entry.learner is None:
        raise UserError(f"the algorithm '{config.algorithm}' does not say how to load its policy")
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
    torch.set_rng_state(random_state)  # loading must not disturb anybody's randomness
    return learner


def _split(ref: str) -> tuple[str, str | None]:
    """The run and the checkpoint in `ref`, which may also be the path of a checkpoint."""
    path = Path(ref).absolute()
    if step_of(path.name) is not None and (path.parents[1] / "run.json").is_file():
        return str(path.parents[1]), path.name
    return split_policy_ref(ref)


def _find_run(ref: str, root: Path) -> RunDirectory:
    if not ref.startswith("preset:"):
        try:
            return find_run(ref, root)
        except UnknownName:  # runs of one's own go first
            agent = find_agent(ref)
            if agent is None:
                raise
            return agent
    preset = ref.removeprefix("preset:")
    for run in list_runs(root):
        if run.info().get("preset") == preset:
            return run
    raise UserError(
        f"no run of the preset '{preset}' was found", where=str(root), fix=f"train one: ludus train {preset}"
    )

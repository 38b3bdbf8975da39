"""Load a policy by its name, with the env that it will play, for `eval` and `play`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ludus.cli.failures import typed_as
from ludus.errors import UserError

if TYPE_CHECKING:
    from gymnasium import spaces

    from ludus.envs.make import EnvSpec
    from ludus.evaluation.load import LoadedPolicy


@dataclass(frozen=True)
class PolicyOnEnv:
    """A loaded policy and the env it plays."""

    policy: LoadedPolicy
    spec: EnvSpec

    @property
    def described(self) -> str:
        checkpoint = self.policy.checkpoint
        if self.policy.run is None or checkpoint is None:
            return self.policy.name
        return f"{self.policy.run.name} at step {checkpoint.step:,}"

    def max_steps(self, asked: int | None) -> int | None:
        """Return what `--max-steps` means: the number given, else the one in the run's config."""
        config = self.policy.config
        return asked if asked is not None or config is None else config.evaluation.max_steps

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        policy = self.policy
        return {
            "policy": policy.name,
            "env": self.spec.id,
            "run": None if policy.run is None else str(policy.run.path),
            "checkpoint": None if policy.checkpoint is None else policy.checkpoint.name,
        }


def seat(
    name: str, env_id: str | None, root: str, seed: int, partner: PolicyOnEnv | None = None
) -> PolicyOnEnv:
    """Load the policy called `name` for its own env, or for `env_id`; `seed` is for actions that are sampled.

    A bot has no env of its own. It plays the env of the player `partner`.

    Raises UserError when the policy does not fit that env.
    """
    import torch

    from ludus.envs.make import EnvSpec
    from ludus.evaluation.load import RANDOM, is_bot, load
    from ludus.kernel_cache import announce_compiling
    from ludus.plugins import find

    announce_compiling()
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # one observation at a time: a second thread would only wait
    if is_bot(name):
        default = find("bot_envs", name)
        if env_id is not None:
            spec = open_spec(EnvSpec(env_id), env_id)
        elif partner is not None:
            spec = partner.spec
        elif default is not None:
            spec = default().resolve()
        else:
            raise UserError(f"the bot '{name}' needs an env", fix="give one with --env")
        _, action_space = _spaces(spec)
        policy = load(name, root, action_space=action_space)
        if name == RANDOM:
            policy.actor.action_space.seed(seed)
        return PolicyOnEnv(policy, spec)
    policy = load(name, root)
    if env_id is None:
        return PolicyOnEnv(policy, policy.env_spec().resolve())
    own = policy.config.env if policy.config is not None else None
    spec = open_spec(
        EnvSpec(env_id) if own is None else replace(policy.env_spec(), id=env_id, kwargs={}), env_id
    )
    _check_fit(policy, spec)
    return PolicyOnEnv(policy, spec)


def open_spec(spec: EnvSpec, env_id: str) -> EnvSpec:
    """`spec` with its names looked up; what was typed as --env is named in the error."""
    with typed_as("--env", env_id):
        return spec.resolve()


def _check_fit(policy: LoadedPolicy, spec: EnvSpec) -> None:
    from ludus.envs.spaces import describe_space

    observation, action = _spaces(spec)
    for kind, its, theirs in (
        ("observes", policy.actor.observation_space, observation),
        ("acts with", policy.actor.action_space, action),
    ):
        if (type(its), its.shape, getattr(its, "n", None)) != (
            type(theirs),
            theirs.shape,
            getattr(theirs, "n", None),
        ):
            raise UserError(
                f"the policy {kind} {describe_space(its)}, but '{spec.id}' has {describe_space(theirs)}",
                where=f"command line: --env {spec.id}",
                fix="leave --env out to play the env it was trained on",
            )


def _spaces(spec: EnvSpec) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    from ludus.envs.user_code import build, close_env

    env = build(spec)
    try:
        return env.observation_space, env.action_space
    finally:
        close_env(env)

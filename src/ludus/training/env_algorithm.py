"""The algorithm for an env, where the user names none."""

from __future__ import annotations

from gymnasium import spaces

from ludus.config.schema import TrainerConfig
from ludus.envs.user_code import close_env
from ludus.policies.observations import is_image_space
from ludus.training.env_source import open_source


def choose_algorithm(config: TrainerConfig) -> tuple[str, str]:
    """Return the algorithm for the env of `config`, and why.

    SAC for Box actions and observations without images: it needs the fewest env steps. Else PPO, which learns from
    every kind of action and observation. An env that needs a simulator is not built to look at its spaces.
    """
    source = open_source(None, config)
    if source.support.tied_to_simulator or source.support.no_spare_simulator:
        return "PPO", "the env needs a simulator"
    env = source.make_single()
    try:
        space, actions = env.observation_space, env.action_space
    finally:
        close_env(env)
    parts = space.spaces.values() if isinstance(space, spaces.Dict) else [space]
    if not isinstance(actions, spaces.Box):
        return "PPO", f"{type(actions).__name__} actions"
    if any(map(is_image_space, parts)):
        return "PPO", "Box actions, images"
    return "SAC", "Box actions"

"""`--to sb3`: a `model.zip` that `PPO.load` and its like of Stable-Baselines3 read, with the same actions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gymnasium import spaces

from ludus.config.hyperparameters import HyperparameterConfig
from ludus.config.schedule import Schedule
from ludus.config.schema import TrainerConfig
from ludus.envs.masks import has_masks
from ludus.envs.user_code import close_env
from ludus.errors import UserError
from ludus.evaluation.export import Exported
from ludus.evaluation.load import LoadedPolicy, new_learner
from ludus.policies.base import Policy, load_policy_tensors
from ludus.policies.extractors import auto_extractor
from ludus.policies.observations import is_byte_space, is_image_space
from ludus.sb3.weights import Pairs, actor_critic_pairs, q_pairs, soft_pairs, to_sb3

FILENAME = "model.zip"
_OWN_EXTRACTORS = "ludus.policies.extractors:"
_ALSO_IN_SB3 = ("FlattenExtractor", "NatureCNN", "CombinedExtractor")


def export(policy: LoadedPolicy, path: Path) -> Exported:
    """Write the policy; with `normalize_obs`, also the statistics for VecNormalize, next to it."""
    import ludus.sb3.catalog  # noqa: F401  # raises MissingExtra
    from ludus.sb3.zip_file import write_model

    assert policy.config is not None and policy.checkpoint is not None
    if policy.config.engine == "sb3":
        learner = new_learner(policy.config, policy.actor.observation_space, policy.actor.action_space)
        load_policy_tensors(learner.policy, policy.checkpoint)
        own_extractor = "Ludus's own feature extractor" if _has_own_extractor(learner.policy.net) else ""
    else:
        learner, own_extractor = _converted(policy)
    learner.model.num_timesteps = policy.checkpoint.step
    if hasattr(learner.model, "buffer_size"):  # empty for playing; training needs the configured size
        learner.model.buffer_size = learner.h.buffer_size
    files = write_model(learner.model, path)
    notes = [f"load it with {type(learner.model).__name__}.load({str(path)!r})"]
    if len(files) > 1:
        notes.append(
            f"observations are normalised outside of the zip: VecNormalize.load({str(files[1])!r}, envs)"
        )
    if own_extractor:
        notes.append(f"it holds {own_extractor}: loading it needs ludus installed")
    if policy.config.policy.network is not None:
        notes.append(f"loading it needs ludus and {policy.config.policy.network}")
    return Exported(tuple(files), tuple(notes))


def _converted(policy: LoadedPolicy) -> tuple[Any, str]:
    """Return an SB3 learner with the weights of a native policy, and the Ludus class that loading it needs."""
    assert policy.config is not None and policy.checkpoint is not None
    config, actor = policy.config, policy.actor
    pairs = _pairs(config, actor)
    extractor, own = _extractor(config, actor)
    # no initialisation: the weights are replaced
    network = {"features_extractor": extractor, "share_net": False, "ortho_init": "auto", "log_std_init": 0.0}
    as_sb3 = config.model_copy(
        update={
            "engine": "sb3",
            "algorithm": _algorithm(policy),
            "hyperparams": _hyperparams(config),
            "policy": config.policy.model_copy(update=network),
        }
    )
    learner = new_learner(as_sb3, actor.observation_space, actor.action_space)
    weights = to_sb3(actor.state_dict(), pairs, inner="inner." if own else "")
    learner.policy.net.load_state_dict(weights)
    if actor.obs_normalizer is not None:
        learner.policy.obs_normalizer.load_state_dict(actor.obs_normalizer.state_dict())
    return learner, own


def _pairs(config: TrainerConfig, policy: Policy) -> Pairs:
    name, shares = config.algorithm, config.policy.share_features_extractor
    if isinstance(policy.action_space, spaces.Discrete) and policy.action_space.start != 0:
        raise _unsupported("Discrete actions that do not start at 0")
    if name in ("PPO", "A2C"):
        return actor_critic_pairs(shares_extractor=shares, shares_net=config.policy.share_net)
    if name == "DQN":
        if getattr(policy, "value_net", None) is not None:
            raise _unsupported("a dueling network")
        return q_pairs()
    if name == "SAC":
        return soft_pairs(shares_extractor=shares)
    raise UserError(
        f"a policy of {name} cannot be written for Stable-Baselines3",
        fix="supported: PPO, A2C, DQN and SAC, and every run of engine: sb3",
    )


def _algorithm(policy: LoadedPolicy) -> str:
    """Return the SB3 class that loads the policy: MaskablePPO for a PPO policy that was trained with masks."""
    assert policy.config is not None
    if policy.config.algorithm != "PPO" or policy.config.env is None:
        return policy.config.algorithm
    env = policy.env_spec()()
    try:
        return "MaskablePPO" if has_masks(env) else "PPO"
    finally:
        close_env(env)


def _extractor(config: TrainerConfig, policy: Policy) -> tuple[str, str]:
    """Return the extractor's name in SB3's config, and its description if only Ludus has it."""
    space, name = policy.observation_space, config.policy.features_extractor
    meant = auto_extractor(space) if name == "auto" else name
    parts = list(space.spaces.values()) if isinstance(space, spaces.Dict) else [space]
    if any(map(is_image_space, parts)) and meant not in ("NatureCNN", "CombinedExtractor"):
        raise _unsupported("images read without NatureCNN (SB3 reorders their axes)")
    plain = meant == "NatureCNN" or (meant == "FlattenExtractor" and not is_byte_space(space))
    if plain and not isinstance(space, spaces.Dict):
        return "auto", ""
    # full name, because SB3 has another class of that name
    own = _OWN_EXTRACTORS + meant if meant in _ALSO_IN_SB3 else meant
    return own, f"the feature extractor {meant}"


def _hyperparams(config: TrainerConfig) -> HyperparameterConfig:
    """Return the hyperparameters that both libraries share; a schedule becomes its first value if SB3 has none."""
    from ludus.config.registry import find_algorithm

    model = find_algorithm(config.algorithm, "sb3").hyperparameters
    assert model is not None
    scheduled = {name for name, field in model.model_fields.items() if isinstance(field.default, Schedule)}
    given: dict[str, Any] = {}
    for name, value in config.typed_hyperparams():
        if name in model.model_fields and value is not None:
            keeps = name in scheduled - {"gamma"} or not isinstance(value, Schedule)
            given[name] = value if keeps else value.start
    if config.algorithm == "DQN":
        del given["value_net_arch"]
    elif config.policy.share_net:
        given["value_net_arch"] = given["policy_net_arch"]
    return HyperparameterConfig.model_validate(given)


def _has_own_extractor(net: Any) -> bool:
    from ludus.sb3.network import LudusExtractor

    return any(isinstance(module, LudusExtractor) for module in net.modules())


def _unsupported(what: str) -> UserError:
    return UserError(
        f"Stable-Baselines3 does not support {what}",
        where="--to sb3",
        fix="use --to onnx or --to torchscript",
    )

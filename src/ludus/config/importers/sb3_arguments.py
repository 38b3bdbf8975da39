"""Stable-Baselines3's constructor arguments in Ludus's terms: what all three foreign formats have in common.

What a file leaves out takes Stable-Baselines3's default, not Ludus's, for that is what its author trained with.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ludus.config.importers.literals import Symbol, parse_literal
from ludus.config.importers.sb3_network import put_network
from ludus.config.importers.translation import SB3_DEFAULT, ImportOptions, Translation
from ludus.config.plain_yaml import Key
from ludus.config.registry import algorithm_names

_ON_POLICY = ("learning_rate", "n_steps", "gamma", "gae_lambda", "ent_coef", "vf_coef", "max_grad_norm")
_OFF_POLICY = (
    "learning_rate",
    "buffer_size",
    "learning_starts",
    "batch_size",
    "tau",
    "gamma",
    "train_freq",
    "gradient_steps",
    "target_update_interval",
)

# Arguments that the native algorithms have under the same name.
_SAME: dict[str, tuple[str, ...]] = {
    "PPO": (
        *_ON_POLICY,
        "batch_size",
        "n_epochs",
        "clip_range",
        "clip_range_vf",
        "normalize_advantage",
        "target_kl",
    ),
    "A2C": (*_ON_POLICY, "rms_prop_eps", "use_rms_prop", "normalize_advantage"),
    "DQN": (
        *_OFF_POLICY,
        "exploration_fraction",
        "exploration_initial_eps",
        "exploration_final_eps",
        "max_grad_norm",
    ),
    "SAC": (*_OFF_POLICY, "ent_coef", "target_entropy"),
}
# Stable-Baselines3's defaults where Ludus has others.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "PPO": {"hyperparams.ent_coef": 0.0},
    "A2C": {"hyperparams.ent_coef": 0.0},
    "DQN": {"hyperparams.buffer_size": 1_000_000, "hyperparams.learning_starts": 100},
    "SAC": {"policy.share_features_extractor": False},
}
# The same for algorithms with a replay buffer, on either engine: Ludus takes as many as there are envs.
_GRADIENT_STEPS = 1
_WITH_REPLAY = ("DQN", "QRDQN", "QR-DQN", "SAC", "TQC", "TD3", "DDPG", "CROSSQ")
_ONLY_SB3 = "not in the native engine; engine: sb3 has it"
_SDE = f"state-dependent exploration is {_ONLY_SB3}"
# Arguments that the native algorithms have not.
_NOT_NATIVE = {
    "use_sde": _SDE,
    "sde_sample_freq": _SDE,
    "use_sde_at_warmup": _SDE,
    "optimize_memory_usage": _ONLY_SB3,
    "action_noise": _ONLY_SB3,
    "noise_type": f"action noise is {_ONLY_SB3}",
    "noise_std": "belongs to noise_type",
    "replay_buffer_kwargs": "belongs to replay_buffer_class",
    "rollout_buffer_kwargs": "belongs to rollout_buffer_class",
}
# Arguments that a config has not, on either engine.
_NEVER = {
    "replay_buffer_class": "a config cannot name a class here",
    "rollout_buffer_class": "a config cannot name a class here",
    "stats_window_size": "rollout/ep_rew_mean is over the last 100 episodes",
}
_SCHEDULED = ("learning_rate", "clip_range", "clip_range_vf", "delta_std")
_LITERALS = ("replay_buffer_kwargs", "rollout_buffer_kwargs")
_RUN_SETTINGS = ("seed", "device", "tensorboard_log", "verbose")
_LINEAR = re.compile(r"lin_([-+0-9.eE]+)")


def put_engine(t: Translation, algorithm: str, choice: ImportOptions) -> ImportOptions:
    """Choose engine sb3 for an algorithm that only Stable-Baselines3 has, unless an engine was chosen."""
    if choice.engine is None and algorithm.upper() not in map(str.upper, algorithm_names()):
        t.put("engine", "sb3", place=f"{algorithm} is Stable-Baselines3's")
        return replace(choice, engine="sb3")
    return choice


def put_arguments(t: Translation, at: Key, algorithm: str, choice: ImportOptions, policy_kwargs: Key) -> None:
    """Translate the constructor arguments in the section `at`, and those of the network at `policy_kwargs`.

    `n_envs` must have been put before.
    """
    algorithm = algorithm.upper()
    choice = put_engine(t, algorithm, choice)
    sde = bool(t.take(*at, "use_sde", default=False))
    _put_run_settings(t, at)
    for name, why in _NEVER.items():
        if t.take(*at, name) == 100:
            t.note("as here", *at, name)
        elif t.has(*at, name):
            t.lose(why, *at, name)
    if choice.engine == "sb3":
        _put_all(t, at, policy_kwargs)
    else:
        _put_native(t, at, algorithm, sde)
    put_network(t, at, algorithm, choice, policy_kwargs, sde)
    if algorithm in _WITH_REPLAY and ("hyperparams", "gradient_steps") not in t.places:
        t.put("hyperparams.gradient_steps", _GRADIENT_STEPS, place=SB3_DEFAULT)
    if choice.engine != "sb3":
        for target, value in _DEFAULTS.get(algorithm, {}).items():
            if tuple(target.split(".")) not in t.places:
                t.put(target, value, place=SB3_DEFAULT)
        if algorithm == "PPO":
            _fit_batch(t)


def _put_native(t: Translation, at: Key, algorithm: str, sde: bool) -> None:
    for name in _SAME.get(algorithm, ()):
        t.take(*at, name)  # known even where absent, so that a misspelling of it is reported
        if t.has(*at, name):
            _put_same(t, (*at, name))
    for name, why in _NOT_NATIVE.items():
        if t.has(*at, name):
            _leave_out(t, (*at, name), why, sde)
    if algorithm in ("DQN", "SAC") and t.has(*at, "n_steps"):
        if t.take(*at, "n_steps") == 1:
            t.note("one-step returns, as here", *at, "n_steps")
        else:
            t.lose(f"returns over several steps are {_ONLY_SB3}", *at, "n_steps")


def _leave_out(t: Translation, key: Key, why: str, sde: bool) -> None:
    name, value = key[-1], t.take(*key)
    if "sde" in name and not sde:
        t.note("without use_sde it changes nothing", *key)
    elif name == "optimize_memory_usage" or not value:
        t.note("changes nothing in what is learnt", *key)
    else:
        t.lose(why, *key)


def _put_all(t: Translation, at: Key, policy_kwargs: Key) -> None:
    """Engine sb3 takes every argument under its own name, and checks it against the constructor."""
    for name in t.section(*at):
        key = (*at, name)
        if name in t.reserved or name in _NEVER or name in _RUN_SETTINGS or key == policy_kwargs:
            continue
        value = t.take(*key)
        if name in _LITERALS and isinstance(value, str):
            value = parse_literal(value, where=t.document.place(key), key=".".join(key))
        if name == "noise_type":
            kind = "ornstein_uhlenbeck" if "ornstein" in str(value) else str(value).strip()
            t.put("hyperparams.action_noise", {kind: t.take(*at, "noise_std")}, *key)
        elif name in _SCHEDULED and value is not None:
            put_schedule(t, f"hyperparams.{name}", value, *key)
        elif name not in ("noise_std", "policy"):
            t.put(f"hyperparams.{name}", value, *key)


def put_schedule(t: Translation, target: str, value: Any, *source: str) -> None:
    """A number, `lin_3e-4` (falls to zero), or `[start, end]`."""
    if isinstance(value, list) and len(value) == 2:
        value = {"linear": value}
    if isinstance(value, str):
        linear = _LINEAR.fullmatch(value.strip())
        try:
            value = {"linear": [float(linear[1]), 0.0]} if linear else float(value)
        except ValueError:
            raise t.error(
                f"{'.'.join(source)} is a number or lin_NUMBER, not {value!r}", source, "as in lin_3e-4"
            ) from None
    t.put(target, value, *source)


def _put_same(t: Translation, key: Key) -> None:
    name, value = key[-1], t.take(*key)
    target = f"hyperparams.{name}"
    if name == "clip_range_vf" and isinstance(value, int | float) and value < 0:
        t.put(target, None, *key)  # how the zoo says: no clipping
    elif name in _SCHEDULED and value is not None:
        put_schedule(t, target, value, *key)
    elif name == "train_freq" and isinstance(value, list):
        if value[1:] == ["step"]:
            t.put(target, value[0], *key)
        else:
            t.lose("the native engine learns after steps, not after episodes; engine: sb3 does", *key)
    elif name == "ent_coef" and isinstance(value, str) and value.startswith("auto_"):
        t.put(target, "auto", *key)
        t.put("hyperparams.initial_temperature", value.removeprefix("auto_"), *key)
    else:
        t.put(target, value, *key)


def _put_run_settings(t: Translation, at: Key) -> None:
    """Arguments of the constructor that are settings of the run in Ludus."""
    if t.take(*at, "seed") is not None:
        t.put("seed", t.take(*at, "seed"), *at, "seed")
    if t.take(*at, "device") is not None:
        put_device(t, *at, "device")
    if t.take(*at, "tensorboard_log") is not None:
        t.put("tracking.tensorboard_dir", t.take(*at, "tensorboard_log"), *at, "tensorboard_log")
    if t.has(*at, "verbose"):
        t.note("how much is printed is chosen by `ludus train -v` and `-q`", *at, "verbose")


def put_device(t: Translation, *source: str) -> None:
    """Translate the device. Stable-Baselines3 falls back to the CPU without a GPU, as `auto` does."""
    device = t.take(*source)
    if device == "cuda":
        t.put("device", "auto", *source)
        t.note("device: auto, which takes the GPU where there is one", *source)
    else:
        t.put("device", device, *source)


def _fit_batch(t: Translation) -> None:
    """Reduce a batch that is larger than the rollout, with a remark: Stable-Baselines3 does the same."""
    hyperparams = t.data["hyperparams"]
    n_steps, n_envs = hyperparams.get("n_steps", 2048), t.data.get("n_envs", 8)
    batch = hyperparams.get("batch_size", 64)
    if not all(isinstance(number, int) for number in (n_steps, n_envs, batch)):
        return  # validation says so
    if batch > n_steps * n_envs > 0:
        place = t.places.get(("hyperparams", "batch_size"), SB3_DEFAULT)
        t.put("hyperparams.batch_size", n_steps * n_envs, place=place)
        t.remark_at(
            "hyperparams.batch_size",
            place,
            batch,
            f"a rollout holds {n_steps * n_envs} steps, so that is the batch, as Stable-Baselines3 does it",
        )


def symbol_name(value: Any) -> Any:
    """The last part of a symbol such as SpaceTypes.MULTI_DISCRETE; other values as they are."""
    return value.rpartition(".")[2] if isinstance(value, Symbol) else value

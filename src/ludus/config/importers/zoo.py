"""Hyperparameter YAML of rl-baselines3-zoo: one block of settings per env id, the algorithm in the file's name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ludus.config.importers.document import Document
from ludus.config.importers.literals import parse_literal
from ludus.config.importers.sb3_arguments import put_arguments
from ludus.config.importers.translation import SB3_DEFAULT, Imported, ImportOptions, Translation
from ludus.config.plain_yaml import Key
from ludus.config.registry import algorithm_names
from ludus.config.schema import FIELD_ALIASES, FIELD_SWITCHES, TrainerConfig
from ludus.errors import ConfigError, UnknownName

KIND = "rl-baselines3-zoo hyperparameters"
ATARI, DEFAULT = "atari", "default"

_VERSION = re.compile(r"-v\d+$")
# What the zoo calls an algorithm in a file's name, where that is not its name.
_FILE_NAMES = {"ppo_lstm": "RecurrentPPO", "qrdqn": "QR-DQN", "ppo_mask": "MaskablePPO"}
_MARKS = ("n_timesteps", "n_envs", "policy_kwargs", "policy", "env_wrapper")
_OWN_KEYS = (
    "normalize",
    "n_envs",
    "n_timesteps",
    "env_wrapper",
    "vec_env_wrapper",
    "frame_stack",
    "callback",
    "monitor_kwargs",
    "env_kwargs",
)

# Wrapper classes under the names that Ludus's configs have for them.
_WRAPPERS = {
    "AtariWrapper": "atari",
    "ClipAction": "ClipAction",
    "FilterObservation": "FilterObservation",
    "FlattenObservation": "FlattenObservation",
    "FrameSkip": "FrameSkip",
    "GrayScaleObservation": "GrayscaleObservation",
    "GrayscaleObservation": "GrayscaleObservation",
    "RescaleAction": "RescaleAction",
    "ResizeObservation": "ResizeObservation",
    "TimeAwareObservation": "TimeAwareObservation",
    "TimeLimit": "TimeLimit",
}
_OF_LIBRARIES = ("gym.", "gymnasium.", "stable_baselines3.", "rl_zoo.", "rl_zoo3.", "utils.wrappers.")


def recognise(document: Document) -> bool:
    """Return True for a mapping of names to blocks, at least one with settings of the RL Zoo."""
    if {*TrainerConfig.model_fields, *FIELD_ALIASES, *FIELD_SWITCHES} & set(document.data):
        return False
    blocks = [block for block in document.data.values() if isinstance(block, dict)]
    return bool(blocks) and len(blocks) == len(document.data) and any(map(_is_block, blocks))


def entries(document: Document) -> list[str]:
    """The env ids (and `atari`, `default`) that the file has settings for."""
    return [str(name) for name, block in document.data.items() if isinstance(block, dict)]


def translate(document: Document, choice: ImportOptions) -> Imported:
    env_id, entry = _choose(document, choice.env)
    algorithm = choice.algorithm or _algorithm_of(document)
    # the other entries are not this config's: they are neither used nor lost
    t = Translation(Document(document.path, {entry: document.data[entry]}, document.places), KIND)
    t.reserved = set(_OWN_KEYS)
    t.section(entry)
    t.chosen = ("--env", env_id, *(() if choice.algorithm is None else ("--algo", choice.algorithm)))
    t.put(
        "algorithm",
        algorithm,
        place=f"the name of {document.path.name}" if choice.algorithm is None else "--algo",
    )
    t.put("env.id", env_id, entry)
    if entry != env_id:
        t.remark_at(
            entry, document.place((entry,)), env_id, f"the settings of '{entry}' are used for '{env_id}'"
        )
    total = t.integer(entry, "n_timesteps")
    if total is not None:
        t.put("total_timesteps", total, entry, "n_timesteps")
    n_envs = t.integer(entry, "n_envs", default=1)
    t.put(
        "n_envs", n_envs, *((entry, "n_envs") if t.has(entry, "n_envs") else ()), place="default of the zoo"
    )
    _put_normalize(t, entry)
    _put_env(t, entry)
    put_arguments(t, (entry,), algorithm, choice, (entry, "policy_kwargs"))
    for name, why in (
        ("callback", "callbacks are given in Python: trainer.train(callback=…)"),
        (
            "monitor_kwargs",
            "every episode is written to episodes.jsonl, with success where the env reports it",
        ),
    ):
        if t.has(entry, name):
            t.lose(why, entry, name)
    return t.finish()


def _is_block(block: dict[str, Any]) -> bool:
    return sum(mark in block for mark in _MARKS) >= 2 or "n_timesteps" in block


def _choose(document: Document, env: str | None) -> tuple[str, str]:
    """The env to train on, and the entry that holds its settings."""
    known = entries(document)
    ids = [name for name in known if name not in (ATARI, DEFAULT)]
    if env is None:
        if len(known) == 1 and ids:
            return ids[0], ids[0]
        shown = ", ".join(ids[:6]) + (", …" if len(ids) > 6 else "")
        raise ConfigError(
            f"{document.path.name} holds settings for {len(known)} envs",
            where=str(document.path),
            fix=f"choose one with --env, as in --env {ids[0] if ids else 'ALE/Pong-v5'}; there are {shown}",
        )
    if env in known:
        return env, env
    if _is_atari(env) and ATARI in known:
        return env, ATARI
    stem = _VERSION.sub("", env)
    others = [name for name in ids if _VERSION.sub("", name) == stem]
    if others:
        return env, others[-1]
    if DEFAULT in known:
        return env, DEFAULT
    raise UnknownName(
        f"env in {document.path.name}:", env, ids, where=str(document.path), fix=f"it has {', '.join(ids)}"
    )


def _is_atari(env_id: str) -> bool:
    return env_id.startswith("ALE/") or "NoFrameskip" in env_id


def _algorithm_of(document: Document) -> str:
    stem = document.path.stem.lower()
    name = _FILE_NAMES.get(stem, stem)
    known = {algorithm.upper(): algorithm for algorithm in algorithm_names()}
    if name.upper() in known:
        return known[name.upper()]
    if stem in _FILE_NAMES or stem in ("ars", "crossq", "ddpg", "td3", "tqc", "trpo"):
        return name.upper() if name == stem else name
    raise ConfigError(
        f"the file's name does not say which algorithm these settings are for: '{document.path.stem}'",
        where=str(document.path),
        fix="name it with --algo, as in --algo ppo",
    )


def _put_normalize(t: Translation, entry: str) -> None:
    value = t.take(entry, "normalize", default=False)
    source = (entry, "normalize") if t.has(entry, "normalize") else ()
    kwargs: dict[str, Any] = {}
    if isinstance(value, str):
        value = parse_literal(value, where=t.document.place(source), key=f"{entry}.normalize")
    if isinstance(value, dict):
        kwargs, value = dict(value), True
    for name, target in (("norm_obs", "normalize_obs"), ("norm_reward", "normalize_reward")):
        t.put(target, kwargs.pop(name, bool(value)), *source, place=SB3_DEFAULT)
    if kwargs.get("gamma") == t.document.data[entry].get("gamma", 0.99):
        kwargs.pop("gamma", None)
    for name in kwargs:
        t.lose(f"normalisation has no setting '{name}'", entry, "normalize", name)


def _put_env(t: Translation, entry: str) -> None:
    stack = t.integer(entry, "frame_stack")
    if stack is not None:
        t.put("env.frame_stack", stack, entry, "frame_stack")
    kwargs = t.take(entry, "env_kwargs")
    if isinstance(kwargs, str):
        kwargs = parse_literal(
            kwargs, where=t.document.place((entry, "env_kwargs")), key=f"{entry}.env_kwargs"
        )
    if kwargs:
        t.put("env.kwargs", kwargs, entry, "env_kwargs")
    wrappers = [_wrapper(*pair) for pair in _named(t, (entry, "env_wrapper"))]
    if wrappers:
        t.put("env.wrappers", wrappers, entry, "env_wrapper")
    for name, arguments in _named(t, (entry, "vec_env_wrapper")):
        if name.endswith("VecFrameStack") and set(arguments) == {"n_stack"}:
            t.put("env.frame_stack", arguments["n_stack"], entry, "vec_env_wrapper")
        elif name.endswith("VecNormalize") and set(arguments) <= {"norm_obs", "norm_reward"}:
            for option, target in (("norm_obs", "normalize_obs"), ("norm_reward", "normalize_reward")):
                t.put(target, arguments.get(option, True), entry, "vec_env_wrapper")
        else:
            t.lose(f"wrappers go around each env, not around all of them: {name}", entry, "vec_env_wrapper")


def _named(t: Translation, key: Key) -> Iterator[tuple[str, dict[str, Any]]]:
    """A class path, a mapping of one to its arguments, or a list of these."""
    value = t.take(*key)
    for item in value if isinstance(value, list) else [] if value is None else [value]:
        if isinstance(item, str):
            yield item, {}
        elif isinstance(item, dict) and len(item) == 1 and isinstance(next(iter(item.values())), dict | None):
            name, arguments = next(iter(item.items()))
            yield str(name), dict(arguments or {})
        else:
            raise t.error(
                f"{'.'.join(key)}: a wrapper is a name, or a name with its arguments, not {item!r}",
                key,
                "as in gymnasium.wrappers.ResizeObservation: {shape: 64}",
            )


def _wrapper(path: str, arguments: dict[str, Any]) -> str | dict[str, Any]:
    """An entry of `env.wrappers`: by Ludus's name for it, else as module:Class."""
    module, _, name = path.rpartition(".")
    known = _WRAPPERS.get(name) if path.startswith(_OF_LIBRARIES) else None
    if known == "ResizeObservation" and isinstance(arguments.get("shape"), int):
        arguments["shape"] = [arguments["shape"]] * 2
    if known == "GrayscaleObservation" and arguments.get("keep_dim") is None:
        arguments.pop("keep_dim", None)
    called = known or (f"{module}:{name}" if module else name)
    return {called: arguments} if arguments else called

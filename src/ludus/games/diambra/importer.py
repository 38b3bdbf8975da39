"""Import of the settings of the document "DIAMBRA Arena Training": env_settings, settings, ppo_settings and others.

They may be YAML, JSON or `config.py`. The settings and wrappers of the game are passed to the env unchanged.
"""

from __future__ import annotations

from typing import Any

from ludus.config.importers.document import Document
from ludus.config.importers.literals import unreadable_in
from ludus.config.importers.sb3_arguments import put_arguments, put_schedule, symbol_name
from ludus.config.importers.translation import Imported, ImportOptions, Translation
from ludus.config.plain_yaml import Key

KIND = "DIAMBRA training settings (env_settings, settings, wrappers_settings, ppo_settings)"
ENV_PREFIX = "diambra/"
_SECTIONS = ("env_settings", "settings", "wrappers_settings", "recording_settings", "ppo_settings")
_FILTER_CALL = "get_filter_keys("  # a function of the document: its result is known without running it
_PPO = "ppo_settings"
_SCHEDULES = ("learning_rate", "clip_range")
# (name in config.py, short name in a section `paths`, key in Ludus, default)
_FOLDERS = (
    ("model_path", "models", "save_dir", "./trained_models"),
    ("tensorboard_log_path", "tensorboard_logs", "tracking.tensorboard_dir", "./tensorboard_logs"),
    ("monitor_logs_path", "monitor_logs", "tracking.monitor_dir", "./output/logs"),
)
EXAMPLE = "DIAMBRA settings     ludus convert config.py    read, never run"


def recognise(document: Document) -> bool:
    """Return whether it has the settings of PPO and at least one other section."""
    have = [name for name in _SECTIONS if isinstance(document.data.get(name), dict)]
    return _PPO in have and len(have) >= 2


def translate(document: Document, choice: ImportOptions) -> Imported:
    t = Translation(document, KIND)
    for section in _SECTIONS:
        t.section(section)
    t.reserved = {"nminibatches", *(f"{name}_{end}" for name in _SCHEDULES for end in ("start", "end"))}
    algorithm = choice.algorithm or "PPO"
    t.put("algorithm", algorithm, _PPO)
    _put_env(t)
    for name, target in (("time_steps", "total_timesteps"), ("check_freq", "checkpoint.every")):
        number = t.integer("env_settings", name)
        if number is not None:
            t.put(target, number, "env_settings", name)
    n_envs = t.integer("env_settings", "env_num", default=1)
    source = ("env_settings", "env_num") if t.has("env_settings", "env_num") else ()
    t.put("n_envs", n_envs, *source, place="one env by default")
    t.put("evaluation", None, place="train.py has none: every engine is used for training")
    t.put("checkpoint.best_metric", "rollout/ep_rew_mean", place="there are no evaluations")
    for name in ("normalize_obs", "normalize_reward"):
        t.put(name, False, place="wrappers_settings normalise, in the env")
    _put_schedules(t)
    _put_batch_size(t, n_envs or 1)
    put_arguments(t, (_PPO,), algorithm, choice, (_PPO, "policy_kwargs"))
    _put_folders(t)
    t.put("resume", "auto", place="training resumes, as with train.py")
    return t.finish()


def _put_env(t: Translation) -> None:
    game = t.take("settings", "game_id")
    if game is None:
        raise t.error("settings.game_id is missing", ("settings",), "add game_id, as in game_id: sfiii3n")
    t.put("env.id", f"{ENV_PREFIX}{game}", "settings", "game_id")
    for name in t.section("settings"):
        if name != "game_id":
            _put_kwarg(t, f"env.kwargs.{name}", "settings", name)
    for section in ("wrappers_settings", "recording_settings"):
        for name in t.section(section):
            _put_kwarg(t, f"env.kwargs.{section}.{name}", section, name)


def _put_kwarg(t: Translation, target: str, *source: str) -> None:
    unreadable = unreadable_in(t.document.data[source[0]][source[1]])
    if unreadable is not None and source[1] == "filter_keys" and unreadable.text.startswith(_FILTER_CALL):
        t.note("a function of the document: the same as filter_keys: auto", *source)
        t.put(target, "auto", *source)
    elif unreadable is not None:
        t.lose(f"not a literal, and the file is never executed: {unreadable.text}", *source)
    else:
        t.put(target, symbol_name(t.take(*source)), *source)


def _put_schedules(t: Translation) -> None:
    """Combine `learning_rate_start` and `learning_rate_end` into one schedule."""
    for name in _SCHEDULES:
        start, end = t.take(_PPO, f"{name}_start"), t.take(_PPO, f"{name}_end")
        if start is None and end is None:
            continue
        if start is None or end is None:
            there, missing = (
                (f"{name}_end", f"{name}_start") if start is None else (f"{name}_start", f"{name}_end")
            )
            raise t.error(f"{_PPO}.{missing} is missing, but {there} is set", (_PPO, there), f"add {missing}")
        put_schedule(t, f"hyperparams.{name}", [start, end], _PPO, f"{name}_start")


def _put_batch_size(t: Translation, n_envs: int) -> None:
    """Convert `nminibatches` to a batch size: the rollout size divided by it."""
    key: Key = (_PPO, "nminibatches")
    parts = t.integer(*key)
    if parts is None:
        return
    n_steps = t.integer(_PPO, "n_steps", default=2048) or 2048
    size = n_steps * n_envs
    if parts < 1 or size % parts:
        raise t.error(
            f"nminibatches {parts} does not divide n_steps * env_num = {n_steps} * {n_envs} = {size}",
            key,
            "adjust nminibatches or n_steps",
        )
    if t.take(_PPO, "batch_size") not in (None, size // parts):
        raise t.error(
            f"batch_size {t.take(_PPO, 'batch_size')} and nminibatches {parts} (that is {size // parts}) differ",
            key,
            "keep one",
        )
    t.put("hyperparams.batch_size", size // parts, *key)


def _put_folders(t: Translation) -> None:
    if isinstance(t.document.data.get("paths"), dict):
        t.section("paths")
    for name, short, target, usual in _FOLDERS:
        found: Any = None
        source: Key = ()
        for key in ((name,), ("paths", name), ("paths", short)):
            if t.take(*key) is not None:
                found, source = t.take(*key), key
        t.put(target, found or usual, *source, place="the folder of the document")

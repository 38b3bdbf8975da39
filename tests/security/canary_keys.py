"""Every config key that can hold text: what a hostile run could make of it, or why it can make nothing of it.

The keys come from the models themselves, so a new key is missing here until somebody has said what it can do.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

_PLAIN = (bool, int, float, type(None))

HARMLESS: dict[str, str] = {
    # a name that is looked up among what is installed and registered
    "algorithm": "a registered name",
    "engine": "a registered name",
    "policy.activation": "a registered name",
    "device": "a device of torch",
    "games.train.id": "a registered game; gym:module:ID is code, see env.id",
    "games.eval.id": "a registered game",
    "games.train.template": "a registered name, or text with fields",
    "games.eval.template": "a registered name, or text with fields",
    "games.train.extract": "a registered name, or a regular expression",
    "games.eval.extract": "a registered name, or a regular expression",
    "rewards.final": "registered names with numbers",
    "rewards.step": "registered names with numbers",
    "rewards.sampling": "registered names with numbers",
    "language.adapter.targets": "names of layers",
    "checkpoint.best_metric": "a column of the metrics",
    # text that is parsed or shown
    "name": "shown, and a folder's name after characters are replaced",
    "tags": "shown",
    "mirror.bandwidth": "a number with a unit",
    "tracking.wandb.group": "shown by W&B",
    "tracking.wandb.tags": "shown by W&B",
    "hyperparams.algorithm_specific": "the typed hyperparameters of an algorithm, see below",
    "hyperparams.ent_coef": "a number, or auto",
    "exports": "names of formats",
    "language.model_kwargs": "whole numbers",
    # not used once a run exists
    "pretrained_model": "only a new run starts from it",
    "language.adapter.start": "only a new run starts from it",
    "warmup.source": "only a new run starts with it",
    "run_dir": "only a new run is put there",
    "sweep": "only `ludus sweep CONFIG` reads it",
    # replaced by what the command line says
    "save_dir": "where other runs are searched: as --root says, for a run from elsewhere",
}

CONSENT: dict[str, str] = {
    "env.id": "code",
    "env.wrappers": "code",
    "policy.features_extractor": "code",
    "policy.features_extractor_kwargs": "whatever a network of the user's own makes of it",
    "policy.network": "code",
    "policy.network_kwargs": "whatever a network of the user's own makes of it",
    "callbacks": "code",
    "env.kwargs": "whatever the env makes of it: a program, an address, a file",
    "games.train.kwargs": "a file",
    "games.eval.kwargs": "a file",
    "language.model": "a folder that is read, or a download",
    "language.sampler.vllm": "arguments of vLLM: code, files, addresses",
    "league.train": "a remote model, or a run elsewhere",
    "league.eval": "a remote model, or a run elsewhere",
    "mirror.url": "a URL that the run is sent to",
    "scale.ray": "an address",
    "tracking.tensorboard_dir": "a folder that is written",
    "tracking.monitor_dir": "a folder that is written",
    "tracking.wandb.entity": "an account that metrics are sent to",
    "tracking.wandb.project": "a project that metrics are sent to",
}

# `env.kwargs` of the bundled envs that have settings of their own
UNITY_HARMLESS: dict[str, str] = {}
UNITY_CONSENT: dict[str, str] = {
    "build.path": "a program",
    "build.arguments": "its arguments",
    "host": "an address to listen at",
    "use_case": "a file, which names code",
}
DIAMBRA_HARMLESS = {
    "characters": "names of the game",
    "wrappers_settings.filter_keys": "keys of the observation",
    "wrappers_settings.wrappers": "refused unless empty",
    "recording_settings.username": "part of a file's name in dataset_path",
}
DIAMBRA_CONSENT = {
    "opponent": "a run elsewhere",
    "recording_settings.dataset_path": "a folder that is written",
}
HYPERPARAMETERS_HARMLESS = {
    "policy": "a registered name",
    "policy_kwargs": "arguments of a registered class; classes are refused",
    "replay_buffer_kwargs": "arguments of a registered class",
    "rollout_buffer_kwargs": "arguments of a registered class",
    "ent_coef": "a number, or auto",
    "train_freq": "a number with a unit",
    "action_noise": "a registered name with a number",
    "optimizer": "a registered name",
    "target_entropy": "a number, or auto",
}


def text_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Return the dotted keys of `model` whose values can hold text of any kind. Lists have no index in the key."""
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        sections, holds_text = _parts(field.annotation)
        for section in sections:
            yield from text_keys(section, f"{key}.")
        if holds_text:
            yield key


def _parts(annotation: Any) -> tuple[list[type[BaseModel]], bool]:
    """Return the sections in a type, and whether a value of it can hold text that is not one of a fixed set."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _parts(typing.get_args(annotation)[0])
    if origin is typing.Literal:
        return [], False
    if origin in (typing.Union, types.UnionType, list, tuple, dict):
        parts = typing.get_args(annotation)
        if origin is dict:
            parts = parts[1:]  # its keys are names
        found = [_parts(part) for part in parts if part is not Ellipsis]
        return [section for sections, _ in found for section in sections], any(text for _, text in found)
    if isinstance(annotation, type):
        if issubclass(annotation, BaseModel):
            return [annotation], False
        if issubclass(annotation, _PLAIN) or hasattr(annotation, "parse"):  # parsed: a schedule, an interval
            return [], False
    return [], True


def attack_value(key: str, outside: str) -> Any:
    """Return a value of the key's own form that names a file outside."""
    lists = (
        "env.wrappers",
        "tags",
        "league.train",
        "league.eval",
        "rewards.",
        "tracking.wandb.tags",
        "targets",
    )
    sections = ("kwargs", "vllm", "sweep", "algorithm_specific")
    place = f"{outside}/folder/secret.txt"
    if key.endswith(sections):
        return {"path": place}
    if key == "mirror.url":
        return f"file://{outside}/mirrored"
    if key == "scale.ray":
        return "canary.invalid:6379"
    return [place] if any(part in key for part in lists) else place

"""Comparison of configs: which runs differ only by their seed, and how the others differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# folders, tracking and devices do not change what a run learns
_IRRELEVANT = {
    "seed",
    "name",
    "save_dir",
    "run_dir",
    "timestamp",
    "resume",
    "tags",
    "tracking",
    "video",
    "mirror",
    "sweep",
    "threads",
    "vector",
}


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested keys as `hyperparams.n_steps`; lists and empty mappings stay values."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            found |= flatten(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def differences(configs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the keys that are not the same in all `configs`, with their value in each (None: missing)."""
    flat = [flatten(config) for config in configs]
    keys = dict.fromkeys(key for one in flat for key in one)
    found = {key: [one.get(key) for one in flat] for key in keys}
    return {key: values for key, values in found.items() if any(value != values[0] for value in values)}


def relevant(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a config that determines what is learned, except the seed."""
    return {key: value for key, value in config.items() if key not in _IRRELEVANT}


def groups_by_seed(configs: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Return groups of indices of the configs that differ only by their seed, in their order.

    An empty config, which could not be read, is a group of its own.
    """
    groups: list[tuple[dict[str, Any], list[int]]] = []
    for index, config in enumerate(configs):
        own = relevant(config)
        for shared, members in groups:
            if own and shared == own:
                members.append(index)
                break
        else:
            groups.append((own, [index]))
    return [members for _, members in groups]


def unique_labels(names: Sequence[str], configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return unique labels: the names, and for equal names also the settings in which they differ."""
    labels = list(names)
    for name in {name for name in names if names.count(name) > 1}:
        places = [index for index, other in enumerate(names) if other == name]
        differing = differences([relevant(configs[index]) for index in places])
        for position, index in enumerate(places):
            settings = [f"{key.rsplit('.', 1)[-1]}={values[position]}" for key, values in differing.items()]
            labels[index] = f"{name} ({', '.join(settings[:3]) or position + 1})"
    return [
        label if labels.count(label) == 1 else f"{label} #{index + 1}" for index, label in enumerate(labels)
    ]

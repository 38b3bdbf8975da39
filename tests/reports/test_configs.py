"""Comparison of configs: runs that differ only by seed are grouped, other settings distinguish them."""

from __future__ import annotations

from ludus.reports.configs import differences, flatten, groups_by_seed, unique_labels

BASE = {
    "seed": 1,
    "name": "a",
    "hyperparams": {"lr": 0.1, "arch": [64, 64]},
    "save_dir": "x",
    "env": {"id": "E"},
}


def test_nested_keys_are_written_with_dots() -> None:
    assert flatten({"a": {"b": {"c": 1}, "d": [1]}, "e": {}}) == {"a.b.c": 1, "a.d": [1], "e": {}}


def test_differences_lists_only_different_keys_and_none_for_missing() -> None:
    assert differences([{"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}]) == {"b": [2, 3], "c": [None, 4]}
    assert differences([BASE, BASE]) == {}


def test_runs_that_differ_only_by_seed_or_folder_are_grouped() -> None:
    configs = [
        BASE,
        BASE | {"hyperparams": {"lr": 0.2}},
        BASE | {"seed": 2, "save_dir": "y", "tags": ["t"]},
        BASE | {"env": {"id": "F"}},
        {},
        {},
    ]
    assert groups_by_seed(configs) == [[0, 2], [1], [3], [4], [5]]


def test_runs_of_the_same_name_are_labelled_by_their_settings() -> None:
    other = BASE | {"hyperparams": {"lr": 0.2, "arch": [64, 64]}}
    assert unique_labels(["a", "b"], [BASE, other]) == ["a", "b"]
    assert unique_labels(["a", "a", "b"], [BASE, other, {}]) == ["a (lr=0.1)", "a (lr=0.2)", "b"]
    labels = unique_labels(["a", "a"], [{}, {}])
    assert len(set(labels)) == 2

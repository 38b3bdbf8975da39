"""Configs side by side: seeds belong together, everything else tells runs apart."""

from __future__ import annotations

from ludus.reports.configs import alike, differences, flatten, tell_apart

BASE = {
    "seed": 1,
    "name": "a",
    "hyperparams": {"lr": 0.1, "arch": [64, 64]},
    "save_dir": "x",
    "env": {"id": "E"},
}


def test_nested_keys_are_written_with_dots() -> None:
    assert flatten({"a": {"b": {"c": 1}, "d": [1]}, "e": {}}) == {"a.b.c": 1, "a.d": [1], "e": {}}


def test_only_what_differs_is_listed_and_what_is_not_there_is_none() -> None:
    assert differences([{"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}]) == {"b": [2, 3], "c": [None, 4]}
    assert differences([BASE, BASE]) == {}


def test_runs_that_differ_by_seed_or_place_belong_together() -> None:
    configs = [
        BASE,
        BASE | {"hyperparams": {"lr": 0.2}},
        BASE | {"seed": 2, "save_dir": "y", "tags": ["t"]},
        BASE | {"env": {"id": "F"}},
        {},
        {},
    ]
    assert alike(configs) == [[0, 2], [1], [3], [4], [5]]


def test_namesakes_are_told_apart_by_their_settings() -> None:
    other = BASE | {"hyperparams": {"lr": 0.2, "arch": [64, 64]}}
    assert tell_apart(["a", "b"], [BASE, other]) == ["a", "b"]
    assert tell_apart(["a", "a", "b"], [BASE, other, {}]) == ["a (lr=0.1)", "a (lr=0.2)", "b"]
    labels = tell_apart(["a", "a"], [{}, {}])
    assert len(set(labels)) == 2

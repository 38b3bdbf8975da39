"""Search spaces as YAML writes them, and what is wrong with those that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from ludus.config.registry import find_algorithm
from ludus.config.search_space import Choice, Range, parse_space
from ludus.errors import ConfigError


def test_every_form_is_read() -> None:
    space = parse_space(
        {
            "hyperparams.learning_rate": {"log": [1e-5, 1e-2]},
            "hyperparams.gamma": {"uniform": [0.9, 0.999]},
            "hyperparams.n_epochs": {"int": [1, 20]},
            "hyperparams.n_steps": {"int_log": [8, 2048]},
            "hyperparams.policy_net_arch": {"choice": [[64, 64], [256]]},
        }
    )
    assert list(space.values()) == [
        Range(1e-5, 1e-2, log=True),
        Range(0.9, 0.999),
        Range(1, 20, whole=True),
        Range(8, 2048, log=True, whole=True),
        Choice(([64, 64], [256])),
    ]


def test_a_choice_is_found_again_by_its_label() -> None:
    values = (True, None, 0.5, "auto", [64, 64], {"linear": [1e-3, 0.0]})
    choice = Choice(values)
    assert choice.labels == ["true", "null", "0.5", "auto", "[64, 64]", "{'linear': [0.001, 0.0]}"]
    assert [choice.value_of(label) for label in choice.labels] == list(values)


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ({}, "a mapping of config keys"),
        ([1, 2], "a mapping of config keys"),
        ({"seed": 3}, "expected one of uniform, log, int, int_log, choice, got 3 for 'seed'"),
        ({"seed": {"logg": [1, 2]}}, "expected one of"),
        ({"seed": {"int": 3}}, "expected a list, got 3"),
        ({"seed": {"int": [1, 2, 3]}}, "a lowest and a highest number"),
        ({"seed": {"int": [1, True]}}, "a lowest and a highest number"),
        ({"seed": {"int": [1.5, 3]}}, "not a range of whole numbers"),
        ({"seed": {"uniform": [3, 1]}}, "not a range of numbers"),
        ({"seed": {"log": [0, 1]}}, "begins above zero"),
        ({"seed": {"choice": []}}, "values that differ"),
        ({"seed": {"choice": [1, 1]}}, "values that differ"),
    ],
)
def test_what_cannot_be_tried_is_refused(written: Any, what: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_space(written)
    assert what in str(error.value)
    assert error.value.fix


@pytest.mark.parametrize("algorithm", ["PPO", "A2C", "DQN", "SAC"])
def test_an_algorithms_own_space_holds_values_that_it_takes(algorithm: str) -> None:
    model = find_algorithm(algorithm).hyperparameters
    assert model is not None
    space = parse_space(model.search_space)
    assert len(space) > 3
    for name, dimension in space.items():
        ends = dimension.values if isinstance(dimension, Choice) else (dimension.low, dimension.high)
        for value in ends:
            model(**{name: value})

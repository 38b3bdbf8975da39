"""Scalars that change over a run, against values computed by hand."""

from __future__ import annotations

import math

import pytest

from ludus.config.schedule import Schedule
from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError


@pytest.mark.parametrize(
    ("written", "fraction", "value"),
    [
        (0.5, 0.0, 0.5),
        (0.5, 1.0, 0.5),
        ("3e-4", 0.7, 3e-4),
        ({"constant": 2}, 0.3, 2.0),
        ({"linear": [1.0, 0.0]}, 0.0, 1.0),
        ({"linear": [1.0, 0.0]}, 0.25, 0.75),
        ({"linear": [0.0, 4.0]}, 0.5, 2.0),
        ({"linear": [1.0, 0.2]}, 1.0, 0.2),
        ({"cosine": [1.0, 0.0]}, 0.0, 1.0),
        ({"cosine": [1.0, 0.0]}, 0.5, 0.5),
        ({"cosine": [3.0, 1.0]}, 1 / 3, 2.5),  # cos(pi/3) = 1/2: 1 + 2 * 0.75
        ({"cosine": [1.0, 0.0]}, 1.0, 0.0),
        ({"exponential": [1.0, 0.01]}, 0.5, 0.1),
        ({"exponential": [8.0, 1.0]}, 1 / 3, 4.0),
        ({"exponential": [2.0, 32.0]}, 1.0, 32.0),
        ({"points": [4.0, 2.0, 3.0]}, 0.25, 3.0),
        ({"points": [4.0, 2.0, 3.0]}, 0.5, 2.0),
        ({"points": [4.0, 2.0, 3.0]}, 1.0, 3.0),
        (lambda remaining: remaining**2, 0.25, 0.5625),  # a sample: exact
        (lambda remaining: 1e-3 if remaining > 0.5 else 1e-4, 0.49, 1e-3),
    ],
)
def test_the_value_at_a_fraction_of_the_run(written: object, fraction: float, value: float) -> None:
    assert Schedule.parse(written)(fraction) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(
    "written",
    [
        "fast",
        None,
        True,
        [1, 0],
        {"linear": 1},
        {"linear": [1, 2, 3]},
        {"linear": [1, "x"]},
        {"quadratic": [1, 0]},
        {"linear": [1, 0], "cosine": [1, 0]},
        {"exponential": [1.0, 0.0]},
        {"exponential": [-1.0, 1.0]},
        math.nan,
        math.inf,
        {"linear": [math.inf, 0]},
        {"points": [1.0]},
        {"points": [1.0, math.nan]},
        lambda remaining: "fast",
        lambda remaining: math.inf if remaining else 0.0,
        {},
    ],
)
def test_what_is_no_schedule_is_refused_with_a_reason(written: object) -> None:
    with pytest.raises(ValueError, match=r"expected a number|positive|finite"):
        Schedule.parse(written)


@pytest.mark.parametrize(
    "written",
    [
        0.25,
        {"linear": [1.0, 0.0]},
        {"cosine": [2.0, 1.0]},
        {"exponential": [1.0, 0.1]},
        {"points": [1.0, 0.5]},
    ],
)
def test_it_is_written_as_it_was_read(written: object) -> None:
    assert Schedule.parse(written).plain() == written


@pytest.mark.parametrize(
    ("algorithm", "field", "value"),
    [
        ("PPO", "learning_rate", -1.0),
        ("PPO", "gamma", 2.0),
        ("PPO", "gae_lambda", {"linear": [0.9, 1.1]}),
        ("PPO", "clip_range", -0.1),
        ("PPO", "ent_coef", -5),
        ("A2C", "max_grad_norm", 0),
        ("DQN", "tau", 5),
        ("SAC", "tau", 0),
        ("SAC", "ent_coef", -0.1),
    ],
)
def test_a_value_out_of_its_range_is_refused_by_name(algorithm: str, field: str, value: object) -> None:
    config = TrainerConfig(algorithm=algorithm, hyperparams={field: value})
    with pytest.raises(ConfigError, match=f"hyperparams.{field}"):
        config.typed_hyperparams()


@pytest.mark.parametrize(
    ("function", "written"),
    [
        (lambda remaining: 3e-4, 3e-4),
        (lambda remaining: 1e-3 * remaining, {"linear": [1e-3, 0.0]}),  # the linear_schedule of SB3's guide
    ],
)
def test_a_function_is_recorded_in_its_shortest_form(function: object, written: object) -> None:
    config = TrainerConfig(hyperparams={"learning_rate": function, "clip_range": function})
    assert config.hyperparams.learning_rate == written
    assert config.typed_hyperparams().clip_range.plain() == written
    changed = TrainerConfig()
    changed.hyperparams.learning_rate = function
    assert changed.hyperparams.learning_rate == written


def test_a_function_out_of_bounds_anywhere_is_refused() -> None:
    with pytest.raises(ConfigError, match="at most 1"):
        TrainerConfig(
            hyperparams={"gamma": lambda remaining: 0.9 + (0.3 < remaining < 0.4)}
        ).typed_hyperparams()

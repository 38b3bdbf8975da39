"""One way to say when: how amounts are read, measured and written back."""

from __future__ import annotations

import copy
import json

import pytest

from ludus.config.schema import TrainerConfig, get_default_config
from ludus.config.when import When
from ludus.errors import shortened
from ludus.types import Progress


@pytest.mark.parametrize(
    ("written", "amount", "unit"),
    [
        (100_000, 100_000, "steps"),
        ("100_000", 100_000, "steps"),
        (1e5, 100_000, "steps"),
        ("1e5", 100_000, "steps"),
        (1e15, 1e15, "steps"),
        ("10k", 10_000, "steps"),
        ("2.3k", 2_300, "steps"),
        ("1.5M steps", 1_500_000, "steps"),
        ("2k episodes", 2_000, "episodes"),
        ("30 Min", 30, "minutes"),
        ("5 steps", 5, "steps"),
        ("200 updates", 200, "updates"),
        ("1 update", 1, "updates"),
        ("5000 Episodes", 5000, "episodes"),
        ("30 min", 30, "minutes"),
        ("30min", 30, "minutes"),
        ("1.5 h", 1.5, "hours"),
        ("90 s", 90, "seconds"),
    ],
)
def test_every_form_is_read(written: object, amount: float, unit: str) -> None:
    assert When.parse(written) == When(amount, unit)


@pytest.mark.parametrize(
    "written",
    [
        0,
        -5,
        "0 min",
        1.5,
        "2.5 updates",
        "soon",
        "5 parsecs",
        "",
        True,
        None,
        [5],
        "nan",
        "inf",
        "5m",
        "5kk",
        "1.5 k updates x",
    ],
)
def test_what_is_no_amount_is_refused_with_a_reason(written: object) -> None:
    with pytest.raises(ValueError, match=r"expected an amount|more than zero|whole number"):
        When.parse(written)


@pytest.mark.parametrize("written", [7, "200 updates", "1 episodes", "30 minutes", "1.5 hours", "90 seconds"])
def test_it_is_written_as_it_was_read(written: object) -> None:
    assert When.parse(written).plain() == written
    assert When.parse(When.parse(written).plain()) == When.parse(written)


def test_progress_is_measured_in_its_own_unit() -> None:
    progress = Progress(steps=300, updates=4, episodes=7, seconds=90.0)
    assert When(1000).fraction(progress) == 0.3
    assert When(8, "updates").fraction(progress) == 0.5
    assert When(7, "episodes").fraction(progress) == 1.0
    assert When(3, "minutes").fraction(progress) == 0.5
    assert When(1, "hours").fraction(progress) == 0.025
    assert When(60, "seconds").fraction(progress) == 1.0  # never past the end


def test_an_event_falls_due_once_per_whole_interval() -> None:
    counts = [When(100).count(Progress(steps=steps)) for steps in (0, 99, 100, 199, 200, 450)]
    assert counts == [0, 0, 1, 1, 2, 4]


def test_only_wall_clock_units_are_wall_clock() -> None:
    assert When(1, "minutes").is_wall_clock and When(1, "seconds").is_wall_clock
    assert not When(1).is_wall_clock and not When(1, "updates").is_wall_clock


def test_a_large_amount_is_shown_in_full() -> None:
    assert When.parse(2_000_000).in_words() == "2,000,000 steps"
    assert When.parse(16_777_216).in_words() == "16,777,216 steps"


@pytest.mark.parametrize(
    "written",
    ["1e400", "9" * 400, 10**400, 10**5000, "1e400 min", 1e20, 2**63, "1e16 updates"],
    ids=shortened,
)
def test_an_amount_that_no_run_can_reach_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="at most"):
        When.parse(written)


def test_steps_are_an_int_in_every_respect() -> None:
    total = TrainerConfig().total_timesteps
    assert total == 1_000_000 and isinstance(total, int) and isinstance(total, When)
    assert total > 5 and total // 10 == 100_000 and list(range(When.parse("3"))) == [0, 1, 2]
    assert (str(total), f"{total:,}", json.dumps(total)) == ("1000000", "1,000,000", "1000000")
    assert {total: 1}[1_000_000] == 1 and total != When(1_000_000, "updates")
    for copied in (copy.copy(total), copy.deepcopy(total)):
        assert copied == total and isinstance(copied, When)
    minutes = When(30, "minutes")
    assert copy.deepcopy(minutes) == minutes and copy.copy(minutes) == minutes
    assert get_default_config("PPO").checkpoint.every == 100_000

"""One way to say when: how amounts are read, measured and written back."""

from __future__ import annotations

import pytest

from ludus.config.when import When
from ludus.types import Progress


@pytest.mark.parametrize(
    ("written", "amount", "unit"),
    [
        (100_000, 100_000, "steps"),
        ("100_000", 100_000, "steps"),
        (1e5, 100_000, "steps"),
        ("1e5", 100_000, "steps"),
        (1e20, 1e20, "steps"),
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
    "written", [0, -5, "0 min", 1.5, "2.5 updates", "soon", "5 parsecs", "", True, None, [5], "nan", "inf"]
)
def test_what_is_no_amount_is_refused_with_a_reason(written: object) -> None:
    with pytest.raises(ValueError, match=r"expected env steps|more than zero|whole number"):
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
    assert str(When.parse(2_000_000)) == "2,000,000 steps"
    assert str(When.parse(16_777_216)) == "16,777,216 steps"


@pytest.mark.parametrize("written", ["1e400", "9" * 400, 10**400, "1e400 min"])
def test_an_amount_without_end_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="must have an end"):
        When.parse(written)

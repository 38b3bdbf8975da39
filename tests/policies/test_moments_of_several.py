"""Merged statistics of several workers equal the statistics of all data."""

from __future__ import annotations

import numpy as np
import pytest

from ludus.policies.observations import Moments, RunningMoments


@pytest.mark.parametrize("long_before", [0, 1_000_000])
def test_statistics_of_two_workers_after_a_common_start_are_merged_once(long_before: int) -> None:
    rng = np.random.default_rng(1)
    start = rng.normal(3.0, 2.0, size=(50, 4))
    first, second = rng.normal(-1.0, 5.0, size=(30, 4)), rng.normal(8.0, 0.1, size=(7, 4))
    common, one, other, everything = (RunningMoments((4,)) for _ in range(4))
    for moments in (common, one, other, everything):
        moments.update(start)
        if long_before:
            moments.merge(Moments(np.full(4, 2.0), np.full(4, 9.0), float(long_before)))
    one.update(first)
    other.update(second)
    before = common.moments()
    common.set_to(one.moments())
    common.merge(other.moments().since(before))
    everything.update(first)
    everything.update(second)
    for name, wanted in everything.named_buffers():
        np.testing.assert_allclose(dict(common.named_buffers())[name].numpy(), wanted.numpy(), rtol=1e-9)


def test_since_returns_the_moments_of_later_samples_only() -> None:
    rng = np.random.default_rng(2)
    running = RunningMoments((2,))
    running.update(rng.normal(size=(10, 2)))
    before = running.moments()
    later = rng.normal(4.0, 3.0, size=(25, 2))
    running.update(later)
    seen = running.moments().since(before)
    assert seen.count == pytest.approx(25)
    np.testing.assert_allclose(seen.mean, later.mean(axis=0))
    np.testing.assert_allclose(seen.var, later.var(axis=0))


def test_merging_no_samples_changes_nothing() -> None:
    running = RunningMoments(())
    running.update(np.arange(5.0))
    before = running.moments()
    running.merge(running.moments().since(before))
    assert running.moments() == before

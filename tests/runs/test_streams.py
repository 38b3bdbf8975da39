"""Streams depend on the seed and their name only, and continue after a resume where they stopped."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ludus.errors import CheckpointError
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.streams import Streams


@pytest.fixture(autouse=True)
def _keep_global_generators() -> Iterator[None]:
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(before[0])
    np.random.set_state(before[1])
    torch.set_rng_state(before[2])


def draw(streams: Streams) -> list[Any]:
    return [
        streams.numpy("actions").random(3).tolist(),
        streams.numpy("minibatches").permutation(10).tolist(),
        torch.randn(3, generator=streams.torch("noise")).tolist(),
        random.gauss(0.0, 1.0),
        np.random.standard_normal(3).tolist(),
        torch.rand(3).tolist(),
    ]


def test_a_resumed_run_draws_what_the_uninterrupted_one_draws(tmp_path: Path) -> None:
    streams = Streams(42)
    streams.seed_globals()
    draw(streams)
    plain, tensors = streams.state_dict()
    saved = CheckpointManager(tmp_path).save(1, {"streams": tensors}, {"streams": plain})
    expected = [draw(streams), draw(streams)]

    fresh = Streams(42)
    fresh.load_state_dict(saved.state()["streams"], saved.tensors("streams"))
    assert [draw(fresh), draw(fresh)] == expected

    used = Streams(42)
    held = used.numpy("actions")
    draw(used)
    used.numpy("created only here").random()
    used.torch("created only here").seed()
    used.load_state_dict(saved.state()["streams"], saved.tensors("streams"))
    assert [draw(used), draw(used)] == expected
    assert used.numpy("actions") is held
    unused = Streams(42)
    assert used.numpy("created only here").random() == unused.numpy("created only here").random()
    ours, theirs = used.torch("created only here"), unused.torch("created only here")
    assert torch.equal(torch.rand(3, generator=ours), torch.rand(3, generator=theirs))


def test_restored_stream_that_is_not_used_is_saved_again() -> None:
    streams = Streams(7)
    draw(streams)
    state = streams.state_dict()
    expected = draw(streams)
    between = Streams(7)
    between.load_state_dict(*state)
    last = Streams(7)
    last.load_state_dict(*between.state_dict())
    assert draw(last) == expected


def test_streams_are_independent_of_each_other_and_of_the_order_of_creation() -> None:
    a, b = Streams(1), Streams(1)
    a.numpy("x").random(1000)
    a.torch("x").seed()
    assert a.numpy("y").random() == b.numpy("y").random()
    assert a.torch("y").initial_seed() == b.torch("y").initial_seed()
    firsts = {Streams(seed).numpy(name).random() for seed in (0, 1, 2**40) for name in ("x", "y")}
    assert len(firsts) == 6


def test_derived_seeds_fit_31_bits_and_keep_their_parts_apart() -> None:
    streams = Streams(3)
    parts: list[tuple[int | str, ...]] = [(), ("env",), ("env", 1), ("env", "1"), ("env1",), ("env", 1, 0)]
    seeds = [streams.derive(*each) for each in parts]
    assert len(set(seeds)) == len(parts)
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert streams.derive("env", np.int64(1)) == streams.derive("env", 1)  # type: ignore[arg-type]
    assert Streams(4).derive("env", 1) != streams.derive("env", 1)


def test_streams_are_the_same_in_every_process() -> None:
    code = (
        "from ludus.runs.streams import Streams; s = Streams(5);"
        "print(s.derive('env', 2), s.numpy('x').integers(10**9), s.torch('x').initial_seed())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    here = Streams(5)
    assert out.split() == [
        str(here.derive("env", 2)),
        str(here.numpy("x").integers(10**9)),
        str(here.torch("x").initial_seed()),
    ]


def test_seeding_the_globals_repeats_them() -> None:
    values = []
    for _ in range(2):
        Streams(9).seed_globals()
        values.append((random.random(), np.random.rand(), torch.rand(1).item()))
    assert values[0] == values[1]


def test_another_seed_or_a_negative_one_is_refused() -> None:
    with pytest.raises(CheckpointError, match="seed 1, this run has seed 2"):
        Streams(2).load_state_dict(*Streams(1).state_dict())
    with pytest.raises(ValueError, match="-1"):
        Streams(-1)

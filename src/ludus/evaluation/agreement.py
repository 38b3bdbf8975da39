"""Compares an exported policy with the original on the same random observations."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from ludus.envs.masks import mask_size
from ludus.errors import UserError
from ludus.evaluation.graph import PolicyGraph
from ludus.evaluation.load import LoadedPolicy
from ludus.policies.observations import ObservationNormalizer
from ludus.runs.atomic import TEMPORARY_PREFIX
from ludus.types import Array, BoolArray, Observation

BATCHES = (
    1,
    2,
    253,
)  # errors with the batch axis show at 1, or at a size that was not used for the export
TOLERANCE = 1e-4
"""Allowed difference of floats, relative to the largest value of that output, or to 1 if that is larger."""
_WIDEST = 1e3  # wider bounds of a space do not describe its observations

Run = Callable[[tuple[Any, ...]], dict[str, Array]]
"""Takes a batch like `PolicyGraph.forward` and returns named outputs."""


@dataclass(frozen=True)
class ExportAgreement:
    """The result of a comparison: the largest difference of each output.

    `ties` counts actions that differed although the policy rates both equally; they are not a difference.
    """

    observations: int
    differences: dict[str, float]
    ties: int = 0

    def __str__(self) -> str:
        ties = f", except {self.ties} that are equally good" if self.ties else ""
        each = [f"{name} {difference:.1e}" for name, difference in self.differences.items()]
        return (
            f"{self.observations} random observations, the same actions{ties}; differences: {', '.join(each)}"
        )


def write_checked(
    path: Path,
    write: Callable[[Path], object],
    load: Callable[[Path], Run],
    graph: PolicyGraph,
    policy: LoadedPolicy,
) -> ExportAgreement:
    """Write a file, load it back and compare it with `policy`. `path` exists only if they agree."""
    unchecked = path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{os.getpid()}")
    try:
        write(unchecked)
        agreement = check_agreement(load(unchecked), graph, policy, str(path))
        os.replace(unchecked, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            unchecked.unlink()
    return agreement


def check_agreement(run: Run, graph: PolicyGraph, policy: LoadedPolicy, where: str) -> ExportAgreement:
    """Compare `run` with `policy.predict`, and its other outputs with `graph`. Raises UserError if they differ."""
    rng = np.random.default_rng(0)
    differences: dict[str, float] = {}
    ties = 0
    for rows in BATCHES:
        obs, mask = random_inputs(graph, rows, rng)
        expected = {name: tensor.numpy() for name, tensor in graph(*graph.arguments(obs, mask)).items()}
        name = next(iter(expected))
        expected[name] = policy.predict(obs, mask)
        try:
            actual = run(graph.arguments(obs, mask))
        except Exception as error:  # the runtime may raise anything
            reason = str(error).strip().splitlines()[-1:]
            raise _disagrees(f"with a batch of {rows} it fails ({''.join(reason)})", where) from error
        _check_shapes(actual, expected, where)
        tied = _ties(expected, actual[name], policy.actor.action_space)
        ties += int(tied.sum())
        actual[name] = np.where(tied, expected[name], actual[name])
        for name in expected:
            difference = _difference(name, actual[name], expected[name], where)
            differences[name] = max(difference, differences.get(name, 0.0))
    return ExportAgreement(sum(BATCHES), differences, ties)


def random_inputs(
    graph: PolicyGraph, rows: int, rng: np.random.Generator
) -> tuple[Observation, BoolArray | None]:
    """Return realistic random observations in the dtypes of the graph, and masks if it takes them."""
    policy = graph.policy
    space = policy.observation_space
    if isinstance(space, spaces.Dict):
        obs: Observation = {
            key: _random(part, key, policy.obs_normalizer, rows, rng) for key, part in space.spaces.items()
        }
    else:
        obs = _random(space, "", policy.obs_normalizer, rows, rng)
    return obs, _random_masks(policy.action_space, rows, rng) if graph.masked else None


def _random(
    space: spaces.Space[Any],
    key: str,
    normalizer: ObservationNormalizer | None,
    rows: int,
    rng: np.random.Generator,
) -> Array:
    shape = (rows, *(space.shape or ()))
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        sizes = space.n if isinstance(space, spaces.Discrete) else space.nvec
        return rng.integers(space.start, space.start + sizes, shape)
    if isinstance(space, spaces.MultiBinary):
        return rng.integers(0, 2, shape).astype(space.dtype)
    assert isinstance(space, spaces.Box)  # there is no policy for other spaces
    if normalizer is not None and key in normalizer.keys:
        moments = normalizer.moments_of(key)
        return rng.normal(moments.mean.numpy(), 2.0 * np.sqrt(moments.var.numpy()), shape).astype(np.float32)
    low, high = (np.nan_to_num(bound.astype(np.float64)) for bound in (space.low, space.high))
    if np.issubdtype(space.dtype, np.floating):
        narrow = (low > -_WIDEST) & (high < _WIDEST)
        drawn = np.where(narrow, rng.uniform(np.where(narrow, low, 0), np.where(narrow, high, 1), shape), 0)
        return np.where(narrow, drawn, rng.normal(0.0, 2.0, shape).clip(low, high)).astype(np.float32)
    return np.rint(rng.uniform(low.clip(-_WIDEST), high.clip(max=_WIDEST), shape)).astype(space.dtype)


def _random_masks(space: spaces.Space[Any], rows: int, rng: np.random.Generator) -> BoolArray:
    masks = rng.random((rows, mask_size(space))) < 0.6
    starts = np.cumsum([0, *_sizes(space)])
    for start, end in itertools.pairwise(starts):
        masks[np.arange(rows), rng.integers(start, end, rows)] = True
    return masks


def _sizes(space: spaces.Space[Any]) -> list[int]:
    if isinstance(space, spaces.MultiDiscrete):
        return [int(n) for n in space.nvec.flat]
    assert isinstance(space, spaces.Discrete)
    return [int(space.n)]


def _ties(expected: dict[str, Array], actions: Array, space: spaces.Space[Any]) -> BoolArray:
    """Return where an action differs from the expected one only because of rounding."""
    wanted = expected[next(iter(expected))]
    scores = next((expected[name] for name in ("probabilities", "q_values") if name in expected), None)
    nothing = np.zeros(wanted.shape, dtype=bool)
    if scores is None or not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return nothing
    rows = np.arange(len(wanted))
    columns = []
    ends = np.cumsum(_sizes(space))
    flat = [np.asarray(part - space.start).reshape(len(wanted), -1) for part in (wanted, actions)]
    for index, (end, size) in enumerate(zip(ends, _sizes(space), strict=True)):
        part = scores[:, end - size : end]
        theirs = flat[1][:, index].clip(0, size - 1)
        gap = np.abs(part[rows, flat[0][:, index]] - part[rows, theirs])
        columns.append(
            (gap <= TOLERANCE * np.abs(part).max(axis=1)) & (flat[0][:, index] != flat[1][:, index])
        )
    return np.stack(columns, axis=1).reshape(wanted.shape)


def _check_shapes(actual: dict[str, Array], expected: dict[str, Array], where: str) -> None:
    for name, array in expected.items():
        if actual[name].shape != array.shape:
            raise _disagrees(f"expected {name} of shape {array.shape}, got {actual[name].shape}", where)


def _difference(name: str, actual: Array, expected: Array, where: str) -> float:
    if expected.size == 0:
        return 0.0
    difference = float(np.abs(actual.astype(np.float64) - expected.astype(np.float64)).max())
    choices = not np.issubdtype(expected.dtype, np.floating)
    allowed = 0.0 if choices else TOLERANCE * max(1.0, float(np.abs(expected).max()))
    if not difference <= allowed:  # also true for NaN
        raise _disagrees(f"the {name} differ by up to {difference:.3g}", where)
    return difference


def _disagrees(how: str, where: str) -> UserError:
    return UserError(
        f"the exported policy differs from the original: {how}; the file was removed",
        where=where,
        fix="the forward of a custom network may not be exportable; try the other of onnx and torchscript",
    )

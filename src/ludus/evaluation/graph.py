"""A policy as one graph of tensor operations from raw observations to env-ready actions.

`Policy.predict` normalises observations, adds start offsets and applies bounds in numpy. The graph does the same with
float32 tensors, so that an exported file contains it. Runtimes on small devices and accelerators have no float64.
"""

from __future__ import annotations

import io
import logging
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

import ludus
from ludus.envs.masks import has_masks, mask_size
from ludus.envs.user_code import close_env
from ludus.errors import UserError
from ludus.evaluation.load import LoadedPolicy
from ludus.policies.actor_critic import ActorCritic
from ludus.policies.base import Policy, RecurrentActor
from ludus.policies.distributions import Bernoulli, Categorical, Distribution, MultiCategorical
from ludus.policies.extractors import BaseFeaturesExtractor, ObservationTensor, zeros
from ludus.policies.observations import ObservationNormalizer, to_tensor
from ludus.policies.q_network import QPolicy
from ludus.types import Observation

OBS = "obs"
MASK = "action_mask"
ACTIONS = "actions"
Outputs = dict[str, Tensor]

_LUDUS = Path(ludus.__file__).parent
_VERBOSE_LOGGERS = (
    "torch.onnx",
    "torch.export",
    "torch.fx.experimental.symbolic_shapes",
    "onnxscript",
    "onnx_ir",
)


_ONLY_TENSORS = (
    "write forward with tensor operations: no if or loop over values, .item() or numpy; use torch.where"
)
_SPECIALIZED = "specialized"  # torch's word for a size that became a constant
_FIXED_BATCH = (
    "its forward turns the batch size into a plain number, so the graph would work only for that size"
)
_KEEP_BATCH = (
    "use x.shape[0] or -1, as in x.flatten(1) or x.view(x.shape[0], -1), not len(x) or int(x.shape[0])"
)


class PolicyGraph(nn.Module):
    """Maps `(observations, mask)` to named outputs with a batch axis; without `masked` there is no mask.

    The outputs are `actions` and, if the policy has them, `probabilities` of each action, `q_values` and the `value`
    of the observation. Observations have the dtypes of `to_tensor`.
    """

    def __init__(self, policy: Policy, masked: bool) -> None:
        super().__init__()
        self.policy = policy
        self.masked = masked
        self.normalizer = _Normalizer(policy.obs_normalizer) if policy.obs_normalizer is not None else None
        self.to_env = _ToEnv(policy)

    @property
    def input_names(self) -> list[str]:
        """The keys of a Dict space, or `obs`; then `action_mask` if the graph takes one."""
        space = self.policy.observation_space
        names = list(space.spaces) if isinstance(space, spaces.Dict) else [OBS]
        return [*names, MASK] if self.masked else names

    def forward(self, obs: ObservationTensor, mask: Tensor | None = None) -> Outputs:
        if self.normalizer is not None:
            obs = self.normalizer(obs)
        found = graph_outputs(self.policy, obs, mask)
        actions = self.to_env(found.pop(ACTIONS))
        taken = self.input_names  # a key of a Dict space may be called `value`
        named = {ACTIONS: actions} | found
        return {f"{name}_out" if name in taken else name: tensor for name, tensor in named.items()}

    def arguments(self, obs: Observation, mask: Any) -> tuple[Any, ...]:
        """Return a batch of the env's observations and masks as arguments of `forward`."""
        tensors = to_tensor(obs, "cpu")
        if isinstance(tensors, dict):
            tensors = {key: tensors[key] for key in self.input_names if key != MASK}
        return (tensors, torch.as_tensor(mask)) if self.masked else (tensors,)

    def example(self) -> tuple[Any, ...]:
        """Return a batch to record the graph with: zeros, everything legal."""
        policy, rows = self.policy, 3  # torch treats sizes 0 and 1 as constants
        mask = np.ones((rows, mask_size(policy.action_space)), dtype=bool) if self.masked else None
        return self.arguments(zeros(policy.observation_space, rows), mask)

    def describe(self) -> tuple[str, str]:
        """Describe name, dtype and shape of the inputs and of the outputs."""
        example = self.example()
        parts = list(example[0].values()) if isinstance(example[0], dict) else [example[0]]
        inputs = dict(zip(self.input_names, [*parts, *example[1:]], strict=True))
        with torch.no_grad():
            return _described(inputs), _described(self(*example))


class _Normalizer(nn.Module):
    """`ObservationNormalizer.normalize`. The mean is a sum of two float32 to keep its precision far from 0."""

    def __init__(self, normalizer: ObservationNormalizer) -> None:
        super().__init__()
        self.clip = normalizer.clip
        self.keys = normalizer.keys
        for index, key in enumerate(self.keys):
            moments = normalizer.moments_of(key)
            high = moments.mean.float()
            self.register_buffer(f"high_{index}", high)
            self.register_buffer(f"low_{index}", (moments.mean - high.double()).float())
            self.register_buffer(f"std_{index}", torch.sqrt(moments.var + normalizer.epsilon).float())

    def forward(self, obs: ObservationTensor) -> ObservationTensor:
        if isinstance(obs, dict):
            return {key: self._scaled(key, obs[key]) if key in self.keys else obs[key] for key in obs}
        return self._scaled("", obs) if self.keys else obs

    def _scaled(self, key: str, obs: Tensor) -> Tensor:
        high, low, std = (getattr(self, f"{part}_{self.keys.index(key)}") for part in ("high", "low", "std"))
        scaled: Tensor = ((obs - high) - low) / std
        return scaled.clamp(-self.clip, self.clip)


class _ToEnv(nn.Module):
    """`Policy.to_env` as tensor operations."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        space = policy.action_space
        self.shape = space.shape or ()
        self.dtype = torch.from_numpy(np.zeros(1, space.dtype)).dtype
        self.rounds = isinstance(space, spaces.Box) and not self.dtype.is_floating_point
        self.scales = isinstance(space, spaces.Box) and policy.scales_actions
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and policy.adds_start:
            self.register_buffer("start", torch.as_tensor(space.start, dtype=torch.int64))
        if isinstance(space, spaces.Box):
            self.register_buffer("low", torch.as_tensor(space.low).float())
            self.register_buffer("high", torch.as_tensor(space.high).float())

    def forward(self, actions: Tensor) -> Tensor:
        actions = actions.reshape(-1, *self.shape)
        buffers = dict(self.named_buffers())
        if "start" in buffers:
            actions = actions + buffers["start"]
        if "low" in buffers:
            low, high = buffers["low"], buffers["high"]
            if self.scales:
                actions = low + 0.5 * (actions + 1.0) * (high - low)
            actions = torch.minimum(torch.maximum(actions, low), high)
        if self.rounds:
            actions = torch.round(actions)
        return actions.to(self.dtype)


def policy_graph(policy: LoadedPolicy) -> tuple[PolicyGraph, list[str]]:
    """Return the graph of a run's policy, with notes for the user. Raises UserError for a recurrent policy."""
    if isinstance(policy, RecurrentActor):
        raise UserError(
            "a recurrent policy cannot be exported: the file cannot contain its memory",
            where=policy.name,
            fix="train with PPO, or with frame_stack to see the past",
        )
    masked, notes = _uses_masks(policy)
    graph = PolicyGraph(policy.actor, masked)
    return graph.eval().requires_grad_(False), notes


def capture(graph: PolicyGraph, inputs: tuple[Any, ...]) -> ExportedProgram:
    """Record the operations of `graph` with `inputs`, for any batch size. Raises UserError if torch cannot."""
    batch = {0: Dim("batch", min=1)}
    shapes = tuple({key: batch for key in part} if isinstance(part, dict) else batch for part in inputs)
    with export_errors(graph), silenced(), torch.no_grad():
        return torch.export.export(graph, inputs, dynamic_shapes=shapes, strict=False)


@contextmanager
def export_errors(graph: PolicyGraph) -> Iterator[None]:
    """Turn an error of torch's exporter into a UserError with the line of the user's code."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # torch's exporters and the user's code may raise anything
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        extractors = (m for m in graph.policy.modules() if isinstance(m, BaseFeaturesExtractor))
        model = next(extractors, graph.policy)
        fixed_batch = any(_SPECIALIZED in str(one) for one in (cause, error))
        raise UserError(
            f"this policy cannot be exported: {_FIXED_BATCH if fixed_batch else _reason(cause)}",
            where=_users_line([cause, error]) or type(model).__name__,
            fix=_KEEP_BATCH if fixed_batch else _ONLY_TENSORS,
        ) from error


@contextmanager
def silenced() -> Iterator[None]:
    """Silence torch's exporters and disable the value checks of torch distributions."""
    loggers = [logging.getLogger(name) for name in _VERBOSE_LOGGERS]
    levels = [logger.level for logger in loggers]
    validates = torch.distributions.Distribution._validate_args
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):  # torch prints whole graphs there
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(validates)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _reason(error: BaseException) -> str:
    if type(error).__name__ == "GuardOnDataDependentSymNode":  # its text is about internal symbols
        return "its network's operations depend on a value, which is not possible in a graph"
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _users_line(errors: list[BaseException]) -> str:
    """Return the innermost line of the user's own code in the tracebacks, or ""."""
    for error in errors:
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            path = Path(frame.filename)
            if "site-packages" not in path.parts and not path.is_relative_to(_LUDUS) and path.is_file():
                return f"{path}, line {frame.lineno}: {frame.line}"
    return ""


def origin(policy: LoadedPolicy) -> dict[str, str]:
    """Return the origin of the policy, as metadata of the file."""
    config, checkpoint = policy.config, policy.checkpoint
    assert config is not None and checkpoint is not None and policy.run is not None
    return {
        "env": config.env.id if config.env is not None else "",
        "algorithm": config.algorithm,
        "engine": config.engine,
        "run": policy.run.path.name,
        "step": str(checkpoint.step),
        "ludus_version": ludus.__version__,
        "observation_space": str(policy.actor.observation_space),
        "action_space": str(policy.actor.action_space),
    }


def _described(tensors: dict[str, Tensor]) -> str:
    return ", ".join(
        f"{name} {str(tensor.dtype).removeprefix('torch.')}[{', '.join(['batch', *map(str, tensor.shape[1:])])}]"
        for name, tensor in tensors.items()
    )


def _uses_masks(policy: LoadedPolicy) -> tuple[bool, list[str]]:
    assert policy.config is not None
    if not isinstance(policy.actor.action_space, spaces.Discrete | spaces.MultiDiscrete):
        return False, []
    if policy.actor.uses_masks is not None:
        return policy.actor.uses_masks, []
    if policy.config.env is None:
        return False, ["the run has no env in its config, so the graph has no input for action masks"]
    env = policy.env_spec()()
    try:
        return has_masks(env), []
    finally:
        close_env(env)


@singledispatch
def graph_outputs(policy: Policy, obs: ObservationTensor, mask: Tensor | None) -> Outputs:
    """Return the network's actions and its other outputs. Register a function for your own policy class."""
    return {ACTIONS: policy.act(obs, mask, deterministic=True)}


@graph_outputs.register
def _(policy: ActorCritic, obs: ObservationTensor, mask: Tensor | None) -> Outputs:
    distribution, value = policy(obs, mask)
    return {ACTIONS: distribution.mode(), **_probabilities(distribution), "value": value}


@graph_outputs.register
def _(policy: QPolicy, obs: ObservationTensor, mask: Tensor | None) -> Outputs:
    q_values = policy.q_values(obs)
    legal = q_values if mask is None else q_values.masked_fill(~mask, -torch.inf)
    return {ACTIONS: legal.argmax(dim=-1), "q_values": q_values}


def _probabilities(distribution: Distribution) -> Outputs:
    if isinstance(distribution, Categorical):
        return {"probabilities": distribution.log_probs.exp()}
    if isinstance(distribution, MultiCategorical):
        return {"probabilities": torch.cat([part.log_probs.exp() for part in distribution.parts], dim=-1)}
    if isinstance(distribution, Bernoulli):
        return {"probabilities": torch.sigmoid(distribution.logits)}
    return {}

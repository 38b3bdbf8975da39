"""A policy as one graph of tensor operations: raw observations in, env-ready actions out.

What `Policy.predict` does in numpy around the network (normalisation, start offsets, bounds) is done here in float32
tensors, so that it travels with the weights. Runtimes on small devices and accelerators have no float64.
"""

from __future__ import annotations

import io
import logging
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

import ludus
from ludus.envs.masks import has_masks, mask_size
from ludus.errors import UserError
from ludus.evaluation.load import LoadedPolicy
from ludus.policies.actor_critic import ActorCritic
from ludus.policies.base import Policy
from ludus.policies.distributions import Bernoulli, Categorical, Distribution, MultiCategorical
from ludus.policies.extractors import ObservationTensor, zeros
from ludus.policies.observations import ObservationNormalizer, to_tensor
from ludus.policies.q_network import QPolicy
from ludus.policies.soft_actor import SACPolicy
from ludus.types import Observation

OBS = "obs"
MASK = "action_mask"
ACTIONS = "actions"
Outputs = dict[str, Tensor]

_LUDUS = Path(ludus.__file__).parent
_TALKATIVE = ("torch.onnx", "torch.export", "torch.fx.experimental.symbolic_shapes", "onnxscript", "onnx_ir")


class PolicyGraph(nn.Module):
    """`(observations, mask)` to named outputs, each with the batch first; the mask only where `masked`.

    `actions`, and of what the policy knows: `probabilities` of each action, `q_values`, the `value` of the
    observation. Observations are of the dtypes that `to_tensor` gives.
    """

    def __init__(self, policy: Policy, masked: bool) -> None:
        super().__init__()
        self.policy = policy
        self.masked = masked
        self.normalizer = _Normalizer(policy.obs_normalizer) if policy.obs_normalizer is not None else None
        self.to_env = _ToEnv(policy)

    @property
    def input_names(self) -> list[str]:
        """The keys of a Dict space, or `obs`; then `action_mask` where there is one."""
        space = self.policy.observation_space
        names = list(space.spaces) if isinstance(space, spaces.Dict) else [OBS]
        return [*names, MASK] if self.masked else names

    def forward(self, obs: ObservationTensor, mask: Tensor | None = None) -> Outputs:
        if self.normalizer is not None:
            obs = self.normalizer(obs)
        found = _outputs(self.policy, obs, mask)
        actions = self.to_env(found.pop(ACTIONS))
        taken = self.input_names  # a key of a Dict space may be called `value`
        named = {ACTIONS: actions} | found
        return {f"{name}_out" if name in taken else name: tensor for name, tensor in named.items()}

    def arguments(self, obs: Observation, mask: Any) -> tuple[Any, ...]:
        """A batch of the env's observations, and masks, as `forward` takes them."""
        tensors = to_tensor(obs, "cpu")
        if isinstance(tensors, dict):
            tensors = {key: tensors[key] for key in self.input_names if key != MASK}
        return (tensors, torch.as_tensor(mask)) if self.masked else (tensors,)

    def example(self) -> tuple[Any, ...]:
        """A batch to record the graph with: zeros, everything legal."""
        policy, rows = self.policy, 3  # torch takes sizes of 0 and 1 for constants
        mask = np.ones((rows, mask_size(policy.action_space)), dtype=bool) if self.masked else None
        return self.arguments(zeros(policy.observation_space, rows), mask)

    def described(self) -> tuple[str, str]:
        """Inputs and outputs for people: name, dtype and shape of each."""
        example = self.example()
        parts = list(example[0].values()) if isinstance(example[0], dict) else [example[0]]
        inputs = dict(zip(self.input_names, [*parts, *example[1:]], strict=True))
        with torch.no_grad():
            return _described(inputs), _described(self(*example))


class _Normalizer(nn.Module):
    """`ObservationNormalizer.normalize`. The mean is a sum of two float32, or far from 0 its digits would be lost."""

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
    """`Policy.to_env` for the policies that Ludus knows; for another one, as the space suggests."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        space = policy.action_space
        self.shape = space.shape or ()
        self.dtype = torch.from_numpy(np.zeros(1, space.dtype)).dtype
        self.rounds = isinstance(space, spaces.Box) and not self.dtype.is_floating_point
        self.stretches = isinstance(space, spaces.Box) and _acts_within_one(policy)
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and not _is_sb3(policy):
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
            if self.stretches:
                actions = low + 0.5 * (actions + 1.0) * (high - low)
            actions = torch.minimum(torch.maximum(actions, low), high)
        if self.rounds:
            actions = torch.round(actions)
        return actions.to(self.dtype)


def policy_graph(policy: LoadedPolicy) -> tuple[PolicyGraph, list[str]]:
    """The graph of a run's policy, and what of it could not be known. UserError for one that remembers."""
    if policy.predict_with_memory is not None:
        raise UserError(
            "a recurrent policy cannot be exported: its memory has no place in the file",
            where=policy.name,
            fix="train with PPO, or with frame_stack to see the past",
        )
    masked, notes = _uses_masks(policy)
    graph = PolicyGraph(policy.actor, masked)
    return graph.eval().requires_grad_(False), notes


def capture(graph: PolicyGraph, inputs: tuple[Any, ...]) -> ExportedProgram:
    """The operations of `graph` for any batch size, recorded with `inputs`; UserError when that cannot be done."""
    batch = {0: Dim("batch", min=1)}
    shapes = tuple({key: batch for key in part} if isinstance(part, dict) else batch for part in inputs)
    with blamed_on_the_model(graph), quietly(), torch.no_grad():
        return torch.export.export(graph, inputs, dynamic_shapes=shapes, strict=False)


@contextmanager
def blamed_on_the_model(graph: PolicyGraph) -> Iterator[None]:
    """What torch cannot turn into a graph becomes a UserError that names the line it stands in."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # torch's exporters raise dozens of kinds, and the user's code any
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        model = getattr(graph.policy, "features_extractor", graph.policy)
        raise UserError(
            f"this policy cannot be exported: {_reason(cause)}",
            where=_users_line([cause, error]) or type(model).__name__,
            fix="write forward with tensor operations alone: no if or loop over values, .item() or numpy; "
            "torch.where chooses",
        ) from error


@contextmanager
def quietly() -> Iterator[None]:
    """Without the advice of torch's exporters, and without the checks that distributions of torch make on values."""
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
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
    if type(error).__name__ == "GuardOnDataDependentSymNode":  # its text is about symbols that nobody wrote
        return "what its network does depends on a value, which a graph cannot follow"
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _users_line(errors: list[BaseException]) -> str:
    """The innermost line of the user's own code that was running; "" when there is none."""
    for error in errors:
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            path = Path(frame.filename)
            if "site-packages" not in path.parts and not path.is_relative_to(_LUDUS) and path.is_file():
                return f"{path}, line {frame.lineno}: {frame.line}"
    return ""


def origin(policy: LoadedPolicy) -> dict[str, str]:
    """Where the policy comes from, to be kept in the file."""
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
    if policy.config.engine == "sb3":
        return policy.config.algorithm == "MaskablePPO", []
    if policy.config.env is None:
        return False, ["the run does not name its env, so that there is no input for action masks"]
    env = policy.env_spec()()
    try:
        return has_masks(env), []
    finally:
        env.close()


def _is_sb3(policy: Policy) -> bool:
    return type(policy).__module__.startswith("ludus.sb3.")


def _acts_within_one(policy: Any) -> bool:
    """Whether the network's actions are in [-1, 1], to be stretched to the bounds."""
    return isinstance(policy, SACPolicy) or (_is_sb3(policy) and bool(policy.net.squash_output))


def _outputs(policy: Any, obs: ObservationTensor, mask: Tensor | None) -> Outputs:
    """The network's actions, with whatever else it says about `obs`."""
    if isinstance(policy, ActorCritic):
        distribution, value = policy(obs, mask)
        return {ACTIONS: distribution.mode(), **_probabilities(distribution), "value": value}
    if isinstance(policy, QPolicy):
        q_values = policy.q_values(obs)
        legal = q_values if mask is None else q_values.masked_fill(~mask, -torch.inf)
        return {ACTIONS: legal.argmax(dim=-1), "q_values": q_values}
    if _is_sb3(policy):
        return _sb3_outputs(policy, obs, mask)
    return {ACTIONS: policy.act(obs, mask, deterministic=True)}


def _probabilities(distribution: Distribution) -> Outputs:
    if isinstance(distribution, Categorical):
        return {"probabilities": distribution.log_probs.exp()}
    if isinstance(distribution, MultiCategorical):
        return {"probabilities": torch.cat([part.log_probs.exp() for part in distribution.parts], dim=-1)}
    if isinstance(distribution, Bernoulli):
        return {"probabilities": torch.sigmoid(distribution.logits)}
    return {}


def _sb3_outputs(policy: Any, obs: ObservationTensor, mask: Tensor | None) -> Outputs:
    obs = policy.channels_first(obs)
    net = policy.net
    if hasattr(net, "predict_values"):
        masks = {} if mask is None else {"action_masks": mask}
        distribution = net.get_distribution(obs, **masks)
        value = net.predict_values(obs).squeeze(-1)
        actions = distribution.get_actions(deterministic=True)
        return {ACTIONS: actions, **_sb3_probabilities(distribution), "value": value}
    if hasattr(net, "q_net"):
        q_values = net.q_net(obs)
        return {ACTIONS: q_values.argmax(dim=1), "q_values": q_values}
    return {ACTIONS: net._predict(obs, deterministic=True)}


def _sb3_probabilities(distribution: Any) -> Outputs:
    inner = getattr(distribution, "distribution", None)
    parts = inner if isinstance(inner, list) else getattr(distribution, "distributions", None) or [inner]
    if not all(hasattr(part, "probs") for part in parts):
        return {}
    return {"probabilities": torch.cat([part.probs for part in parts], dim=-1)}

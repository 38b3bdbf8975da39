"""Learners on a workbench: small networks, made-up experience, and textbook forward passes to hold them to."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from ludus.algorithms.learner import Learner, LearnerContext
from ludus.config.registry import find_algorithm
from ludus.config.schema import PolicyConfig
from ludus.policies.observations import RewardNormalizer
from ludus.rollout.experience import Rollout, Transitions
from ludus.runs.streams import Streams

OBS = spaces.Box(-5.0, 5.0, (3,), np.float32)


def learner(
    algorithm: str,
    observation_space: spaces.Space[Any] = OBS,
    action_space: spaces.Space[Any] | None = None,
    *,
    seed: int = 0,
    weights: int = 0,
    policy: dict[str, Any] | None = None,
    normalize_obs: bool = False,
    reward_normalizer: RewardNormalizer | None = None,
    kernels: bool = False,
    threads: int = 1,
    **hyperparams: Any,
) -> Any:
    """A learner with networks of one hidden layer of 4, drawn from the seed `weights`."""

    if action_space is None:
        action_space = spaces.Box(-1.0, 1.0, (2,), np.float32) if algorithm == "SAC" else spaces.Discrete(3)
    entry = find_algorithm(algorithm)
    assert entry.hyperparameters is not None and entry.learner is not None
    h = entry.hyperparameters(**({"policy_net_arch": (4,), "value_net_arch": (4,)} | hyperparams))
    torch.manual_seed(weights)
    place = LearnerContext(
        observation_space=observation_space,
        action_space=action_space,
        n_envs=2,
        hyperparams=h,
        policy=PolicyConfig(**(policy or {})),
        normalize_obs=normalize_obs,
        device=torch.device("cpu"),
        streams=Streams(seed),
        reward_normalizer=reward_normalizer,
        kernels=kernels,
        threads=threads,
    )
    made = entry.learner(place, h)
    assert isinstance(made, Learner)
    return made


def observations(space: spaces.Space[Any], shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Random observations of `space` with leading axes `shape`, as a vector env batches them."""
    if isinstance(space, spaces.Dict):
        return {key: observations(part, shape, rng) for key, part in space.items()}
    if isinstance(space, spaces.Discrete):
        return int(space.start) + rng.integers(0, int(space.n), shape)
    assert space.shape is not None
    if isinstance(space, spaces.MultiDiscrete):
        return space.start + rng.integers(0, space.nvec, (*shape, *space.shape))
    if isinstance(space, spaces.MultiBinary):
        return rng.integers(0, 2, (*shape, *space.shape), dtype=np.int8)
    if space.dtype == np.uint8:
        return rng.integers(0, 256, (*shape, *space.shape), dtype=np.uint8)
    if np.issubdtype(space.dtype, np.integer):
        assert isinstance(space, spaces.Box)
        return rng.integers(space.low, space.high + 1, (*shape, *space.shape))
    return rng.normal(size=(*shape, *space.shape)).astype(np.float32)


def network_actions(space: spaces.Space[Any], shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Random actions of `space` in the network's own terms."""
    if isinstance(space, spaces.Discrete):
        return rng.integers(0, int(space.n), shape)
    if isinstance(space, spaces.MultiDiscrete):
        return np.stack([rng.integers(0, n, shape) for n in space.nvec], axis=-1)
    assert space.shape is not None
    if isinstance(space, spaces.MultiBinary):
        return rng.integers(0, 2, (*shape, *space.shape)).astype(np.float32)
    return rng.uniform(-0.9, 0.9, (*shape, *space.shape)).astype(np.float32)


def rollout(
    made: Any, seed: int = 0, steps: int = 8, envs: int = 2, drift: float = 0.0, **fields: Any
) -> Rollout:
    """A made-up rollout: random observations and actions, and the learner's own values and log-probabilities.

    `drift` is the deviation of the noise put on those log-probabilities: ratios other than 1.
    """
    rng = np.random.default_rng(seed)
    shape = (steps, envs)
    policy = made.policy
    obs = observations(policy.observation_space, shape, rng)
    actions = network_actions(policy.action_space, shape, rng)

    def flat(array: Any) -> torch.Tensor:
        return torch.as_tensor(array.reshape(steps * envs, *array.shape[2:]))

    masks = fields.get("masks")
    with torch.no_grad():
        log_probs, _, values = policy.evaluate(
            {k: flat(v) for k, v in obs.items()} if isinstance(obs, dict) else flat(obs),
            flat(actions),
            None if masks is None else flat(masks),
        )
    terminated = rng.random(shape) < 0.15
    noise = drift * rng.normal(size=shape)
    return Rollout(
        **{
            "steps": steps * envs,
            "episodes": [],
            "obs": obs,
            "actions": actions,
            "log_probs": (log_probs.numpy().reshape(shape) + noise).astype(np.float32),
            "values": values.numpy().reshape(shape),
            "next_values": rng.normal(size=shape).astype(np.float32),
            "rewards": rng.normal(size=shape).astype(np.float32),
            "terminated": terminated,
            "ends": terminated | (rng.random(shape) < 0.15),
            "valid": np.ones(shape, dtype=bool),
            "masks": None,
            **fields,
        }
    )


def transitions(made: Any, seed: int = 0, count: int = 16, **fields: Any) -> Transitions:
    """Made-up transitions in the spaces of the learner's policy."""
    rng = np.random.default_rng(seed)
    policy = made.policy
    return Transitions(
        **{
            "steps": count,
            "episodes": [],
            "obs": observations(policy.observation_space, (count,), rng),
            "actions": network_actions(policy.action_space, (count,), rng),
            "rewards": rng.normal(size=count),
            "next_obs": observations(policy.observation_space, (count,), rng),
            "terminated": rng.random(count) < 0.3,
            "masks": None,
            "next_masks": None,
            **fields,
        }
    )


def parameters(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Copies of the parameters, ready to be differentiated."""
    return {name: p.detach().clone().requires_grad_() for name, p in module.named_parameters()}


def gradients(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


def differentiate(loss: torch.Tensor, by: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    found = torch.autograd.grad(loss, list(by.values()), allow_unused=True)
    return {name: g for name, g in zip(by, found, strict=True) if g is not None}


def assert_all_close(
    actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], **kwargs: Any
) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, msg=lambda m, n=name: f"{n}: {m}", **kwargs)


def weights_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def same_bytes(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)

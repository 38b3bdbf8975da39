"""The papers' formulas, written out once more without any of the learners' code."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution, Independent, Normal

Weights = dict[str, Tensor]


def layers(w: Weights, name: str, x: Tensor, activation: Any) -> Tensor:
    """All linear layers of the Sequential `name`, each followed by the activation."""
    number = 0
    while f"{name}.{number}.weight" in w:
        x = activation(x @ w[f"{name}.{number}.weight"].T + w[f"{name}.{number}.bias"])
        number += 2
    return x


def actor_critic(w: Weights, obs: Tensor) -> tuple[Tensor, Tensor]:
    """The action head's outputs and the values, of the tanh networks of PPO and A2C."""
    latent = layers(w, "policy_net", obs, torch.tanh)
    outputs = latent @ w["action_head.linear.weight"].T + w["action_head.linear.bias"]
    values = layers(w, "value_net", obs, torch.tanh) @ w["value_head.weight"].T + w["value_head.bias"]
    return outputs, values[:, 0]


def distribution(kind: str, w: Weights, outputs: Tensor, masks: Tensor | None = None) -> Distribution:
    if kind == "discrete":
        legal = outputs if masks is None else outputs.masked_fill(~masks, -1e9)
        return Categorical(logits=legal)
    if kind == "binary":
        return Independent(Bernoulli(logits=outputs), 1)
    return Independent(Normal(outputs, w["action_head.log_std"].exp().expand_as(outputs)), 1)


def advantages(r: Any, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """Advantages and returns of a rollout's valid steps, flat, summed out by the definition."""
    steps, envs = r.rewards.shape
    found = np.zeros((steps, envs))
    for n in range(envs):
        for t in range(steps):
            weight = 1.0
            for s in range(t, steps):
                successor = 0.0 if r.terminated[s, n] else r.next_values[s, n]
                found[t, n] += weight * (r.rewards[s, n] + gamma * successor - r.values[s, n])
                weight *= gamma * lam
                if r.ends[s, n]:
                    break
    keep = r.valid.reshape(-1)
    flat = found.reshape(-1)[keep]
    returns = flat + r.values.reshape(-1)[keep]
    return torch.as_tensor(flat, dtype=torch.float32), torch.as_tensor(returns, dtype=torch.float32)


def first_adam_step(w: Weights, g: Weights, lr: float, eps: float = 1e-8) -> Weights:
    """Adam's first step: both moments corrected, it goes by the gradient over its own size."""
    return {name: w[name].detach() - lr * g[name] / (g[name].abs() + eps) for name in g}


def q_values(w: Weights, prefix: str, inputs: Tensor) -> Tensor:
    """A ReLU network whose last layer is linear."""
    number = 0
    while f"{prefix}.{number + 2}.weight" in w:
        inputs = torch.relu(inputs @ w[f"{prefix}.{number}.weight"].T + w[f"{prefix}.{number}.bias"])
        number += 2
    return inputs @ w[f"{prefix}.{number}.weight"].T + w[f"{prefix}.{number}.bias"]

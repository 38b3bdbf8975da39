"""The losses of language learners, token by token, as functions of log-probabilities and advantages alone.

Every function takes flat tensors with one entry for each sampled token and returns the same. `share_of_tokens`
returns the weight of each token, so the sum does not depend on how a batch is split into passes.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

LengthNorm = Literal["constant", "tokens"]
_FARTHEST = 20.0  # limit of log-ratios: beyond it the exponential could overflow


def share_of_tokens(lengths: Tensor, n_turns: int, norm: LengthNorm, longest: int) -> Tensor:
    """Return the weight of each token of a turn in a batch of `n_turns`; one entry for each turn.

    `constant` divides every turn by the longest completion there can be, so that a token counts the same in a
    long turn and in a short one (Dr. GRPO, Liu et al., 2025); `tokens` divides by the turn's own length, so that
    each turn counts the same (GRPO, Shao et al., 2024).
    """
    if norm == "constant":
        return torch.full_like(lengths, 1.0 / (n_turns * longest), dtype=torch.float32)
    return 1.0 / (n_turns * lengths.clamp(min=1).to(torch.float32))


def importance_weights(log_probs: Tensor, behaviour: Tensor, cap: float) -> Tensor:
    """Return min(policy / behaviour, cap), the truncated importance ratio of each token. No gradient."""
    return (log_probs.detach() - behaviour).clamp(min=-_FARTHEST, max=math.log(cap)).exp()


def policy_gradient_loss(log_probs: Tensor, weights: Tensor, advantages: Tensor) -> Tensor:
    """Return the loss of REINFORCE, with truncated importance weights."""
    return -weights * advantages * log_probs


def clipped_loss(
    log_probs: Tensor, proximal: Tensor, weights: Tensor, advantages: Tensor, low: float, high: float
) -> tuple[Tensor, Tensor]:
    """PPO's loss around the policy that began the update, and where it was clipped.

    `weights` correct for the policy that sampled the tokens; clipping only limits the step from `proximal` (Hilton et
    al., 2022). So stale turns are still used, and their step is no larger than that of other turns.
    """
    ratio = (log_probs - proximal).clamp(min=-_FARTHEST, max=_FARTHEST).exp()
    near = ratio.clamp(1 - low, 1 + high)
    free, held = advantages * ratio, advantages * near
    return -weights * torch.min(free, held), (held < free).detach()


def kl_estimate(log_probs: Tensor, other: Tensor) -> Tensor:
    """KL(policy, other) from tokens of the policy: unbiased and never negative (http://joschu.net/blog/kl-approx.html)."""
    gap = (other - log_probs).clamp(min=-_FARTHEST, max=_FARTHEST)
    return torch.expm1(gap) - gap

"""Default hyperparameters as functions of the budget and the env. A hyperparameter that the user sets is not changed.

Samples per update of PPO are `n_steps` * `n_envs`. "Falling" is linear to 0 at the end of the run.

    algorithm  hyperparameter      default                                          reason
    PPO        samples per update  2,048 * sqrt(steps / 100,000), at most           a longer run affords less noisy
                                   steps / 40 and 16,384 (images: 2,048);           gradients; with fewer than 40
                                   rounded down to a power of two                   updates little is learnt
    PPO        n_steps             samples / n_envs; 16 or more while 40            advantages need a few steps of
                                   updates remain                                   each env
    PPO        batch_size          samples / 32, from 32 to 512 (images: 256);      32 gradient steps per epoch
                                   the nearest divisor of the samples               at every size
    PPO        n_epochs            10 (images: 4)                                   gradient steps on images are costly
    PPO        learning_rate       1e-3 falling, from 200,000 steps on              a short run needs large steps first,
                                   proportional to 1 / sqrt(steps), at least        and no noise at its end
                                   3e-4 (images: 2.5e-4 falling)
    PPO, A2C   ent_coef            0.01; Box actions: 0                             a bonus makes Gaussians only noisier
    PPO, A2C   *_net_arch          64, 64 for up to 64 numbers, else 256, 256       small networks learn faster
    A2C        learning_rate       7e-4 falling                                     as for PPO
    DQN        gradient_steps      one per env step up to 100,000 steps, then       a short run must use each sample
                                   100,000 / steps of that, at least 1/4            more often
    DQN        learning_rate       6e-4 falling, from 100,000 steps on              as for PPO; 1e-4 is the value of
                                   proportional to 1 / sqrt(steps), at least 1e-4   long runs on images
    DQN        *_net_arch          128, 128 for up to 64 numbers, else 256, 256     as for PPO
    DQN        batch_size          128 (images: 32)                                 small networks cost no more with it
    DQN        learning_starts     steps / 100, from 100 to 10,000                  random steps stay a small part
    DQN        target_update_…     steps / 400, from 100 to 10,000                  400 target updates in every run
    DQN        exploration_fr…     0.2; above 1,000,000 steps 0.1                   sparse rewards must be found first
    SAC        learning_rate       3e-4; below 200,000 steps proportional to        as for PPO
                                   1 / sqrt(steps), at most 1e-3
    SAC        learning_starts     as for DQN

Observations (float Boxes) are normalised for every algorithm, rewards for PPO and A2C: `normalize_obs`,
`normalize_reward`. The rules use 1,000,000 steps for a budget that is not a number of env steps ("30 min").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MIN_UPDATES = 40
"""The defaults leave at least this number of updates."""
FEW_UPDATES = 20
"""A run with fewer updates gets a warning."""
UNKNOWN_BUDGET = 1_000_000
_SMALL_OBSERVATION = 64


@dataclass(frozen=True)
class TrainingTask:
    """What the defaults depend on.

    `inputs` are the numbers in an observation (a Discrete is one), None before the env is known.
    """

    total_steps: int
    n_envs: int
    inputs: int | None = None
    images: bool = False
    continuous: bool = False


def ppo_defaults(task: TrainingTask, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return PPO's defaults for `task`. `given` are the hyperparameters that the user has set."""
    steps = task.total_steps
    most = 2_048 if task.images else 16_384
    samples = _power_of_two(min(2_048 * math.sqrt(steps / 100_000), steps / MIN_UPDATES, most))
    batch_size = given.get("batch_size")
    n_steps = given.get("n_steps", _rollout_length(samples, task, batch_size))
    if batch_size is None:
        wanted = 256 if task.images else min(512, max(32, samples // 32))
        batch_size = _nearest_divisor(n_steps * task.n_envs, wanted)
    rate = _by_sqrt(1e-3, steps, 200_000, low=3e-4, high=1e-3)
    return {
        "n_steps": n_steps,
        "batch_size": batch_size,
        "n_epochs": 4 if task.images else 10,
        "learning_rate": _falling(2.5e-4 if task.images else rate),
        **_actor_critic(task),
    }


def a2c_defaults(task: TrainingTask, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return A2C's defaults for `task`."""
    return {"learning_rate": _falling(7e-4), **_actor_critic(task)}


def dqn_defaults(task: TrainingTask, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return DQN's defaults for `task`. `given` are the hyperparameters that the user has set."""
    steps = task.total_steps
    learning_per_step = min(1.0, max(0.25, 100_000 / steps))
    train_freq = given.get("train_freq", 4)
    return {
        "train_freq": train_freq,
        "gradient_steps": max(1, round(learning_per_step * train_freq * task.n_envs)),
        "learning_rate": _falling(_by_sqrt(6e-4, steps, 100_000, low=1e-4, high=6e-4)),
        "batch_size": 32 if task.images else 128,
        "learning_starts": _share(steps, 100),
        "target_update_interval": _share(steps, 400),
        "exploration_fraction": 0.2 if steps <= 1_000_000 else 0.1,
        **_layers(task, small=128),
    }


def sac_defaults(task: TrainingTask, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return SAC's defaults for `task`."""
    rate = _by_sqrt(3e-4, task.total_steps, 200_000, low=3e-4, high=1e-3)
    return {"learning_rate": rate, "learning_starts": _share(task.total_steps, 100)}


def _actor_critic(task: TrainingTask) -> dict[str, Any]:
    return {"ent_coef": 0.0 if task.continuous else 0.01, **_layers(task, small=64)}


def _layers(task: TrainingTask, small: int) -> dict[str, Any]:
    """Return two hidden layers of `small` width for small observations, else of 256."""
    is_small = not task.images and (task.inputs is None or task.inputs <= _SMALL_OBSERVATION)
    layers = (small, small) if is_small else (256, 256)
    return {"policy_net_arch": layers, "value_net_arch": layers}


def _rollout_length(samples: int, task: TrainingTask, batch_size: int | None) -> int:
    """Return steps per env for about `samples` per update, in whole minibatches where `batch_size` is set."""
    fewest = 2 if task.n_envs == 1 else 1  # a minibatch has two samples or more
    shortest = min(16, max(fewest, _power_of_two(task.total_steps / (MIN_UPDATES * task.n_envs))))
    length = max(shortest, _power_of_two(samples / task.n_envs))
    if batch_size is None:
        return length
    unit = batch_size // math.gcd(batch_size, task.n_envs)
    return max(unit, length // unit * unit)


def _nearest_divisor(number: int, wanted: int) -> int:
    """Return the divisor of `number` nearest to `wanted` by ratio, 2 or more; a batch of 1 has no spread."""
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    divisors = [divisor for low in small for divisor in (low, number // low) if divisor > 1]
    return min(divisors, key=lambda divisor: abs(math.log(divisor / wanted)), default=2)


def _power_of_two(number: float) -> int:
    """Return the largest power of two up to `number`, 1 or more."""
    return 1 << max(0, int(number).bit_length() - 1)


def _by_sqrt(value: float, steps: int, at: int, *, low: float, high: float) -> float:
    """Return `value` at `at` steps, and proportional to 1 / sqrt(steps) otherwise, between `low` and `high`."""
    return float(f"{min(high, max(low, value * math.sqrt(at / steps))):.2g}")


def _share(steps: int, parts: int) -> int:
    """Return steps / parts from 100 to 10,000; a quarter of a run that is too short for that."""
    return min(10_000, max(min(100, steps // 4), steps // parts, 1))


def _falling(start: float) -> dict[str, list[float]]:
    return {"linear": [start, 0.0]}

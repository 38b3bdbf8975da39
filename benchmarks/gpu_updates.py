"""PPO updates on a GPU, captured as CUDA graphs and eager: samples per second of the real learner.

    python benchmarks/gpu_updates.py [--device cuda] [--json]

Each row is `learner.update` on a ready rollout, credit, transfers and shuffling included; the best of five. Captured
is what a run does by itself on a GPU (CUDA graphs, tf32, bfloat16 for images); eager is plain torch in float32.
`--minibatch` times the captured gradient step alone.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from ludus.algorithms.learner import Learner, LearnerContext
from ludus.config.registry import find_algorithm
from ludus.config.schema import PolicyConfig
from ludus.rollout.experience import Rollout
from ludus.runs.streams import Streams

MLP = spaces.Box(-np.inf, np.inf, (24,), np.float32)
PIXELS = spaces.Box(0, 255, (4, 84, 84), np.uint8)
CASES: list[tuple[str, spaces.Box, spaces.Space[Any], int, int, int]] = [
    # name, observations, actions, envs, n_steps, batch
    ("mlp 24, Box 4, batch 16384", MLP, spaces.Box(-1.0, 1.0, (4,), np.float32), 4096, 32, 16_384),
    ("mlp 24, Discrete 4, batch 16384", MLP, spaces.Discrete(4), 4096, 32, 16_384),
    ("mlp 24, Box 4, batch 64", MLP, spaces.Box(-1.0, 1.0, (4,), np.float32), 8, 256, 64),
    ("Nature CNN, batch 256", PIXELS, spaces.Discrete(6), 8, 128, 256),
    ("Nature CNN, batch 1024", PIXELS, spaces.Discrete(6), 64, 128, 1024),
    ("Nature CNN, batch 4096", PIXELS, spaces.Discrete(6), 128, 128, 4096),
]


def make(
    observation: spaces.Box,
    action: spaces.Space[Any],
    envs: int,
    steps: int,
    batch: int,
    device: str,
    captured: bool,
) -> Learner[Any, Any]:
    entry = find_algorithm("PPO")
    assert entry.hyperparameters is not None and entry.learner is not None
    h = entry.hyperparameters(
        n_steps=steps, batch_size=batch, n_epochs=4, policy_net_arch=(64, 64), value_net_arch=(64, 64)
    )
    place = LearnerContext(
        observation_space=observation,
        action_space=action,
        n_envs=envs,
        hyperparams=h,
        policy=PolicyConfig(),
        normalize_obs=False,
        device=torch.device(device),
        streams=Streams(0),
        reward_normalizer=None,
        kernels=captured,
        half_features=captured and device == "cuda" and observation.dtype == np.uint8,
    )
    made: Learner[Any, Any] = entry.learner(place, h)  # type: ignore[assignment]
    return made


def rollout(observation: spaces.Box, action: spaces.Space[Any], envs: int, steps: int) -> Rollout:
    rng = np.random.default_rng(0)
    shape = (steps, envs)
    if observation.dtype == np.uint8:
        obs: Any = rng.integers(0, 256, (*shape, *observation.shape), dtype=np.uint8)
    else:
        obs = rng.standard_normal((*shape, *observation.shape), dtype=np.float32)
    if isinstance(action, spaces.Discrete):
        actions: Any = rng.integers(0, int(action.n), shape)
    else:
        actions = rng.standard_normal((*shape, *(action.shape or ())), dtype=np.float32)
    numbers = {
        name: rng.standard_normal(shape).astype(np.float32) for name in ("values", "next_values", "rewards")
    }
    if torch.cuda.is_available():  # as the collector allocates it
        obs = torch.from_numpy(obs).pin_memory().numpy()
    return Rollout(
        steps=steps * envs,
        episodes=[],
        obs=obs,
        actions=actions,
        log_probs=np.full(shape, -1.5, dtype=np.float32),
        terminated=rng.random(shape) < 0.01,
        ends=rng.random(shape) < 0.01,
        valid=np.ones(shape, dtype=bool),
        masks=None,
        **numbers,
    )


def seconds(learner: Learner[Any, Any], experience: Rollout, device: str) -> float:
    """Of one update, the best of five after two to warm up."""
    best = float("inf")
    for number in range(7):
        started = time.perf_counter()
        learner.update(experience, 0.1)
        if device == "cuda":
            torch.cuda.synchronize()
        if number >= 2:
            best = min(best, time.perf_counter() - started)
    return best


def step_seconds(learner: Any) -> float:
    """Of one captured minibatch, over a hundred."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(100):
        learner.backend.graph()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / 100


def check(device: str) -> None:
    """Print how far a captured update of one minibatch ends from the eager one, in float32: nothing but rounding."""
    torch.set_float32_matmul_precision("highest")
    for name, observation, action, _, _, _ in (CASES[0], CASES[1], CASES[3]):
        ends = []
        for captured in (True, False):
            torch.manual_seed(0)
            learner = make(observation, action, 8, 32, 256, device, captured)
            learner.policy.half_features = False
            metrics = learner.update(rollout(observation, action, 8, 32), 0.1)
            ends.append(
                (torch.cat([p.detach().flatten().cpu() for p in learner.policy.parameters()]), metrics)
            )
        apart = (ends[0][0] - ends[1][0]).abs().max().item()
        losses = ends[0][1]["train/loss"], ends[1][1]["train/loss"]
        print(
            f"{name:32} parameters at most {apart:.1e} apart, losses {losses[0]:.6f} {losses[1]:.6f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", default="", help="part of a case's name")
    parser.add_argument("--minibatch", action="store_true")
    parser.add_argument("--check", action="store_true", help="compare the results instead of the speeds")
    arguments = parser.parse_args()
    if arguments.check:
        check(arguments.device)
        return
    rows = []
    for name, observation, action, envs, steps, batch in CASES:
        if arguments.only not in name:
            continue
        experience = rollout(observation, action, envs, steps)
        samples = 4 * steps * envs
        speeds = []
        for captured in (True, False):
            torch.set_float32_matmul_precision("high" if captured else "highest")
            learner = make(observation, action, envs, steps, batch, arguments.device, captured)
            if arguments.minibatch and captured:
                learner.update(experience, 0.1)
                each = step_seconds(learner)
                print(
                    f"{name:32} {each * 1e6:,.0f} us a minibatch, {batch / each:,.0f} samples/s", flush=True
                )
            speeds.append(samples / seconds(learner, experience, arguments.device))
        rows.append({"case": name, "captured": speeds[0], "eager": speeds[1], "ratio": speeds[0] / speeds[1]})
        if not arguments.json:
            both = f"captured {speeds[0]:>13,.0f}  eager {speeds[1]:>12,.0f} samples/s"
            print(f"{name:32} {both}  {rows[-1]['ratio']:5.1f}x", flush=True)
    if arguments.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()

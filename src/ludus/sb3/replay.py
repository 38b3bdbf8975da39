"""SB3's replay buffers as tensors (filled rows only), and their open episodes ended at a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from stable_baselines3.common.buffers import ReplayBuffer

from ludus.types import Array

_ARRAYS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def replay_tensors(buffer: ReplayBuffer) -> dict[str, torch.Tensor]:
    """The filled rows of every array, and the position of the next write."""
    rows = _rows(buffer)
    stored = {name: torch.from_numpy(array[:rows]) for name, array in _arrays(buffer)}
    return {**stored, "position": torch.tensor(buffer.pos), "full": torch.tensor(buffer.full)}


def load_replay(buffer: ReplayBuffer, tensors: dict[str, torch.Tensor]) -> None:
    """Restore the tensors of `replay_tensors` into a buffer of the same size."""
    buffer.pos, buffer.full = int(tensors["position"]), bool(tensors["full"])
    for name, array in _arrays(buffer):
        array[: _rows(buffer)] = tensors[name].numpy()


def end_open_episodes(buffer: ReplayBuffer) -> None:
    """Mark the newest transition of every env as the last of its episode, cut by time where it was not over.

    What is stored next belongs to other episodes; n-step returns and shared observations must not reach across.
    """
    if buffer.size() == 0:
        return
    last = (buffer.pos - 1) % buffer.buffer_size
    if buffer.handle_timeout_termination:
        buffer.timeouts[last] = np.maximum(buffer.timeouts[last], 1.0 - buffer.dones[last])
    buffer.dones[last] = 1.0


def _rows(buffer: ReplayBuffer) -> int:
    # a memory-saving buffer keeps the successor of its newest transition in the next row
    beyond = 1 if buffer.optimize_memory_usage else 0
    return int(min(buffer.size() + beyond, buffer.buffer_size))


def _arrays(buffer: ReplayBuffer) -> Iterator[tuple[str, Array]]:
    for name in _ARRAYS:
        value = getattr(buffer, name, None)
        if isinstance(value, dict):
            yield from ((f"{name}/{key}", array) for key, array in value.items())
        elif value is not None:
            yield name, value

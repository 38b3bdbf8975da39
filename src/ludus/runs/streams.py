"""All randomness of a run: named streams, each seeded from the run's seed and its own name.

Streams are independent, so drawing more from one never shifts another, and they are saved with the run, so a
resumed run draws what the uninterrupted one would have drawn.
"""

from __future__ import annotations

import hashlib
import json
import operator
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ludus.errors import CheckpointError


class Streams:
    """The random streams of one run, created on first use.

    >>> streams = Streams(42)
    >>> streams.numpy("minibatches").permutation(2048)
    >>> env.reset(seed=streams.derive("env", checkpoint_number, env_index))
    """

    def __init__(self, seed: int) -> None:
        if seed < 0:
            raise ValueError(f"invalid seed {seed}: expected zero or more")
        self.seed = seed
        self._numpy: dict[str, np.random.Generator] = {}
        self._torch: dict[str, torch.Generator] = {}
        # Restored states of streams that are not in use yet.
        self._waiting_numpy: dict[str, Any] = {}
        self._waiting_torch: dict[str, Tensor] = {}

    def numpy(self, name: str) -> np.random.Generator:
        """The numpy stream `name`; always the same object."""
        if name not in self._numpy:
            self._numpy[name] = np.random.Generator(self._fresh_bits(name))
            if name in self._waiting_numpy:
                self._numpy[name].bit_generator.state = self._waiting_numpy.pop(name)
        return self._numpy[name]

    def torch(self, name: str, device: str | torch.device = "cpu") -> torch.Generator:
        """The torch stream `name` on `device`; always the same object for the same name and device."""
        key = f"{torch.device(device)}/{name}"
        if key not in self._torch:
            self._torch[key] = torch.Generator(device).manual_seed(self._torch_seed(key))
            if key in self._waiting_torch:
                self._torch[key].set_state(self._waiting_torch.pop(key))
        return self._torch[key]

    def derive(self, *parts: int | str) -> int:
        """A seed in [0, 2**31) that depends on the run's seed and `parts` only, the same on every machine."""
        return int.from_bytes(self._digest(*parts)[:4], "big") >> 1

    def seed_globals(self) -> None:
        """Seed the global generators of random, numpy and torch, for libraries that use them."""
        random.seed(self.derive("global", "python"))
        np.random.seed(self.derive("global", "numpy"))
        torch.manual_seed(self.derive("global", "torch"))

    def state_dict(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The state of every stream and global generator: a part for JSON and a part for safetensors."""
        version, words, gauss = random.getstate()
        legacy: Any = np.random.get_state(legacy=False)
        plain, tensors = self.named_state_dict()
        plain |= {
            "global_python": [version, list(words), gauss],
            "global_numpy": {**legacy, "state": {**legacy["state"], "key": legacy["state"]["key"].tolist()}},
        }
        tensors["global/cpu"] = torch.get_rng_state()
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            for index, state in enumerate(torch.cuda.get_rng_state_all()):
                tensors[f"global/cuda:{index}"] = state
        return plain, tensors

    def named_state_dict(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The same without the global generators."""
        plain = {
            "seed": self.seed,
            "numpy": self._waiting_numpy | {name: g.bit_generator.state for name, g in self._numpy.items()},
        }
        tensors = {f"stream/{key}": state for key, state in self._waiting_torch.items()}
        tensors |= {f"stream/{key}": generator.get_state() for key, generator in self._torch.items()}
        return plain, tensors

    def load_state_dict(self, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Restore every stream, created or not, to its state when `state_dict` was called.

        A stream that did not exist then starts from its seed. Raises CheckpointError if the run's seed differs.
        """
        self.load_named_state_dict(plain, tensors)
        version, words, gauss = plain["global_python"]
        random.setstate((version, tuple(words), gauss))
        legacy = plain["global_numpy"]
        key_words = np.asarray(legacy["state"]["key"], dtype=np.uint32)
        np.random.set_state({**legacy, "state": {**legacy["state"], "key": key_words}})
        torch.set_rng_state(tensors["global/cpu"])
        for index in range(torch.cuda.device_count()):
            if f"global/cuda:{index}" in tensors:
                torch.cuda.set_rng_state(tensors[f"global/cuda:{index}"], index)

    def load_named_state_dict(self, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """The same without the global generators."""
        if plain["seed"] != self.seed:
            raise CheckpointError(
                f"the checkpoint was written with seed {plain['seed']}, this run has seed {self.seed}",
                fix="resume with the seed of the run",
            )
        self._waiting_numpy = dict(plain["numpy"])
        self._waiting_torch = {
            key.removeprefix("stream/"): state for key, state in tensors.items() if key.startswith("stream/")
        }
        for name, numpy_stream in self._numpy.items():
            fresh = self._fresh_bits(name).state
            numpy_stream.bit_generator.state = self._waiting_numpy.pop(name, fresh)
        for key, torch_stream in self._torch.items():
            if key in self._waiting_torch:
                torch_stream.set_state(self._waiting_torch.pop(key))
            else:
                torch_stream.manual_seed(self._torch_seed(key))

    def _fresh_bits(self, name: str) -> np.random.PCG64:
        words = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "big")
        return np.random.PCG64(np.random.SeedSequence([self.seed, words]))

    def _torch_seed(self, key: str) -> int:
        return int.from_bytes(self._digest("torch", key)[:8], "big") >> 1

    def _digest(self, *parts: int | str) -> bytes:
        # JSON keeps ("a", "b") and ("ab",), and 1 and "1", apart.
        plain = [part if isinstance(part, str) else operator.index(part) for part in (self.seed, *parts)]
        return hashlib.sha256(json.dumps(plain).encode()).digest()

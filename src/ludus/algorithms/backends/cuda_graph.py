"""CUDA graphs: what a learner does over and over, recorded once and replayed without launching its parts.

A small network leaves a GPU idle while the host launches one kernel after the other. A recorded function works on
fixed memory: whoever calls it first copies its inputs into tensors that the function holds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ludus.policies.observations import to_tensor
from ludus.types import Array, BoolArray, Observation

_log = logging.getLogger("ludus.algorithms")
LARGE = 1 << 20
WARM_UPS = 3  # as torch advises: libraries choose their kernels and take their memory in the first calls


class Captured:
    """`function()` as a graph, recorded at the first call; run as it is where that fails, or on a CPU.

    `changes` gives every tensor that the function writes to and that outlives a call: recording leaves them, and
    `generators`, as they were. Tensors that come into being meanwhile, as an optimizer's moments, become zero.
    """

    def __init__(
        self,
        function: Callable[[], Any],
        device: torch.device,
        changes: Callable[[], Iterable[Tensor]] = tuple,
        generators: Iterable[torch.Generator] = (),
    ) -> None:
        self._function = function
        self._device = device
        self._changes = changes
        self._generators = tuple(generators)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._outputs: Any = None
        self._plain = device.type != "cuda"

    def __call__(self) -> Any:
        """The function's outputs; the next call overwrites them."""
        if self._graph is None and not self._plain:
            self._capture()
        if self._graph is None:
            return self._function()
        self._graph.replay()
        return self._outputs

    def _capture(self) -> None:
        kept = {id(tensor): tensor.detach().clone() for tensor in self._changes()}
        states = [generator.get_state() for generator in self._generators]
        graph = torch.cuda.CUDAGraph()
        try:
            stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]  # torch leaves it untyped
            stream.wait_stream(torch.cuda.current_stream(self._device))
            with torch.cuda.stream(stream):
                for _ in range(WARM_UPS):
                    self._function()
            torch.cuda.current_stream(self._device).wait_stream(stream)
            for generator in self._generators:
                graph.register_generator_state(generator)
            with torch.cuda.graph(graph):
                self._outputs = self._function()
            self._graph = graph
        except RuntimeError as error:  # a layer that waits for the device, or is not made for capture
            self._plain = True
            _log.warning(
                "not captured as a CUDA graph, so slower: %s",
                str(error).splitlines()[0] if str(error) else error,
            )
        with torch.no_grad():
            for tensor in self._changes():
                if id(tensor) in kept:
                    tensor.copy_(kept[id(tensor)])
                else:
                    tensor.zero_()
        for generator, state in zip(self._generators, states, strict=True):
            generator.set_state(state)


class CapturedPlay:
    """`function(obs, mask)` from arrays to arrays, as a graph from pinned memory and back.

    One graph serves batches of `n` observations; others, as the last ones of episodes, are computed one by one.
    Large batches are fetched from where they lie; `inputs` are the tensors that the last call worked on.
    """

    def __init__(
        self,
        function: Callable[[Any, Tensor | None], tuple[Tensor, ...]],
        device: torch.device,
        n: int,
        generators: Iterable[torch.Generator] = (),
    ) -> None:
        self._function = function
        self._device = device
        self._n = n
        self._generators = tuple(generators)
        self._masked: bool | None = None
        self._host: dict[str, Array] = {}
        self.inputs: dict[str, Tensor] = {}
        self._captured: Captured | None = None

    @torch.no_grad()
    def __call__(self, obs: Observation, masks: BoolArray | None = None) -> tuple[Array, ...]:
        parts = obs if isinstance(obs, dict) else {"": obs}
        if len(next(iter(parts.values()))) != self._n:
            mask = None if masks is None else torch.as_tensor(masks, device=self._device)
            return tuple(out.cpu().numpy() for out in self._function(to_tensor(obs, self._device), mask))
        if self._captured is None or self._masked != (masks is not None):
            self._prepare(obs, masks)
        given = {f"obs/{key}": array for key, array in parts.items()}
        if masks is not None:
            given["mask"] = masks
        for key, array in given.items():
            if key in self._host:
                self._host[key][...] = array
            else:
                self.inputs[key].copy_(torch.from_numpy(array), non_blocking=True)
        assert self._captured is not None
        outputs = self._captured()
        torch.cuda.current_stream(self._device).synchronize()
        return tuple(np.array(out.numpy()) for out in outputs)

    def _prepare(self, obs: Observation, masks: BoolArray | None) -> None:
        self._masked = masks is not None
        staged = {f"obs/{key}": value for key, value in _tensors(to_tensor(obs, "cpu")).items()}
        if masks is not None:
            staged["mask"] = torch.as_tensor(masks)
        small = {key: value for key, value in staged.items() if value.nbytes < LARGE}
        pinned = {key: value.clone().pin_memory() for key, value in small.items()}
        self._host = {key: value.numpy() for key, value in pinned.items()}
        there = self.inputs = {key: value.to(self._device, copy=True) for key, value in staged.items()}
        batch: Any = {key[4:]: value for key, value in there.items() if key.startswith("obs/")}
        batch = batch if isinstance(obs, dict) else batch[""]
        back: list[Tensor] = []

        def play() -> list[Tensor]:
            for key, value in pinned.items():
                there[key].copy_(value, non_blocking=True)
            outputs = self._function(batch, there.get("mask"))
            if not back:
                back.extend(torch.empty(out.shape, dtype=out.dtype, pin_memory=True) for out in outputs)
            for here, out in zip(back, outputs, strict=True):
                here.copy_(out, non_blocking=True)
            return back

        self._captured = Captured(play, self._device, generators=self._generators)


def _tensors(obs: Tensor | dict[str, Tensor]) -> dict[str, Tensor]:
    return obs if isinstance(obs, dict) else {"": obs}

"""Gradient steps and acting as CUDA graphs: recorded once and replayed without launching their parts.

A small network leaves a GPU idle while the host launches one kernel after the other. A recorded function works on
fixed memory: the caller first copies its inputs into tensors that the function holds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ludus.algorithms.backends import Minibatches, RolloutSamples, UpdateSettings
from ludus.algorithms.backends.eager import EagerOnPolicy, EagerReplay
from ludus.algorithms.replay import ReplayBatch
from ludus.policies.actor_critic import ActorCritic
from ludus.policies.base import FastActorCritic, FastPolicy
from ludus.policies.observations import to_tensor
from ludus.policies.soft_actor import SACPolicy
from ludus.types import Array, BoolArray, Observation

if TYPE_CHECKING:
    from ludus.algorithms.off_policy import OffPolicyLearner
    from ludus.algorithms.on_policy import OnPolicyLearner

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


class SampleStore:
    """Fixed memory for rollouts of up to `capacity` samples, for captured functions to read.

    A sample's float32 numbers and vectors are stored in one row: a GPU takes as long to pick the rows of a narrow table
    as of a wide one. Vectors begin where matrix products read them fastest, at every fourth number.
    """

    def __init__(self, like: RolloutSamples, capacity: int) -> None:
        self._columns: list[slice | int | None] = []
        width = 0
        for tensor in like.tensors():
            if tensor.dtype != torch.float32 or tensor.ndim > 2:
                self._columns.append(None)  # has memory of its own
            elif tensor.ndim == 1:
                self._columns.append(width)
                width += 1
            else:
                start = _next_fourth(width)
                width = start + tensor.shape[1]
                self._columns.append(slice(start, width))
        rows = self._rows = torch.zeros((capacity, _next_fourth(width)), device=like.log_probs.device)
        columns = iter(self._columns)

        def make(tensor: Tensor) -> Tensor:
            column = next(columns)
            return tensor.new_zeros((capacity, *tensor.shape[1:])) if column is None else rows[:, column]

        self.samples = like.map(make)

    def fits(self, samples: RolloutSamples) -> bool:
        kept, new = self.samples.tensors(), samples.tensors()
        return len(kept) == len(new) and len(samples) <= len(self.samples)

    def put(self, samples: RolloutSamples) -> None:
        for kept, new in zip(self.samples.tensors(), samples.tensors(), strict=True):
            kept[: len(new)].copy_(new)

    def at(self, indices: Tensor) -> RolloutSamples:
        """The samples at `indices`."""
        rows = self._rows[indices]
        columns = iter(self._columns)

        def pick(tensor: Tensor) -> Tensor:
            column = next(columns)
            return tensor[indices] if column is None else rows[:, column]

        return self.samples.map(pick)


def _next_fourth(width: int) -> int:
    return -(-width // 4) * 4


class CapturedActorCritic(FastActorCritic):
    """Acts with `policy`, `n` envs at a time, as CUDA graphs."""

    def __init__(self, policy: ActorCritic, n: int, generator: torch.Generator) -> None:
        def values(obs: Any, mask: Tensor | None) -> tuple[Tensor]:
            return (policy.value(obs),)

        def act(obs: Any, mask: Tensor | None) -> tuple[Tensor, ...]:
            return policy.act_and_value(obs, mask, generator)

        self._act = CapturedPlay(act, policy.device, n, [generator])
        self._values = CapturedPlay(values, policy.device, n)
        self._memory: dict[str, Tensor] = {}
        self._steps = self._seen = 0

    def begin_rollout(self, n_steps: int) -> None:
        """Keep what the next `n_steps` calls of `act` are given: it is on the GPU then, where the update needs it."""
        if n_steps != self._steps:
            self._memory = {}
        self._steps, self._seen = n_steps, 0

    def rollout_inputs(self) -> tuple[Any, Tensor | None] | None:
        """Return what `act` was given, [steps * n, ...]; None unless it was called `n_steps` times alike."""
        if self._seen != self._steps or not self._memory:
            return None
        flat = {key: value.flatten(0, 1) for key, value in self._memory.items()}
        mask = flat.pop("mask", None)
        obs = {key.removeprefix("obs/"): value for key, value in flat.items()}
        return obs.get("", obs), mask

    def act(self, obs: Observation, masks: BoolArray | None) -> tuple[Array, Array, Array]:
        actions, log_probs, values = self._act(obs, masks)
        inputs = self._act.inputs
        if self._seen < self._steps:
            if not self._memory:
                self._memory = {key: x.new_empty((self._steps, *x.shape)) for key, x in inputs.items()}
            if self._memory.keys() == inputs.keys():
                for key, value in inputs.items():
                    self._memory[key][self._seen].copy_(value)
            else:  # an env gave its first mask late
                self._memory, self._steps = {}, 0
        self._seen += 1
        return actions, log_probs, values

    def values(self, obs: Observation) -> Array:
        return self._values(obs)[0]


class CapturedOnPolicy(EagerOnPolicy):
    """Records the gradient step on a full minibatch once and replays it; other minibatches run eagerly."""

    def __init__(self, learner: OnPolicyLearner[Any]) -> None:
        super().__init__(learner)
        self._store: SampleStore | None = None

    def begin(self, samples: RolloutSamples, settings: UpdateSettings) -> None:
        super().begin(samples, settings)
        if self._store is None or not self._store.fits(samples):  # a new shape of sample needs a new graph
            self._capture(samples)
        assert self._store is not None
        self._store.put(samples)

    def _capture(self, samples: RolloutSamples) -> None:
        learner = self.learner
        device, size = learner.context.device, learner.minibatch_size
        rollout_size = learner.h.n_steps * learner.context.n_envs
        store = self._store = SampleStore(samples, max(len(samples), rollout_size))
        self._indices = torch.zeros(size, dtype=torch.int64, device=device)

        def step() -> None:
            self.step(store.at(self._indices))

        def step_on_all() -> None:
            self.step(store.samples)

        def changes() -> Iterable[Tensor]:
            yield from learner.lasting_tensors()
            yield self.sums

        self.graph = Captured(step, device, changes)
        self._graph_of_all = Captured(step_on_all, device, changes)

    def shuffle(self, batch_size: int) -> Minibatches:
        device = self.learner.context.device
        generator = self.learner.context.streams.torch("minibatches", str(device))
        order = torch.randperm(len(self.samples), generator=generator, device=device)
        return Minibatches(order, batch_size)

    def minibatch(self, indices: Tensor | None) -> None:
        size = len(self.samples) if indices is None else len(indices)
        if size != self.learner.minibatch_size:
            super().minibatch(indices)
        elif indices is None:
            self._graph_of_all()
        else:
            self._indices.copy_(indices)
            self.graph()

    def rebind(self) -> None:
        self._store = None


class CapturedReplay(EagerReplay):
    """Records `learner.gradient_step` once, on the memory of the first batch, and replays it."""

    def __init__(self, learner: OffPolicyLearner[Any]) -> None:
        super().__init__(learner)
        self._graph: Captured | None = None
        self._batch: ReplayBatch | None = None

    def step(self, batch: ReplayBatch) -> Tensor:
        learner = self.learner
        if self._graph is None or self._batch is None or not batch.fits(self._batch):
            self._batch = batch
            self._graph = Captured(
                lambda: learner.gradient_step(batch),
                learner.context.device,
                learner.lasting_tensors,
                learner.generators(),
            )
        else:
            self._batch.fill(batch)
        statistics: Tensor = self._graph()
        return statistics

    def rebind(self) -> None:
        self._graph = None


class CapturedActor(FastPolicy):
    """Acts with SAC's `policy`, `n` envs at a time, as a CUDA graph."""

    def __init__(self, policy: SACPolicy, n: int, generator: torch.Generator) -> None:
        def act(obs: Any, mask: Tensor | None) -> tuple[Tensor]:
            return (policy.act(obs, mask, generator=generator),)

        self._act = CapturedPlay(act, policy.device, n, [generator])

    def act(self, obs: Observation, masks: BoolArray | None) -> Array:
        """Return actions from -1 to 1."""
        return self._act(obs, masks)[0]

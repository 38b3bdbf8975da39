"""Samplers on Ray: each a process with a model of its own, on a GPU if there is one; turns are distributed among them.

Adapters are put into the object store once; every sampler that needs one reads it there. If a sampler is lost, the
others answer its part of the batch, and a new sampler is started.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ludus.config.language import LanguageConfig, SamplerConfig
from ludus.errors import ConfigError, LudusError, UserError
from ludus.language.assignment import Assignment, SamplerShare
from ludus.language.models.sampling import Completion, Request
from ludus.scale.cluster import RaySession, check_cluster, import_ray, is_connected, wait_for
from ludus.scale.losses import Losses
from ludus.types import Array

_log = logging.getLogger("ludus.scale")
_START_SECONDS = 300.0  # for the first sampler: a large model takes long to load
_ANSWER_SECONDS = 1800.0  # for a batch; a sampler that takes longer counts as hanging


@dataclass(frozen=True)
class SamplerPlan:
    """The configuration of every sampler."""

    language: LanguageConfig
    seed: int
    """Seed of the run; the weights of `tiny` are drawn from it."""
    device: str
    cpus: float
    gpus: float


class _Actor:
    """The process around an engine."""

    def __init__(self, plan: SamplerPlan) -> None:
        import torch

        from ludus.language.models.engine import LocalEngine, SamplingEngine
        from ludus.language.models.models import load_language_model
        from ludus.runs.streams import Streams

        torch.set_num_threads(max(1, int(plan.cpus)))
        model = load_language_model(plan.language, plan.device, Streams(plan.seed).torch("model"))
        self._engine: SamplingEngine
        if plan.language.sampler.kind == "vllm":
            from ludus.language.models.vllm_engine import VLLMEngine

            self._engine = VLLMEngine(model.cpu(), plan.language)  # vLLM needs the GPU for itself
        else:
            self._engine = LocalEngine(model, plan.language)
        self._loaded: set[str] = set()

    def location(self) -> str:
        """Return the machine and the id of this process."""
        return f"{socket.gethostname()}, process {os.getpid()}"

    def load(self, name: str, weights: Mapping[str, Array]) -> None:
        from torch import tensor

        self._engine.load(name, {key: tensor(array) for key, array in weights.items()})
        self._loaded.add(name)

    def drop(self, names: Sequence[str]) -> None:
        for name in names:
            self._loaded.remove(name)
            self._engine.drop(name)

    def forget(self) -> None:
        """Drop all adapters and caches."""
        self.drop(sorted(self._loaded))
        self._engine.forget()

    def sample(self, requests: Sequence[Request], settings: SamplerConfig, seed: int) -> list[Completion]:
        return self._engine.sample(requests, settings, seed)


class SamplerFleet:
    """An engine that consists of `number` others. It owns the connection to Ray.

    `while_waiting` is called now and then while samplers work, and may raise to end the wait.
    """

    def __init__(
        self,
        plan: SamplerPlan,
        session: RaySession,
        number: int,
        max_failures: int,
        while_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self._ray = import_ray()
        self._plan = plan
        self._session = session
        self._losses = Losses(max_failures)
        self._while_waiting = while_waiting
        self._assignment = Assignment()
        self._weights: dict[str, Any] = {}
        self._actors: dict[int, Any] = {}
        self._starting: dict[int, Any] = {}
        self._locations: dict[int, str] = {}
        try:
            self.resize(number)
        except BaseException:
            self.close()
            raise

    @property
    def lost(self) -> int:
        """Samplers lost so far."""
        return self._losses.total

    @property
    def number(self) -> int:
        """Number of samplers, including those that are starting."""
        return len(self._actors)

    @property
    def locations(self) -> list[str]:
        """Machine and process of every sampler that is ready."""
        return [self._locations[index] for index in self._assignment.samplers]

    def resize(self, number: int) -> None:
        """Change the number of samplers; returns when all are ready."""
        if number < 1:
            raise ConfigError(
                "no samplers on Ray",
                key="scale.num_actors",
                fix="set it to 1 or more; 0 in the config means that the first learner samples",
            )
        for index in [index for index in self._actors if index >= number]:
            if index in self._assignment.samplers:
                self._assignment.leave(index)
            self._starting.pop(index, None)
            self._ray.kill(self._actors.pop(index))
        for index in range(number):
            if index not in self._actors:
                self._hire(index)
        self._welcome(wait=len(self._starting))

    def load(self, name: str, weights: Mapping[str, Tensor]) -> None:
        # sent once for all samplers; numpy arrays are read without a copy
        arrays = {key: tensor.detach().cpu().float().numpy() for key, tensor in weights.items()}
        check_cluster()
        self._weights[name] = self._ray.put(arrays)

    def drop(self, name: str) -> None:
        for index in self._assignment.drop(name):
            self._actors[index].drop.remote([name])
        del self._weights[name]

    def sample(self, requests: Sequence[Request], settings: SamplerConfig, seed: int) -> list[Completion]:
        found: dict[int, Completion] = {}
        waiting = list(range(len(requests)))
        while waiting:
            self._welcome(wait=0 if self._assignment.samplers else 1)
            parts = self._assignment.deal([requests[index] for index in waiting])
            asked = {
                index: self._ask(index, part, [requests[waiting[i]] for i in part.indices], settings, seed)
                for index, part in parts.items()
            }
            for index, ticket in asked.items():
                answers = self._answer(index, ticket)
                if answers is not None:
                    answered = [waiting[i] for i in parts[index].indices]
                    found |= dict(zip(answered, answers, strict=True))
            waiting = [index for index in waiting if index not in found]
        return [found[index] for index in range(len(requests))]

    def forget(self) -> None:
        self._assignment.forget()
        for index in self._assignment.samplers:
            self._actors[index].forget.remote()

    def close(self) -> None:
        if is_connected():
            for actor in self._actors.values():
                self._ray.kill(actor)
        self._actors.clear()
        self._session.close()

    # Internal

    def _hire(self, index: int) -> None:
        # a lost sampler has lost its adapters: this class starts another, not Ray
        actor = self._ray.remote(_Actor).options(
            num_cpus=self._plan.cpus,
            num_gpus=self._plan.gpus,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )
        self._actors[index] = actor.remote(self._plan)
        self._starting[index] = self._actors[index].location.remote()

    def _welcome(self, *, wait: int) -> None:
        """Add the samplers that have become ready; wait for `wait` of them. UserError if none becomes ready."""
        if not self._starting:
            return
        tickets = list(self._starting.values())
        ready = wait_for(tickets, wait, _START_SECONDS if wait else 0.0)
        if wait and not ready and not self._assignment.samplers:
            have = self._ray.cluster_resources()
            raise UserError(
                f"no sampler was ready within {_START_SECONDS:.0f} s: each needs {self._plan.cpus:g} CPUs and "
                f"{self._plan.gpus:g} GPUs",
                where=f"the cluster has {have.get('CPU', 0):g} CPUs and {have.get('GPU', 0):g} GPUs",
                fix="lower scale.num_actors, or add machines to the cluster",
            )
        for index, ticket in list(self._starting.items()):
            if ticket not in ready:
                continue
            del self._starting[index]
            location = self._get(index, ticket)
            if location is not None:
                self._locations[index] = location
                self._assignment.join(index)

    def _ask(
        self, index: int, part: SamplerShare, requests: list[Request], settings: SamplerConfig, seed: int
    ) -> Any:
        for name in part.load:
            self._actors[index].load.remote(name, self._weights[name])
        return self._actors[index].sample.remote(requests, settings, (seed + index) % 2**62)

    def _answer(self, index: int, ticket: Any) -> list[Completion] | None:
        found: list[Completion] | None = self._get(index, ticket)
        return found

    def _get(self, index: int, ticket: Any) -> Any:
        """Return the sampler's answer; None if it was lost and another was started."""
        errors = self._ray.exceptions
        try:
            ready = wait_for([ticket], 1, _ANSWER_SECONDS, self._while_waiting)
            return self._ray.get(ticket, timeout=None if ready else 0)
        except errors.RayTaskError as error:
            cause = error.as_instanceof_cause()
            raise cause if isinstance(cause, LudusError) else LudusError(str(error)) from None
        except (errors.RayActorError, errors.GetTimeoutError, errors.ObjectLostError) as error:
            message = " ".join(str(error).split())[:300]
            location = self._locations.get(index, "while it started")
            self._ray.kill(self._actors[index])
            if index in self._assignment.samplers:
                self._assignment.leave(index)
            self._losses.count(f"sampler {index} ({location}) was lost: {message}")
            self._hire(index)
            return None

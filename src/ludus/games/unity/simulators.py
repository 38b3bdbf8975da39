"""All simulators of a run: their endpoints on one event loop in a thread, their builds, and the handling of lost ones.

A step sends all requests before it awaits any answer. While a simulator is lost, the others continue without it. The
number and duration of losses are limited.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ludus.envs.user_code import user_traceback
from ludus.errors import EnvFault, LudusError, SimulatorLost
from ludus.games.unity.builds import Builds, not_launched_reason
from ludus.games.unity.endpoint import Endpoint, Lost
from ludus.games.unity.episode import UNUSABLE, CompiledUseCase, Episode
from ludus.games.unity.latency import Latency
from ludus.games.unity.settings import UnitySettings
from ludus.games.unity.use_case import shipped_use_cases
from ludus.types import Array

_log = logging.getLogger("ludus.games.unity")
_CLOSE_SECONDS = 5.0
_MAX_BUFFERED_LOGS = 500
_DEFAULT_PORT = 10_000
T = TypeVar("T")


@dataclass
class SlotResult:
    """Result of a step or reset of one env. `dropped`: the previous episode was lost, and this one is new."""

    obs: Any
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = field(default_factory=dict)
    final_obs: Any = None
    final_info: dict[str, Any] | None = None
    dropped: bool = False


@dataclass
class Slot:
    """One env: its endpoint and its current episode, if any."""

    endpoint: Endpoint
    episode: Episode
    obs: Any
    playing: bool = False
    generation: int = 0  # of the connection with which the episode began
    lent: bool = False  # to an evaluation; the vector env does not step it
    lost_since: float | None = None
    loss_reason: str = ""


class Simulators:
    """`n` simulators, the first with index `first`. The constructor waits until all are connected.

    UserError if an address cannot be used; SimulatorLost if one does not connect or is lost for good.
    """

    def __init__(
        self, compiled: CompiledUseCase, settings: UnitySettings, n: int, *, env_id: str, first: int = 0,
        max_steps: int | None = None,
    ) -> None:  # fmt: skip
        self.settings = settings
        self.env_id = env_id
        self.reconnected = 0
        self.losses = 0
        self.latency = Latency()
        self._log_buffer = _LogBuffer()
        self._compiled = compiled
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever, name="ludus-unity", daemon=True)
        self._resources = _Resources(self._loop, thread)
        self._release = weakref.finalize(self, self._resources.close)
        thread.start()
        try:
            self.slots = self._run(self._open(n, first, max_steps))
            reason = not_launched_reason(settings.build)
            if reason is None:
                assert settings.build is not None
                ports = [slot.endpoint.port for slot in self.slots]
                self._resources.builds = Builds(
                    settings.build, ports, [slot.endpoint.index for slot in self.slots]
                )
            elif settings.build is not None:
                _log.warning("%s: waiting for simulators that you start yourself", reason)
            self._run(self._connect())
        except BaseException:
            self.close()
            raise

    @property
    def addresses(self) -> list[str]:
        return [slot.endpoint.address for slot in self.slots]

    def reset(self, seeds: Mapping[int, int | None]) -> dict[int, SlotResult]:
        """Start an episode in each of the given slots."""
        return self._run(self._reset(seeds))

    def step(self, actions: Mapping[int, Array], *, restart: bool = True) -> dict[int, SlotResult]:
        """Step each of the given slots; with `restart`, an ended episode is followed by the next one at once."""
        self._log_buffer.flush()
        return self._run(self._step(actions, restart))

    def picture(self, index: int) -> Array | None:
        """Return the camera image of the last answer."""
        return self.slots[index].episode.picture()

    @property
    def closed(self) -> bool:
        return not self._release.alive

    def close(self) -> None:
        self._log_buffer.flush()
        self._release()

    # On the event loop

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _open(self, n: int, first: int, max_steps: int | None) -> list[Slot]:
        blank = _blank(self._compiled.observation_space)
        slots: list[Slot] = []
        for index in range(first, first + n):
            use_case, settings = self._compiled.use_case, self.settings
            services = [use_case.topic("step", index), use_case.topic("reset", index)]
            port = settings.port + index if settings.port else 0
            endpoint = Endpoint(
                index,
                settings.host,
                port,
                services,
                longest=settings.longest_message,
                on_log=self._log_buffer.add,
            )
            self._resources.endpoints.append(endpoint)
            await endpoint.open()
            slots.append(Slot(endpoint, Episode(self._compiled, max_steps), blank))
        return slots

    async def _connect(self) -> None:
        """Wait for all simulators. SimulatorLost names the first that did not connect."""
        seconds = self.settings.connect_seconds
        first, last = self.slots[0].endpoint, self.slots[-1].endpoint
        span = first.address if first is last else f"{first.address} to {last.address}"
        n = len(self.slots)
        if self._resources.builds is None:
            _log.info(
                "waiting for %d simulator%s at %s: start Unity builds%s",
                n,
                "s" * (n > 1),
                span,
                self._standin_command(),
            )
        deadline = time.monotonic() + seconds
        pending = list(range(n))
        while pending and time.monotonic() < deadline:
            await asyncio.gather(*(self.slots[index].endpoint.wait(0.2) for index in pending))
            pending = [index for index in pending if not self.slots[index].endpoint.connected]
            if any(self._build_ended(index) for index in pending):
                break
        if not pending:
            return
        missing = self.slots[pending[0]].endpoint
        said = f" ({missing.last_problem})" if missing.last_problem else ""
        raise SimulatorLost(
            f"{len(pending)} of {n} simulators did not connect within {seconds:g} s, the first of them "
            f"number {missing.index} at {missing.address}{said}{self._build_exit(pending[0])}",
            where="env.kwargs (host, port, build)",
            fix=f"start it with --ros-port {missing.port} --environment-id {missing.index} and check its log; "
            f"check the use case ({self._compiled.use_case.name}), firewalls, and n_envs",
        )

    def _standin_command(self) -> str:
        """Return the stand-in command that could replace the Unity builds, if there is one."""
        settings, first = self.settings, self.slots[0].endpoint
        if settings.use_case not in shipped_use_cases() or settings.port == 0:
            return ""
        words = ["ludus unity simulator --use-case", settings.use_case, "--n", str(len(self.slots))]
        words += [] if first.port == _DEFAULT_PORT else ["--port", str(first.port)]
        words += ["--first", str(first.index)] if first.index else []
        return f", or `{' '.join(words)}`"

    async def _reset(self, seeds: Mapping[int, int | None]) -> dict[int, SlotResult]:
        for index in seeds:
            self.slots[index].playing = False
        return await self._all({index: self._begin(index, seed) for index, seed in seeds.items()})

    async def _step(self, actions: Mapping[int, Array], restart: bool) -> dict[int, SlotResult]:
        while True:
            work = {
                index: self._act(index, action, restart)
                if self.slots[index].playing
                else self._begin(index, None)
                for index, action in actions.items()
            }
            # each coroutine sends its request before it waits, so all requests are sent before any answer is read
            played = await self._all(work)
            if not actions or any(
                not played[index].dropped or self.slots[index].playing for index in actions
            ):
                return played
            await asyncio.wait(  # no simulator is connected
                [asyncio.ensure_future(self.slots[index].endpoint.wait(1.0)) for index in actions],
                return_when=asyncio.FIRST_COMPLETED,
            )

    async def _all(self, work: Mapping[int, Coroutine[Any, Any, SlotResult]]) -> dict[int, SlotResult]:
        """Run everything concurrently to its end; then raise the first error, if any."""
        results = await asyncio.gather(*work.values(), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return dict(zip(work, results, strict=True))  # type: ignore[arg-type]  # errors were raised above

    async def _act(self, index: int, action: Array, restart: bool) -> SlotResult:
        slot = self.slots[index]
        if slot.endpoint.connected and slot.endpoint.generation != slot.generation:
            return self._record_loss(index, "has reconnected")  # the new connection does not have the episode
        started = time.perf_counter()
        try:
            answer = await self._call(slot, "step", self._guarded(slot, slot.episode.request, action))
            seconds = time.perf_counter() - started
            outcome = self._guarded(slot, slot.episode.step, action, answer)
        except Lost as lost:
            return self._record_loss(index, str(lost))
        slot.obs, reward, terminated, truncated, info = outcome
        self.latency.add(seconds, slot.episode.seconds_inside)
        if not (terminated or truncated):
            return SlotResult(slot.obs, reward, info=info)
        final_obs = slot.obs
        slot.playing = False
        if not restart:
            return SlotResult(final_obs, reward, terminated, truncated, info)
        begun = await self._begin(index, None)
        # if it is lost during the reset, this episode still ends normally and the next step reports the loss
        return SlotResult(
            begun.obs, reward, terminated, truncated, begun.info, final_obs=final_obs, final_info=info
        )

    async def _begin(self, index: int, seed: int | None) -> SlotResult:
        """Start an episode; if the simulator is not connected, return its last observation."""
        slot = self.slots[index]
        if not slot.endpoint.connected:
            return self._record_loss(index, "is not connected")
        try:
            answer = await self._call(slot, "reset", self._guarded(slot, slot.episode.reset_request, seed))
            slot.obs, info = self._guarded(slot, slot.episode.begin, answer)
        except Lost as lost:
            return self._record_loss(index, str(lost))
        if slot.lost_since is not None:
            _log.info("simulator %d at %s is back", slot.endpoint.index, slot.endpoint.address)
            self.reconnected += 1
            slot.lost_since = None
        slot.playing, slot.generation = True, slot.endpoint.generation
        return SlotResult(slot.obs, info=info, dropped=True)

    async def _call(self, slot: Slot, service: str, payload: bytes) -> bytes:
        topic = self._compiled.use_case.topic(service, slot.endpoint.index)
        asked = slot.endpoint.request(topic, payload)
        return await slot.endpoint.answer(asked, self.settings.deadline)

    def _guarded(self, slot: Slot, work: Any, *arguments: Any) -> Any:
        """Call `work`. An unusable answer raises Lost; any other error is the user's and raises EnvFault."""
        try:
            return work(*arguments)
        except UNUSABLE as error:
            reason = f"sent an invalid answer ({error})"
            slot.endpoint.reject(reason)
            raise Lost(reason) from None
        except LudusError:
            raise
        except Exception as error:  # the user's hook may raise anything
            raise EnvFault(
                f"the hook of use case {self._compiled.use_case.name} raised {type(error).__name__}: {error}",
                worker=slot.endpoint.index,
                env_id=self.env_id,
                seed=None,
                user_traceback=user_traceback(error),
            ) from None

    # Losses

    def _record_loss(self, index: int, reason: str) -> SlotResult:
        """Record a loss, or that it continues. SimulatorLost after too many losses, or if it takes too long."""
        slot, settings = self.slots[index], self.settings
        endpoint = slot.endpoint
        slot.playing = False
        now = time.monotonic()
        if slot.lost_since is None:
            slot.lost_since, slot.loss_reason = now, reason
            self.losses += 1
            words = self._build_exit(index)
            if self.losses > settings.reconnects:
                raise self._lost_error(
                    slot,
                    f"{reason}, and a run tolerates {settings.reconnects} losses (env.kwargs.reconnects)",
                    words,
                )
            _log.warning(
                "simulator %d at %s %s%s: loss %d of %d; the others continue, its episode is dropped",
                endpoint.index, endpoint.address, reason, words, self.losses, settings.reconnects,
            )  # fmt: skip
            if self._resources.builds is not None and not endpoint.connected:
                self._loop.run_in_executor(None, self._resources.builds.restart, index)
        elif now - slot.lost_since > settings.reconnect_seconds:
            what = f"{slot.loss_reason}, and did not reconnect within {settings.reconnect_seconds:g} s"
            raise self._lost_error(slot, what, self._build_exit(index))
        elif reason != "is not connected":  # it had reconnected, and is lost again
            slot.lost_since = None
            return self._record_loss(index, reason)
        return SlotResult(slot.obs, dropped=True)

    def _lost_error(self, slot: Slot, what: str, words: str) -> SimulatorLost:
        endpoint = slot.endpoint
        return SimulatorLost(
            f"simulator {endpoint.index} at {endpoint.address} {what}{words}",
            where=f"{endpoint.address}, env {endpoint.index} of {self.env_id}",
            fix=f"check that the Unity build still runs, its log, that it is the use case "
            f"{self._compiled.use_case.name}, and that it can reach {endpoint.address}",
        )

    def _build_ended(self, index: int) -> bool:
        return self._resources.builds is not None and self._resources.builds.exit_code(index) is not None

    def _build_exit(self, index: int) -> str:
        """Return exit code and output of the build, if Ludus started it and it has ended."""
        if not self._build_ended(index):
            return ""
        assert self._resources.builds is not None
        words = self._resources.builds.output_tail(index)
        code = self._resources.builds.exit_code(index)
        return f"; the build ended with code {code}" + (f" and this output:\n{words}\n" if words else "")


class _LogBuffer:
    """Log lines of simulators, buffered until the first step: before that the run has no log file."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, str]] | None = deque(maxlen=_MAX_BUFFERED_LOGS)

    def add(self, level: int, line: str) -> None:
        kept = self._kept
        if kept is None:
            _log.log(level, "%s", line)
        else:
            kept.append((level, line))

    def flush(self) -> None:
        kept, self._kept = self._kept, None
        for level, line in kept or ():
            _log.log(level, "%s", line)


class _Resources:
    """Resources to close with the simulators, also if `close` is never called."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
        self.loop = loop
        self.thread = thread
        self.endpoints: list[Endpoint] = []
        self.builds: Builds | None = None

    def close(self) -> None:
        if self.builds is not None:
            self.builds.close()
        if not self.thread.is_alive():  # a fork has the objects, not the thread
            return
        closing = asyncio.run_coroutine_threadsafe(self._close_endpoints(), self.loop)
        try:
            closing.result(_CLOSE_SECONDS)
        except TimeoutError:
            _log.warning("endpoints of simulators did not close in %g s", _CLOSE_SECONDS)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(_CLOSE_SECONDS)
        if not self.thread.is_alive():
            self.loop.close()

    async def _close_endpoints(self) -> None:
        for endpoint in self.endpoints:
            await endpoint.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if not others:
            return
        # tasks that wait for an answer end with their connection; those that wait for a connection do not
        _, waiting = await asyncio.wait(others, timeout=0.2)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def _blank(space: Any) -> Any:
    """Return an observation of zeros."""
    if hasattr(space, "spaces"):
        return {key: _blank(part) for key, part in space.spaces.items()}
    return np.zeros(space.shape, space.dtype)

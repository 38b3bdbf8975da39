"""All simulators of a run: their endpoints on one event loop in a thread, their builds, and what happens to lost ones.

A step sends every request before it awaits any answer. A simulator that is lost is left out until it is back, while
the others play on; how often and how long is limited.
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

from ludus.envs.vector.chunk import user_traceback
from ludus.errors import EnvFault, LudusError, SimulatorLost
from ludus.games.unity.builds import Builds, why_not_launched
from ludus.games.unity.endpoint import Endpoint, Lost
from ludus.games.unity.episode import UNUSABLE, CompiledUseCase, Episode
from ludus.games.unity.latency import Latency
from ludus.games.unity.settings import UnitySettings
from ludus.games.unity.use_case import shipped_use_cases
from ludus.types import Array

_log = logging.getLogger("ludus.games.unity")
_CLOSE_SECONDS = 5.0
_KEPT_WORDS = 500
_USUAL_PORT = 10_000
T = TypeVar("T")


@dataclass
class Played:
    """What a step or reset of one env brought. `dropped`: the episode before was lost, and this opens another."""

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
    """One env: its endpoint and the episode it is in, if any."""

    endpoint: Endpoint
    episode: Episode
    obs: Any
    playing: bool = False
    generation: int = 0  # of the connection that the episode began with
    lent: bool = False  # to an evaluation; whoever plays with all of them leaves it alone
    lost_since: float | None = None
    lost_because: str = ""


class Simulators:
    """`n` simulators, the first of them number `first`. The constructor waits until all are connected.

    Raises UserError when an address cannot be used, and SimulatorLost when one does not come or is lost for good.
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
        self._words = _Words()
        self._compiled = compiled
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever, name="ludus-unity", daemon=True)
        self._parts = _Parts(self._loop, thread)
        self._release = weakref.finalize(self, self._parts.close)
        thread.start()
        try:
            self.slots = self._run(self._open(n, first, max_steps))
            why = why_not_launched(settings.build)
            if why is None:
                assert settings.build is not None
                ports = [slot.endpoint.port for slot in self.slots]
                self._parts.builds = Builds(
                    settings.build, ports, [slot.endpoint.index for slot in self.slots]
                )
            elif settings.build is not None:
                _log.warning("%s: waiting for simulators that somebody else starts", why)
            self._run(self._connect())
        except BaseException:
            self.close()
            raise

    @property
    def addresses(self) -> list[str]:
        return [slot.endpoint.address for slot in self.slots]

    def reset(self, seeds: Mapping[int, int | None]) -> dict[int, Played]:
        """Begin an episode in each of the slots named."""
        return self._run(self._reset(seeds))

    def step(self, actions: Mapping[int, Array], *, restart: bool = True) -> dict[int, Played]:
        """One step in each of the slots named; with `restart` the next episode follows one that ends at once."""
        self._words.tell()
        return self._run(self._step(actions, restart))

    def picture(self, place: int) -> Array | None:
        """The camera image that came with the last answer."""
        return self.slots[place].episode.picture()

    @property
    def closed(self) -> bool:
        return not self._release.alive

    def close(self) -> None:
        self._words.tell()
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
                index, settings.host, port, services, longest=settings.longest_message, heard=self._words.hear
            )
            self._parts.endpoints.append(endpoint)
            await endpoint.open()
            slots.append(Slot(endpoint, Episode(self._compiled, max_steps), blank))
        return slots

    async def _connect(self) -> None:
        """Wait for all; UserError says which did not come."""
        seconds = self.settings.connect_seconds
        first, last = self.slots[0].endpoint, self.slots[-1].endpoint
        span = first.address if first is last else f"{first.address} to {last.address}"
        n = len(self.slots)
        if self._parts.builds is None:
            _log.info(
                "waiting for %d simulator%s at %s: start Unity builds%s",
                n,
                "s" * (n > 1),
                span,
                self._standin(),
            )
        deadline = time.monotonic() + seconds
        pending = list(range(n))
        while pending and time.monotonic() < deadline:
            await asyncio.gather(*(self.slots[place].endpoint.wait(0.2) for place in pending))
            pending = [place for place in pending if not self.slots[place].endpoint.connected]
            if any(self._has_ended(place) for place in pending):
                break
        if not pending:
            return
        missing = self.slots[pending[0]].endpoint
        said = f" ({missing.trouble})" if missing.trouble else ""
        raise SimulatorLost(
            f"{len(pending)} of {n} simulators did not connect within {seconds:g} s, the first of them "
            f"number {missing.index} at {missing.address}{said}{self._last_words(pending[0])}",
            where="env.kwargs (host, port, build)",
            fix=f"start it with --ros-port {missing.port} --environment-id {missing.index} and look at its log; "
            f"check the use case ({self._compiled.use_case.name}), firewalls, and n_envs",
        )

    def _standin(self) -> str:
        """The command that would do instead of Unity builds, where there is one."""
        settings, first = self.settings, self.slots[0].endpoint
        if settings.use_case not in shipped_use_cases() or settings.port == 0:
            return ""
        words = ["ludus unity simulator --use-case", settings.use_case, "--n", str(len(self.slots))]
        words += [] if first.port == _USUAL_PORT else ["--port", str(first.port)]
        words += ["--first", str(first.index)] if first.index else []
        return f", or `{' '.join(words)}`"

    async def _reset(self, seeds: Mapping[int, int | None]) -> dict[int, Played]:
        for place in seeds:
            self.slots[place].playing = False
        return await self._all({place: self._begin(place, seed) for place, seed in seeds.items()})

    async def _step(self, actions: Mapping[int, Array], restart: bool) -> dict[int, Played]:
        while True:
            work = {
                place: self._act(place, action, restart)
                if self.slots[place].playing
                else self._begin(place, None)
                for place, action in actions.items()
            }
            # each of these has sent its request before it waits, and so before any answer is looked at
            played = await self._all(work)
            if not actions or any(
                not played[place].dropped or self.slots[place].playing for place in actions
            ):
                return played
            await asyncio.wait(  # nobody is left to play with
                [asyncio.ensure_future(self.slots[place].endpoint.wait(1.0)) for place in actions],
                return_when=asyncio.FIRST_COMPLETED,
            )

    async def _all(self, work: Mapping[int, Coroutine[Any, Any, Played]]) -> dict[int, Played]:
        """Everything at once, every part to its end; then the first error, if there was one."""
        results = await asyncio.gather(*work.values(), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return dict(zip(work, results, strict=True))  # type: ignore[arg-type]  # errors were raised above

    async def _act(self, place: int, action: Array, restart: bool) -> Played:
        slot = self.slots[place]
        if slot.endpoint.connected and slot.endpoint.generation != slot.generation:
            return self._lose(place, "has connected anew")  # and knows nothing of the episode
        started = time.perf_counter()
        try:
            answer = await self._call(slot, "step", self._safely(slot, slot.episode.request, action))
            seconds = time.perf_counter() - started
            outcome = self._safely(slot, slot.episode.step, action, answer)
        except Lost as lost:
            return self._lose(place, str(lost))
        slot.obs, reward, terminated, truncated, info = outcome
        self.latency.add(seconds, slot.episode.seconds_inside)
        if not (terminated or truncated):
            return Played(slot.obs, reward, info=info)
        final_obs = slot.obs
        slot.playing = False
        if not restart:
            return Played(final_obs, reward, terminated, truncated, info)
        begun = await self._begin(place, None)
        # lost on the way to the next episode: this one ended all the same, and the next step tells of the loss
        return Played(
            begun.obs, reward, terminated, truncated, begun.info, final_obs=final_obs, final_info=info
        )

    async def _begin(self, place: int, seed: int | None) -> Played:
        """Begin an episode; where the simulator is away, what was seen last stands in."""
        slot = self.slots[place]
        if not slot.endpoint.connected:
            return self._lose(place, "is not connected")
        try:
            answer = await self._call(slot, "reset", self._safely(slot, slot.episode.reset_request, seed))
            slot.obs, info = self._safely(slot, slot.episode.begin, answer)
        except Lost as lost:
            return self._lose(place, str(lost))
        if slot.lost_since is not None:
            _log.info("simulator %d at %s is back", slot.endpoint.index, slot.endpoint.address)
            self.reconnected += 1
            slot.lost_since = None
        slot.playing, slot.generation = True, slot.endpoint.generation
        return Played(slot.obs, info=info, dropped=True)

    async def _call(self, slot: Slot, service: str, payload: bytes) -> bytes:
        topic = self._compiled.use_case.topic(service, slot.endpoint.index)
        asked = slot.endpoint.request(topic, payload)
        return await slot.endpoint.answer(asked, self.settings.deadline)

    def _safely(self, slot: Slot, work: Any, *arguments: Any) -> Any:
        """What `work` returns; an unusable answer is a lost simulator, anything else the user's own fault."""
        try:
            return work(*arguments)
        except UNUSABLE as error:
            reason = f"answered garbage ({error})"
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

    def _lose(self, place: int, reason: str) -> Played:
        """Take note of a loss, or that it lasts; SimulatorLost once there were too many, or it lasts too long."""
        slot, settings = self.slots[place], self.settings
        endpoint = slot.endpoint
        slot.playing = False
        now = time.monotonic()
        if slot.lost_since is None:
            slot.lost_since, slot.lost_because = now, reason
            self.losses += 1
            words = self._last_words(place)
            if self.losses > settings.reconnects:
                raise self._gone(
                    slot, f"{reason}, and {settings.reconnects} losses are all a run survives", words
                )
            _log.warning(
                "simulator %d at %s %s%s: loss %d of %d; the others play on, its episode is dropped",
                endpoint.index, endpoint.address, reason, words, self.losses, settings.reconnects,
            )  # fmt: skip
            if self._parts.builds is not None and not endpoint.connected:
                self._loop.run_in_executor(None, self._parts.builds.restart, place)
        elif now - slot.lost_since > settings.reconnect_seconds:
            what = f"{slot.lost_because}, and did not come back within {settings.reconnect_seconds:g} s"
            raise self._gone(slot, what, self._last_words(place))
        elif reason != "is not connected":  # it was back, and is lost again
            slot.lost_since = None
            return self._lose(place, reason)
        return Played(slot.obs, dropped=True)

    def _gone(self, slot: Slot, what: str, words: str) -> SimulatorLost:
        endpoint = slot.endpoint
        return SimulatorLost(
            f"simulator {endpoint.index} at {endpoint.address} {what}{words}",
            where=f"{endpoint.address}, env {endpoint.index} of {self.env_id}",
            fix=f"see whether the Unity build still runs, what its log says, whether it is the use case "
            f"{self._compiled.use_case.name}, and whether it can reach {endpoint.address}",
        )

    def _has_ended(self, place: int) -> bool:
        return self._parts.builds is not None and self._parts.builds.exit_code(place) is not None

    def _last_words(self, place: int) -> str:
        """How the build ended, if Ludus started it and it has."""
        if not self._has_ended(place):
            return ""
        assert self._parts.builds is not None
        words = self._parts.builds.last_words(place)
        code = self._parts.builds.exit_code(place)
        return f"; the build ended with code {code}" + (f" and said:\n{words}\n" if words else "")


class _Words:
    """What simulators log. Kept until the first step: before it the run has no log file yet."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, str]] | None = deque(maxlen=_KEPT_WORDS)

    def hear(self, level: int, line: str) -> None:
        kept = self._kept
        if kept is None:
            _log.log(level, "%s", line)
        else:
            kept.append((level, line))

    def tell(self) -> None:
        kept, self._kept = self._kept, None
        for level, line in kept or ():
            _log.log(level, "%s", line)


class _Parts:
    """What must be closed with the simulators, also when nobody remembers to."""

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
        # those that wait for an answer end with their connections; one that waits for a simulator to come does not
        _, waiting = await asyncio.wait(others, timeout=0.2)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def _blank(space: Any) -> Any:
    """An observation before there was any."""
    if hasattr(space, "spaces"):
        return {key: _blank(part) for key, part in space.spaces.items()}
    return np.zeros(space.shape, space.dtype)

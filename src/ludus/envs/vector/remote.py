"""Envs with external simulators: one worker for each; the others continue while one of them is away."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Generator, Sequence
from typing import Any

from gymnasium.vector import AutoresetMode

from ludus.envs.vector.chunk import Entry, EnvFn
from ludus.envs.vector.contract import WrapperStates
from ludus.envs.vector.handle import WorkerLost
from ludus.envs.vector.process import STEADY_STEPS, ProcessVectorEnv
from ludus.envs.vector.wire import Kind, pack
from ludus.errors import LudusError, SimulatorLost
from ludus.runs.signals import StopRequested, stop_requested_at

_log = logging.getLogger("ludus.envs")
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0  # seconds before the next attempt, doubled each time
_IDLE_SECONDS = 0.05
_END_SECONDS = 2.0
_STARTING_SECONDS_EACH = 10.0  # each worker imports the modules of its env, torch among them
_BUILD_SECONDS = 60.0


class RemoteVectorEnv(ProcessVectorEnv):
    """One worker per env, so that all simulators run at the same time.

    An env is lost if its worker dies or hangs, or if it raises SimulatorLost. It is then away: every step marks its
    row in `infos["dropped"]` until a new worker has built it again. The pause between attempts doubles. After
    `attempts` failures in a row, SimulatorLost (or EnvFault) of the last one is raised. If all envs are away, `step`
    waits. `names` names the simulator of each env.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        *,
        env_id: str = "",
        deadline: float = 60.0,
        attempts: int = 10,
        names: Sequence[str] = (),
        first_pause: float = _FIRST_PAUSE,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
    ) -> None:
        self._away: dict[int, Generator[None, None, None]] = {}
        self._failures = [0] * len(env_fns)
        self._causes: dict[int, SimulatorLost] = {}
        self._names = list(names) or [f"env {index} of {env_id}" for index in range(len(env_fns))]
        self._first_pause = first_pause
        super().__init__(
            env_fns,
            env_id=env_id,
            n_workers=len(env_fns),
            deadline=deadline,
            respawns=attempts,
            autoreset_mode=autoreset_mode,
        )

    @property
    def away(self) -> list[int]:
        """The envs that are away."""
        return sorted(self._away)

    def wrapper_states(self) -> WrapperStates:
        """Return the states; for an env that is away, its last known states, else those of another env."""
        if not self._away:
            return super().wrapper_states()
        known = self._states
        present = dict(zip(self._present(), self._ask_present("wrapper_states", None), strict=True))
        if known is None and not present:
            if stop_requested_at() is not None:  # the last checkpoint does not wait for a simulator
                return [[] for _ in range(self.num_envs)]
            self._wait_for(len(self._workers))
            return super().wrapper_states()
        spare = next(iter(present.values())) if present else []
        states = [
            present[k] if k in present else copy.deepcopy(spare if known is None else list(known[k]))
            for k in range(self.num_envs)
        ]
        self._states = states
        return states

    def _unplayed(self) -> set[int]:
        return {*self._replaced, *self._away}

    def _step_chunks(self) -> list[Entry]:
        self._advance_attempts()
        if len(self._away) == len(self._workers):
            self._wait_for(1)
        stepping = [k for k in self._present() if k not in self._replaced]
        entries: list[Entry] = []
        for k, answer in self._exchange(Kind.STEP, self._step_requests(stepping)).items():
            if isinstance(answer, WorkerLost):
                self._replace(k, answer)
                continue
            entries += answer
            self._steady[k] += 1
            if self._failures[k] and self._steady[k] >= STEADY_STEPS:
                self._failures[k] = 0
        return entries + [entry for infos in self._replaced.values() for entry in infos]

    def _ask_chunks(self, method: str, per_env: Sequence[Any] | None, *args: Any) -> list[Any]:
        # an env that is away is reset, and gets its wrapper states, when it is back
        if method not in ("reset", "load_wrapper_states", "rebuild"):
            self._wait_for(len(self._workers))
        return self._ask_present(method, per_env, *args)

    def _ask_present(self, method: str, per_env: Sequence[Any] | None, *args: Any) -> list[Any]:
        requests = {
            k: pack((method, (*(() if per_env is None else (per_env[k : k + 1],)), *args)))
            for k in self._present()
        }
        answers: dict[int, list[Any]] = {}
        for k, answer in self._exchange(Kind.CALL, requests, doing=method).items():
            if isinstance(answer, WorkerLost):
                self._replace(k, answer)
            else:
                answers[k] = answer
        if requests and not answers and method == "reset":
            self._wait_for(1)
        return [element for k in sorted(answers) for element in answers[k]]

    def _present(self) -> list[int]:
        return [k for k in range(len(self._workers)) if k not in self._away]

    def _lost_with(self, k: int, error: LudusError) -> WorkerLost | None:
        if not isinstance(error, SimulatorLost):
            return None
        self._causes[k] = error
        self._dismiss(k)
        return WorkerLost(f"lost its simulator: {error.what}")

    def _exchange_at_start(self, kind: Kind, requests: list[bytes], seconds: float) -> dict[int, Any]:
        # many more workers than cores may start at once
        return super()._exchange_at_start(kind, requests, seconds + _STARTING_SECONDS_EACH * len(requests))

    def _replace(self, k: int, lost: WorkerLost) -> None:
        """Mark env k as away and start its next attempt."""
        if self._playing:
            self.dropped_episodes += 1
        self._steady[k] = 0
        share = self._shares[k]
        self._batch.rewards[share] = 0.0
        self._batch.terminations[share] = False
        self._batch.truncations[share] = False
        self._replaced.pop(k, None)
        self._away[k] = self._bring_back(k, lost)
        self._advance_attempts()

    def _advance_attempts(self) -> None:
        """Advance the attempts of all envs that are away. Raises after the last attempt of one."""
        for k, coming in list(self._away.items()):
            try:
                next(coming)
            except StopIteration:
                del self._away[k]
                _log.info("%s is back", self._names[k])

    def _wait_for(self, number: int) -> None:
        """Wait until `number` envs are present. Raises StopRequested after a stop signal."""
        while len(self._workers) - len(self._away) < number:
            if stop_requested_at() is not None:
                raise StopRequested
            time.sleep(_IDLE_SECONDS)
            self._advance_attempts()

    def _bring_back(self, k: int, lost: WorkerLost) -> Generator[None, None, None]:
        """Bring env k back, step by step; yields while it waits."""
        while True:
            if self._failures[k] >= self._respawns:
                raise self._gone(k, lost, f"{lost}, and {self._failures[k]} attempts to get it back failed")
            pause = min(self._first_pause * 2 ** self._failures[k], _LONGEST_PAUSE)
            self._failures[k] += 1
            self.respawned += 1
            count = f"attempt {self._failures[k]} of {self._respawns}"
            cause = self._causes.pop(k, None)
            reason = f"{self._names[k]}: its worker {lost}" if cause is None else cause.what
            _log.warning("%s; the others continue, %s in %g s", reason, count, pause)
            resume_at = time.monotonic() + pause
            while time.monotonic() < resume_at:
                yield
            try:
                self._workers[k] = self._hire()
                yield from self._asked(
                    k, Kind.BUILD, self._blueprints[k], max(self._deadline, _BUILD_SECONDS)
                )
                yield from self._asked(k, Kind.ATTACH, pack(self.num_envs))
                if self._states is not None:
                    states = self._states[self._shares[k]]
                    yield from self._asked(k, Kind.CALL, pack(("load_wrapper_states", (states,))))
                self._reseed(k)
                seeds = self._seeds[self._shares[k]]
                self._replaced[k] = yield from self._asked(k, Kind.CALL, pack(("reset", (seeds, None))))
                return
            except WorkerLost as again:
                lost = again

    def _asked(
        self, k: int, kind: Kind, payload: bytes, seconds: float | None = None
    ) -> Generator[None, None, Any]:
        """Like `_only`, but yield until the answer has arrived."""
        seconds = self._deadline if seconds is None else seconds
        deadline = time.monotonic() + seconds
        self._workers[k].send(kind, payload, timeout=seconds)
        while time.monotonic() < deadline and not self._workers[k].has_answer():
            yield
        try:
            return self._workers[k].answer(deadline, f"{seconds:g} s")
        except LudusError as error:
            lost = self._lost_with(k, error)
            if lost is None:
                raise
            raise lost from error

    def _dismiss(self, k: int) -> None:
        """End a worker whose simulator is lost, with time to close its resources."""
        now = time.monotonic()
        self._workers[k].send(Kind.CLOSE, timeout=0.01)
        self._workers[k].end(polite_until=now + _END_SECONDS, reap_until=now + 2 * _END_SECONDS)

    def _gone(self, k: int, lost: WorkerLost, what: str) -> LudusError:
        cause = self._causes.get(k)
        if cause is not None:
            tried = self._failures[k]
            note = f"; {tried} attempts to get it back failed" if tried else ""
            return SimulatorLost(cause.what + note, where=cause.where, fix=cause.fix)
        return SimulatorLost(
            f"{self._names[k]}: its worker {lost}",
            where=self._names[k],
            fix="check that the simulator runs, responds, and is not used by another process",
        )

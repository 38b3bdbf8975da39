"""The process backend: chunks of envs in worker processes, results in shared memory.

An env cannot block the driver: every wait has a deadline, and a worker that dies or hangs is replaced. A worker
always exits with the driver.
"""

from __future__ import annotations

import copy
import itertools
import logging
import os
import sys
import time
import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from ludus.envs.vector.base import ChunkedVectorEnv
from ludus.envs.vector.batch import StepArrays, batch_nbytes
from ludus.envs.vector.chunk import Entry, EnvFacts, EnvFn, check_same_spaces
from ludus.envs.vector.contract import StepResult, WrapperStates, seed_per_env, split_reset_mask
from ludus.envs.vector.handle import WorkerHandle, WorkerLost
from ludus.envs.vector.shared import anonymous_file, map_file
from ludus.envs.vector.wire import Kind, Later, pack
from ludus.envs.vector.worker import Blueprint
from ludus.errors import EnvFault, LudusError, UserError, describe_error
from ludus.runs.limits import require_open_files, usable_cores
from ludus.types import Observation

_log = logging.getLogger("ludus.envs")

_BUILD_SECONDS = 60.0  # minimum time to import modules and build envs, even with a shorter deadline
_CLOSE_SECONDS = 2.0  # for envs to close
_REAP_SECONDS = 2.0  # for killed workers to exit
_FILES_EACH = 4  # open files per worker in this process while it starts
STEADY_STEPS = 100  # after this many steps a failing env is replaced instead of reported


class ProcessVectorEnv(ChunkedVectorEnv):
    """Run the envs in `n_workers` processes (by default one per usable core), each with a contiguous share.

    Raises EnvFault for what an env raises, and UserError when the functions cannot be sent to a worker.

    A worker is replaced if it dies, does not answer for `deadline` seconds, or has an env that raises after a hundred
    good steps. After `respawns` replacements in all, or before all envs are built, EnvFault is raised instead. The
    envs of a replaced worker are built again, get the wrapper states last loaded or saved, and are reset with seeds
    derived from their last ones; changes by `set_attr` are lost. The bool array `infos["dropped"]` of the step marks
    them: such an env has reward 0, no end of episode, and the first observation of a new episode.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        *,
        env_id: str = "",
        n_workers: int | None = None,
        deadline: float = 60.0,
        respawns: int = 10,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
    ) -> None:
        if not env_fns:
            raise UserError(
                "a vector env needs at least one env", where="n_envs", fix="set n_envs to 1 or more"
            )
        if n_workers is not None and n_workers < 1:
            raise UserError(f"n_workers is {n_workers}", where="the process backend", fix="use 1 or more")
        self.dropped_episodes = 0
        self.respawned = 0
        self.env_id = env_id
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self._deadline = deadline
        self._respawns = respawns
        self._working_directory = os.getcwd()
        self._seeds: list[int | None] = [None] * len(env_fns)
        self._states: Sequence[Sequence[dict[str, Any]]] | None = None
        self._playing = False  # whether there was a reset
        self._replaced: dict[int, list[Entry]] = {}  # worker -> the infos of its envs at the reset
        self._steady: list[int] = []  # worker -> steps since it was last started

        n_workers = min(len(env_fns), n_workers or usable_cores())
        require_open_files(_FILES_EACH * n_workers, f"`vector: process` with {n_workers} workers")
        bounds = [len(env_fns) * k // n_workers for k in range(n_workers + 1)]
        self._shares = [slice(low, high) for low, high in itertools.pairwise(bounds)]
        self._blueprints = [
            _blueprint(env_fns[share], share.start, env_id, self.autoreset_mode) for share in self._shares
        ]

        self._memory_fd = anonymous_file()
        self._lifeline_fd, lifeline_end = os.pipe()
        self._workers: list[WorkerHandle] = []
        descriptors = (self._memory_fd, self._lifeline_fd, lifeline_end)
        self._close_seconds = [_CLOSE_SECONDS]
        self._release = weakref.finalize(
            self, _release, self._workers, descriptors, os.getpid(), self._close_seconds
        )
        try:
            self._start(len(env_fns))
        except BaseException:
            self._release()
            raise

    @property
    def worker_pids(self) -> list[int]:
        """The process ids of the workers, in the order of their envs."""
        return [worker.pid for worker in self._workers]

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        self._require_open()
        seeds = seed_per_env(seed, self.num_envs)
        chosen, _ = split_reset_mask(options, self.num_envs)
        if chosen is None:
            self._playing = False  # a worker lost from here on has no episode to lose
            self._replaced.clear()
        result = super().reset(seed=seeds, options=options)
        self._seeds = [
            old if new is None or (chosen is not None and not chosen[index]) else new
            for index, (old, new) in enumerate(zip(self._seeds, seeds, strict=True))
        ]
        self._playing = True
        return result

    def step(self, actions: Any) -> StepResult:
        result = super().step(actions)
        unplayed = self._unplayed()
        if unplayed:
            dropped = np.zeros(self.num_envs, dtype=np.bool_)
            for k in unplayed:
                dropped[self._shares[k]] = True
            result[4]["dropped"] = dropped
            result[4].pop("_dropped", None)  # would mark it as an env's own info
            self._replaced.clear()
        return result

    def wrapper_states(self) -> WrapperStates:
        states = super().wrapper_states()
        self._states = states
        return states

    def load_wrapper_states(self, states: Sequence[Sequence[dict[str, Any]]]) -> None:
        super().load_wrapper_states(states)
        self._states = states

    def rebuild(self) -> None:
        self._playing = False  # a worker lost from here on has no episode to lose
        self._replaced.clear()
        super().rebuild()

    def close_extras(self, timeout: float | None = None, terminate: bool = False, **kwargs: Any) -> None:
        """Close the envs and end the workers. Envs that take over `timeout` seconds to close are killed.

        The default is 2 s; with `terminate` the envs are not closed at all.
        """
        if terminate or timeout is not None:
            self._close_seconds[0] = 0.0 if terminate else timeout or 0.0
        if "_release" in self.__dict__:  # missing if __init__ failed
            self._release()
        self.__dict__.pop("_batch", None)  # it keeps the memory mapped; missing if the start failed

    def _seed_of(self, index: int) -> int | None:
        return self._seeds[index]

    def _unplayed(self) -> set[int]:
        """Return the workers whose envs did not take part in the last step."""
        return set(self._replaced)

    def _step_chunks(self) -> list[Entry]:
        # the actions do not belong to the new episodes of a worker replaced since the last step
        stepping = [k for k in range(len(self._workers)) if k not in self._replaced]
        entries: list[Entry] = []
        for k, answer in self._exchange(Kind.STEP, self._step_requests(stepping)).items():
            if isinstance(answer, WorkerLost):
                self._replace(k, answer)
            else:
                entries += answer
                self._steady[k] += 1
        return entries + [entry for infos in self._replaced.values() for entry in infos]

    def _step_requests(self, stepping: Sequence[int]) -> dict[int, bytes]:
        """Return the payload of a step for each worker: none, or actions of a space without rows."""
        if self._actions is None:
            return dict.fromkeys(stepping, b"")
        return {k: pack(self._actions[self._shares[k]]) for k in stepping}

    def _ask_chunks(self, method: str, per_env: Sequence[Any] | None, *args: Any) -> list[Any]:
        requests = {}
        for k, share in enumerate(self._shares):
            own = () if per_env is None else (per_env[share],)
            requests[k] = pack((method, (*own, *args)))
        answers: dict[int, Any] = {}
        while pending := {k: request for k, request in requests.items() if k not in answers}:
            for k, answer in self._exchange(Kind.CALL, pending, doing=method).items():
                if not isinstance(answer, WorkerLost):
                    answers[k] = answer
                    continue
                self._replace(k, answer)
                if method == "rebuild":
                    answers[k] = []  # a replacement has new envs
        return [element for k in requests for element in answers[k]]

    def _exchange(
        self, kind: Kind, requests: dict[int, bytes], seconds: float | None = None, doing: str = "step"
    ) -> dict[int, Any]:
        """Send each worker its request and collect all answers: a result, or a WorkerLost in its place.

        Raises the first error that a worker reports, once all have answered.
        """
        seconds = self._deadline if seconds is None else seconds
        deadline = time.monotonic() + seconds
        stoppable = kind in (Kind.STEP, Kind.CALL)  # a worker that starts needs its time
        for k, payload in requests.items():
            self._workers[k].send(kind, payload, timeout=seconds)
        answers: dict[int, Any] = {}
        first_error: LudusError | None = None
        for k in requests:
            try:
                answers[k] = self._workers[k].answer(
                    deadline, f"{seconds:g} s in {doing}", stoppable=stoppable
                )
            except WorkerLost as lost:
                answers[k] = lost
            except LudusError as error:
                lost_simulator = self._lost_with(k, error)
                if lost_simulator is None:
                    first_error = first_error or error
                else:
                    answers[k] = lost_simulator
        if first_error is not None:
            raise first_error
        return answers

    def _lost_with(self, k: int, error: LudusError) -> WorkerLost | None:
        """Return a WorkerLost if worker k is to be replaced because of `error`; None if `error` is to be raised.

        An env that fails in its first steps has a bug. One that fails later may work again after a restart.
        """
        if (
            not isinstance(error, EnvFault)
            or self._steady[k] < STEADY_STEPS
            or self.respawned >= self._respawns
        ):
            return None
        _log.warning("%s", error)
        now = time.monotonic()
        self._workers[k].send(Kind.CLOSE, timeout=0.01)
        self._workers[k].end(polite_until=now + _CLOSE_SECONDS, reap_until=now + 2 * _CLOSE_SECONDS)
        return WorkerLost(f"failed: {str(error).splitlines()[0]}")

    def _start(self, n_envs: int) -> None:
        for _ in self._shares:
            self._workers.append(self._hire())
            self._steady.append(0)
        facts: dict[int, EnvFacts] = self._exchange_at_start(
            Kind.BUILD, self._blueprints, max(self._deadline, _BUILD_SECONDS)
        )
        for k, share in enumerate(self._shares):
            check_same_spaces(
                share.start,
                (facts[k].observation_space, facts[k].action_space),
                (facts[0].observation_space, facts[0].action_space),
            )
        self._describe(facts[0], n_envs, self.env_id, self.autoreset_mode)
        spaces = (facts[0].observation_space, facts[0].action_space)
        memory = map_file(self._memory_fd, batch_nbytes(*spaces, n_envs))
        self._batch = StepArrays(*spaces, n_envs, memory)
        self._exchange_at_start(Kind.ATTACH, [pack(n_envs)] * len(self._shares), self._deadline)

    def _exchange_at_start(self, kind: Kind, requests: list[bytes], seconds: float) -> dict[int, Any]:
        """Like `_exchange`, but a lost worker raises: envs that never ran are not tried again."""
        answers = self._exchange(kind, dict(enumerate(requests)), seconds, kind.name.lower())
        for k, answer in answers.items():
            if isinstance(answer, WorkerLost):
                raise self._gone(k, answer, f"{answer} before its envs were built")
        return answers

    def _hire(self) -> WorkerHandle:
        return WorkerHandle(self._memory_fd, self._lifeline_fd, self._working_directory)

    def _replace(self, k: int, lost: WorkerLost) -> None:
        """Replace a lost worker. Its envs are built and, if the others are in an episode, reset."""
        share = self._shares[k]
        n_lost = share.stop - share.start if self._playing and k not in self._replaced else 0
        self.dropped_episodes += n_lost
        while True:
            if self.respawned >= self._respawns:
                raise self._gone(k, lost, f"{lost}, and all {self._respawns} respawns are used up")
            self.respawned += 1
            envs = f"envs {share.start} to {share.stop - 1} of {self.env_id}"
            count = f"respawn {self.respawned} of {self._respawns}"
            _log.warning("the worker of %s %s: %s; %d episodes dropped", envs, lost, count, n_lost)
            try:
                self._workers[k] = self._hire()
                self._steady[k] = 0
                self._only(k, Kind.BUILD, self._blueprints[k], max(self._deadline, _BUILD_SECONDS))
                self._only(k, Kind.ATTACH, pack(self.num_envs))
                if self._states is not None:
                    self._only(k, Kind.CALL, pack(("load_wrapper_states", (self._states[share],))))
                if self._playing:
                    self._replaced[k] = self._reset_replaced(k)
                return
            except WorkerLost as again:
                lost = again

    def _reset_replaced(self, k: int) -> list[Entry]:
        self._reseed(k)
        entries: list[Entry] = self._only(k, Kind.CALL, pack(("reset", (self._seeds[self._shares[k]], None))))
        return entries

    def _reseed(self, k: int) -> None:
        """Give the envs of worker k new seeds and clear their rows of a step."""
        share, batch = self._shares[k], self._batch
        self._seeds[share] = [_respawn_seed(seed, self.respawned) for seed in self._seeds[share]]
        batch.rewards[share] = 0.0
        batch.terminations[share] = False
        batch.truncations[share] = False

    def _only(self, k: int, kind: Kind, payload: bytes, seconds: float | None = None) -> Any:
        """Like `_exchange` with one worker; raises WorkerLost."""
        answer = self._exchange(kind, {k: payload}, seconds, kind.name.lower())[k]
        if isinstance(answer, WorkerLost):
            raise answer
        return answer

    def _gone(self, k: int, lost: WorkerLost, what: str) -> LudusError:
        """Return the error to raise when worker k is not replaced again."""
        return self._fault(k, what)

    def _fault(self, k: int, what: str) -> EnvFault:
        share = self._shares[k]
        return EnvFault(
            f"the worker of envs {share.start} to {share.stop - 1} {what}",
            worker=share.start,
            env_id=self.env_id,
            seed=self._seeds[share.start],
        )


def _blueprint(env_fns: Sequence[EnvFn], first_index: int, env_id: str, mode: AutoresetMode) -> bytes:
    # a category of another module would import it in every worker; some are torch's
    filters = [entry for entry in warnings.filters if getattr(entry[2], "__module__", "") == "builtins"]
    try:
        # a worker does not run the user's script, so it needs its registrations
        registrations = {
            name: _read_later(spec)
            for name, spec in gym.registry.items()
            if not str(spec.entry_point).startswith("gymnasium.")
        }
        blueprint = Blueprint(list(env_fns), first_index, env_id, mode, sys.argv, filters, registrations)
        # cloudpickle accepts lambdas, closures and classes of the user's script; see wire.py
        return bytes(cloudpickle.dumps(blueprint))
    except Exception as error:  # pickling runs the user's code, which may raise anything
        raise UserError(
            f"the env functions cannot be sent to a worker: {describe_error(error)}",
            where="the process backend",
            fix="build everything the env needs inside its function, or use `vector: serial`",
        ) from error


def _read_later(spec: Any) -> Any:
    """Return a registration whose class is imported only by the workers that build it."""
    if callable(spec.entry_point):
        spec = copy.copy(spec)
        spec.entry_point = Later(spec.entry_point)
    return spec


def _respawn_seed(last: int | None, respawned: int) -> int | None:
    """Return a new seed that is the same in every repetition of the run."""
    return None if last is None else int(np.random.SeedSequence([last, respawned]).generate_state(1)[0])


def _release(
    workers: list[WorkerHandle],
    descriptors: tuple[int, ...],
    owner: int,
    allowed: list[float],
) -> None:
    """End the workers and close the descriptors, two seconds after those that are `allowed` for envs to close."""
    if os.getpid() != owner:
        return  # a forked process does not own them
    for worker in workers:
        worker.send(Kind.CLOSE, timeout=0.01)
    polite_until = time.monotonic() + allowed[0]
    for worker in workers:
        worker.end(polite_until=polite_until, reap_until=polite_until + _REAP_SECONDS)
    for descriptor in descriptors:
        os.close(descriptor)

"""One training of many: what it is told, what its process does, and what it writes down about itself.

A job that was interrupted goes on from its newest exact checkpoint, or starts anew where there is none, so that
it ends with the results of a run that was never stopped. While it trains it keeps a small session file up to
date: how it is going, the processor time it took, the memory it needed.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym

from ludus.config.loading import load_config
from ludus.config.schema import TrainerConfig
from ludus.errors import EXIT_FAULT, EXIT_INTERRUPTED, CheckpointError, LudusError, UserError
from ludus.runs import atomic, strict_json
from ludus.runs.checkpoints import Checkpoint, CheckpointFormatError
from ludus.runs.directory import RunDirectory
from ludus.secret_values import without_secrets
from ludus.tracking.tracker import MetricsLog
from ludus.training.base import RLTrainer, TrainResult
from ludus.training.factory import create_trainer
from ludus.training.resume import newest_resumable, repair_run_files

_log = logging.getLogger("ludus.experiments")
_WRITE_EVERY = 2.0
_WAIT_FOR_ORPHANS = 60.0


@dataclass(frozen=True)
class Job:
    """A training to do. `config` is a YAML file, `settings` canonical keys on top of it, `run` its directory.

    `env` is a function that makes the env, where the config cannot name it; `session` is the file the job
    reports to, `log` takes what the process prints. `registrations` are envs that only the driver knows.
    """

    name: str
    config: Path
    settings: Mapping[str, Any]
    run: Path
    session: Path
    log: Path
    env: Callable[[], Any] | None = None
    argv: list[str] = field(default_factory=lambda: list(sys.argv))
    registrations: Mapping[str, Any] = field(default_factory=lambda: own_registrations())


def own_registrations() -> dict[str, Any]:
    """The envs that this program registered with Gymnasium by itself."""
    return {
        name: spec
        for name, spec in gym.registry.items()
        if not str(spec.entry_point).startswith("gymnasium.")
    }


def do(job: Job) -> int:
    """Train the job in this process, which does nothing else; returns the exit code. Raises nothing."""
    sys.argv[:] = job.argv
    for env_id, spec in job.registrations.items():
        gym.registry.setdefault(env_id, spec)
    session = JobCosts(job.session)
    try:
        with _alone(job):
            code = _train(job)
        session.close(error=None)
    except KeyboardInterrupt:
        session.close(error=None)
        return EXIT_INTERRUPTED
    except BaseException as error:  # the end of the process: whatever it was goes into the report
        print(without_secrets(traceback.format_exc()), file=sys.stderr)
        session.close(error=_in_words(error))
        return error.exit_code if isinstance(error, LudusError) else EXIT_FAULT
    return code


def _train(job: Job) -> int:
    directory = RunDirectory(job.run)
    loaded = load_config(job.config, flags=job.settings)
    with loaded.locating_errors():
        trainer = create_trainer(job.env, loaded.config)
        checkpoint = where_to_go_on(directory, loaded.config)
        if checkpoint is not None and hasattr(trainer, "resume"):
            # with the choices that `auto` made when the run began, which its own config names
            repair_run_files(directory)
            trainer = create_trainer(job.env, load_config(directory.config_path).config)
            trainer.resume(directory, checkpoint.name)  # type: ignore[attr-defined]
        elif directory.path.exists():
            atomic.remove(directory.path)
        try:
            result = trainer.train()
            if isinstance(result, TrainResult):
                return result.exit_code
            _write_down(trainer, loaded.config, directory)
            return 0
        finally:
            trainer.close()


def where_to_go_on(directory: RunDirectory, config: TrainerConfig) -> Checkpoint | None:
    """The checkpoint from which the run repeats what an uninterrupted one does; None: begin anew.

    A config whose checkpoints are never exact (saved by the clock) goes on from the newest instead.
    """
    if not directory.info_path.is_file() or not directory.config_path.is_file():
        return None
    by_clock = config.checkpoint.every is not None and config.checkpoint.every.is_wall_clock
    try:
        return newest_resumable(directory, exact_only=not by_clock)
    except CheckpointFormatError:
        raise
    except CheckpointError as error:  # those that are there were saved by a signal, or are damaged
        _log.warning("%s begins anew: %s", directory.path, error.what)
        return None


@contextmanager
def _alone(job: Job) -> Iterator[None]:
    """One process works on a job at a time: one whose driver was killed takes a moment to save and end.

    The run's own lock does not suffice, as a process holds it only once its run directory stands.
    """
    until = time.monotonic() + _WAIT_FOR_ORPHANS
    with job.log.with_suffix(".lock").open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise UserError(
                        "another process still trains this run", where=str(job.run), fix="stop it first"
                    ) from None
                time.sleep(0.05)
        yield


def _write_down(trainer: RLTrainer, config: TrainerConfig, directory: RunDirectory) -> None:
    """The result of a third party's trainer, which keeps no run directory, as a run with one evaluation."""
    mean, std = trainer.evaluate(config.evaluation.episodes, config.evaluation.deterministic)
    env_id = config.env.id if config.env is not None else "custom"
    RunDirectory.create_at(directory.path, env_id, config.algorithm, config.name or config.algorithm)
    log = MetricsLog(directory.metrics_path, directory.episodes_path)
    steps = int(config.total_timesteps.amount) if config.total_timesteps.unit == "steps" else 0
    log.record(steps, 0, 0, {"eval/mean_reward": float(mean), "eval/std_reward": float(std)})
    log.close()
    directory.update_info(status="finished", steps=steps, seed=config.seed)


class JobCosts:
    """The file in which a job keeps what it has cost so far; a thread writes it now and then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._started = time.monotonic()
        self._children_peak = 0
        self._over = threading.Event()
        self._write(None)
        self._thread = threading.Thread(target=self._keep_up, daemon=True)
        self._thread.start()

    def close(self, error: str | None) -> None:
        """Write the last state, with the error that ended the job if there was one."""
        self._over.set()
        self._thread.join()
        self._write(error)

    def _keep_up(self) -> None:
        while not self._over.wait(_WRITE_EVERY):
            self._write(None)

    def _write(self, error: str | None) -> None:
        times = os.times()
        own, children = _peak_memory()
        self._children_peak = max(self._children_peak, children)
        session = {
            "pid": os.getpid(),
            "seconds": round(time.monotonic() - self._started, 3),
            "core_seconds": round(times.user + times.system + times.children_user + times.children_system, 3),
            "peak_memory": own + self._children_peak,
            "error": error,
        }
        try:
            atomic.write_atomic(self._path, strict_json.dumps(session) + "\n")
        except OSError:
            traceback.print_exc()  # the run itself must not end for want of its costs


def _peak_memory() -> tuple[int, int]:
    """Most bytes this process has held, and the sum of that over the processes it has started (env workers)."""
    if sys.platform != "linux":
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return (peak if sys.platform == "darwin" else peak * 1024), 0
    children: list[str] = []
    for task in Path("/proc/self/task").iterdir():
        try:
            children += (task / "children").read_text().split()
        except OSError:
            continue  # the thread has ended, or this kernel does not tell
    return _high_water("self"), sum(_high_water(pid) for pid in children)


def _high_water(pid: str) -> int:
    # not getrusage, whose maximum a process inherits from the one that started it
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def _in_words(error: BaseException) -> str:
    """The first line of what went wrong: the log has the rest."""
    text = without_secrets(str(error).splitlines()[0]) if str(error) else ""
    if isinstance(error, UserError):
        return text
    return f"{type(error).__name__}: {text}".rstrip(": ")

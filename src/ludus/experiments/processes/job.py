"""One training of many: its settings, the work of its process, and its session file.

An interrupted job resumes from its newest exact checkpoint, or restarts if there is none, so that it ends with the
results of an uninterrupted run. While it trains, it updates a small session file: its error, processor time and memory.
"""

from __future__ import annotations

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
from ludus.errors import EXIT_FAULT, EXIT_INTERRUPTED, CheckpointError, LudusError, UserError, printable
from ludus.posix import lock_file
from ludus.runs import atomic, strict_json
from ludus.runs.checkpoints import Checkpoint, CheckpointFormatError
from ludus.runs.directory import RunDirectory
from ludus.secret_values import without_secrets
from ludus.tracking.tracker import MetricsLog
from ludus.training.base import RLTrainer, TrainResult
from ludus.training.factory import create_trainer
from ludus.training.resume import newest_resumable, repair_run_files
from ludus.training.trainer import RunTrainer

_log = logging.getLogger("ludus.experiments")
_WRITE_EVERY = 2.0
_WAIT_FOR_ORPHANS = 60.0


@dataclass(frozen=True)
class Job:
    """A training to run. `config` is a YAML file, `settings` are config keys that override it, `run` is its directory.

    `env` is a function that makes the env, if the config cannot name it; `session` is the session file, `log` the
    output of the process. `registrations` are envs that only the driver has registered.
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
    """Return the envs that this program registered with Gymnasium itself."""
    return {
        name: spec
        for name, spec in gym.registry.items()
        if not str(spec.entry_point).startswith("gymnasium.")
    }


def run_job(job: Job) -> int:
    """Train the job in this process, which does nothing else; return the exit code. It never raises."""
    sys.argv[:] = job.argv
    for env_id, spec in job.registrations.items():
        gym.registry.setdefault(env_id, spec)
    session = JobCosts(job.session)
    try:
        with _locked(job):
            code = _train(job)
        session.close(error=None)
    except KeyboardInterrupt:
        session.close(error=None)
        return EXIT_INTERRUPTED
    except BaseException as error:  # the process ends here: report any error
        print(printable(without_secrets(traceback.format_exc()), keep="\n\t"), file=sys.stderr)
        session.close(error=_describe_error(error))
        return error.exit_code if isinstance(error, LudusError) else EXIT_FAULT
    return code


def _train(job: Job) -> int:
    directory = RunDirectory(job.run)
    loaded = load_config(job.config, flags=job.settings)
    with loaded.locating_errors():
        trainer = create_trainer(job.env, loaded.config)
        checkpoint = resume_checkpoint(directory, loaded.config)
        if checkpoint is not None and hasattr(trainer, "resume"):
            # with the values that `auto` had when the run began; its own config has them
            repair_run_files(directory)
            trainer = create_trainer(job.env, load_config(directory.config_path).config)
            options: Any = {"discard_later": True} if isinstance(trainer, RunTrainer) else {}
            trainer.resume(directory, checkpoint.name, **options)  # type: ignore[attr-defined]
        elif directory.path.exists():
            atomic.remove(directory.path)
        try:
            result = trainer.train()
            if isinstance(result, TrainResult):
                return result.exit_code
            _record_result(trainer, loaded.config, directory)
            return 0
        finally:
            trainer.close()


def resume_checkpoint(directory: RunDirectory, config: TrainerConfig) -> Checkpoint | None:
    """Return the checkpoint from which the run repeats an uninterrupted one; None to restart.

    If checkpoints of the config are never exact (saved by the clock), return the newest instead.
    """
    if not directory.info_path.is_file() or not directory.config_path.is_file():
        return None
    by_clock = config.checkpoint.every is not None and config.checkpoint.every.is_wall_clock
    try:
        return newest_resumable(directory, exact_only=not by_clock)
    except CheckpointFormatError:
        raise
    except CheckpointError as error:  # the existing ones were saved by a signal, or are damaged
        _log.warning("%s restarts from scratch: %s", directory.path, error.what)
        return None


@contextmanager
def _locked(job: Job) -> Iterator[None]:
    """Hold the lock of a job: a process whose driver was killed takes a moment to save and exit.

    The lock of the run is not enough: a process holds it only after the run directory was created.
    """
    until = time.monotonic() + _WAIT_FOR_ORPHANS
    with job.log.with_suffix(".lock").open("a") as file:
        while True:
            try:
                lock_file(file, wait=False)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise UserError(
                        "another process is still training this run", where=str(job.run), fix="stop it first"
                    ) from None
                time.sleep(0.05)
        yield


def _record_result(trainer: RLTrainer, config: TrainerConfig, directory: RunDirectory) -> None:
    """Write the result of a trainer without a run directory (by a plugin) as a run with one evaluation."""
    mean, std = trainer.evaluate(config.evaluation.episodes, config.evaluation.deterministic)
    env_id = config.env.id if config.env is not None else "custom"
    RunDirectory.create_at(directory.path, env_id, config.algorithm, config.name or config.algorithm)
    log = MetricsLog(directory.metrics_path, directory.episodes_path)
    steps = int(config.total_timesteps.amount) if config.total_timesteps.unit == "steps" else 0
    log.record(steps, 0, 0, {"eval/mean_reward": float(mean), "eval/std_reward": float(std)})
    log.close()
    directory.update_info(status="finished", steps=steps, seed=config.seed)


class JobCosts:
    """The session file with the costs of a job so far; a thread updates it regularly."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._started = time.monotonic()
        self._children_peak = 0
        self._over = threading.Event()
        self._write(None)
        self._thread = threading.Thread(target=self._write_regularly, daemon=True)
        self._thread.start()

    def close(self, error: str | None) -> None:
        """Write the last state, with the error that ended the job if there was one."""
        self._over.set()
        self._thread.join()
        self._write(error)

    def _write_regularly(self) -> None:
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
            traceback.print_exc()  # the run must not fail because its costs cannot be written


def _peak_memory() -> tuple[int, int]:
    """Return the peak memory of this process, and the sum over its child processes (env workers), in bytes."""
    if sys.platform == "linux":
        children: list[str] = []
        for task in Path("/proc/self/task").iterdir():
            try:
                children += (task / "children").read_text().split()
            except OSError:
                continue  # the thread has ended, or this kernel does not have the file
        return _high_water("self"), sum(_high_water(pid) for pid in children)
    elif sys.platform == "win32":  # noqa: RET505  # mypy reads branches for platforms, not what follows them
        return 0, 0
    else:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return (peak if sys.platform == "darwin" else peak * 1024), 0


def _high_water(pid: str) -> int:
    # not getrusage: a process inherits its maximum from the parent
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def _describe_error(error: BaseException) -> str:
    """Return the first line of the error; the log has the rest."""
    text = without_secrets(str(error).splitlines()[0]) if str(error) else ""
    if isinstance(error, UserError):
        return text
    return f"{type(error).__name__}: {text}".rstrip(": ")

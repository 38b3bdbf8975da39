"""SIGINT, SIGTERM and SIGHUP, once and twice, while a run collects, learns, evaluates, saves and records a video.

Who stops a container waits ten seconds and then kills: what is not over by then has failed here.
"""

from __future__ import annotations

import itertools
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from driver import drive
from killable_runs import alone, write_config
from test_damaged_files import self_play_config

from ludus.cli.app import main
from ludus.evaluation import evaluate
from ludus.evaluation.encoding import VideoWriter
from ludus.league import match
from ludus.rollout.stepper import Stepper
from ludus.runs import atomic
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.tracking.jsonl import read_jsonl
from ludus.training.factory import open_trainer
from ludus.training.session import Session

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals"),
]

GRACE = 10.0
LONGEST = 120.0  # until a run is in its phase
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}
PHASES = ("collecting", "updating", "evaluating", "saving", "recording")


def config_for(folder: Path, **fields: Any) -> Path:
    return write_config(
        folder,
        "PPO",
        total_timesteps=10**9,
        threads=1,
        checkpoint={"every": 128, "keep": 2},
        evaluation={"every": 384, "episodes": 1},
        video={"every": 512, "length": 500},
        tracking={"every": 64, "tensorboard": False},
        **fields,
    )


class Caller:
    """Sends signals out of the middle of a phase, the first time it is in it after `steps` steps were trained."""

    def __init__(self, send: Callable[[], None], steps: int = 300) -> None:
        self.send = send
        self.run: Session | None = None
        self.steps = steps
        self.sent = False

    def arm(self, phase: str) -> None:
        begin = Session.begin

        def noticed(run: Session, *arguments: Any) -> None:
            self.run = run
            if phase == "updating":
                self._watch(type(run.learner), "learn")
            begin(run, *arguments)

        Session.begin = noticed  # type: ignore[method-assign]
        if phase == "collecting":
            self._watch(Stepper, "step_wait")
        elif phase == "evaluating":
            self._watch(evaluate, "choose", slow=1.0)  # so long that it must be broken off
            self._watch(evaluate, "read_masks", slow=1.0)
            self._watch(match._Match, "tick", slow=1.0)
        elif phase == "saving":
            self._watch(atomic, "sync")
        elif phase == "recording":
            self._watch(VideoWriter, "write", slow=1.0)

    def _watch(self, place: Any, name: str, slow: float = 0.0) -> None:
        original = getattr(place, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if self.run is not None and self.run.num_timesteps >= self.steps:
                if not self.sent:
                    self.sent = True
                    self.send()
                time.sleep(slow)
            return original(*arguments, **named)

        setattr(place, name, call)


def stopped_in(
    phase: str, run: Path, config: Path, numbers: list[signal.Signals], steps: int = 300, group: bool = False
) -> tuple[int | None, float]:
    """Train in a child that gets the signals in this phase: its exit code (None: killed after the grace), seconds."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()

            def send() -> None:
                os.write(write_end, b".")
                for number in numbers:
                    if group:
                        os.killpg(0, number)
                    else:
                        os.kill(os.getpid(), number)

            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            Caller(send, steps).arm(phase)
            os._exit(main(["train", str(config), f"run_dir={run}", "--quiet"]))
        finally:
            os._exit(99)
    os.close(write_end)
    came, _, _ = select.select([read_end], [], [], LONGEST)
    if not came:
        os.kill(child, signal.SIGKILL)
    assert came and os.read(read_end, 1) == b".", "the run ended, or was ended, before it came to this phase"
    os.close(read_end)
    began = time.monotonic()
    while time.monotonic() - began < GRACE:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status), time.monotonic() - began
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None, GRACE


def trouble_after(
    run: Path, code: int | None, numbers: list[signal.Signals], interval: int
) -> tuple[str, int]:
    """Return the problem with how the run ended (empty if none), and the number of lost steps."""
    if code != CODES[numbers[-1]]:
        return f"exit code {code}", 0
    reached = max((int(row["step"]) for row in read_jsonl(run / "metrics.jsonl")), default=0)
    newest = CheckpointManager(run / "checkpoints").newest_intact()
    if newest is None:
        return "no checkpoint to resume from", 0
    lost = max(reached - newest.step, 0)
    status = RunDirectory.open(run).info()["status"]
    if len(numbers) == 1 and (status != "interrupted" or lost):
        return f"{status}, {lost} steps lost", lost
    if lost > interval:
        return f"{lost} steps lost", lost
    directory = RunDirectory.open(run)
    trainer = open_trainer(directory)
    trainer.resume(directory)
    total: Any = (
        newest.step + 128 if interval > 100 else f"{int(newest.state()['progress']['updates']) + 1} updates"
    )
    result = trainer.train(total)
    trainer.close()
    return ("" if result.status == "finished" else f"went on to {result.status}"), lost


def try_all(
    cases: list[tuple[str, list[signal.Signals], dict[str, Any]]],
    config: Path,
    folder: Path,
    record_fault: Any,
    fault: str,
    interval: int = 128,
    **how: Any,
) -> None:
    trouble, lost, slowest = [], 0, 0.0
    for number, (phase, numbers, more) in enumerate(cases):
        run = folder / f"run-{number}"
        code, seconds = stopped_in(phase, run, config, numbers, **(how | more))
        problem, steps = trouble_after(run, code, numbers, interval)
        lost, slowest = max(lost, steps), max(slowest, seconds)
        if problem:
            trouble.append(f"{phase}, {[one.name for one in numbers]}: {problem}")
    record_fault(
        fault, len(cases), len(cases) - len(trouble), f"{lost} steps at most; over within {slowest:.1f} s"
    )
    assert trouble == [], trouble


@alone
def test_one_signal_saves_and_ends_in_time(tmp_path: Path, record_fault: Any) -> None:
    config = config_for(tmp_path)
    warm_up(tmp_path, config)
    cases = [(phase, [number], {}) for phase, number in itertools.product(PHASES, CODES)]
    try_all(cases, config, tmp_path, record_fault, "SIGINT, SIGTERM or SIGHUP in every phase")


@alone
def test_a_second_signal_ends_it_at_once_and_what_was_saved_is_whole(
    tmp_path: Path, record_fault: Any
) -> None:
    config = config_for(tmp_path)
    warm_up(tmp_path, config)
    pairs = [
        (signal.SIGTERM, signal.SIGTERM),
        (signal.SIGINT, signal.SIGINT),
        (signal.SIGTERM, signal.SIGINT),
        (signal.SIGHUP, signal.SIGTERM),
    ]
    cases = [(phase, list(pair), {}) for phase, pair in itertools.product(PHASES, pairs)]
    try_all(cases, config, tmp_path, record_fault, "a second signal in every phase", interval=256)


@alone
def test_worker_processes_leave_the_end_to_their_run(tmp_path: Path, record_fault: Any) -> None:
    config = config_for(tmp_path, vector="process")
    warm_up(tmp_path, config)
    # Ctrl-C and a lost terminal reach every process of the group; a container stops its first process
    cases: list[tuple[str, list[signal.Signals], dict[str, Any]]] = [
        (phase, [number], {"group": number != signal.SIGTERM})
        for phase, number in itertools.product(("collecting", "updating"), (signal.SIGINT, signal.SIGTERM))
    ]
    try_all(cases, config, tmp_path, record_fault, "SIGINT to the whole group, SIGTERM to the run alone")


@alone
def test_self_play_ends_in_time_too(tmp_path: Path, record_fault: Any) -> None:
    pytest.importorskip("textarena")
    config = self_play_config(tmp_path)
    warm_up(tmp_path, config)
    config.write_text(config.read_text().replace("3 updates", "100000 updates"))
    cases = [
        (phase, [number], {})
        for phase, number in itertools.product(
            ("updating", "evaluating", "saving"), (signal.SIGINT, signal.SIGTERM)
        )
    ]
    try_all(
        cases, config, tmp_path, record_fault, "SIGINT or SIGTERM during self-play", interval=20, steps=10
    )


def warm_up(folder: Path, config: Path) -> None:
    """Load and compile everything once, for all the children."""
    short = folder / "short.yaml"
    short.write_text(
        config.read_text().replace(str(10**9), "128").replace("vector: process", "vector: serial")
    )
    drive(str(folder / "warm"), str(short))

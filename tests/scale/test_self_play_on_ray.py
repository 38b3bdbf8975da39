"""Self-play on Ray: samplers and learners in separate processes train as one would, and tolerate losses."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from test_language_training import config_of, games_of, trainer_of
from tiny_runs import resumed, rows, same, steps_of

from ludus.errors import CollectorsLost
from ludus.language.trainer import LanguageTrainer
from ludus.runs.directory import RunDirectory
from ludus.runs.rescaling import ask_for

SCALE = {"num_actors": 2, "num_learners": 2, "cpus_per_actor": 0.5}

pytestmark = pytest.mark.usefixtures("four_nodes")


def scaled(folder: Path, **fields: Any) -> Any:
    return config_of(folder, **({"scale": SCALE} | fields))


def train(config: Any) -> RunDirectory:
    trainer = trainer_of(config)
    try:
        return RunDirectory.open(trainer.train().run)
    finally:
        trainer.close()


@pytest.fixture(scope="module")
def whole(four_nodes: Any, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run on two samplers and two learners that nothing has happened to."""
    return train(scaled(tmp_path_factory.mktemp("whole")))


def pid(place: str) -> int:
    return int(place.rpartition(" ")[2])


def test_two_samplers_and_two_learners_are_resumed_exactly(whole: RunDirectory, tmp_path: Path) -> None:
    cut = RunDirectory.open(shutil.copytree(whole.path, tmp_path / "cut"))
    start, middle, end = steps_of(cut)
    assert start == 0 < middle < end
    assert resumed(cut, middle) == middle
    same(whole, cut)
    assert games_of(whole, "train") == games_of(cut, "train")


def test_a_killed_run_resumes_to_the_same_end(whole: RunDirectory, four_nodes: Any, tmp_path: Path) -> None:
    changed = [f"save_dir={tmp_path}", f"scale.ray={four_nodes.address}"]
    command = [sys.executable, "-m", "ludus", "train", str(whole.config_path), "--quiet"]
    process = subprocess.Popen([*command, *changed])
    try:
        latest = until(lambda: next(tmp_path.glob("*/*/*/checkpoints/latest.json"), None))
        cut = RunDirectory.open(latest.parents[1])
        until((cut.checkpoints_dir / "best.json").exists)  # the last that is written of the second checkpoint
    finally:
        process.kill()
        process.wait()
    assert resumed(cut) > 0
    same(whole, cut)


def until(condition: Any, seconds: float = 300.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise TimeoutError


class Assassin:
    """A callback that kills a process in the middle of a collection: the `after`th step of the run."""

    def __init__(self, victim: Any, after: int) -> None:
        self.victim, self.left, self.killed_at = victim, after, 0.0

    def __call__(self, local: dict[str, Any], everything: dict[str, Any]) -> bool:
        self.left -= 1
        if self.left == 0:
            os.kill(pid(self.victim()), signal.SIGKILL)
            self.killed_at = time.monotonic()
        return True


def test_a_lost_sampler_costs_nothing_but_time(tmp_path: Path) -> None:
    trainer = trainer_of(scaled(tmp_path, scale=SCALE | {"num_learners": 1}))
    try:
        trainer.create_model()
        assassin = Assassin(lambda: trainer._engine.locations[1], after=5)
        result = trainer.train(callback=assassin)
        assert assassin.killed_at and trainer._engine.lost == 1
        assert result.status == "finished"
        found = rows(RunDirectory.open(result.run))
        counted = sum(row["games/turns"] for row in found if "games/turns" in row)
        assert counted == result.steps == found[-1]["step"]
        assert trainer._engine.number == 2
    finally:
        trainer.close()


def test_a_lost_learner_takes_the_run_back_to_its_last_checkpoint_and_no_further(
    whole: RunDirectory, tmp_path: Path
) -> None:
    trainer = trainer_of(scaled(tmp_path))
    try:
        trainer.create_model()
        assassin = Assassin(lambda: trainer.ranks.locations[0], after=6)
        result = trainer.train(callback=assassin)
        assert assassin.killed_at
    finally:
        trainer.close()
    same(whole, RunDirectory.open(result.run))


def test_a_run_that_loses_too_many_ends_and_says_why(tmp_path: Path) -> None:
    trainer = trainer_of(scaled(tmp_path, scale=SCALE | {"max_failures": 0, "num_learners": 1}))
    try:
        trainer.create_model()
        with pytest.raises(CollectorsLost, match=r"sampler 0 .* was lost"):
            trainer.train(callback=Assassin(lambda: trainer._engine.locations[0], after=3))
        assert trainer.run is not None
        info = json.loads((trainer.run.path / "run.json").read_text())
        assert info["status"] == "failed" and "was lost" in info["error"]
    finally:
        trainer.close()


def test_samplers_and_learners_come_and_go_while_it_trains(tmp_path: Path) -> None:
    trainer = trainer_of(scaled(tmp_path, total_timesteps="6 updates"))
    seen: list[tuple[int, int]] = []
    asked = iter([{"num_actors": 1}, {"num_actors": 3, "num_learners": 1}, {"num_learners": 2}])

    class Changing:
        """Asks for other numbers at the start of every second update."""

        updates = -1

        def __call__(self, local: dict[str, Any], everything: dict[str, Any]) -> bool:
            assert isinstance(trainer, LanguageTrainer) and trainer.session is not None
            now = trainer.session.progress.updates
            if now != self.updates:
                self.updates = now
                seen.append((trainer._engine.number, trainer.ranks.peers.size))
                if now % 2 == 0 and (numbers := next(asked, None)):
                    ask_for(trainer.run.path, numbers)
            return True

    try:
        trainer.create_model()
        assert trainer.train(callback=Changing()).status == "finished"
    finally:
        trainer.close()
    assert seen == [(2, 2), (1, 2), (1, 2), (3, 1), (3, 1), (3, 2)]

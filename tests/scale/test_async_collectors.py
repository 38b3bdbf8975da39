"""Asynchronous collectors: experience within the staleness bound, each sample used once, losses tolerated."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from losing import Injector, pid_of
from scripted_fleet import ScriptedFleet, collected
from tiny_runs import resumed, rows, tiny, trained, trainer_for

from ludus.config.sections import ScaleConfig
from ludus.rollout.experience import Transitions
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.scale.collectors import AsyncCollector
from ludus.scale.planning import cores_to_learn


def collector_over(slowness: list[int], bound: int, away: int = 1) -> tuple[AsyncCollector, ScriptedFleet]:
    fleet = ScriptedFleet(slowness)
    return AsyncCollector(fleet, None, 3, bound, away), fleet  # type: ignore[arg-type]


@pytest.mark.parametrize("away", [1, 2])
@pytest.mark.parametrize("bound", [0, 1, 2, 5])
@pytest.mark.parametrize("slowness", [[1, 1], [1, 7], [1, 1, 1, 20], [3, 1, 2]])
def test_no_collection_is_older_than_the_bound_and_none_is_lost_or_used_twice(
    away: int, bound: int, slowness: list[int]
) -> None:
    collector, _ = collector_over(slowness, bound, away)
    learnt: list[float] = []
    worst = 0.0
    for _ in range(60):
        experience = collected(collector)
        assert isinstance(experience, Transitions) and experience.steps >= len(slowness)
        learnt += experience.obs.tolist()
        worst = max(worst, collector.take_metrics()["rollout/staleness_max"])
    assert worst <= bound
    assert len(set(learnt)) == len(learnt)
    collector.rest()
    kept = [pending.ticket for pending in collector._pending]
    assert sorted([*learnt, *kept]) == list(range(1, len(learnt) + len(kept) + 1))


def test_a_slow_shard_does_not_hold_up_the_others_within_the_bound() -> None:
    collector, fleet = collector_over([1, 1, 1, 12], 4)
    waits = 0
    wait = fleet.wait

    def counted(tickets: list[int], seconds: float) -> list[int]:
        nonlocal waits
        waits += 1
        return wait(tickets, seconds)

    fleet.wait = counted  # type: ignore[method-assign]
    for _ in range(40):
        collected(collector)
    assert waits < 40 * 12 / 2  # in step with the slow one every update would take 12


def test_a_lost_shard_costs_what_it_had_not_brought_home() -> None:
    collector, fleet = collector_over([1, 3], 2)
    learnt: list[float] = []
    for number in range(30):
        if number in (5, 17):
            fleet.dies.add(fleet.queues[1][0])
        learnt += collected(collector).obs.tolist()
    assert collector.losses.total == 2
    assert len(set(learnt)) == len(learnt) and not fleet.dies & set(map(int, learnt))


@pytest.mark.parametrize(("bound", "lost"), [(0, [1]), (2, [0, 2]), (2, [0, 1, 2])])
def test_the_others_play_on_while_a_lost_shard_is_replaced(bound: int, lost: list[int]) -> None:
    collector, fleet = collector_over([1, 1, 1, 1], bound)
    fleet.absence = 10**9
    collected(collector)
    ask = fleet.ask

    def deadly(index: int, method: str, *args: Any) -> Any:
        ticket = ask(index, method, *args)
        if index in lost:
            fleet.dies.add(ticket)
        return ticket

    fleet.ask = deadly  # type: ignore[method-assign]
    for _ in range(20):
        assert collected(collector).steps == 4
        assert collector.take_metrics()["rollout/staleness_max"] <= bound
    assert collector.losses.total == len(lost)
    fleet.ask, fleet.absent = ask, dict.fromkeys(lost, 0)  # type: ignore[method-assign]
    for _ in range(3):  # what others have played in its place is not played once more
        assert collected(collector).steps == 4
    assert not collector._lost


CASES: dict[str, dict[str, Any]] = {
    "PPO": {"total_timesteps": 2048},
    "A2C": {"total_timesteps": 640},
    "DQN": {"total_timesteps": 640},
    "SAC": {"total_timesteps": 480},
}


@pytest.mark.parametrize("algorithm", CASES)
def test_each_algorithm_trains_to_its_total(algorithm: str, four_nodes: Any, tmp_path: Path) -> None:
    scale = {"collectors": 2, "mode": "async", "max_staleness": 2}
    run = trained(tiny(tmp_path, algorithm, n_envs=4, scale=scale, **CASES[algorithm]))
    written = rows(run)
    assert written[-1]["step"] == CASES[algorithm]["total_timesteps"]
    ages = [row["rollout/staleness_max"] for row in written if "rollout/staleness_max" in row]
    assert ages and max(ages) <= 2


def test_collectors_leave_the_learner_a_core_and_make_way_for_it(four_nodes: Any, tmp_path: Path) -> None:
    sync = ScaleConfig(collectors=2)
    together = sync.model_copy(update={"mode": "async"})
    assert cores_to_learn(sync, 2) == 2  # nobody plays meanwhile
    assert [cores_to_learn(together, cores) for cores in (1, 2, 3, 8)] == [1, 1, 1, 6]
    trainer = trainer_for(tiny(tmp_path, n_envs=2, scale={"collectors": 2, "mode": "async"}))
    try:
        trainer.create_model()
        assert isinstance(trainer.collector, AsyncCollector)
        fleet = trainer.collector.fleet
        ours = os.getpriority(os.PRIO_PROCESS, 0)
        for index in range(2):
            assert os.getpriority(os.PRIO_PROCESS, pid_of(fleet.location(index))) > ours
    finally:
        trainer.close()


def test_losses_and_resume_keep_the_count_exact(four_nodes: Any, tmp_path: Path) -> None:
    scale = {"collectors": 2, "mode": "async"}
    config = tiny(
        tmp_path, n_envs=4, total_timesteps=4096, checkpoint={"every": 1024, "keep": 0}, scale=scale
    )
    injector = Injector(at=[3, 9], seed=5)
    run = trained(config, callback=injector)
    assert injector.killed == 2
    counted(run, 4096)
    checkpoints = CheckpointManager(run.checkpoints_dir)
    assert not any(checkpoints.find(step).exact for step in (1024, 2048, 3072))  # type: ignore[union-attr]
    assert resumed(run, 2048) == 2048
    counted(run, 4096)


def counted(run: RunDirectory, total: int) -> None:
    """Every update took the steps of all envs, and no episode holds more steps than there were."""
    written = rows(run)
    assert written[-1]["step"] == total and all(row["step"] == 256 * row["updates"] for row in written)
    episodes = [json.loads(line) for line in run.episodes_path.read_text().splitlines()]
    assert sum(episode["length"] for episode in episodes) <= total

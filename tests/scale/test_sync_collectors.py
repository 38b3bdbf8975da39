"""Synchronous collectors: the same bytes on one node and on four, in spite of losses, and across kill and resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from losing import Injector
from safetensors.numpy import load_file
from tiny_runs import resumed, rows, same, steps_of, tiny, trained, trainer_for

from ludus.config.schema import TrainerConfig
from ludus.errors import CollectorsLost, ConfigError
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory

pytestmark = pytest.mark.usefixtures("four_nodes")
EVERY = {"checkpoint": {"every": 512, "keep": 0}}


def scaled(folder: Path, collectors: int, algorithm: str = "PPO", **fields: Any) -> TrainerConfig:
    scale = {"collectors": collectors} | fields.pop("scale", {})
    defaults: dict[str, Any] = {"n_envs": 4, "total_timesteps": 2048}
    return tiny(folder, algorithm, scale=scale, **(defaults | EVERY | fields))


@pytest.fixture(scope="module")
def undisturbed(four_nodes: Any, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Two collectors on two nodes."""
    return trained(scaled(tmp_path_factory.mktemp("undisturbed"), 2))


def policy_of(run: RunDirectory) -> dict[str, Any]:
    return load_file(run.checkpoints_dir / f"{steps_of(run)[-1]:012d}" / "policy.safetensors")


@pytest.mark.parametrize("algorithm", ["PPO", "DQN"])
def test_one_collector_gives_the_bytes_of_a_run_without_scale(algorithm: str, tmp_path: Path) -> None:
    fields = EVERY | {"n_envs": 2, "total_timesteps": 1024 if algorithm == "PPO" else 640}
    plain = trained(tiny(tmp_path / "plain", algorithm, **fields))
    run = trained(scaled(tmp_path / "scaled", 1, algorithm, **fields))
    assert rows(run) == rows(plain)
    assert run.episodes_path.read_text() == plain.episodes_path.read_text()
    ours, theirs = policy_of(run), policy_of(plain)
    assert ours.keys() == theirs.keys() and all((ours[name] == theirs[name]).all() for name in ours)


def test_where_collectors_are_placed_changes_nothing(undisturbed: RunDirectory, tmp_path: Path) -> None:
    crowded = trained(scaled(tmp_path, 2, scale={"cpus_per_collector": 0.5}))
    same(undisturbed, crowded)


def test_from_a_middle_checkpoint_to_the_same_end(undisturbed: RunDirectory, tmp_path: Path) -> None:
    cut = trained(scaled(tmp_path, 2))
    middle = steps_of(cut)[1]
    assert resumed(cut, middle) == middle
    same(undisturbed, cut)


@pytest.mark.parametrize("seed", [1, 2])
def test_losing_collectors_at_random_moments_changes_nothing(
    seed: int, undisturbed: RunDirectory, tmp_path: Path
) -> None:
    injector = Injector(at=[2, 6], seed=seed)
    run = trained(scaled(tmp_path, 2), callback=injector)
    assert injector.killed == 2
    same(undisturbed, run)


def test_too_many_losses_end_the_run_with_the_cause_and_a_checkpoint(tmp_path: Path) -> None:
    config = scaled(tmp_path, 2, scale={"max_failures": 1})
    trainer = trainer_for(config)
    try:
        with pytest.raises(CollectorsLost) as caught:
            trainer.train(callback=Injector(at=[3, 5, 7], seed=3))
        assert "was lost" in caught.value.what and "process" in caught.value.what
        assert caught.value.where == "scale.max_failures"
        assert trainer.run is not None
        newest = CheckpointManager(trainer.run.checkpoints_dir).newest_intact()
        assert newest is not None and newest.step % 256 == 0 and newest.step >= 512
        run = trainer.run
    finally:
        trainer.close()
    assert resumed(run) == newest.step  # and what was saved can be gone on from
    assert rows(run)[-1]["step"] == 2048


def test_envs_that_cannot_be_shared_evenly_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="3 collectors cannot share 4 envs") as caught:
        trained(scaled(tmp_path, 3))
    assert caught.value.key == "scale.collectors"


def test_losing_a_node_changes_nothing(undisturbed: RunDirectory, four_nodes: Any, tmp_path: Path) -> None:
    """Last of all: the cluster is smaller afterwards."""
    config = scaled(tmp_path / "node", 4)
    whole = trained(config.model_copy(update={"save_dir": str(tmp_path / "whole")}))
    injector = Injector(at=[3], seed=1, cluster=four_nodes)
    run = trained(config, callback=injector)
    assert injector.killed == 1
    same(whole, run)

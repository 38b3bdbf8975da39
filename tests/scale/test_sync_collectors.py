"""Synchronous collectors: the same bytes on one node and on four, in spite of losses, and across kill and resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from losing import Injector
from safetensors.numpy import load_file
from tiny_runs import resumed, rows, same, steps_of, tiny, trained, trainer_for

from ludus.config.loading import load_config
from ludus.config.schema import TrainerConfig
from ludus.errors import CollectorsLost, ConfigError, EnvFault
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.scale.collectors import SyncCollector
from ludus.scale.shard import Version

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


@pytest.mark.parametrize(("seed", "within"), [(1, 0.0), (2, 0.05)])
def test_losing_collectors_at_random_moments_changes_nothing(
    seed: int, within: float, undisturbed: RunDirectory, tmp_path: Path
) -> None:
    """The third collection is the first after a checkpoint."""
    injector = Injector(at=[3, 6], seed=seed, within=within)
    run = trained(scaled(tmp_path, 2), callback=injector)
    assert injector.killed == 2
    same(undisturbed, run)


def test_too_many_losses_end_the_run_with_the_cause_and_a_checkpoint(tmp_path: Path) -> None:
    config = scaled(tmp_path, 2, scale={"max_failures": 1})
    trainer = trainer_for(config)
    try:
        with pytest.raises(CollectorsLost) as caught:
            trainer.train(callback=Injector(at=[3, 5, 7], seed=3, within=0.0))
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


def test_what_an_env_raises_ends_the_run_with_its_own_traceback(tmp_path: Path) -> None:
    env = {"id": "odd_envs:FaultyWalk-v0", "kwargs": {"fails_at": 50}}
    with pytest.raises(EnvFault) as caught:
        trained(scaled(tmp_path, 2, env=env))
    assert "odd_envs.py" in caught.value.user_traceback


def test_versions_and_experience_are_read_where_they_lie(four_nodes: Any, tmp_path: Path) -> None:
    import ray
    from ray.experimental import get_object_locations

    config = scaled(tmp_path, 2, scale={"cpus_per_collector": 0.5}, hyperparams={"n_steps": 2048})
    trainer = trainer_for(config)
    try:
        policy = trainer.create_model()
        collector = trainer.collector
        assert isinstance(collector, SyncCollector)
        collector.barrier(0)
        fleet = collector.fleet
        version = fleet.publish(Version.of(0, policy, None))
        tickets = [fleet.ask(index, "collect", version) for index in range(2)]
        harvests = [fleet.answer(index, ticket) for index, ticket in enumerate(tickets)]
        places = get_object_locations([version])[version]["node_ids"]
        assert (
            len(places) == len(set(places)) <= 5
        )  # the driver's node, and each where a collector plays: once
        for harvest in harvests:
            obs = harvest.experience.obs
            assert not obs.flags.writeable and not obs.flags.owndata  # Ray's own memory, unpickled never
    finally:
        trainer.close()
    assert ray.is_initialized()  # a connection that somebody else made stays


def test_four_collectors_on_four_nodes_learn_cartpole(four_nodes: Any, tmp_path: Path) -> None:
    loaded = load_config("cartpole-ppo", [f"save_dir={tmp_path}", "scale.collectors=4", "seed=1"])
    trainer = trainer_for(loaded.config)
    try:
        trainer.create_model()
        collector = trainer.collector
        assert isinstance(collector, SyncCollector)
        where = {node["NodeID"] for node in ray_nodes_in_use()}
        assert len(where) == 4
        trainer.train()
        assert trainer.evaluate(100)[0] >= 475
    finally:
        trainer.close()


def ray_nodes_in_use() -> list[dict[str, Any]]:
    """The nodes whose only CPU is taken."""
    import ray
    from ray._private.state import available_resources_per_node

    free = available_resources_per_node()
    return [
        node
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU") and not free.get(node["NodeID"], {}).get("CPU")
    ]


def test_losing_a_node_changes_nothing(undisturbed: RunDirectory, four_nodes: Any, tmp_path: Path) -> None:
    """Last of all: the cluster is smaller afterwards."""
    config = scaled(tmp_path / "node", 4)
    whole = trained(config.model_copy(update={"save_dir": str(tmp_path / "whole")}))
    injector = Injector(at=[3], seed=1, cluster=four_nodes, within=0.0)
    run = trained(config, callback=injector)
    assert injector.killed == 1
    same(whole, run)

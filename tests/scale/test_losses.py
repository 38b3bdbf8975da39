"""A run tolerates a number of losses within an hour, can be stopped during each, and reports the cause at the end."""

from __future__ import annotations

import pytest
from scripted_fleet import ScriptedFleet, collected

from ludus.config.schema import TrainerConfig
from ludus.errors import CollectorsLost, LudusError
from ludus.rollout.collector import CollectionStopped
from ludus.scale.collectors import SyncCollector
from ludus.scale.losses import Losses
from ludus.training.learner_ranks import LearnerRanks


def test_one_loss_too_many_is_reported_with_its_cause() -> None:
    losses = Losses(2)
    losses.count("the first")
    losses.count("the second")
    with pytest.raises(CollectorsLost, match=r"3 workers .* the last: the third"):
        losses.count("the third")
    assert losses.total == 3


def test_a_run_that_gives_up_on_its_learners_does_not_save_half_an_update() -> None:
    config = TrainerConfig(scale={"max_failures": 0})
    with pytest.raises(LudusError, match="a learner was lost") as caught:
        LearnerRanks().lose(config, "a learner was lost")
    assert not isinstance(caught.value, CollectorsLost)  # on which a run saves where it is


def test_a_run_that_lost_a_shard_at_a_checkpoint_can_be_stopped_or_continues() -> None:
    fleet = ScriptedFleet([1, 1])
    collector = SyncCollector(fleet, None, 3)  # type: ignore[arg-type]
    fleet.absence = 10**9
    fleet.dies.add(2)  # shard 1, over the barrier
    collector.barrier(0)
    collector.step_hook = lambda steps: False
    with pytest.raises(CollectionStopped):
        collected(collector)

    collector.step_hook, fleet.absent, fleet.calls = None, {1: 0}, []
    assert collected(collector).steps == 2
    assert [method for index, method in fleet.calls if index == 1] == ["barrier", "collect"]

"""A run bears so many losses within an hour, and says the cause of the one that was too many."""

from __future__ import annotations

import pytest

from ludus.config.schema import TrainerConfig
from ludus.errors import CollectorsLost, LudusError
from ludus.scale.losses import Losses
from ludus.trainers.grouping import Grouping


def test_one_loss_too_many_is_told_with_its_cause() -> None:
    losses = Losses(2)
    losses.count("the first")
    losses.count("the second")
    with pytest.raises(CollectorsLost, match=r"3 workers .* the last: the third"):
        losses.count("the third")
    assert losses.total == 3


def test_a_run_that_gives_up_on_its_learners_does_not_save_half_an_update() -> None:
    config = TrainerConfig(scale={"max_failures": 0})
    with pytest.raises(LudusError, match="a learner was lost") as told:
        Grouping().lose(config, "a learner was lost")
    assert not isinstance(told.value, CollectorsLost)  # on which a run saves where it is

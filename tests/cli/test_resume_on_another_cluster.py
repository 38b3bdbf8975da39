"""A run on Ray may go on where its cluster is now; one without collectors on Ray may not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ludus.cli.resume import _move
from ludus.config.schema import TrainerConfig
from ludus.errors import UserError


def of(**fields: Any) -> Any:
    return SimpleNamespace(config=TrainerConfig(env="CartPole-v1", **fields))


def test_only_the_address_changes() -> None:
    trainer = of(scale={"ray": "10.0.0.1:6379", "collectors": 4, "mode": "async"})
    before = trainer.config.scale
    _move(trainer, "10.0.0.9:6379")
    assert trainer.config.scale == before.model_copy(update={"ray": "10.0.0.9:6379"})


@pytest.mark.parametrize(("fields", "address"), [({}, "local"), ({"scale": {}}, "nowhere")])
def test_what_cannot_be_is_told_in_three_lines(fields: dict[str, Any], address: str) -> None:
    with pytest.raises(UserError) as caught:
        _move(of(**fields), address)
    assert len(str(caught.value).splitlines()) == 3

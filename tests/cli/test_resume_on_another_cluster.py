"""A run with collectors on Ray may resume on another cluster; a run without them may not."""

from __future__ import annotations

from typing import Any

import pytest

from ludus.config.schema import TrainerConfig
from ludus.errors import UserError
from ludus.training.factory import on_cluster


def of(**fields: Any) -> TrainerConfig:
    return TrainerConfig(env="CartPole-v1", **fields)


def test_only_the_address_changes() -> None:
    config = of(scale={"ray": "10.0.0.1:6379", "collectors": 4, "mode": "async"})
    assert config.scale is not None
    expected = config.scale.model_copy(update={"ray": "10.0.0.9:6379"})
    assert on_cluster(config, "10.0.0.9:6379").scale == expected


@pytest.mark.parametrize(("fields", "address"), [({}, "local"), ({"scale": {}}, "nowhere")])
def test_impossible_requests_are_reported_in_three_lines(fields: dict[str, Any], address: str) -> None:
    with pytest.raises(UserError) as caught:
        on_cluster(of(**fields), address)
    assert len(str(caught.value).splitlines()) == 3

"""`ludus envs` and the text games."""

from __future__ import annotations

import pytest
from command_line import Command


def test_envs_lists_the_text_games_a_filter_fits(ludus: Command) -> None:
    pytest.importorskip("textarena")
    found = {env["id"]: env["group"] for env in ludus("envs", "connectfour", "--json").json["envs"]}
    assert found["Text/ConnectFour-v0"] == "text games"
    assert found["ConnectFour-v0-large"] == found["ConnectFour-v0-train"] == "textarena"
    assert "textarena" in ludus("envs").out

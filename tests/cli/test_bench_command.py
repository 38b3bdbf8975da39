"""`ludus bench`: invalid arguments are reported, and a real measurement is printed as a table and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Command


@pytest.mark.long
def test_speed_is_measured_compared_with_a_peer(ludus: Command) -> None:
    pytest.importorskip("stable_baselines3")
    done = ludus(
        "bench", "speed", "--algos", "a2c", "--peers", "sb3", "--steps", 400, "--repeats", 1, "--json"
    )
    assert done.code == 0, done.err
    own, peer = done.json["speed"]
    assert (own["library"], peer["library"]) == ("ludus", "sb3")
    assert own["ratio"] == 1.0 and own["vector"] == "batched"
    assert peer["ratio"] == pytest.approx(own["median"] / peer["median"], rel=0.01, abs=0.005)  # two digits
    assert "a2c-cartpole" in done.err


@pytest.mark.long
def test_growth_with_envs_is_measured_and_drawn(ludus: Command, tmp_path: Path) -> None:
    done = ludus("bench", "envs", "--n-envs", "2", "--steps", 1, "--repeats", 1, "--out", "a b", "--json")
    assert done.code == 0, done.err
    assert [(row["env"], row["n_envs"]) for row in done.json["envs"]] == [
        ("CartPole-v1", 2),
        ("LunarLander-v3", 2),
    ]
    assert {path.name for path in (tmp_path / "a b").iterdir()} == {"envs.html", "envs.json", "envs.svg"}
    assert json.loads((tmp_path / "a b" / "envs.json").read_text())["envs"] == done.json["envs"]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["speed", "ppo-cartpol"], "unknown workload 'ppo-cartpol'"),
        (["speed", "--peers", "sb4"], "unknown peer 'sb4'"),
        (["learn", "--envs", "CartPole-v2"], "unknown env 'CartPole-v2'"),
        (["envs", "--n-envs", "8,many"], "'8,many' is not a list of positive numbers"),
        (["envs", "--n-envs", "0"], "'0' is not a list of positive numbers"),
    ],
)
def test_invalid_arguments_are_reported_before_anything_runs(
    ludus: Command, arguments: list[str], what: str
) -> None:
    done = ludus("bench", *arguments)
    assert done.code == 2
    assert done.error_lines[0] == f"error: {what}"


def test_a_missing_peer_is_reported_with_the_setting_to_change(
    ludus: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUDUS_PEER_PYTHON_SBX", "/no/such/python")
    done = ludus("bench", "speed", "--peers", "sbx")
    assert done.code == 2
    assert "LUDUS_PEER_PYTHON_SBX=/no/such/python" in done.err

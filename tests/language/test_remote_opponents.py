"""Remote models as opponents: their tokens and cost are in the metrics, in the league's table and in match results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from chat_server import Server, spoken
from typer.testing import CliRunner

from ludus.cli.app import app
from ludus.config.schema import TrainerConfig
from ludus.training.factory import create_trainer

GAME = {"id": "KuhnPoker-v0", "template": {"prompt": "{position}"}}  # seat 1 begins


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    found.behave = lambda body, n: spoken("[check]")
    yield found
    found.close()


def test_tokens_of_a_remote_opponent_are_counted_in_training_and_evaluation(
    server: Server, tmp_path: Path
) -> None:
    name = f"openai:small?base_url={server.address}&price_in=1000000"
    config = TrainerConfig(
        algorithm="REINFORCE",
        language={
            "model": "tiny",
            "model_kwargs": {"layers": 1, "hidden": 16, "heads": 2, "context": 32},
            "sampler": {"max_new_tokens": 2},
        },
        games={"train": [GAME], "open": 4, "turns": 4},
        league={"opponents": "fixed", "train": [name], "mirror_share": 0.0, "eval": [name], "eval_games": 2},
        guard=None,
        total_timesteps="2 updates",
        checkpoint={"every": "1 updates"},
        evaluation={"every": "1 updates"},
        tracking={"every": 1, "tensorboard": False},
        save_dir=str(tmp_path),
    )
    trainer = create_trainer(None, config)
    run = trainer.train().run  # type: ignore[attr-defined]
    trainer.close()
    asked = len(server.seen)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    counted = [row[f"league/prompt_tokens/{name}"] for row in rows if f"league/prompt_tokens/{name}" in row]
    assert counted[-1] > counted[0] > 0
    assert rows[-2][f"league/cost/{name}"] == rows[-2][f"league/prompt_tokens/{name}"]
    outcome = CliRunner().invoke(app, ["league", str(run), "--json"])
    members = {row["name"]: row for row in json.loads(outcome.stdout)["members"]}
    assert members[name]["requests"] == asked
    assert (members[name]["prompt_tokens"], members[name]["completion_tokens"]) == (10 * asked, 3 * asked)
    assert "tokens in" in CliRunner().invoke(app, ["league", str(run)]).stdout


def test_a_match_reports_the_tokens_of_a_remote_model(server: Server) -> None:
    name = f"openai:small?base_url={server.address}"
    asked = ["match", name, "random", "--env", "KuhnPoker-v0", "--games", "4"]
    result = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    requests = len(server.seen)
    use = {
        "requests": requests,
        "prompt_tokens": 10 * requests,
        "completion_tokens": 3 * requests,
        "cost": None,
    }
    assert requests > 0 and result["token_use"] == [use, None]
    assert f"{10 * requests:,} in" in CliRunner().invoke(app, asked).stdout

"""A remote model that stalls, drops, drips, floods or talks nonsense costs its deadline, and the match, no more."""

from __future__ import annotations

import json
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_server import BEHAVIOURS, MOVE, says, serving, whole

from ludus.config.language import GameSpec
from ludus.config.schema import TrainerConfig
from ludus.errors import UserError
from ludus.evaluation.players import make_bot
from ludus.language.models.remote import ADDRESS, KEY, OpenAIClient, RemoteOptions
from ludus.language.players import RemotePlayer
from ludus.language.text_games.game import TextGame
from ludus.league.match import play_matches
from ludus.league.players import BotPlayer
from ludus.training.factory import create_trainer

DEADLINE = 0.8
QUICK = ("answers deep JSON", "drips the body", "talks no HTTP")
SECRET = "sk-canary-5f1c"


def ask(
    name: str, monkeypatch: pytest.MonkeyPatch, record_fault: Any, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(KEY, SECRET)
    with serving(BEHAVIOURS[name]) as address:
        monkeypatch.setenv(ADDRESS, address)
        client = OpenAIClient("evil", RemoteOptions(deadline=DEADLINE, retries=2))
        began = time.monotonic()
        answers = client.ask(["one", "two"])
        took = time.monotonic() - began
    refused = all(isinstance(answer, UserError) for answer in answers)
    record_fault(
        "remote model that stalls, drops, drips, floods, babbles", 1, int(refused and took < 2 * DEADLINE)
    )
    assert refused, answers
    assert took < 2 * DEADLINE
    assert client.spent.failures == 2
    assert client.spent.retries <= 4
    said = "\n".join(str(answer) for answer in answers) + caplog.text
    assert SECRET not in said
    assert len(said) < 4000
    asking = [thread.name for thread in threading.enumerate() if "(work)" in thread.name]
    assert not asking
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


@pytest.mark.faults
@pytest.mark.parametrize("name", sorted(set(BEHAVIOURS) - set(QUICK)))
def test_every_hostile_model_is_abandoned_in_time(
    name: str, monkeypatch: pytest.MonkeyPatch, record_fault: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ask(name, monkeypatch, record_fault, caplog)


@pytest.mark.parametrize("name", QUICK)
def test_selected_hostile_models_are_abandoned_in_time(
    name: str, monkeypatch: pytest.MonkeyPatch, record_fault: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ask(name, monkeypatch, record_fault, caplog)


def test_matches_of_a_failing_model_are_skipped_until_it_answers(
    monkeypatch: pytest.MonkeyPatch, record_fault: Any
) -> None:
    spec = GameSpec("TicTacToe-v0")
    for name, behave, lost in (("answers 500", BEHAVIOURS["answers 500"], 4), ("well", says(whole(MOVE)), 0)):
        with serving(behave) as address:
            monkeypatch.setenv(ADDRESS, address)
            client = OpenAIClient("evil", RemoteOptions(deadline=DEADLINE, retries=0))
            bot = BotPlayer("random", {spec: make_bot("random", spec, np.random.default_rng(1))})
            result = play_matches(
                RemotePlayer("openai:evil", client),
                bot,
                partial(TextGame, spec),
                4,
                3,
            )
        record_fault("match against a broken remote model", 4, 4)
        assert len(result.skipped) == lost, name


@pytest.mark.faults
@pytest.mark.parametrize("name", ["answers 500", "drips the body", "answers no JSON"])
def test_training_continues_with_the_models_that_answer(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_fault: Any
) -> None:
    game = {"id": "TicTacToe-v0", "template": {"prompt": "{position}"}}
    with serving(BEHAVIOURS[name]) as address:
        monkeypatch.setenv(ADDRESS, address)
        settings = {
            "algorithm": "REINFORCE",
            "total_timesteps": "3 updates",
            "language": {
                "model": "tiny",
                "model_kwargs": {"layers": 1, "hidden": 16, "heads": 2, "context": 32},
                "adapter": {"rank": 2, "alpha": 4},
                "sampler": {"max_new_tokens": 3},
            },
            "games": {"train": [game], "open": 8, "turns": 12},
            "league": {"opponents": "fixed", "train": ["random", "openai:evil?deadline=0.5&retries=0"]},
            "checkpoint": {"every": "1 updates"},
            "evaluation": {"every": None},
            "tracking": {"every": 1, "tensorboard": False},
            "run_dir": str(tmp_path / "run"),
        }
        trainer = create_trainer(None, TrainerConfig.model_validate(settings))
        result = trainer.train()
        trainer.close()
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    skipped = sum(row.get("games/skipped", 0) for row in rows)
    record_fault("training against a broken remote model", 1, int(result.status == "finished"), "its matches")
    assert result.status == "finished"
    assert skipped > 0
    assert sum(row.get("games/finished", 0) for row in rows) > 0

"""The document "unstable-baselines": a game-tuned LoRA checkpoint as a zip, self-play from it, actors and learners.

A model of one narrow layer takes the place of the document's. The part on Ray needs the extra ray: `make test-extras`.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ludus.config.plain_yaml import write_yaml
from ludus.language.game_files import GameTracker, read_games
from ludus.runs.directory import RunDirectory

MODEL = {"layers": 1, "hidden": 16, "heads": 2, "context": 32}
CONFIG: dict[str, Any] = {
    "algorithm": "REINFORCE",
    "language": {"model_kwargs": MODEL, "adapter": {"rank": 2}, "sampler": {"max_new_tokens": 3}},
    "games": {
        "train": [{"id": "TicTacToe-v0", "template": {"prompt": "{position}"}}],
        "open": 4,
        "turns": 8,
    },
    "league": {"opponents": "fixed", "train": ["random"], "eval": ["random"], "eval_games": 2},
    "rewards": {"step": [{"length": -0.1}], "sampling": ["zscore_by_env"]},
    "guard": None,
    "total_timesteps": "2 updates",
    "evaluation": {"every": "1 updates"},
    "checkpoint": {"every": "1 updates", "keep": 0},
    "tracking": {"every": 1, "tensorboard": False},
}
TRACKED = (
    *("train/sequence_length", "train/truncated", "train/truncated_tokens", "train/grad_norm"),
    *("games/action_diversity", "games/state_diversity", "games/turns", "games/finished"),
    *("time/per_episode", "time/per_turn", "time/per_character"),
    *("league/frequency/random", "league/rating/random"),
)


def write_checkpoint(ludus_command: Any) -> None:
    """`lora_ckpt.zip`: supervised on observation-action pairs of TicTacToe, as the document's was."""
    with Path("pairs.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["observation", "action"])
        rows.writerows([[".........", "[4]"], ["+........", "[4]"], ["-...+....", "[0]"]] * 4)
    warm = CONFIG | {"warmup": {"source": "pairs.csv", "epochs": 3, "batch_size": 4}, "name": "sft"}
    Path("sft.yaml").write_text(write_yaml(warm), "utf-8")
    ludus_command("warmup", "sft.yaml")
    (run,) = Path("runs").glob("*/*/sft*")
    ludus_command("export", run, "--to", "peft", "--out", "lora_ckpt")
    shutil.make_archive("lora_ckpt", "zip", "lora_ckpt")


def write_config(**changes: Any) -> None:
    language = CONFIG["language"] | {"adapter": {"rank": 2, "start": "lora_ckpt.zip"}}
    Path("run.yaml").write_text(write_yaml(CONFIG | {"language": language} | changes), "utf-8")


@pytest.mark.long
def test_self_play_starts_from_the_zipped_checkpoint_and_tracks_what_the_document_lists(
    ludus_command: Any,
) -> None:
    write_checkpoint(ludus_command)
    write_config()
    ludus_command("train", "run.yaml")
    (path,) = Path("runs").glob("*/REINFORCE/tiny-*")
    assert path.name.startswith("tiny-tictactoe-v0-fixed-")  # model, games, opponents, user, time
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    logged = {name for row in rows for name in row}
    assert set(TRACKED) <= logged, set(TRACKED) - logged

    run = RunDirectory.open(path)
    tracker = GameTracker(run)
    assert tracker.get_checkpoint_dir().is_dir() and tracker.get_train_dir().is_dir()
    tracker.close()
    assert list(read_games(run, "train")) and list(read_games(run, "eval"))
    logs = {file.name for file in (path / "logs").iterdir()}
    assert {"train.log", "collector.log", "learner.log", "league.log", "evaluation.log"} <= logs
    ludus_command("runs", "pin", f"{path}@latest")
    assert "TicTacToe-v0" in ludus_command("games", path)


@pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="needs the extra ray")
def test_actors_and_learners_are_numbers_of_the_config(ludus_command: Any) -> None:
    write_checkpoint(ludus_command)
    write_config(scale={"ray": "local", "num_actors": 2, "num_learners": 1})
    assert "by 2 processes on Ray" in ludus_command("train", "run.yaml")

"""Truncated files and flipped bits in every file of a run: each is reported, an older copy is used, and the result is
that of the undamaged run; or the run is refused. It never restarts from step 0, and never uses damaged data."""

from __future__ import annotations

import json
import logging
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from killable_runs import learned, newest, write_config

from ludus.config.loading import load_config
from ludus.errors import UserError
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.training.factory import create_trainer, open_trainer

UNCHECKED = ("logs", "tensorboard", "run.lock", "videos")
"""Nothing depends on them: damage there must change nothing."""
Damage = Callable[[Path, random.Random], str]


def cut(path: Path, rng: random.Random) -> str:
    size = path.stat().st_size
    kept = rng.randrange(size)
    with path.open("r+b") as file:
        file.truncate(kept)
    return f"cut to {kept} of {size} bytes"


def flip(path: Path, rng: random.Random) -> str:
    data = bytearray(path.read_bytes())
    place, bit = rng.randrange(len(data)), rng.randrange(8)
    data[place] ^= 1 << bit
    path.write_bytes(data)
    return f"bit {bit} of byte {place} flipped"


def classic_config(folder: Path) -> Path:
    return write_config(
        folder,
        "PPO",
        total_timesteps=768,
        threads=1,
        checkpoint={"every": 256, "keep": 0},
        evaluation={"every": 256, "episodes": 1},
        tracking={"every": 128, "tensorboard": True},
    )


def self_play_config(folder: Path) -> Path:
    data = {
        "algorithm": "REINFORCE",
        "total_timesteps": "3 updates",
        "threads": 1,
        "checkpoint": {"every": "1 updates", "keep": 0},
        "evaluation": {"every": "2 updates"},
        "tracking": {"every": 1, "tensorboard": False},
        "language": {
            "model": "tiny",
            "model_kwargs": {"layers": 1, "hidden": 16, "heads": 2, "context": 32},
            "adapter": {"rank": 2, "alpha": 4},
            "sampler": {"max_new_tokens": 3},
        },
        "games": {
            "train": [{"id": "TicTacToe-v0", "template": {"prompt": "{position}"}}],
            "open": 4,
            "turns": 6,
        },
        "league": {"opponents": "random", "train": ["random"], "eval": ["random"], "eval_games": 1},
        "rewards": {"step": [{"length": -0.1}]},
        "guard": None,
    }
    data["league"]["version_every"] = 1  # type: ignore[index]
    path = folder / "self-play.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def train(run: Path, config: Path) -> None:
    trainer = create_trainer(None, load_config(config, [f"run_dir={run}"]).config)
    trainer.train()
    trainer.close()


def resume(run: Path, checkpoint: Any = None) -> int:
    directory = RunDirectory.open(run)
    trainer = open_trainer(directory)
    try:
        step = trainer.resume(directory, checkpoint).step
        trainer.train()
        return step
    finally:
        trainer.close()


@pytest.fixture(scope="module", params=["classic", "self-play"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "self-play":
        pytest.importorskip("textarena")
    folder = tmp_path_factory.mktemp(request.param)
    config = (classic_config if request.param == "classic" else self_play_config)(folder)
    run = folder / "run"
    train(run, config)
    CheckpointManager(run / "checkpoints").pin("latest")
    return run


@pytest.fixture
def said() -> Iterator[list[str]]:
    """Lines of the log at WARNING and above."""
    lines: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    keeper = Keeper(logging.WARNING)
    logging.getLogger("ludus").addHandler(keeper)
    yield lines
    logging.getLogger("ludus").removeHandler(keeper)


def files_of(run: Path) -> list[str]:
    found = [path for path in run.rglob("*") if path.is_file() and path.stat().st_size]
    return sorted(path.relative_to(run).as_posix() for path in found)


def used_only_by(run: Path, name: str) -> int | None:
    """The checkpoint that must be named for this file to be read at all; None for what every resume reads."""
    parts = Path(name).parts
    if parts[0] == "checkpoints" and len(parts) == 3 and int(parts[1]) != newest(run):
        return int(parts[1])
    if parts[0] == "league":
        states = {
            step: json.loads((run / "checkpoints" / f"{step:012d}" / "state.json").read_text())
            for step in sorted(int(path.name) for path in (run / "checkpoints").glob("0*"))
        }
        users = [step for step, state in states.items() if Path(name).stem in state.get("roster", {})]
        return None if newest(run) in users else max(users)
    return None


def survives(whole: Path, run: Path, name: str, said: list[str]) -> str:
    """Go on with the damaged run; what is wrong with how that went, in words, else nothing."""
    said.clear()
    asked = used_only_by(whole, name)
    newest_step = newest(run)
    try:
        step = resume(run, asked)
    except UserError as error:  # refused: named, and nothing was touched
        named = any(_is_named(name, text) for text in (str(error), *said))
        if not named:
            return f"refused without naming it: {error}"
        if Path(name).name in ("metrics.jsonl", "episodes.jsonl") and resume(run, "latest") != newest_step:
            return "--checkpoint cannot continue after the existing rows"
        return ""
    if name.startswith(UNCHECKED) or (name in ("metrics.jsonl", "episodes.jsonl") and not said):
        # rows behind the newest checkpoint are written again; an older checkpoint would have been reported
        if step != newest_step:
            return f"resumed from {step}, not {newest_step}"
    elif not any(_is_named(name, text) for text in said):
        return f"resumed from {step} without a warning"
    if Path(name).parts[0] == "checkpoints" and len(Path(name).parts) == 3 and step >= newest_step:
        return "resumed from damaged data"
    expected, found = learned(whole), learned(run)
    differing = [part for part in expected if found[part] != expected[part]]
    return f"{differing} differ at the end" if differing else ""


def _is_named(name: str, text: str) -> bool:
    path = Path(name)
    if path.parts[0] == "checkpoints" and len(path.parts) == 3:
        return path.parts[1] in text and "damaged" in text
    return path.name in text


def torment(whole: Path, folder: Path, damage: Damage, tries: int, said: list[str]) -> list[str]:
    """Damage one file after another, each time in a fresh copy; what was not survived."""
    rng = random.Random(f"{damage.__name__} {whole.parent.name.rstrip('0123456789')}")
    names = files_of(whole)
    rng.shuffle(names)
    trouble = []
    for number in range(tries):
        name = names[number % len(names)]
        run = folder / "run"
        shutil.copytree(whole, run)
        done = damage(run / name, rng)
        problem = survives(whole, run, name, said)
        if problem:
            trouble.append(f"{name}, {done}: {problem}; said {said}")
        shutil.rmtree(run)
    return trouble


def test_one_cut_and_one_flip_in_every_file(whole: Path, tmp_path: Path, said: list[str]) -> None:
    if whole.parent.name.startswith("self-play"):
        pytest.skip("the classic run is enough for `make test`")
    for damage in (cut, flip):
        assert torment(whole, tmp_path, damage, len(files_of(whole)), said) == []


@pytest.mark.faults
@pytest.mark.parametrize(
    ("damage", "tries", "fault"),
    [(cut, 100, "file of a run cut short"), (flip, 500, "bit flipped in a file of a run")],
)
def test_damage_in_every_file_of_a_run_is_handled(
    whole: Path, tmp_path: Path, said: list[str], record_fault: Any, damage: Damage, tries: int, fault: str
) -> None:
    trouble = torment(whole, tmp_path, damage, tries, said)
    record_fault(fault, tries, tries - len(trouble), "one interval, trained again; or refused by name")
    assert trouble == []

"""Language runs that another person sent, through the commands for leagues, games, warm starts and watching."""

from __future__ import annotations

import gc
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium as gym
import pytest

pytest.importorskip("textarena")
pytest.importorskip("pyspiel")


from hostile_leagues import LEAGUE_ATTACKS
from hostile_runs import ATTACKS
from watchtower import Watch

from ludus.config.schema import TrainerConfig
from ludus.training.factory import create_trainer

COMMANDS: dict[str, list[str]] = {
    "league": ["league", "received"],
    "league --json": ["league", "received", "--json"],
    "games": ["games", "received"],
    "games --json": ["games", "received", "--eval", "--json"],
    "games --match": ["games", "received", "--match", "0", "--prompts"],
    "watch": ["watch", "received", "--once"],
    "watch --json": ["watch", "received", "--json"],
    "exploitability": ["exploitability", "received"],
    "match": ["match", "received", "random", "--games", "1"],
    "report": ["report", "received", "--output", "page.html"],
    "resume": ["resume", "received", "--steps", "2 updates", "-q"],
    "warmup": ["warmup", "received/config.yaml", "warmup.pairs=16", "save_dir=warm", "-q"],
    "train from it": ["train", "small.yaml", "pretrained_model=received", "warmup=null", "-q"],
}
OF_ITS_CONFIG = ("warmup",)
TRAINS = ("resume", "warmup")
"""To train with a config is to do what it says: which model and adapter it reads among it."""

SOME = [
    "league: a name with commands",
    "league: counts without end",
    "roster: a way up",
    "a frozen version: torch.save",
    "a frozen version: a shape of 2^62 numbers",
    "link: a frozen version",
    "games: names with markup",
    "games: seats that are not there",
    "games: nested deeply",
    "turns: texts with commands",
    "metrics: half a character",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose versions make legal moves; without these no exploitability is computed."""
    return train(tmp_path_factory.mktemp("trained"), pairs=3000)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("begun"), pairs=32)


def train(place: Path, pairs: int) -> Path:
    """A language run of one update at Kuhn Poker, with a league of two versions, games and an evaluation."""
    config = TrainerConfig(
        name="words",
        algorithm="REINFORCE",
        language={
            "model": "tiny",
            "model_kwargs": {"layers": 1, "hidden": 64, "heads": 2, "context": 40},
            "adapter": None,
            "sampler": {"max_new_tokens": 9, "temperature": 0.9},
        },
        games={
            "train": [{"id": "KuhnPoker-v0-stakes", "template": {"prompt": "{position}"}}],
            "open": 4,
            "turns": 8,
        },
        league={"opponents": "random", "version_every": 1, "eval_games": 2},
        warmup={"source": "random", "pairs": pairs, "epochs": 1, "batch_size": 32, "learning_rate": 4e-3},
        total_timesteps="1 updates",
        checkpoint={"every": "1 updates"},
        evaluation={"every": "1 updates"},
        tracking={"tensorboard": False},
        threads=1,
        save_dir=str(place),
    )
    trainer = create_trainer(None, config)
    run = trainer.train().run
    trainer.close()
    return run


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    registered = dict(gym.registry)
    yield Watch(tmp_path)
    gym.registry.clear()
    gym.registry.update(registered)


def attempt(attack: str, command: str, watch: Watch, run: Path) -> None:
    shutil.copytree(run, "received")
    shutil.copy(run / "config.yaml", "small.yaml")
    (LEAGUE_ATTACKS | ATTACKS)[attack](Path("received").absolute(), watch.outside, watch.mark)
    code, said = watch.run(*COMMANDS[command])
    assert code in (0, 2), (code, said[-3_000:])
    assert "\x1b" not in said and "\x07" not in said, "the terminal was steered"


@pytest.mark.faults
@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_work_on_a_language_run_that_does_no_harm(
    command: str, watch: Watch, trained: Path
) -> None:
    shutil.copytree(trained, "received")
    shutil.copy(trained / "config.yaml", "small.yaml")
    code, said = watch.run(*COMMANDS[command])
    assert code == 0, said


@pytest.mark.parametrize("attack", SOME)
@pytest.mark.parametrize("command", ["league", "games", "games --match", "watch", "resume"])
def test_some_commands_on_hostile_language_runs_have_no_effect_outside(
    attack: str, command: str, watch: Watch, begun: Path
) -> None:
    attempt(attack, command, watch, begun)


@pytest.mark.faults
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_on_a_hostile_language_run_has_an_effect_outside_it(
    command: str, watch: Watch, trained: Path, record_fault: Callable[..., None]
) -> None:
    failed = {}
    attacks = list(LEAGUE_ATTACKS)
    if command not in ("report", "train from it"):  # those two were tried with the others on runs of networks
        attacks += ATTACKS
    if command == "exploitability":  # it takes seconds, and reads no more than these
        attacks = [name for name in attacks if not name.startswith(("games", "turns", "metrics", "run.json"))]
    if command in OF_ITS_CONFIG:
        attacks = [name for name in attacks if "config" in name]
    if command in TRAINS:
        attacks = [name for name in attacks if name not in OF_TRAINING]
    for attack in attacks:
        try:
            attempt(attack, command, watch, trained)
        except AssertionError as error:
            failed[attack] = str(error)[:1_500]
            watch.deeds.clear()
        for left in Path().iterdir():
            if left != Path("outside"):
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        gc.collect()
    record_fault("hostile run: code run, or files outside touched", len(attacks), len(attacks) - len(failed))
    assert failed == {}


OF_TRAINING = (
    "config: a model outside",
    "config: a model with a way up",
    "config: an adapter elsewhere",
    "config: a starting policy elsewhere",
)

"""A collection has about as many turns as the config asks for, and games that end beyond them are not lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium import spaces
from tiny_runs import resumed, same, steps_of

from ludus.config.schema import TrainerConfig
from ludus.language.collector import MatchCollector
from ludus.language.trainer import LanguageTrainer
from ludus.runs.directory import RunDirectory
from ludus.training.factory import create_trainer

LONGEST = 10


class Monologue(gym.Env[str, str]):
    """Accepts any text, for 6 to 10 turns."""

    observation_space = spaces.Text(100)
    action_space = spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: object = None) -> tuple[str, dict[str, object]]:
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(6, LONGEST + 1))
        return "Speak.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, object]]:
        self.left -= 1
        return "Go on.", 1.0, self.left == 0, False, {}


@pytest.fixture(autouse=True)
def monologue() -> None:
    if "Monologue-v0" not in gym.registry:
        gym.register("Monologue-v0", Monologue)


def config_of(folder: Path, **games: Any) -> TrainerConfig:
    game = {"id": "gym:Monologue-v0", "template": {"prompt": "{seat} {board}"}, "extract": "whole"}
    return TrainerConfig(
        algorithm="REINFORCE",
        language={
            "model": "tiny",
            "model_kwargs": {"layers": 1, "hidden": 16, "heads": 2, "context": 32},
            "adapter": {"rank": 2},
            "sampler": {"max_new_tokens": 2},
        },
        games={"train": [game], "open": 64, "turns": 256} | games,
        league={"eval": []},
        guard=None,
        total_timesteps="4 updates",
        checkpoint={"every": "2 updates", "keep": 0},
        tracking={"every": 1, "tensorboard": False},
        save_dir=str(folder),
    )


def trainer_of(config: TrainerConfig) -> LanguageTrainer:
    trainer = create_trainer(None, config)
    assert isinstance(trainer, LanguageTrainer)
    return trainer


@pytest.mark.parametrize("across", [False, True])
def test_a_collection_has_at_most_a_game_more_turns_than_asked_for(across: bool, tmp_path: Path) -> None:
    trainer = trainer_of(config_of(tmp_path, across_updates=across))
    trainer.create_model()
    collector = trainer.collector
    assert isinstance(collector, MatchCollector)
    steps = []
    for _ in range(4):
        experience = collector.collect(None)
        steps.append(experience.steps)
        assert sum(len(match.turns) for match in experience.matches) == experience.steps
        # a game's own time: it is played next to others, and lasts as long as the ticks it was open in
        longest = max(match.seconds for match in experience.matches)
        shares = collector.metrics["time/sampling"] / len(experience.matches)
        assert longest >= collector.metrics["time/per_episode"] > 2 * shares
    trainer.close()
    # the games that are open when the last one is begun may turn out longer than expected
    assert all(256 <= number <= 256 + (LONGEST if across else 2 * LONGEST) for number in steps)
    numbers = {match.match for match in experience.matches}
    assert len(numbers) == len(experience.matches)


def test_a_game_that_ended_beyond_an_update_survives_a_checkpoint(tmp_path: Path) -> None:
    config = config_of(tmp_path / "whole", across_updates=True, open=16, turns=40)
    runs = []
    for folder in ("whole", "cut"):
        trainer = trainer_of(config.model_copy(update={"save_dir": str(tmp_path / folder)}))
        runs.append(RunDirectory.open(trainer.train().run))
        collector: Any = trainer.collector
        assert any(match.game.over for match in collector._open)
        trainer.close()
    middle = steps_of(runs[1])[0]
    assert resumed(runs[1], middle) == middle
    same(*runs)

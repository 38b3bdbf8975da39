"""Training on Balatro: all algorithms of both engines from one config, saved games, game statistics."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import learned, resumed, rows, same, steps_of, tiny, trained

from ludus.config.schema import TrainerConfig
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.training.callbacks import BaseCallback
from ludus.training.factory import create_trainer

BALATRO = "ludus/Balatro-v0"
MOVES = {"actions": "moves", "max_hand": 8, "max_steps": 200}
EVERY = {"checkpoint": {"every": 256, "keep": 0}, "evaluation": {"every": 512, "episodes": 3}}


def balatro(folder: Path, algorithm: str = "PPO", **fields: Any) -> TrainerConfig:
    kwargs = MOVES | fields.pop("kwargs", {})
    options = {"env": {"id": BALATRO, "kwargs": kwargs}, "n_envs": 4, "vector": "batched"}
    return tiny(folder, algorithm, **(options | fields))


CASES: dict[str, dict[str, Any]] = {
    "ppo": {"normalize_obs": False, "normalize_reward": False},
    "ppo, normalised, with a curriculum": {
        "curriculum": {"initial": 1, "increment": 1, "maximum": 8, "window": 2, "success_threshold": 0.1}
    },
    "ppo on the dict": {
        "kwargs": {"observation": "dict"},
        "normalize_obs": False,
        "policy": {"features_dim": 8},
        "hyperparams": {"n_epochs": 1},
        "total_timesteps": 768,
    },
    "dqn": {"algorithm": "DQN"},
}


@pytest.mark.parametrize("case", CASES)
def test_resumed_run_continues_open_games_exactly(case: str, tmp_path: Path) -> None:
    whole = trained(balatro(tmp_path / "whole", **(EVERY | CASES[case])))
    cut = trained(balatro(tmp_path / "cut", **(EVERY | CASES[case])))
    same(whole, cut)
    middle = steps_of(cut)[1]
    assert resumed(cut, middle) == middle
    same(whole, cut)


def test_checkpoints_do_not_change_the_games(tmp_path: Path) -> None:
    """Saving open games at checkpoints does not change what the run learns."""
    often = trained(balatro(tmp_path / "often", checkpoint={"every": 256, "keep": 0}))
    never = trained(balatro(tmp_path / "never"))
    assert len(steps_of(often)) > len(steps_of(never))
    first, second = learned(often), learned(never)
    for part in ("checkpoint", "policy", "learner", "metrics", "episodes"):
        assert first[part] == second[part], part


class StopOnce(BaseCallback):
    """Interrupt the run, as Ctrl-C does, in the middle of a rollout."""

    def _on_step(self) -> bool:
        if self.n_calls == 75:
            signal.raise_signal(signal.SIGINT)
        return True


def test_run_stopped_by_a_signal_resumes_exactly(tmp_path: Path) -> None:
    whole = trained(balatro(tmp_path / "whole"))
    stopped = trained(balatro(tmp_path / "stopped"), callback=StopOnce())
    last = CheckpointManager(stopped.checkpoints_dir).latest()
    assert last is not None and last.step == 512 and last.exact  # the current rollout is completed first
    resumed(stopped)
    same(whole, stopped)


@pytest.mark.parametrize("engine", ["native", "sb3"])
@pytest.mark.parametrize("algorithm", ["PPO", "A2C", "DQN"])
def test_every_algorithm_trains_on_both_engines_from_the_same_config(
    algorithm: str, engine: str, tmp_path: Path
) -> None:
    trainer = create_trainer(None, balatro(tmp_path, algorithm, engine=engine, total_timesteps=512))
    try:
        result = trainer.train()
        mean, spread = trainer.evaluate(n_episodes=2)
    finally:
        trainer.close()
    run = RunDirectory.open(result.run)
    assert max(row["step"] for row in rows(run)) >= 512
    assert mean > -200 and spread >= 0


@pytest.mark.parametrize("vector", ["batched", "serial"])
def test_run_writes_game_statistics(vector: str, tmp_path: Path) -> None:
    run = trained(balatro(tmp_path, vector=vector, **EVERY))
    last = [row for row in rows(run) if "balatro/mean_ante" in row][-1]
    assert 1 <= last["balatro/mean_ante"] <= last["balatro/max_ante"]
    assert 0 <= last["balatro/cleared_ante_1"] <= 1
    evaluated = [row for row in rows(run) if "eval/mean_ante" in row]
    assert evaluated
    games = json.loads(run.games_path.read_text())
    assert games["episodes"] > 0 and games["mean_ante"] == last["balatro/mean_ante"]
    assert games["hands"] and all(hand["played"] > 0 for hand in games["hands"].values())
    episode = json.loads(run.episodes_path.read_text().splitlines()[0])
    assert {"ante", "lost_to", "score"} <= set(episode)

"""Algorithms enter by registration or by entry point; nobody edits a factory."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ludus.config import registry
from ludus.config.registry import Algorithm, algorithm_names, find_algorithm, register_algorithm
from ludus.config.schema import TrainerConfig
from ludus.errors import ConfigError, UnknownName
from ludus.training.base import RLTrainer
from ludus.training.factory import create_trainer


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    algorithm_names()
    before = dict(registry._by_engine["native"])
    yield
    registry._by_engine["native"].clear()
    registry._by_engine["native"].update(before)


class MyTrainer(RLTrainer):
    def create_model(self) -> str:
        return "a model"

    def train(self, total_timesteps: Any = None, callback: Any = None) -> str:
        return f"trained {self.env} for {total_timesteps or self.config.total_timesteps.plain()}"

    def evaluate(self, n_episodes: int = 10, deterministic: bool = True) -> tuple[float, float]:
        return 1.0, 0.0


def test_a_registered_trainer_is_created() -> None:
    register_algorithm("Mine", MyTrainer)
    config = TrainerConfig(algorithm="mine", total_timesteps=5, hyperparams={"whatever": [1, 2]})
    trainer = create_trainer("CartPole-v1", config)
    assert isinstance(trainer, MyTrainer)
    assert trainer.train() == "trained CartPole-v1 for 5"
    assert trainer.train(9) == "trained CartPole-v1 for 9"
    assert trainer.evaluate(3) == (1.0, 0.0)
    assert "Mine" in algorithm_names()
    trainer.close()
    with pytest.raises(NotImplementedError, match="MyTrainer does not save"):
        trainer.save_model()


def test_registering_again_replaces() -> None:
    register_algorithm("Mine", MyTrainer)
    register_algorithm("MINE", Algorithm("Mine", trainer=lambda env, config: "another"))
    assert create_trainer("CartPole-v1", TrainerConfig(algorithm="Mine")) == "another"


def test_an_unknown_algorithm_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="unknown algorithm 'PPOO'") as caught:
        find_algorithm("PPOO")
    assert caught.value.fix == "did you mean 'PPO'?"
    with pytest.raises(UnknownName) as caught:
        find_algorithm("zzzzzz")
    assert "A2C, DQN, PPO, SAC" in caught.value.fix


def test_a_trainer_without_an_env_is_refused() -> None:
    with pytest.raises(ConfigError, match="no env is given"):
        create_trainer(None, TrainerConfig())


PLUGINS = """\
import sys
from pathlib import Path

where = Path(sys.argv[1])
info = where / "third_party-1.0.dist-info"
info.mkdir()
(info / "METADATA").write_text("Metadata-Version: 2.1\\nName: third-party\\nVersion: 1.0\\n")
(info / "entry_points.txt").write_text(
    "[ludus.algorithms]\\nGood = third_party:Good\\nBroken = third_party_broken:Bad\\n"
)
(where / "third_party.py").write_text("def Good(env, config):\\n    return 'made by the plugin'\\n")
(where / "third_party_broken.py").write_text("raise RuntimeError('no licence')\\n")
sys.path.insert(0, str(where))

from ludus.config.registry import algorithm_names, find_algorithm, register_algorithm
from ludus.config.schema import TrainerConfig
from ludus.errors import UserError
from ludus.training.factory import create_trainer

register_algorithm("A2C", lambda env, config: "my own A2C")
assert {"Good", "Broken", "PPO"} <= set(algorithm_names()), algorithm_names()
assert "third_party" not in sys.modules
assert find_algorithm("PPO").trainer is None  # a broken plugin is nobody else's trouble
assert create_trainer("CartPole-v1", TrainerConfig(algorithm="good")) == "made by the plugin"
assert create_trainer("CartPole-v1", TrainerConfig(algorithm="A2C")) == "my own A2C"
for _ in range(2):
    try:
        find_algorithm("Broken")
    except UserError as error:
        assert "'Broken' could not be loaded: RuntimeError: no licence" in error.what, error
        assert "third_party_broken:Bad" in error.where and "uninstall" in error.fix
    else:
        raise AssertionError("a broken plugin was accepted")
print("all held")
"""


def test_entry_points_are_found_loaded_on_demand_and_named_when_broken(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PLUGINS), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "all held", done.stderr

"""Configs people already have, at the command line: trained, shown, converted and played as they are."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from command_line import Command
from gymnasium.envs.registration import EnvSpec

from ludus.errors import EXIT_USER_ERROR

DATA = Path(__file__).parents[1] / "data"
SEED = DATA / "pipeline" / "base_ppo_config.yaml"
RUN = Path("experiments/BipedalWalker-v3/PPO/BipedalWalker-Benchmark")
# the document's own settings, except for the length of the run, of its rollouts and of its videos
SHORT = ["total_timesteps=512", "hyperparams.n_steps=256", "hyperparams.batch_size=64", "video.length=5"]
SHORT += ["evaluation.episodes=1", "video.every=256"]


@pytest.fixture
def no_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ludus.cli.foreign.find_spec", lambda name: None)


@pytest.mark.usefixtures("no_wandb")
def test_the_documents_yaml_trains_and_plays_in_the_folder_it_describes(ludus: Command) -> None:
    pytest.importorskip("Box2D")
    pytest.importorskip("av")
    Path("seed.yaml").write_bytes(SEED.read_bytes())
    trained = ludus("train", "seed.yaml", *SHORT)
    assert trained.code == 0, trained.err
    assert "W&B is not installed" in trained.out
    assert list((RUN / "videos").glob("*.mp4"))
    assert (RUN / "run.json").is_file()

    played = ludus("play", "seed.yaml", "--json")
    assert played.code == 0, played.err
    assert played.json["checkpoint"] == "000000000512"
    assert Path(played.json["run"]) == RUN

    again = ludus("train", "seed.yaml", *SHORT, "video.every=null", "--json")
    assert Path(again.json["run"]) == RUN.with_name(f"{RUN.name}-2")


@pytest.mark.usefixtures("no_wandb")
def test_on_engine_sb3_the_same_file_leaves_a_model_zip(ludus: Command) -> None:
    pytest.importorskip("sb3_contrib")
    pytest.importorskip("Box2D")
    Path("seed.yaml").write_bytes(SEED.read_bytes())
    trained = ludus("train", "seed.yaml", "--engine", "sb3", *SHORT, "video.every=null")
    assert trained.code == 0, trained.err
    assert (RUN / "model.zip").is_file()


def test_a_play_section_that_names_no_run_is_met_at_its_line(ludus: Command) -> None:
    Path("seed.yaml").write_bytes(SEED.read_bytes())
    missing = ludus("play", "seed.yaml")
    assert missing.code == EXIT_USER_ERROR
    assert "seed.yaml, line 52 (play.experiment)" in missing.error_lines[1]
    text = SEED.read_text().replace("'experiment_date'", "'nobody_2024'").replace("'model'", "'modell'")
    Path("other.yaml").write_text(text)
    assert "unknown run 'nobody_2024'" in ludus("play", "other.yaml").error_lines[0]


def test_a_config_of_ludus_is_played_by_its_newest_run(ludus: Command, run: Path) -> None:
    config = run / "config.yaml"
    Path("mine.yaml").write_bytes(config.read_bytes())
    untrained = ludus("eval", "mine.yaml", "-n", "1")
    assert "there is no run of this config yet" in untrained.err
    Path("own.yaml").write_text(
        "env: CartPole-v1\nalgorithm: PPO\nn_envs: 1\ntotal_timesteps: 64\nevaluation: null\n"
        "hyperparams: {n_steps: 64, batch_size: 32, n_epochs: 1, policy_net_arch: [8], value_net_arch: [8]}\n"
    )
    trained = ludus("train", "own.yaml", "--json")
    assert ludus("eval", "own.yaml", "-n", "1", "--json").json["run"] == trained.json["run"]


def test_a_zoo_file_trains_by_the_envs_id(ludus: Command) -> None:
    zoo = DATA / "zoo" / "ppo.yml"
    trained = ludus("train", zoo, "--env", "CartPole-v1", "--steps", "256", "evaluation=null", "--json")
    assert trained.code == 0, trained.err
    assert Path(trained.json["run"]).parent == Path("runs/CartPole-v1/PPO")
    missing = ludus("train", zoo)
    assert missing.code == EXIT_USER_ERROR
    assert len(missing.error_lines) == 3 and "--env Pendulum-v1" in missing.err


def test_train_names_each_key_that_is_lost(ludus: Command) -> None:
    zoo = DATA / "zoo" / "ppo.yml"
    trained = ludus("train", zoo, "--env", "Pendulum-v1", "--steps", "64", "evaluation=null", "n_envs=1")
    assert trained.code == 0, trained.err
    assert "2 keys have no equivalent:" in trained.out
    assert "(Pendulum-v1.use_sde): state-dependent exploration is not in the native engine" in trained.out


def test_convert_writes_yaml_that_trains_and_ends_with_the_account(ludus: Command) -> None:
    converted = ludus("convert", DATA / "zoo" / "ppo.yml", "--env", "Pendulum-v1")
    assert converted.code == 0
    assert converted.out.startswith("# From ")
    assert "\n# Keys that have no equivalent:\n" in converted.out
    assert "2 without equivalent" in converted.err
    Path("mine.yaml").write_text(converted.out)
    assert ludus("config", "mine.yaml").code == 0
    data = ludus("convert", DATA / "zoo" / "ppo.yml", "--env", "Pendulum-v1", "--json").json
    assert [lost["key"] for lost in data["lost"]] == ["Pendulum-v1.use_sde", "Pendulum-v1.sde_sample_freq"]
    assert data["config"]["env"]["id"] == "Pendulum-v1"


def test_config_shows_the_foreign_key_that_each_value_came_from(ludus: Command) -> None:
    Path("seed.yaml").write_bytes(SEED.read_bytes())
    shown = ludus("config", "seed.yaml")
    assert "# seed.yaml, line 20 (training.algorithm_parameters.n_steps)" in shown.out
    zoo = ludus("config", DATA / "zoo" / "sac.yml", "--env", "Pendulum-v1", "--json")
    assert zoo.json["config"]["hyperparams"]["learning_rate"] == 1e-3
    assert zoo.json["lost"] == []


def test_a_file_that_is_not_foreign_is_not_converted(ludus: Command) -> None:
    Path("mine.yaml").write_text("env: CartPole-v1\n")
    refused = ludus("convert", "mine.yaml")
    assert refused.code == EXIT_USER_ERROR and "unknown config format" in refused.err
    assert "there is no config file 'nobody.py'" in ludus("train", "nobody.py").err


def test_diambra_settings_say_in_three_lines_what_is_missing(ludus: Command) -> None:
    Path("settings.yaml").write_bytes((DATA / "diambra" / "settings.yaml").read_bytes())
    refused = ludus("train", "settings.yaml")
    assert refused.code == EXIT_USER_ERROR
    assert "'diambra/sfiii3n' needs the optional extra 'diambra'" in refused.error_lines[0]
    assert len(refused.error_lines) == 3


class Arena(gym.Env[np.ndarray, int]):
    """Stands in for a DIAMBRA game: takes its settings, and ends every ten steps."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, wrappers_settings: dict[str, object], **settings: object) -> None:
        assert wrappers_settings["stack_frames"] == 4
        assert settings["characters"] == "Ken"
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None):  # type: ignore[no-untyped-def]
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(3, np.float32), {}

    def step(self, action: int):  # type: ignore[no-untyped-def]
        self.steps += 1
        return np.zeros(3, np.float32), 1.0, self.steps == 10, False, {}


def test_diambra_settings_write_to_their_folders_and_resume(
    ludus: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(gym.registry, "diambra/sfiii3n", EnvSpec("diambra/sfiii3n", Arena))
    monkeypatch.setenv("DIAMBRA_ENVS", "127.0.0.1:1001 127.0.0.1:1002")
    Path("settings.yaml").write_bytes((DATA / "diambra" / "settings.yaml").read_bytes())
    short = ["n_envs=2", "hyperparams.batch_size=64", "vector=serial"]
    first = ludus("train", "settings.yaml", "total_timesteps=512", *short, "--json")
    assert first.code == 0, first.err
    run = Path(first.json["run"])
    assert run.parts[0] == "trained_models"
    assert list(Path("tensorboard_logs", run.name).glob("events.*"))
    monitor = Path("output/logs", run.name, "monitor.csv").read_text().splitlines()
    finished = (run / "episodes.jsonl").read_text().splitlines()
    assert len(monitor) - 2 == len(finished) > 10
    assert monitor[2].startswith("10.0,10,")
    again = ludus("train", "settings.yaml", "total_timesteps=512", *short)
    assert f"{run} is already finished" in again.out


def test_pull_without_wandb_is_three_lines(ludus: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    refused = ludus("pull", "wandb:me/sb3/walker")
    assert refused.code == EXIT_USER_ERROR
    assert len(refused.error_lines) == 3 and 'pip install "ludus-rl[wandb]"' in refused.err


@pytest.mark.parametrize("engine", ["native", "sb3"])
def test_a_class_in_the_models_folder_trains_on_both_engines_and_is_found_again(
    ludus: Command, engine: str
) -> None:
    if engine == "sb3":
        pytest.importorskip("sb3_contrib")
    Path("models").mkdir()
    Path("models/mine.py").write_text(
        "from torch import nn\nfrom ludus import BaseFeaturesExtractor\n"
        "class Mine(BaseFeaturesExtractor):\n"
        "    def __init__(self, observation_space, features_dim=8):\n"
        "        super().__init__(observation_space, features_dim)\n"
        "        self.net = nn.Linear(observation_space.shape[0], features_dim)\n"
        "    def forward(self, observations):\n"
        "        return self.net(observations)\n"
    )
    policy = json.dumps({"features_extractor": "Mine", "features_dim": 16})
    small = ["n_envs=1", "hyperparams.n_steps=64", "hyperparams.batch_size=32", "evaluation=null"]
    trained = ludus(
        "train", "--algo", "ppo", "--env", "CartPole-v1", "--steps", "64", "--engine", engine,
        f"policy={policy}", *small, "--json",
    )  # fmt: skip
    assert trained.code == 0, trained.err
    evaluated = ludus("eval", trained.json["run"], "-n", "1", "--json")
    assert evaluated.code == 0, evaluated.err


def test_a_wrong_shape_in_a_models_class_is_three_lines_with_the_layer(ludus: Command) -> None:
    Path("models").mkdir()
    Path("models/mine.py").write_text(
        "from torch import nn\nfrom ludus import BaseFeaturesExtractor\n"
        "class Mine(BaseFeaturesExtractor):\n"
        "    def __init__(self, observation_space, features_dim=8):\n"
        "        super().__init__(observation_space, features_dim)\n"
        "        self.net = nn.Linear(5, features_dim)\n"
        "    def forward(self, observations):\n"
        "        return self.net(observations)\n"
    )
    refused = ludus("train", "--env", "CartPole-v1", "policy.features_extractor=Mine")
    assert refused.code == EXIT_USER_ERROR
    assert "layer 'net' Linear(in_features=5" in refused.error_lines[0]
    assert "expects (batch, 5), got (2, 4)" in refused.error_lines[0]
    assert len(refused.error_lines) == 3


def test_a_wrapper_that_lacks_its_package_is_three_lines(
    ludus: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("Box2D")
    monkeypatch.setitem(sys.modules, "cv2", None)
    refused = ludus("train", DATA / "zoo" / "ppo.yml", "--env", "CarRacing-v3", "n_envs=1")
    assert refused.code == EXIT_USER_ERROR
    assert "cv2" in refused.error_lines[0]
    assert "env.wrappers, ResizeObservation" in refused.error_lines[1]

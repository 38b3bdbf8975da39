"""The document "Training Pipeline": its YAML, its custom model, its commands and the folders it describes.

The blocks are taken from the document; `SHORTER` says which budgets are smaller.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import ludus
from ludus.config.loading import load_config
from ludus.errors import UnknownName

pytest.importorskip("Box2D")
pytest.importorskip("av")

DOCUMENT = Path(__file__).parents[1] / "data" / "documents" / "training_pipeline.rst"


def blocks_of(document: Path) -> Iterator[str]:
    """The YAML and Python blocks: what is indented deeper than the directive before it."""
    lines = document.read_text("utf-8").splitlines()
    for number, line in enumerate(lines):
        directive = re.match(r"( *)\.\. code-block:: (?:yaml|python)", line)
        if directive is None:
            continue
        deeper = " " * (len(directive[1]) + 1)
        inside = takewhile(partial(_is_inside, deeper), lines[number + 1 :])
        yield textwrap.dedent("\n".join(inside)).strip() + "\n"


def _is_inside(indentation: str, line: str) -> bool:
    return not line.strip() or line.startswith(indentation)


BLOCKS = list(blocks_of(DOCUMENT))
CONFIG = "configs/base_ppo_config.yaml"
RUN = Path("experiments/BipedalWalker-v3/PPO/BipedalWalker-Benchmark")
SHORTER = {
    "n_steps: 8192": "n_steps: 256",
    "batch_size: 512": "batch_size: 128",
    "total_timesteps: 500000": "total_timesteps: 512",
    "video_trigger: 5000": "video_trigger: 512",
    "video_length: 500": "video_length: 5",
    "num_evals: 15": "num_evals: 1",
    "num_episodes: 5": "num_episodes: 1",
    "log_points: 10": "log_points: 2",
}
LAYERS = """
        import torch.nn as nn
        self.layers = nn.Sequential(nn.Linear(observation_space.shape[0], features_dim), nn.ReLU())
"""


def block(containing: str) -> str:
    found = [one for one in BLOCKS if containing in one]
    assert len(found) == 1, f"{len(found)} blocks contain {containing!r}"
    return found[0]


def write_config(**changes: str) -> None:
    text = block("BipedalWalker-Benchmark")
    for printed, shorter in SHORTER.items():
        assert printed in text
        text = text.replace(printed, shorter)
    for printed, other in changes.items():
        text = re.sub(rf"^( *){printed}: .*$", rf"\1{printed}: {other}", text, flags=re.MULTILINE)
    Path("configs").mkdir(exist_ok=True)
    Path(CONFIG).write_text(text, "utf-8")


def write_custom_model() -> None:
    """The document's `CustomCNN` with a layer where it says "Define your custom layers here"."""
    code = block("class CustomCNN(BaseFeaturesExtractor)")
    code = code.replace(
        "from rl_pipeline.models.feature_extractors.base_extractor import", "from ludus import"
    )
    code = code.replace("        # Define your custom layers here\n", LAYERS)
    code = code.replace(
        "        # Implement forward pass\n", "        features = self.layers(observations)\n"
    )
    folder = Path("rl_pipeline/models/feature_extractors")
    folder.mkdir(parents=True)
    (folder / "custom_cnn.py").write_text(code, "utf-8")


@pytest.fixture
def without_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service is not reachable from a test: metrics stay in the run."""
    monkeypatch.setattr("ludus.cli.foreign.find_spec", lambda name: None)


@pytest.mark.long
@pytest.mark.usefixtures("without_wandb")
@pytest.mark.parametrize("engine", ["native", "sb3"])
def test_the_yaml_trains_into_the_documented_folder_and_is_played(engine: str, ludus_command: Any) -> None:
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    write_config()
    printed = ludus_command("train", "--config", CONFIG, "--engine", engine)
    assert "W&B is not installed" in printed
    assert list((RUN / "videos").glob("*.mp4"))
    assert load_config(RUN / "config.yaml").config.policy.features_extractor == "ResnetMLP"

    model = stable_baselines3.PPO.load(RUN / "model.zip")
    obs = gym.make("BipedalWalker-v3").reset(seed=5)[0]
    np.testing.assert_allclose(
        model.predict(obs, deterministic=True)[0], ludus.load(f"{RUN}@latest").predict(obs), atol=1e-5
    )

    assert "512" in ludus_command("play", CONFIG)
    ludus_command("eval", CONFIG, "--episodes", "1")


@pytest.mark.long
@pytest.mark.usefixtures("without_wandb")
@pytest.mark.parametrize("engine", ["native", "sb3"])
def test_a_custom_model_is_found_in_its_folder(engine: str, ludus_command: Any) -> None:
    write_custom_model()
    assert "features_extractor_class: 'CustomCNN'" in block("features_dim: 256")
    write_config(
        features_extractor_class="'CustomCNN'", features_dim="256", video_wrapper="false", use_wandb="false"
    )
    ludus_command("train", CONFIG, "--engine", engine)
    policy = ludus.load(f"{RUN}@latest")
    names = {type(module).__name__ for module in policy.actor.modules()}
    assert "CustomCNN" in names
    assert policy.config is not None and policy.config.policy.features_dim == 256


def test_model_zip_that_cannot_be_written_is_reported_and_the_run_is_complete(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = ludus.TrainerConfig(
        algorithm="DQN",
        env="CartPole-v1",
        n_envs=1,
        total_timesteps=16,
        evaluation=None,
        hyperparams={"dueling": True, "policy_net_arch": [8], "value_net_arch": [8], "buffer_size": 100},
        exports=["sb3"],
        save_dir=str(tmp_path),
    )
    trainer: Any = ludus.create_trainer(None, config)
    result = trainer.train()
    trainer.close()
    assert result.status == "finished" and not (result.run / "model.zip").exists()
    assert "model.zip was not written: Stable-Baselines3 does not support a dueling network" in caplog.text


def test_model_zip_without_the_extra_names_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] in ("stable_baselines3", "sb3_contrib") or name.startswith("ludus.sb3."):
            monkeypatch.delitem(sys.modules, name)
    for name in ("stable_baselines3", "sb3_contrib"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    config = ludus.TrainerConfig(
        env="CartPole-v1",
        n_envs=1,
        total_timesteps=16,
        evaluation=None,
        hyperparams={"n_steps": 16, "batch_size": 16, "n_epochs": 1, "policy_net_arch": [8]},
        exports=["sb3"],
        save_dir=str(tmp_path),
    )
    trainer: Any = ludus.create_trainer(None, config)
    assert trainer.train().status == "finished"
    trainer.close()
    assert "model.zip was not written" in caplog.text and 'pip install "ludus-rl[sb3]"' in caplog.text


def test_an_unknown_export_is_refused_before_training(tmp_path: Path) -> None:
    config = ludus.TrainerConfig(env="CartPole-v1", exports=["sb4"], save_dir=str(tmp_path))
    with pytest.raises(UnknownName, match="sb4"):
        ludus.create_trainer(None, config).train()
    assert not list(tmp_path.iterdir())


def test_the_unity_config_is_read_as_printed(tmp_path: Path) -> None:
    path = tmp_path / "config.yml"
    path.write_text(block("n_environments: 1"), "utf-8")
    config = load_config(path).config
    assert config.n_envs == 1 and config.env is not None
    build = config.env.kwargs["build"]
    assert (build["headless"], build["pause"]) == (False, False)
    assert (build["sample_time"], build["time_scale"]) == (0.0, 1.0)


def test_wandb_is_switched_on_by_the_documents_key(ludus_command: Any) -> None:
    write_config()
    assert Path(CONFIG).read_text("utf-8").count("  use_wandb: true\n") == 1
    wandb = load_config(CONFIG).config.tracking.wandb
    assert wandb is not None and (wandb.project, wandb.group) == ("sb3", "BipedalWalker-v3")

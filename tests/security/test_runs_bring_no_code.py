"""A run or a model that came from elsewhere is data: Python files among it are never imported, whatever it names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ludus.cli.app import main
from ludus.config.loading import read_yaml
from ludus.config.plain_yaml import write_yaml
from ludus.config.schema import TrainerConfig
from ludus.errors import EXIT_USER_ERROR
from ludus.tracking.wandb_models import mark_as_download
from ludus.training.factory import create_trainer

_PAYLOAD = """
import pathlib
pathlib.Path({mark!r}).touch()
import gymnasium
from ludus import BaseFeaturesExtractor

class Net(BaseFeaturesExtractor):
    pass

class Wrap(gymnasium.Wrapper):
    pass

gymnasium.register("Evil-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv")
"""
# what the config of the run names, and where
ATTACKS = {
    "an extractor": ("policy", {"features_extractor": "{module}:Net"}),
    "an extractor by its name alone": ("policy", {"features_extractor": "Net"}),
    "hidden layers": ("policy", {"network": "{module}:Net"}),
    "a wrapper": ("env", {"id": "CartPole-v1", "wrappers": ["{module}:Wrap"]}),
    "an env": ("env", {"id": "{module}:Evil-v0"}),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    config = TrainerConfig(
        algorithm="A2C",
        env="CartPole-v1",
        n_envs=1,
        kernels=False,
        total_timesteps=32,
        evaluation={"every": None},
        tracking={"tensorboard": False},
        hyperparams={"policy_net_arch": [4], "value_net_arch": [4]},
        save_dir=str(folder),
    )
    trainer = create_trainer(None, config)
    run = trainer.train().run
    trainer.close()
    return run


def _receive(run: Path, place: Path, attack: str, mark: Path) -> None:
    """A copy of the run at `place` whose config names code that is next to it."""
    import shutil

    shutil.copytree(run, place)
    (place / "evil.py").write_text(_PAYLOAD.format(mark=str(mark)))
    section, values = ATTACKS[attack]
    module = ".".join([*place.relative_to(Path.cwd()).parts, "evil"])
    config, _ = read_yaml(place / "config.yaml")
    config[section] |= json.loads(json.dumps(values).replace("{module}", module))
    (place / "config.yaml").write_text(write_yaml(config))


@pytest.mark.parametrize(
    ("command", "attack"), [*(("eval", attack) for attack in ATTACKS), ("resume", "an extractor")]
)
def test_a_run_that_somebody_sent_runs_none_of_its_files(
    attack: str, command: str, trained: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = here / "pwned"
    place = here / "models" / "received"
    _receive(trained, place, attack, mark)
    words = ["--episodes", "1"] if command == "eval" else ["--steps", "64"]
    assert main([command, str(place), *words]) == EXIT_USER_ERROR
    assert not mark.exists()
    assert len(capsys.readouterr().err.splitlines()) == 3


@pytest.mark.parametrize("attack", ATTACKS)
def test_files_next_to_a_downloaded_run_are_not_run(attack: str, trained: Path, here: Path) -> None:
    mark = here / "pwned"
    download = here / "models" / "walker-latest"
    download.mkdir(parents=True)
    mark_as_download(download)
    _receive(trained, download / "run", attack, mark)
    (download / "run" / "evil.py").rename(download / "evil.py")
    config = download / "run" / "config.yaml"
    config.write_text(config.read_text().replace("walker-latest.run.evil", "walker-latest.evil"))
    assert main(["eval", str(download / "run"), "--episodes", "1"]) == EXIT_USER_ERROR
    assert not mark.exists()


def test_user_code_is_imported_for_a_downloaded_run_with_consent(trained: Path, here: Path) -> None:
    mark = here / "ran"
    _receive(trained, here / "received", "an env", mark)
    (here / "received" / "evil.py").rename(here / "mine.py")
    config = here / "received" / "config.yaml"
    config.write_text(config.read_text().replace("received.evil:", "mine:"))
    assert main(["eval", "received", "--episodes", "1"]) == EXIT_USER_ERROR
    assert not mark.exists()
    assert main(["eval", "received", "--episodes", "1", "--allow", "mine"]) == 0
    assert mark.exists()

"""A class in `models/` is found by its name; the error for a wrong shape names the layer."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

from ludus.errors import ConfigError, UnknownName
from ludus.policies.extractors import make_extractor

SPACE = gym.spaces.Box(-1, 1, (4,), np.float32)
IMAGE = gym.spaces.Box(0, 255, (3, 20, 20), np.uint8)

HEAD = """
import torch
from torch import nn
from ludus import BaseFeaturesExtractor

class {name}(BaseFeaturesExtractor):
    def __init__(self, observation_space, features_dim=8):
        super().__init__(observation_space, features_dim)
"""
GOOD = """
        self.net = nn.Sequential(nn.Linear(observation_space.shape[0], features_dim), nn.ReLU())

    def forward(self, observations):
        return self.net(observations)
"""
WRONG_INPUT = """
        self.net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(17, features_dim))

    def forward(self, observations):
        return self.net(observations)
"""
WRONG_OUTPUT = """
        self.head = nn.Linear(4, 5)

    def forward(self, observations):
        return self.head(observations)
"""
WRONG_CHANNELS = """
        self.conv = nn.Conv2d(1, 4, 3)

    def forward(self, observations):
        return self.conv(observations.float()).flatten(1)
"""
OWN_FAULT = """
    def forward(self, observations):
        return torch.cat([observations, observations[:1]], dim=1)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


def drop(path: Path, body: str, name: str = "Mine") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD.format(name=name) + body)


def test_a_class_in_the_folder_is_used_by_its_name(folder: Path) -> None:
    drop(folder / "feature_extractors" / "mine.py", GOOD)
    extractor = make_extractor("Mine", SPACE, 8, {})
    assert extractor(torch.zeros(3, 4)).shape == (3, 8)


def test_folder_rl_pipeline_models_is_searched_too(folder: Path) -> None:
    drop(folder.parent / "rl_pipeline" / "models" / "feature_extractors" / "mine.py", GOOD, "CustomNet")
    assert make_extractor("CustomNet", SPACE, 8, {}).features_dim == 8


def test_only_the_file_that_defines_it_is_run(folder: Path) -> None:
    drop(folder / "mine.py", GOOD)
    (folder / "other.py").write_text("import pathlib\npathlib.Path('ran').touch()\nclass Other: pass\n")
    (folder / "broken.py").write_text("class Mine(:\n")
    make_extractor("Mine", SPACE, 8, {})
    assert not (folder.parent / "ran").exists()


def test_a_name_in_two_files_is_an_error_that_names_both(folder: Path) -> None:
    drop(folder / "a.py", GOOD)
    drop(folder / "b.py", GOOD)
    with pytest.raises(ConfigError, match=r"models/a.py, models/b.py"):
        make_extractor("Mine", SPACE, 8, {})


def test_misspelt_name_suggests_the_nearest_in_the_folder(folder: Path) -> None:
    drop(folder / "mine.py", GOOD, "CustomWaves")
    with pytest.raises(UnknownName) as caught:
        make_extractor("CustomWave", SPACE, 8, {})
    assert caught.value.fix == "did you mean 'CustomWaves'?"


def test_class_that_is_not_a_network_raises(folder: Path) -> None:
    (folder / "mine.py").write_text("class Mine:\n    pass\n")
    with pytest.raises(ConfigError, match=r"not a torch.nn.Module"):
        make_extractor("Mine", SPACE, 8, {})


def test_wrong_import_line_raises_with_the_correct_one(folder: Path) -> None:
    (folder / "mine.py").write_text(
        "from rl_pipeline.models.feature_extractors.base_extractor import BaseFeaturesExtractor\n"
        "class Mine(BaseFeaturesExtractor):\n    pass\n"
    )
    with pytest.raises(ConfigError) as caught:
        make_extractor("Mine", SPACE, 8, {})
    assert caught.value.fix == "write: from ludus import BaseFeaturesExtractor"


def test_a_layer_that_does_not_fit_is_named_with_both_shapes(folder: Path) -> None:
    drop(folder / "mine.py", WRONG_INPUT)
    with pytest.raises(ConfigError) as caught:
        make_extractor("Mine", SPACE, 8, {})
    expected = (
        r"layer 'net.2' Linear(in_features=17, out_features=8, bias=True) expects (batch, 17), got (2, 16)"
    )
    assert expected in caught.value.what
    assert caught.value.where == "Mine.forward"


def test_a_convolution_with_other_channels_is_named_too(folder: Path) -> None:
    drop(folder / "mine.py", WRONG_CHANNELS)
    with pytest.raises(ConfigError) as caught:
        make_extractor("Mine", IMAGE, 8, {})
    assert "layer 'conv' Conv2d(1, 4, " in caught.value.what
    assert "expects (batch, 1, height >= 3, width >= 3), got (2, 3, 20, 20)" in caught.value.what


def test_a_wrong_output_shows_both_shapes_and_the_last_layer(folder: Path) -> None:
    drop(folder / "mine.py", WRONG_OUTPUT)
    with pytest.raises(ConfigError) as caught:
        make_extractor("Mine", SPACE, 8, {})
    assert "returned (2, 5) for a batch of 2; expected (2, 8)" in caught.value.what
    assert "its last layer is 'head' Linear(in_features=4, out_features=5, bias=True)" in caught.value.what


def test_a_fault_in_the_users_own_code_shows_the_users_traceback(folder: Path) -> None:
    drop(folder / "mine.py", OWN_FAULT)
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        make_extractor("Mine", SPACE, 8, {})


def test_trial_removes_its_hooks(folder: Path) -> None:
    drop(folder / "mine.py", GOOD)
    extractor = make_extractor("Mine", SPACE, 8, {})
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in extractor.modules())
    assert extractor.training

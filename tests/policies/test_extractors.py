"""Extractors turn every supported observation into features, and raise clear errors for the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ludus.errors import ConfigError, UnknownName
from ludus.policies.extractors import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    NatureCNN,
    ResnetMLP,
    make_extractor,
    register_extractor,
)

HWC = gym.spaces.Box(0, 255, (48, 36, 3), np.uint8)
CHW = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
SMALL = gym.spaces.Box(0, 255, (7, 7, 3), np.uint8)
VECTOR = gym.spaces.Box(-1, 1, (5,), np.float32)


class Doubled(nn.Module):
    """A user's extractor that is a plain module and knows nothing of BaseFeaturesExtractor."""

    def __init__(self, observation_space: gym.Space[Any], features_dim: int, scale: float = 2.0) -> None:
        super().__init__()
        self.linear = nn.Linear(5, features_dim)
        self.scale = scale

    def forward(self, observations: Tensor) -> Tensor:
        return self.scale * self.linear(observations)


class Transposed(BaseFeaturesExtractor):
    """A user's extractor with the batch on the wrong axis."""

    def forward(self, observations: Tensor) -> Tensor:
        return torch.zeros(self.features_dim, len(observations))


class Noisy(BaseFeaturesExtractor):
    """A user's extractor with state and randomness that a trial run could disturb."""

    def __init__(self, observation_space: gym.Space[Any], features_dim: int = 5) -> None:
        super().__init__(observation_space, features_dim)
        self.norm = nn.BatchNorm1d(5)
        self.drop = nn.Dropout()

    def forward(self, observations: Tensor) -> Tensor:
        return self.drop(self.norm(observations + 1.0))


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (HWC, NatureCNN),
        (CHW, NatureCNN),
        (SMALL, FlattenExtractor),
        (VECTOR, FlattenExtractor),
        (gym.spaces.Discrete(4), FlattenExtractor),
        (gym.spaces.Dict({"a": VECTOR}), CombinedExtractor),
    ],
)
def test_auto_picks_by_the_space(space: gym.Space[Any], expected: type) -> None:
    assert type(make_extractor("auto", space, 32, {})) is expected


def test_flatten_has_no_parameters_and_keeps_the_values() -> None:
    extractor = make_extractor("FlattenExtractor", gym.spaces.Box(-1, 1, (2, 3)), 512, {})
    assert extractor.features_dim == 6
    assert not list(extractor.parameters())
    obs = torch.arange(12.0).reshape(2, 2, 3)
    assert torch.equal(extractor(obs), torch.arange(12.0).reshape(2, 6))


def test_a_scalar_box_is_one_feature() -> None:
    extractor = make_extractor("auto", gym.spaces.Box(-1, 1, ()), 512, {})
    assert torch.equal(extractor(torch.tensor([0.5, -0.5])), torch.tensor([[0.5], [-0.5]]))


def test_discrete_observations_are_one_hot_from_their_start() -> None:
    extractor = make_extractor("auto", gym.spaces.Discrete(3, start=10), 512, {})
    assert extractor(torch.tensor([10, 12])).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_multi_discrete_observations_are_one_hot_side_by_side() -> None:
    extractor = make_extractor("auto", gym.spaces.MultiDiscrete([2, 3], start=[0, 5]), 512, {})
    assert extractor(torch.tensor([[1, 5], [0, 7]])).tolist() == [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]


def test_binary_observations_become_floats() -> None:
    features = make_extractor("auto", gym.spaces.MultiBinary(2), 512, {})(torch.tensor([[1, 0]]))
    assert features.dtype == torch.float32
    assert features.tolist() == [[1.0, 0.0]]


def test_bytes_are_scaled_to_one() -> None:
    ram = gym.spaces.Box(0, 255, (2,), np.uint8)
    features = make_extractor("auto", ram, 512, {})(torch.tensor([[0, 255]], dtype=torch.uint8))
    assert features.tolist() == [[0.0, 1.0]]


def test_nature_cnn_reads_both_channel_orders_alike() -> None:
    chw_space = gym.spaces.Box(0, 255, (3, 48, 36), np.uint8)
    hwc, chw = NatureCNN(HWC, 16), NatureCNN(chw_space, 16)
    chw.load_state_dict(hwc.state_dict())
    images = torch.randint(0, 256, (2, 48, 36, 3), dtype=torch.uint8)
    torch.testing.assert_close(hwc(images), chw(images.permute(0, 3, 1, 2)))


def test_nature_cnn_scales_bytes_to_one() -> None:
    space = gym.spaces.Box(0, 255, (36, 36, 1), np.uint8)
    extractor = NatureCNN(space, 4)
    seen: list[Tensor] = []
    extractor.cnn.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    extractor(torch.full((1, 36, 36, 1), 255, dtype=torch.uint8))
    assert seen[0].shape == (1, 1, 36, 36)
    assert (seen[0] == 1.0).all()


def test_nature_cnn_says_when_an_image_is_too_small() -> None:
    with pytest.raises(ConfigError, match="at least 36x36, not 7x7"):
        make_extractor("NatureCNN", SMALL, 512, {})


def test_nature_cnn_raises_for_observations_that_are_not_images() -> None:
    with pytest.raises(ConfigError, match="reads images"):
        make_extractor("NatureCNN", VECTOR, 512, {})


def test_resnet_mlp_has_the_width_and_blocks_it_is_given() -> None:
    extractor = make_extractor("ResnetMLP", VECTOR, 128, {"width": 32, "blocks": 3})
    assert isinstance(extractor, ResnetMLP)
    assert len(extractor.blocks) == 3
    assert extractor.embed.out_features == 32
    features = extractor(torch.randn(4, 5))
    assert features.shape == (4, 128)
    features.sum().backward()
    assert all(p.grad is not None for p in extractor.parameters())


def test_a_residual_block_starts_as_the_identity_and_can_leave_it() -> None:
    extractor = ResnetMLP(VECTOR, 8)
    x = torch.randn(3, 8)
    assert torch.equal(extractor.blocks(x), x)
    extractor.blocks(x).sum().backward()
    contract = extractor.blocks[0].contract
    assert contract.weight.grad.any()


def test_a_dict_is_put_together_from_its_parts() -> None:
    space = gym.spaces.Dict(
        {"camera": CHW, "minimap": SMALL, "joints": VECTOR, "phase": gym.spaces.Discrete(3), "keys": HWC}
    )
    extractor = make_extractor("auto", space, 512, {})
    assert extractor.features_dim == 256 + 256 + 7 * 7 * 3 + 5 + 3
    obs = {key: torch.as_tensor(np.stack([space[key].sample() for _ in range(2)])) for key in space.spaces}
    features = extractor(obs)
    order = [key for key in space.spaces if key not in ("camera", "keys")]
    start = 512 + sum({"minimap": 147, "joints": 5, "phase": 3}[k] for k in order[: order.index("joints")])
    torch.testing.assert_close(features[:, start : start + 5], obs["joints"])


def test_resnet_mlp_reads_a_dict_flat() -> None:
    space = gym.spaces.Dict({"a": VECTOR, "b": gym.spaces.Discrete(3)})
    extractor = make_extractor("ResnetMLP", space, 16, {})
    assert extractor({"a": torch.zeros(2, 5), "b": torch.tensor([0, 2])}).shape == (2, 16)


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Text(3),
        gym.spaces.Tuple([VECTOR, VECTOR]),
        gym.spaces.Dict({"a": gym.spaces.Dict({"b": VECTOR})}),
    ],
)
def test_a_space_no_extractor_reads_is_named(space: gym.Space[Any]) -> None:
    with pytest.raises(ConfigError, match="no feature extractor reads observations of") as error:
        make_extractor("auto", space, 512, {})
    assert type(space).__name__ in str(error.value)


def test_a_users_own_class_is_found_by_module_and_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_extractors.py").write_text(
        "from torch import nn\n"
        "class Mine(nn.Module):\n"
        "    def __init__(self, observation_space, features_dim):\n"
        "        super().__init__()\n"
        "        self.linear = nn.Linear(5, features_dim)\n"
        "    def forward(self, observations):\n"
        "        return self.linear(observations)\n"
        "not_a_class = 3\n"
    )
    (tmp_path / "broken_extractors.py").write_text("import a_library_nobody_has\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    extractor = make_extractor("my_extractors:Mine", VECTOR, 7, {})
    assert type(extractor).__name__ == "Mine"
    assert extractor.features_dim == 7
    with pytest.raises(ConfigError, match="'not_a_class' in 'my_extractors' is not"):
        make_extractor("my_extractors:not_a_class", VECTOR, 7, {})
    with pytest.raises(ConfigError, match="module 'no_such_module' of"):
        make_extractor("no_such_module:Mine", VECTOR, 7, {})
    with pytest.raises(ModuleNotFoundError, match="a_library_nobody_has"):
        make_extractor("broken_extractors:Mine", VECTOR, 7, {})


def test_a_registered_class_is_found_by_its_name() -> None:
    register_extractor("Doubled", Doubled)
    register_extractor("Doubled", Doubled)
    extractor = make_extractor("Doubled", VECTOR, 9, {"scale": 3.0})
    assert extractor.features_dim == 9
    with pytest.raises(ConfigError, match="already registered"):
        register_extractor("Doubled", Transposed)
    with pytest.raises(ConfigError, match="already registered"):
        register_extractor("auto", Doubled)


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'ResnetMLP'"):
        make_extractor("ResNetMLPs", VECTOR, 9, {})


def test_an_argument_the_class_does_not_take_is_named() -> None:
    with pytest.raises(ConfigError, match="unexpected keyword argument 'depth'"):
        make_extractor("ResnetMLP", VECTOR, 9, {"depth": 3})


def test_a_wrong_output_shape_says_what_was_expected_and_what_came() -> None:
    register_extractor("Transposed", Transposed)
    with pytest.raises(ConfigError, match=r"returned \(9, 2\) for a batch of 2; expected \(2, 9\)"):
        make_extractor("Transposed", VECTOR, 9, {})


def test_trial_does_not_change_statistics_and_random_generators() -> None:
    register_extractor("Noisy", Noisy)
    before = torch.random.get_rng_state()
    extractor = make_extractor("Noisy", VECTOR, 5, {})
    assert extractor.training
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not extractor.norm.running_mean.any()


@pytest.mark.parametrize("shape", [(4, 84, 84), (84, 84, 3), (1, 48, 40)])
def test_first_layer_for_gpus_equals_the_convolution(
    shape: tuple[int, ...],
) -> None:
    cnn = NatureCNN(gym.spaces.Box(0, 255, shape, np.uint8))
    images = torch.randint(0, 256, (3, *shape), dtype=torch.uint8)
    if cnn.channels_last:
        images = images.permute(0, 3, 1, 2)
    torch.testing.assert_close(cnn._first_layer(images), cnn.cnn[0](images.float() / 255.0))

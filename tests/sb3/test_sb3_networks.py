"""Networks written for Stable-Baselines3 get from Ludus what they get there, with both engines."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from sb3_networks import OBSERVATIONS, Shown
from sb3_runs import tiny_sb3
from stable_baselines3 import PPO as SB3PPO
from tiny_runs import resumed, same, tiny, trained, trainer_for

from ludus.errors import ConfigError
from ludus.evaluation.load import load
from ludus.policies.extractors import _find, make_extractor
from ludus.policies.observations import to_tensor
from ludus.runs.directory import RunDirectory
from ludus.sb3.export import export

LAYERS = "stable_baselines3.common.torch_layers"
CASES = {
    "the guide's CNN": ("Camera", "sb3_networks:CustomCNN", {"features_dim": 12}),
    "the guide's CNN, channels first": ("Frames", "sb3_networks:CustomCNN", {"features_dim": 12}),
    "the guide's CNN, imported from ludus": (
        "Camera",
        "sb3_networks:ImportedFromLudus",
        {"features_dim": 12},
    ),
    "the guide's extractor of a Dict": ("Mixed", "sb3_networks:CustomCombinedExtractor", {}),
    "SB3's CombinedExtractor": ("Mixed", f"{LAYERS}:CombinedExtractor", {"cnn_output_dim": 16}),
    "SB3's FlattenExtractor": ("Levers", f"{LAYERS}:FlattenExtractor", {}),
    "SB3's FlattenExtractor of a picture": ("Camera", f"{LAYERS}:FlattenExtractor", {}),
    "whole numbers": ("Whole", "sb3_networks:Width", {"features_dim": 12}),
}


@pytest.mark.parametrize("case", CASES)
def test_an_extractor_computes_what_it_computes_in_stable_baselines3(case: str) -> None:
    observations, name, kwargs = CASES[case]
    space = OBSERVATIONS[observations]
    reference = SB3PPO(
        "MultiInputPolicy" if isinstance(space, gym.spaces.Dict) else "MlpPolicy",
        Shown(observations),
        policy_kwargs={"features_extractor_class": _find(name), "features_extractor_kwargs": kwargs},
        n_steps=8,
        batch_size=8,
        device="cpu",
    )
    expected_module = reference.policy.features_extractor
    own = make_extractor(name, space, 512, kwargs)
    assert own.features_dim == expected_module.features_dim
    inner: Any = own if type(own) is type(expected_module) else own.extractor
    inner.load_state_dict(expected_module.state_dict())

    samples = [space.sample() for _ in range(3)]
    batch: Any = (
        {key: np.stack([sample[key] for sample in samples]) for key in space.spaces}
        if isinstance(space, gym.spaces.Dict)
        else np.stack(samples)
    )
    tensors, _ = reference.policy.obs_to_tensor(batch)
    with torch.no_grad():
        expected = reference.policy.extract_features(tensors, expected_module)
        torch.testing.assert_close(own(to_tensor(batch, "cpu")), expected)


@pytest.mark.parametrize("engine", ["native", "sb3"])
@pytest.mark.parametrize("case", ["the guide's CNN", "the guide's extractor of a Dict", "whole numbers"])
def test_a_run_trains_with_the_network_and_plays_with_it(case: str, engine: str, tmp_path: Path) -> None:
    observations, name, kwargs = CASES[case]
    config = tiny(
        tmp_path,
        engine=engine,
        env=f"sb3_networks:{observations}-v0",
        total_timesteps=32,
        hyperparams={"n_steps": 16, "batch_size": 16, "n_epochs": 1},
        policy={"features_extractor": name, "features_extractor_kwargs": kwargs},
    )
    policy = load(trained(config).path)
    action = policy.predict(OBSERVATIONS[observations].sample())
    assert action in (0, 1)


OWN_LAYERS = {"network": "sb3_networks:CustomNetwork", "network_kwargs": {"last_layer_dim_pi": 6}}


@pytest.mark.parametrize("algorithm", ["PPO", "A2C"])
def test_the_guides_custom_network_takes_the_place_of_the_hidden_layers(
    algorithm: str, tmp_path: Path
) -> None:
    fields = {"total_timesteps": 512, "checkpoint": {"every": 128, "keep": 0}, "policy": OWN_LAYERS}
    whole = trained(tiny(tmp_path / "whole", algorithm, normalize_obs=False, **fields))
    cut = RunDirectory.open(shutil.copytree(whole.path, tmp_path / "cut"))
    assert resumed(cut, 256) == 256
    same(whole, cut)

    policy: Any = load(whole.path).actor
    names = {name.partition(".")[0] for name in policy.state_dict()}
    assert names == {"own_layers", "action_head", "value_head"}  # each weight once
    obs = torch.randn(3, 4)
    with torch.no_grad():
        distribution, values = policy(obs)
        latent_pi, latent_vf = policy.own_layers(obs)
        torch.testing.assert_close(values, policy.value_head(latent_vf).squeeze(-1))
        expected = policy.action_head(latent_pi, None)
        actions = torch.tensor([0, 1, 0])
        torch.testing.assert_close(distribution.log_prob(actions), expected.log_prob(actions))


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"policy": {"network": "sb3_networks:TooNarrow"}}, r"returned \(2, 1\) .* expected \(2, 64\)"),
        ({"policy": {"network": "torch.nn:Identity"}}, "no forward_actor"),
        ({"policy": {"network": "nowhere_at_all:Net"}}, "module 'nowhere_at_all' of network"),
        ({"policy": {**OWN_LAYERS, "share_net": True}}, "itself decides what policy and value share"),
        ({"policy": OWN_LAYERS, "algorithm": "DQN"}, "for PPO and A2C"),
        ({"policy": OWN_LAYERS, "engine": "sb3", "algorithm": "DQN"}, "DQN has other parts"),
        (
            {"policy": {"network": "sb3_networks:TooNarrow"}, "engine": "sb3"},
            r"returned \(2, 1\) .* expected \(2, 64\)",
        ),
    ],
)
def test_a_network_that_does_not_fit_is_refused(fields: dict[str, Any], what: str, tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path, **fields))
    with pytest.raises(ConfigError, match=what):
        trainer.create_model()


@pytest.mark.parametrize("algorithm", ["PPO", "A2C", "MaskablePPO", "RecurrentPPO", "TRPO"])
def test_the_guides_custom_network_trains_and_resumes_with_engine_sb3(algorithm: str, tmp_path: Path) -> None:
    fields = {"total_timesteps": 192, "checkpoint": {"every": 64, "keep": 0}, "policy": OWN_LAYERS}
    whole = trained(tiny_sb3(tmp_path / "whole", algorithm, **fields))
    cut = RunDirectory.open(shutil.copytree(whole.path, tmp_path / "cut"))
    assert resumed(cut, 64) == 64
    same(whole, cut)

    net: Any = load(whole.path).actor.net
    hidden = {name for name in net.state_dict() if name.startswith("mlp_extractor.")}
    assert {name.split(".")[2] for name in hidden} == {"shared", "policy_net", "value_net"}
    assert net.action_net.in_features == 6


@pytest.mark.parametrize("engine", ["native", "sb3"])
def test_a_run_with_the_guides_custom_network_is_exported_for_stable_baselines3(
    engine: str, tmp_path: Path
) -> None:
    run = trained(tiny(tmp_path, engine=engine, normalize_obs=False, policy=OWN_LAYERS, total_timesteps=128))
    policy = load(run.path)
    exported = export(policy, tmp_path / "model.zip")
    assert any("sb3_networks:CustomNetwork" in note for note in exported.notes)
    model = SB3PPO.load(tmp_path / "model.zip", device="cpu")
    obs = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
    expected = [policy.predict(one) for one in obs]
    assert model.predict(obs, deterministic=True)[0].tolist() == [int(action) for action in expected]


@pytest.mark.parametrize("engine", ["native", "sb3"])
def test_hidden_layers_that_the_own_network_replaces_are_named_in_a_warning(
    engine: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = trainer_for(tiny(tmp_path, engine=engine, policy=OWN_LAYERS))
    trainer.create_model()
    assert "hyperparams.policy_net_arch" in caplog.text and "policy.network takes the place" in caplog.text

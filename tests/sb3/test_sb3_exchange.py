"""A policy exported to Stable-Baselines3 and imported again acts the same; importing a zip runs no code."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import sb3_contrib
import stable_baselines3
import torch
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import ludus
from ludus.cli.app import main
from ludus.config.schema import TrainerConfig
from ludus.errors import UserError
from ludus.evaluation.export import export_policy, export_targets
from ludus.evaluation.load import LoadedPolicy, load
from ludus.sb3.import_zip import read_sb3_zip
from ludus.training.factory import create_trainer


class Still(gym.Env[Any, Any]):
    """Shows random observations of a space, and ends after 20 steps."""

    def __init__(self, space: gym.Space[Any], masks: bool = False) -> None:
        self.observation_space = space
        self.action_space = gym.spaces.Discrete(3)
        self.masks = masks

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), self.info()

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.observation_space.sample(), float(action == 1), self.steps == 20, False, self.info()

    def info(self) -> dict[str, Any]:
        return {"action_mask": np.array([True, False, True])} if self.masks else {}


PICTURE = gym.spaces.Box(0, 255, (36, 40, 3), np.uint8)
VECTOR = gym.spaces.Box(-2.0, 2.0, (3,), np.float32)
MIXED = gym.spaces.Dict({"where": VECTOR, "look": PICTURE, "which": gym.spaces.Discrete(4)})
BYTES = gym.spaces.Box(0, 255, (6,), np.uint8)
STILL: dict[str, dict[str, Any]] = {
    "PictureStill-v0": {"space": PICTURE},
    "MixedStill-v0": {"space": MIXED},
    "BytesStill-v0": {"space": BYTES},
    "MaskedStill-v0": {"space": VECTOR, "masks": True},
}


@pytest.fixture(autouse=True)
def still_envs() -> Iterator[None]:
    """The envs of this file, known while one of its tests runs."""
    for env_id, kwargs in STILL.items():
        gym.register(env_id, entry_point=Still, kwargs=kwargs)  # type: ignore[arg-type]
    yield
    for env_id in STILL:
        del gym.registry[env_id]


HYPERPARAMS: dict[str, dict[str, Any]] = {
    "PPO": {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "clip_range": {"linear": [0.2, 0.1]}},
    "A2C": {"n_steps": 8},
    "DQN": {"learning_starts": 20, "batch_size": 16, "buffer_size": 200},
    "SAC": {"learning_starts": 20, "batch_size": 16, "buffer_size": 200},
}
CASES: dict[str, dict[str, Any]] = {
    "PPO": {},
    "A2C": {"policy": {"activation": "ELU"}},
    "DQN": {},
    "SAC": {"env": "Pendulum-v1"},
    "PPO, continuous": {"env": "Pendulum-v1"},
    "PPO, one trunk": {"policy": {"share_net": True}},
    "PPO, ResnetMLP": {"policy": {"features_extractor": "ResnetMLP", "features_dim": 8}},
    "PPO, two extractors": {
        "policy": {"features_extractor": "ResnetMLP", "features_dim": 8, "share_features_extractor": False}
    },
    "SAC, two extractors": {
        "env": "Pendulum-v1",
        "policy": {"features_extractor": "ResnetMLP", "features_dim": 8, "share_features_extractor": False},
    },
    "DQN, no normalisation": {"normalize_obs": False},
    "PPO, choices": {"env": "FrozenLake-v1"},
    "PPO, pictures": {"env": "PictureStill-v0", "policy": {"features_dim": 8}},
    "DQN, pictures": {"env": "PictureStill-v0", "policy": {"features_dim": 8}},
    "PPO, a dict": {"env": "MixedStill-v0"},
    "A2C, bytes": {"env": "BytesStill-v0"},
    "PPO, masks": {"env": "MaskedStill-v0"},
}


def trained(folder: Path, case: str) -> LoadedPolicy:
    algorithm = case.split(",")[0]
    nets = {"policy_net_arch": [16, 8], "value_net_arch": [12]}
    defaults: dict[str, Any] = {
        "env": "CartPole-v1",
        "n_envs": 2,
        "vector": "serial",
        "total_timesteps": 128,
        "kernels": False,
        "evaluation": {"every": None},
        "tracking": {"tensorboard": False},
        "save_dir": str(folder),
    }
    config = TrainerConfig(
        algorithm=algorithm,
        hyperparams={**HYPERPARAMS[algorithm], **nets},
        **(defaults | CASES[case]),
    )
    trainer = create_trainer(None, config)
    try:
        return load(f"{trainer.train().run}@latest")
    finally:
        trainer.close()


def observations(policy: LoadedPolicy) -> Any:
    space = policy.actor.observation_space
    if isinstance(space, gym.spaces.Discrete):
        return np.arange(space.n)
    if space.dtype != np.float32:
        space.seed(0)
        return gym.vector.utils.batch_space(space, 64).sample()
    return np.random.default_rng(0).normal(size=(64, *space.shape)).astype(np.float32)


def varied_actions(policy: LoadedPolicy, obs: Any) -> Any:
    """The actions of `policy`, after it was given the first random weights with which they differ."""
    for seed in range(50):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in policy.actor.parameters():
                parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator))
        actions = policy.predict(obs)
        if len(np.unique(actions)) > 1:
            break
    return actions


def sb3_actions(zip_file: Path, name: str, obs: Any, env_id: str) -> Any:
    """Return the actions of the files, loaded with Stable-Baselines3 itself."""
    cls = getattr(stable_baselines3, name, None) or getattr(sb3_contrib, name)
    statistics = zip_file.with_name(f"{zip_file.stem}_vecnormalize.pkl")
    if statistics.exists():
        normalize = VecNormalize.load(str(statistics), DummyVecEnv([lambda: gym.make(env_id)]))
        obs = normalize.normalize_obs(obs)
    return cls.load(zip_file).predict(obs, deterministic=True)[0]


@pytest.mark.parametrize("case", CASES)
def test_export_and_import_give_the_same_actions(case: str, tmp_path: Path) -> None:
    policy = trained(tmp_path / "runs", case)
    assert policy.config is not None and policy.config.env is not None
    env_id = policy.config.env.id
    obs = observations(policy)
    expected = varied_actions(policy, obs)
    assert len(np.unique(expected)) > 1

    zip_file = tmp_path / "out.zip"
    exported = export_policy(policy, "sb3", zip_file)
    name = exported.notes[0].split("load it with ")[1].split(".load")[0]
    assert name == ("MaskablePPO" if case == "PPO, masks" else case.split(",")[0])
    assert exported.files[0] == zip_file
    floats = isinstance(obs, dict) or obs.dtype == np.float32
    assert (len(exported.files) == 3) == (policy.config.normalize_obs and floats)
    assert np.array_equal(sb3_actions(zip_file, name, obs, env_id), expected)

    code = main(["import", str(zip_file), "--env", env_id, "--trust", "--root", str(tmp_path / "back")])
    assert code == 0
    back = ludus.load("latest", root=tmp_path / "back")
    assert np.array_equal(back.predict(obs), expected)
    assert back.checkpoint is not None and policy.checkpoint is not None
    assert back.checkpoint.step == policy.checkpoint.step


def test_an_imported_policy_can_be_evaluated_and_trained_on(tmp_path: Path) -> None:
    model = stable_baselines3.PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, seed=0)
    model.learn(64)
    model.save(tmp_path / "theirs.zip")
    arguments = ["--env", "CartPole-v1", "--trust", "--root", str(tmp_path / "runs")]
    assert main(["import", str(tmp_path / "theirs.zip"), *arguments]) == 0
    obs = np.random.default_rng(1).normal(size=(64, 4)).astype(np.float32)
    policy = ludus.load("theirs", root=tmp_path / "runs")
    assert np.array_equal(policy.predict(obs), model.predict(obs, deterministic=True)[0])
    assert main(["eval", "theirs", "--episodes", "2", "--root", str(tmp_path / "runs")]) == 0
    config = policy.config.model_copy(  # type: ignore[union-attr]
        update={
            "pretrained_model": "theirs",
            "total_timesteps": ludus.TrainerConfig(total_timesteps=64).total_timesteps,
        }
    )
    trainer = create_trainer(None, config.model_copy(update={"kernels": False, "name": "further"}))
    assert torch.equal(trainer.create_model().value_head.weight, model.policy.value_net.weight)
    trainer.close()


def test_statistics_of_sb3_are_imported_when_given(tmp_path: Path) -> None:
    envs = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]), norm_reward=False)
    model = stable_baselines3.A2C("MlpPolicy", envs, seed=0)
    model.learn(100)
    model.save(tmp_path / "m.zip")
    envs.save(str(tmp_path / "stats.pkl"))
    arguments = ["--env", "Pendulum-v1", "--trust", "--root", str(tmp_path / "runs")]
    assert (
        main(["import", str(tmp_path / "m.zip"), *arguments, "--vecnormalize", str(tmp_path / "stats.pkl")])
        == 0
    )
    obs = np.random.default_rng(1).normal(size=(64, 3)).astype(np.float32)
    expected = model.predict(envs.normalize_obs(obs), deterministic=True)[0]
    np.testing.assert_allclose(ludus.load("m", root=tmp_path / "runs").predict(obs), expected, atol=1e-6)


class Payload:
    """Creates a file as soon as somebody unpickles it."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return Path.touch, (self.target,)


def hostile_zip(folder: Path, *, weights_too: bool) -> tuple[Path, Path]:
    """A model that is good, except that each of its pickles creates a file; and that file."""
    import base64

    model = stable_baselines3.PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32)
    model.save(folder / "good.zip")
    mark = folder / "owned"
    pickled = base64.b64encode(pickle.dumps(Payload(mark))).decode()
    with zipfile.ZipFile(folder / "good.zip") as good, zipfile.ZipFile(folder / "bad.zip", "w") as bad:
        for name in good.namelist():
            content = good.read(name)
            if name == "data":
                data = json.loads(content)
                for value in data.values():
                    if isinstance(value, dict) and ":serialized:" in value:
                        value[":serialized:"] = pickled
                content = json.dumps(data).encode()
            elif name.endswith(".pth") and (weights_too or name != "policy.pth"):
                buffer = io.BytesIO()
                torch.save({"x": Payload(mark)}, buffer)
                content = buffer.getvalue()
            bad.writestr(name, content)
    return folder / "bad.zip", mark


@pytest.mark.parametrize("weights_too", [False, True])
def test_a_hostile_zip_runs_no_code_trusted_or_not(
    weights_too: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, mark = hostile_zip(tmp_path, weights_too=weights_too)
    root = ["--env", "CartPole-v1", "--root", str(tmp_path / "runs")]
    assert main(["import", str(bad), *root]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and "pickle" in lines[0] and "--trust" in lines[2]
    assert not (tmp_path / "runs").exists()
    assert main(["import", str(bad), *root, "--trust"]) == (2 if weights_too else 0)
    assert main(["eval", str(bad)]) == 2
    assert not mark.exists()
    with pytest.raises(Exception):  # noqa: B017  # whatever SB3 makes of it
        stable_baselines3.PPO.load(bad)
    assert mark.exists()  # so the payload was a real one


def _with(folder: Path, name: str, change: Any) -> Path:
    """A model of SB3 with one part changed: `data` comes as a dict, `policy.pth` as tensors by name."""
    stable_baselines3.PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32).save(folder / "good.zip")
    with zipfile.ZipFile(folder / "good.zip") as good, zipfile.ZipFile(folder / "bad.zip", "w") as bad:
        for part in good.namelist():
            content = good.read(part)
            if part == name == "data":
                content = json.dumps(change(json.loads(content))).encode()
            elif part == name:
                buffer = io.BytesIO()
                torch.save(change(torch.load(io.BytesIO(content), weights_only=True)), buffer)
                content = buffer.getvalue()
            bad.writestr(part, content, zipfile.ZIP_DEFLATED)
    return folder / "bad.zip"


_LUDUS = {"features_extractor_class": "LudusExtractor"}
MALFORMED: dict[str, tuple[str, Any]] = {
    "settings that are a list": ("data", lambda data: []),
    "an extractor without a name": ("data", lambda data: data | {"policy_kwargs": _LUDUS}),
    "an extractor that is a function": (
        "data",
        lambda data: (
            data
            | {
                "policy_kwargs": _LUDUS
                | {
                    "features_extractor_kwargs": {
                        "name": "os:system",
                        "features_dim": 4,
                        "arguments": {"command": "x"},
                    }
                }
            }
        ),
    ),
    "a discount beyond one": ("data", lambda data: data | {"gamma": 7}),
    "a layer without a number": (
        "policy.pth",
        lambda weights: weights | {"mlp_extractor.policy_net.x.weight": torch.zeros(2, 2)},
    ),
    "a layer without dimensions": (
        "policy.pth",
        lambda weights: weights | {"mlp_extractor.policy_net.0.weight": torch.tensor(1.0)},
    ),
    "a layer that is missing": (
        "policy.pth",
        lambda weights: {name: value for name, value in weights.items() if name != "action_net.weight"},
    ),
    "weights that are no names": ("policy.pth", lambda weights: [1, 2]),
    "weights that unpack to many times their size": (
        "policy.pth",
        lambda weights: weights | {"action_net.weight": torch.zeros(40_000_000)},
    ),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_invalid_zip_raises_in_three_lines(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = _with(tmp_path, *MALFORMED[what])
    capsys.readouterr()
    root = str(tmp_path / "runs")
    assert main(["import", str(bad), "--env", "CartPole-v1", "--trust", "--root", root]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert ("many times" in what) == ("unpack" in lines[0])
    assert not Path(root).exists()


@pytest.mark.parametrize(
    ("algorithm", "env", "message"),
    [("TD3", "Pendulum-v1", "TD3|SAC"), ("QRDQN", "CartPole-v1", "QR-DQN"), ("TQC", "Pendulum-v1", "TQC")],
)
def test_an_algorithm_that_import_does_not_know_is_refused(
    algorithm: str, env: str, message: str, tmp_path: Path
) -> None:
    cls = getattr(stable_baselines3, algorithm, None) or getattr(sb3_contrib, algorithm)
    cls("MlpPolicy", env, buffer_size=10).save(tmp_path / "m.zip")
    with pytest.raises(UserError, match="cannot be imported"):
        read_sb3_zip(tmp_path / "m.zip")


def test_export_raises_for_networks_that_sb3_does_not_support(tmp_path: Path) -> None:
    CASES["DQN, dueling"] = {}
    HYPERPARAMS["DQN"] |= {"dueling": True}
    try:
        with pytest.raises(UserError, match="dueling"):
            export_policy(trained(tmp_path, "DQN, dueling"), "sb3", tmp_path / "x.zip")
    finally:
        del CASES["DQN, dueling"], HYPERPARAMS["DQN"]["dueling"]
    assert not (tmp_path / "x.zip").exists()


def test_export_refuses_to_overwrite_and_names_its_targets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = trained(tmp_path / "runs", "A2C")
    (tmp_path / "there.zip").write_text("mine")
    run = str(policy.run.path)  # type: ignore[union-attr]
    assert main(["export", run, "--to", "sb3", "--out", str(tmp_path / "there.zip")]) == 2
    assert (tmp_path / "there.zip").read_text() == "mine"
    assert "sb3" in export_targets()
    capsys.readouterr()
    assert main(["export", run, "--to", "sb33"]) == 2
    assert "did you mean 'sb3'?" in capsys.readouterr().err


def test_a_model_of_another_env_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stable_baselines3.PPO("MlpPolicy", "CartPole-v1").save(tmp_path / "m.zip")
    root = str(tmp_path / "runs")
    assert main(["import", str(tmp_path / "m.zip"), "--env", "Acrobot-v1", "--trust", "--root", root]) == 2
    assert "does not fit Acrobot-v1" in capsys.readouterr().err
    assert not Path(root).exists()

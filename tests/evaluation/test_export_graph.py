"""A policy exported to ONNX or TorchScript acts like the original, from raw observations, without Ludus."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from gymnasium import spaces

import ludus
from ludus.cli.app import main
from ludus.config.schema import TrainerConfig
from ludus.errors import MissingExtra, UserError
from ludus.evaluation import agreement
from ludus.evaluation.agreement import check_agreement, random_inputs
from ludus.evaluation.export import export_policy
from ludus.evaluation.graph import policy_graph
from ludus.evaluation.load import LoadedPolicy, load
from ludus.policies.extractors import BaseFeaturesExtractor
from ludus.training.factory import create_trainer


class Shown(gym.Env[Any, Any]):
    """Random observations, any action, 20 steps per episode."""

    def __init__(
        self, observations: spaces.Space[Any], actions: spaces.Space[Any], masks: bool = False
    ) -> None:
        self.observation_space = observations
        self.action_space = actions
        if masks:
            self.action_masks = self._masks

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps == 20, False, {}

    def _masks(self) -> Any:
        size = sum(self.action_space.nvec) if hasattr(self.action_space, "nvec") else self.action_space.n
        return np.ones(size, dtype=bool)


VECTOR = spaces.Box(-2.0, 2.0, (3,), np.float32)
PICTURE = spaces.Box(0, 255, (36, 40, 3), np.uint8)
MIXED = spaces.Dict(
    {
        "where": VECTOR,
        "look": PICTURE,
        "which": spaces.Discrete(4, start=1),
        "value": spaces.MultiDiscrete([2, 3]),
    }
)
LEFT_RIGHT = spaces.Discrete(3, start=-1)
ENVS: dict[str, dict[str, Any]] = {
    "Offset-v0": {"observations": VECTOR, "actions": LEFT_RIGHT},
    "Picture-v0": {"observations": PICTURE, "actions": LEFT_RIGHT},
    "Mixed-v0": {"observations": MIXED, "actions": LEFT_RIGHT},
    "Masked-v0": {"observations": VECTOR, "actions": LEFT_RIGHT, "masks": True},
    "Levers-v0": {
        "observations": VECTOR,
        "actions": spaces.MultiDiscrete([2, 4], start=[1, -1]),
        "masks": True,
    },
    "Switches-v0": {"observations": VECTOR, "actions": spaces.MultiBinary(4)},
    "Far-v0": {  # float64, wide, far from zero
        "observations": spaces.Box(990.0, 1010.0, (2, 3), np.float64),
        "actions": spaces.Box(np.array([0.0, -3.0]), np.array([0.1, 7.0]), dtype=np.float64),
    },
    "Steps-v0": {"observations": VECTOR, "actions": spaces.Box(-3, 3, (2,), np.int32)},
    "Bits-v0": {"observations": spaces.MultiBinary(5), "actions": LEFT_RIGHT},
    "Many-v0": {"observations": VECTOR, "actions": spaces.Discrete(30_000)},
    "Plain-v0": {"observations": VECTOR, "actions": spaces.Discrete(3)},
    "PlainPicture-v0": {"observations": PICTURE, "actions": spaces.Discrete(3)},
    "PlainMixed-v0": {
        "observations": spaces.Dict({"where": VECTOR, "look": PICTURE}),
        "actions": spaces.Discrete(3),
    },
    "PlainMasked-v0": {"observations": VECTOR, "actions": spaces.MultiDiscrete([2, 4]), "masks": True},
}


@pytest.fixture(autouse=True)
def envs() -> Iterator[None]:
    """Register the envs of this file during its tests."""
    for env_id, kwargs in ENVS.items():
        gym.register(env_id, entry_point=Shown, kwargs=kwargs)  # type: ignore[arg-type]
    yield
    for env_id in ENVS:
        del gym.registry[env_id]


HYPERPARAMS: dict[str, dict[str, Any]] = {
    "PPO": {"n_steps": 32, "batch_size": 32, "n_epochs": 1},
    "A2C": {"n_steps": 8},
    "DQN": {"learning_starts": 20, "batch_size": 16, "buffer_size": 200},
}
RESNET = {"features_extractor": "ResnetMLP", "features_dim": 8}
BOTH = ("onnx", "torchscript")
ONNX, TORCHSCRIPT = BOTH
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "PPO": (BOTH, {"env": "Offset-v0"}),
    "A2C, two extractors": (
        [ONNX],
        {
            "env": "Offset-v0",
            "normalize_obs": False,
            "policy": {"share_features_extractor": False, **RESNET},
        },
    ),
    "DQN, masks": (BOTH, {"env": "Masked-v0"}),
    "DQN, dueling": ([TORCHSCRIPT], {"env": "Offset-v0"}),
    "SAC": (BOTH, {"env": "Far-v0"}),
    "SAC, ResnetMLP": ([TORCHSCRIPT], {"env": "Pendulum-v1", "policy": RESNET}),
    "PPO, continuous": ([ONNX], {"env": "Far-v0"}),
    "PPO, whole numbers": ([TORCHSCRIPT], {"env": "Steps-v0"}),
    "PPO, choices": ([ONNX], {"env": "FrozenLake-v1"}),
    "PPO, bits": ([TORCHSCRIPT], {"env": "Bits-v0"}),
    "PPO, switches, one trunk": ([ONNX], {"env": "Switches-v0", "policy": {"share_net": True}}),
    "DQN, pictures": ([ONNX], {"env": "Picture-v0", "policy": {"features_dim": 8}}),
    "PPO, a dict": (BOTH, {"env": "Mixed-v0"}),
    "PPO, levers with masks": ([ONNX], {"env": "Levers-v0"}),
    "sb3 PPO, pictures": ([ONNX], {"env": "PlainPicture-v0", "policy": {"features_dim": 8}}),
    "sb3 PPO, a dict, ResnetMLP": ([TORCHSCRIPT], {"env": "PlainMixed-v0", "policy": RESNET}),
    "sb3 MaskablePPO": (BOTH, {"env": "PlainMasked-v0"}),
    "sb3 A2C": ([TORCHSCRIPT], {"env": "Far-v0"}),
    "sb3 DQN": ([ONNX], {"env": "Plain-v0"}),
    "sb3 QR-DQN": ([TORCHSCRIPT], {"env": "Plain-v0"}),
    "sb3 SAC": ([ONNX], {"env": "Far-v0"}),
    "sb3 TD3": ([TORCHSCRIPT], {"env": "Pendulum-v1"}),
    "sb3 TQC": ([TORCHSCRIPT], {"env": "Pendulum-v1"}),
    "sb3 CrossQ": ([TORCHSCRIPT], {"env": "Pendulum-v1"}),
    "sb3 ARS": ([TORCHSCRIPT], {"env": "Plain-v0"}),
}


def trained(folder: Path, case: str, **changes: Any) -> LoadedPolicy:
    engine = "sb3" if case.startswith("sb3 ") else "native"
    algorithm = case.removeprefix("sb3 ").split(",")[0]
    hyperparams: dict[str, Any] = {"policy_net_arch": [16, 8], "value_net_arch": [12]}
    if "dueling" in case:
        hyperparams["dueling"] = True
    kind = algorithm.removeprefix("Maskable").removeprefix("Recurrent")
    hyperparams |= HYPERPARAMS.get(kind, HYPERPARAMS["DQN"])
    if algorithm == "ARS":
        hyperparams = {"n_delta": 2}
    defaults: dict[str, Any] = {
        "algorithm": algorithm,
        "engine": engine,
        "hyperparams": hyperparams,
        "n_envs": 2,
        "vector": "serial",
        "total_timesteps": 64,
        "normalize_obs": True,
        "kernels": False,
        "evaluation": {"every": None},
        "tracking": {"tensorboard": False},
        "save_dir": str(folder),
    }
    trainer = create_trainer(None, TrainerConfig(**(defaults | CASES.get(case, ((), {}))[1] | changes)))
    try:
        return load(f"{trainer.train().run}@latest")
    finally:
        trainer.close()


def varied(policy: LoadedPolicy, obs: Any, mask: Any) -> Any:
    """Return the actions of `policy`, after random weights were set with which they differ."""
    for seed in range(50):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in policy.actor.parameters():
                parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator))
        actions = policy.predict(obs, mask)
        if len(np.unique(actions)) > 1:
            return actions
    raise AssertionError("whatever its weights, it does the same everywhere")


def as_fed(obs: Any) -> dict[str, Any]:
    """Return observations as documented: floats as float32, integers as int64, bytes unchanged."""

    def fed(array: Any) -> Any:
        if np.issubdtype(array.dtype, np.floating):
            return array.astype(np.float32)
        return array if array.dtype == np.uint8 else array.astype(np.int64)

    return {key: fed(array) for key, array in (obs if isinstance(obs, dict) else {"obs": obs}).items()}


def onnx_outputs(file: Path, obs: Any, mask: Any) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(file)
    names = [output.name for output in session.get_outputs()]
    masks = {} if mask is None else {"action_mask": mask}
    return dict(zip(names, session.run(None, as_fed(obs) | masks), strict=True))


def torchscript_outputs(file: Path, obs: Any, mask: Any) -> dict[str, Any]:
    tensors = {key: torch.from_numpy(array) for key, array in as_fed(obs).items()}
    given: list[Any] = [tensors if isinstance(obs, dict) else tensors["obs"]]
    given += [] if mask is None else [torch.from_numpy(mask)]
    return {name: tensor.numpy() for name, tensor in torch.jit.load(file)(*given).items()}


TARGETS = {"onnx": onnx_outputs, "torchscript": torchscript_outputs}


@pytest.mark.parametrize("case", CASES)
def test_exported_file_acts_like_the_policy(case: str, tmp_path: Path) -> None:
    policy = trained(tmp_path / "runs", case)
    graph, _ = policy_graph(policy)
    obs, mask = random_inputs(graph, 40, np.random.default_rng(7))
    expected = varied(policy, obs, mask)
    assert (mask is not None) == ("asks" in case or "Maskable" in case)
    for target in CASES[case][0]:
        file = tmp_path / f"policy.{target}"
        exported = export_policy(policy, target, file)
        assert exported.files == (file,)
        assert exported.differences["actions"] <= 1e-5
        outputs = TARGETS[target](file, obs, mask)
        assert outputs["actions"].dtype == policy.actor.action_space.dtype
        np.testing.assert_allclose(outputs["actions"], expected, rtol=1e-5, atol=1e-5)
        assert outputs["actions"].shape == expected.shape
        if case == "PPO, a dict":  # a key of the observation keeps its name, and the output is renamed
            assert list(outputs) == ["actions", "probabilities", "value_out"]
        one = {key: array[:1] for key, array in obs.items()} if isinstance(obs, dict) else obs[:1]
        alone = TARGETS[target](file, one, None if mask is None else mask[:1])
        np.testing.assert_allclose(alone["actions"], expected[:1], rtol=1e-5, atol=1e-5)
    left = {path.name for path in tmp_path.iterdir()} - {"runs"}
    assert left == {f"policy.{target}" for target in CASES[case][0]}


def test_other_outputs_of_the_policy_are_named(tmp_path: Path) -> None:
    policy = trained(tmp_path / "runs", "PPO, levers with masks")
    graph, _ = policy_graph(policy)
    obs, mask = random_inputs(graph, 40, np.random.default_rng(7))
    varied(policy, obs, mask)
    export_policy(policy, "onnx", tmp_path / "policy.onnx")
    outputs = onnx_outputs(tmp_path / "policy.onnx", obs, mask)
    assert list(outputs) == ["actions", "probabilities", "value"]
    with torch.no_grad():
        distribution, value = policy.actor(policy.actor.prepare(obs), torch.from_numpy(mask))
    first, second = (part.log_probs.exp().numpy() for part in distribution.parts)
    np.testing.assert_allclose(outputs["probabilities"], np.concatenate([first, second], axis=1), atol=1e-5)
    assert np.all(outputs["probabilities"][~mask] == 0)
    np.testing.assert_allclose(outputs["value"], value.numpy(), rtol=1e-4, atol=1e-4)


def test_file_has_its_origin_and_no_paths_of_this_machine(tmp_path: Path) -> None:
    policy = trained(tmp_path / "runs", "PPO")
    said = {"env": "Offset-v0", "algorithm": "PPO", "ludus_version": ludus.__version__, "step": "64"}
    export_policy(policy, "onnx", tmp_path / "policy.onnx")
    model = onnx.load(tmp_path / "policy.onnx")
    assert said.items() <= {prop.key: prop.value for prop in model.metadata_props}.items()
    assert b".py" not in (tmp_path / "policy.onnx").read_bytes()
    axes = [
        value.type.tensor_type.shape.dim[0].dim_param for value in (*model.graph.input, *model.graph.output)
    ]
    assert set(axes) == {"batch"}
    export_policy(policy, "torchscript", tmp_path / "policy.pt")
    extra = {"ludus.json": ""}
    torch.jit.load(tmp_path / "policy.pt", _extra_files=extra)
    assert said.items() <= json.loads(extra["ludus.json"]).items()


class Branching(BaseFeaturesExtractor):
    """Cannot become a graph: its operations depend on the values."""

    def __init__(self, observation_space: Any, features_dim: int = 3) -> None:
        super().__init__(observation_space, features_dim)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        if observations.sum() > 0:
            return observations
        return -observations


class TwoFaced(Branching):
    """Becomes a graph with other results."""

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        exported = torch.compiler.is_exporting() or torch.jit.is_tracing()
        return -observations if exported else observations


class Counting(Branching):
    """Cannot become a graph for any batch size: it turns the size into a plain number."""

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return observations.view(len(observations), -1)


def test_network_with_a_fixed_batch_size_raises_with_a_fix(tmp_path: Path) -> None:
    named = {"features_extractor": f"{__name__}:Counting", "features_dim": 3}
    policy = trained(tmp_path / "runs", "PPO", env="Plain-v0", policy=named)
    with pytest.raises(UserError, match="batch size") as raised:
        export_policy(policy, ONNX, tmp_path / "policy.out")
    assert "x.shape[0]" in raised.value.fix


@pytest.mark.parametrize(
    ("extractor", "target"), [(Branching, ONNX), (Branching, TORCHSCRIPT), (TwoFaced, TORCHSCRIPT)]
)
def test_unexportable_network_raises_in_three_lines_and_writes_no_file(
    extractor: type[Any], target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {"features_extractor": f"{__name__}:{extractor.__name__}", "features_dim": 3}
    policy = trained(tmp_path / "runs", "PPO", env="Plain-v0", policy=named)
    varied(policy, *random_inputs(policy_graph(policy)[0], 40, np.random.default_rng(7)))
    with pytest.raises(UserError) as raised:
        export_policy(policy, target, tmp_path / "policy.out")
    assert not list(tmp_path.glob("*policy*"))
    if extractor is TwoFaced:
        assert "differ by up to" in raised.value.what
        return
    assert "cannot be exported" in raised.value.what
    assert "if observations.sum() > 0" in raised.value.where and __file__ in raised.value.where
    capsys.readouterr()
    assert main(["export", str(policy.run.path), "--to", target, "--out", str(tmp_path / "x")]) == 2  # type: ignore[union-attr]
    assert len(capsys.readouterr().err.splitlines()) == 3
    assert not (tmp_path / "x").exists()


def test_recurrent_policy_cannot_be_exported(tmp_path: Path) -> None:
    policy = trained(tmp_path / "runs", "sb3 RecurrentPPO", env="Plain-v0")
    with pytest.raises(UserError, match="recurrent"):
        export_policy(policy, "onnx", tmp_path / "policy.onnx")


def test_equally_good_actions_are_not_a_difference(tmp_path: Path) -> None:
    policy = trained(tmp_path / "runs", "PPO")
    with torch.no_grad():
        for parameter in policy.actor.policy_net.parameters():
            parameter.zero_()
        policy.actor.action_head.linear.bias.copy_(torch.tensor([1.0, 1.0, 0.5]))
    graph, _ = policy_graph(policy)

    def played(action: int) -> Any:
        return lambda inputs: {
            name: np.full(len(tensor), action) if name == "actions" else tensor.numpy()
            for name, tensor in graph(*inputs).items()
        }

    assert check_agreement(played(-1), graph, policy, "here").ties == 0
    agreed = check_agreement(played(0), graph, policy, "here")
    assert agreed.ties == agreed.observations == sum(agreement.BATCHES)
    with pytest.raises(UserError, match="actions differ by up to 2"):
        check_agreement(played(1), graph, policy, "here")


def test_different_action_is_a_difference_for_any_number_of_actions(tmp_path: Path) -> None:
    policy = trained(tmp_path / "runs", "PPO", env="Many-v0")
    graph, _ = policy_graph(policy)

    def next_to_it(inputs: Any) -> Any:
        outputs = {name: tensor.numpy() for name, tensor in graph(*inputs).items()}
        return outputs | {"actions": (outputs["actions"] + 1) % 30_000}

    with pytest.raises(UserError, match="actions differ by up to 1"):
        check_agreement(next_to_it, graph, policy, "here")


def test_without_onnxruntime_the_evaluator_of_onnx_compares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = trained(tmp_path / "runs", "PPO")
    without(monkeypatch, "onnxruntime")
    arguments = ["export", str(policy.run.path), "--to", "onnx", "--out", str(tmp_path / "my policy.onnx")]  # type: ignore[union-attr]
    assert main([*arguments, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["notes"][0].startswith("checked with onnx ")
    assert said["differences"]["actions"] == 0
    assert (tmp_path / "my policy.onnx").is_file()


def test_missing_extra_names_the_pip_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = trained(tmp_path / "runs", "PPO")
    without(monkeypatch, "onnxscript")
    with pytest.raises(MissingExtra, match=r"ludus-rl\[export\]"):
        export_policy(policy, "onnx", tmp_path / "policy.onnx")


def without(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """Simulate that the package `missing` is not installed."""
    from ludus.evaluation.export import onnx as target

    found = target.find_spec
    monkeypatch.setattr(target, "find_spec", lambda name: None if name == missing else found(name))

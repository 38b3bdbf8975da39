"""Names of policies, and loading them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import ludus
from ludus.config.schema import TrainerConfig
from ludus.errors import CheckpointError, UnknownName, UserError
from ludus.evaluation.load import LoadedPolicy, find_checkpoint, load
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory, find_run
from ludus.training.factory import create_trainer
from ludus.training.native import NativeTrainer

OBS = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: one of a preset with three checkpoints, the first of which is the best, and a DQN."""
    folder = tmp_path_factory.mktemp("runs")
    for algorithm, preset in (("PPO", "tiny-preset"), ("DQN", None)):
        own: dict[str, Any] = {"n_steps": 64} if algorithm == "PPO" else {"learning_starts": 100}
        config = TrainerConfig(
            name=f"my-{algorithm.lower()}",
            algorithm=algorithm,
            env="CartPole-v1",
            n_envs=1,
            total_timesteps=192,
            hyperparams={"policy_net_arch": [8], "value_net_arch": [8], **own},
            checkpoint={"every": 64},
            evaluation=None,
            tracking=None,
            save_dir=str(folder),
        )
        trainer = create_trainer(None, config)
        assert isinstance(trainer, NativeTrainer)
        trainer.preset = preset
        trainer.train()
        trainer.close()
    manager = CheckpointManager(only(folder, "PPO").checkpoints_dir)
    manager.mark_best(manager.find(64), "eval/mean_reward", 9.0)
    return folder


def only(root: Path, algorithm: str) -> RunDirectory:
    (path,) = (root / "CartPole-v1" / algorithm).iterdir()
    return RunDirectory.open(path)


def step_of(policy: LoadedPolicy) -> int:
    assert policy.checkpoint is not None
    return policy.checkpoint.step


@pytest.mark.parametrize(
    ("ref", "step"),
    [
        ("{path}", 64),  # the best one
        ("{path}@best", 64),
        ("{path}@latest", 192),
        ("{path}@128", 128),
        ("{path}@000000000128", 128),
        ("{path}/checkpoints/000000000128", 128),
        ("{name}@latest", 192),
        ("my-ppo", 64),
        ("preset:tiny-preset", 64),
        ("preset:tiny-preset@latest", 192),
    ],
)
def test_every_way_to_name_a_policy(root: Path, ref: str, step: int) -> None:
    run = only(root, "PPO")
    policy = load(ref.format(path=run.path, name=run.name), root)
    assert step_of(policy) == step and policy.run == run
    assert policy.env_spec().id == "CartPole-v1"


def test_latest_checkpoint_is_loaded_without_a_best(root: Path) -> None:
    assert step_of(load("my-dqn", root)) == 192
    assert load("latest", root).run == only(root, "DQN")


@pytest.mark.parametrize(
    ("ref", "kind", "message"),
    [
        ("my-pp0", UnknownName, "unknown run 'my-pp0'"),
        ("my-ppo@65", UnknownName, "unknown checkpoint '000000000065'"),
        ("my-dqn@best", CheckpointError, "no checkpoint of the run is marked as the best"),
        ("preset:other", UserError, "no run of the preset 'other'"),
        ("random", UserError, "needs an env"),
    ],
)
def test_unknown_policy_name_raises(root: Path, ref: str, kind: type[UserError], message: str) -> None:
    with pytest.raises(kind, match=message):
        load(ref, root)


def test_loaded_policy_equals_the_saved_one(root: Path) -> None:
    for ref in ("my-ppo@latest", "my-dqn"):
        policy = load(ref, root)
        assert policy.checkpoint is not None
        saved = policy.checkpoint.tensors("policy")
        assert all(torch.equal(value, saved[key]) for key, value in policy.actor.state_dict().items())


def test_predict_takes_one_observation_or_a_batch(root: Path) -> None:
    policy = ludus.load("my-ppo", root)
    actions = policy.predict(OBS)
    assert actions.shape == (40,) and set(actions.tolist()) <= {0, 1}
    assert [int(policy.predict(obs)) for obs in OBS] == actions.tolist()
    legal = np.tile([True, False], (40, 1))
    assert policy.predict(OBS, legal).tolist() == [0] * 40
    assert int(policy.predict(OBS[0], np.array([False, True]))) == 1
    assert policy.predict(OBS, legal, deterministic=False).tolist() == [0] * 40


def test_loading_does_not_change_global_random_state(root: Path) -> None:
    torch.manual_seed(5)
    np.random.seed(5)  # the global generator is tested here
    expected = (torch.rand(1).item(), np.random.rand())
    torch.manual_seed(5)
    np.random.seed(5)
    load("my-ppo", root)
    assert (torch.rand(1).item(), np.random.rand()) == expected


def test_damaged_checkpoint_raises_with_its_name(root: Path) -> None:
    run = only(root, "DQN")
    victim = run.checkpoints_dir / "000000000128" / "policy.safetensors"
    whole = victim.read_bytes()
    victim.write_bytes(whole[:-1] + b"\x00" if whole[-1] else whole[:-1] + b"\x01")
    with pytest.raises(CheckpointError, match=r"checkpoint '000000000128' is damaged"):
        find_checkpoint("my-dqn@128", root)
    victim.write_bytes(whole)
    find_checkpoint("my-dqn@128", root)


def test_the_random_bot_plays_legal_actions_one_at_a_time_or_many() -> None:
    space = spaces.Discrete(3)
    bot = load("random", action_space=space, observation_space=spaces.Box(-1, 1, (4,), np.float32))
    assert {int(a) for a in bot.predict(np.tile(OBS, (3, 1)))} == {0, 1, 2}
    assert bot.predict(OBS[0]).shape == ()
    only_one = np.array([False, True, False])
    assert bot.predict(OBS, np.tile(only_one, (40, 1))).tolist() == [1] * 40
    assert int(bot.predict(OBS[0], only_one)) == 1
    with pytest.raises(UserError, match="has no env to play"):
        bot.env_spec()
    dicts = load(
        "random",
        action_space=spaces.Box(-1, 1, (2,), np.float32),
        observation_space=spaces.Dict({"a": spaces.Box(-1, 1, (4,), np.float32), "b": spaces.Discrete(3)}),
    )
    assert dicts.predict({"a": OBS, "b": np.zeros(40, np.int64)}).shape == (40, 2)
    assert dicts.predict({"a": OBS[0], "b": np.int64(1)}).shape == (2,)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda tensor: torch.full_like(tensor, torch.nan), "holds NaN or infinity"),
        (lambda tensor: torch.full_like(tensor, -torch.inf), "holds NaN or infinity"),
        (lambda tensor: tensor.to(torch.int64), "is of torch.int64, not of torch.float32"),
    ],
)
def test_policy_with_nan_weights_raises(root: Path, tmp_path: Path, change: Any, problem: str) -> None:
    run, checkpoint = find_checkpoint(str(only(root, "PPO").path), root)
    tensors = checkpoint.tensors("policy")
    name = next(name for name in tensors if name.endswith("weight"))
    copied = RunDirectory.create_at(tmp_path / "copy", "CartPole-v1", "PPO", "copy")
    copied.config_path.write_bytes(run.config_path.read_bytes())
    CheckpointManager(copied.checkpoints_dir).save(
        checkpoint.step, {"policy": tensors | {name: change(tensors[name])}}, checkpoint.state()
    )
    with pytest.raises(CheckpointError, match=problem) as caught:
        load(copied.path)
    assert name in caught.value.what and caught.value.fix == "take another checkpoint of the run"


@pytest.mark.parametrize("algorithm", ["PPO", "DQN"])
def test_predict_raises_for_an_invalid_observation(root: Path, algorithm: str) -> None:
    policy = load(only(root, algorithm).path)
    for obs in (np.zeros(3), np.zeros((2, 1)), np.zeros(1), np.array([0, np.nan, 0, 0])):
        with pytest.raises(UserError, match="the observation has "):
            policy.predict(obs)
    for mask in (np.zeros(2, bool), np.ones(3, bool)):
        with pytest.raises(UserError, match="the action mask"):
            policy.predict(np.zeros(4), mask)


def test_bot_on_an_unsupported_env_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Picky:
        def __init__(self, observation_space: Any, action_space: Any) -> None:
            assert isinstance(action_space, spaces.Discrete)

        def predict(self, obs: Any, mask: Any = None, deterministic: bool = True) -> Any:
            return obs["goal"]

    monkeypatch.setattr("ludus.evaluation.load.find", lambda field, name: Picky)
    monkeypatch.setattr("ludus.evaluation.load.is_bot", lambda name: True)
    with pytest.raises(UserError, match="the bot 'picky' cannot play this env") as caught:
        load("picky", action_space=spaces.Box(-1, 1))
    assert "random" in caught.value.fix
    with pytest.raises(UserError, match=r"the bot 'picky' cannot play this env .IndexError"):
        load("picky", action_space=spaces.Discrete(2)).predict(np.zeros(4))


def test_missing_checkpoint_lists_the_existing_ones(root: Path) -> None:
    run = only(root, "PPO")
    with pytest.raises(UserError, match="unknown checkpoint 'bset' of run") as caught:
        load(f"{run.name}@bset", root)
    assert f"{run.name}@best, {run.name}@latest" in caught.value.fix and "000000000192" in caught.value.fix
    with pytest.raises(UserError, match="is a checkpoint; a whole run is expected here") as caught:
        find_run(f"{run.name}@best", root)
    assert caught.value.fix == f"leave out '@best': {run.name}"
    with pytest.raises(CheckpointError, match="marked as the best") as lacking:
        load(f"{only(root, 'DQN').name}@best", root)
    assert "latest, " in lacking.value.fix

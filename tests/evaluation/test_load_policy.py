"""One way to name a policy, and what comes back when it is loaded."""

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
from ludus.runs.directory import RunDirectory
from ludus.training.factory import create_trainer
from ludus.training.native import NativeTrainer

OBS = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: one of a preset with three checkpoints of which the first is the best, and a DQN."""
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
        ("{path}", 64),  # the best one, as there is one
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


def test_without_a_best_the_latest_is_taken(root: Path) -> None:
    assert step_of(load("my-dqn", root)) == 192
    assert load("latest", root).run == only(root, "DQN")


@pytest.mark.parametrize(
    ("ref", "kind", "message"),
    [
        ("my-pp0", UnknownName, "unknown run 'my-pp0'"),
        ("my-ppo@65", UnknownName, "unknown checkpoint '000000000065'"),
        ("my-dqn@best", CheckpointError, "no checkpoint of the run is marked as the best"),
        ("preset:other", UserError, "no run of the preset 'other'"),
        ("random", UserError, "needs to know the env"),
    ],
)
def test_a_name_that_means_nothing_is_refused(
    root: Path, ref: str, kind: type[UserError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        load(ref, root)


def test_the_loaded_policy_is_the_one_that_was_saved(root: Path) -> None:
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


def test_loading_disturbs_nobodys_randomness(root: Path) -> None:
    torch.manual_seed(5)
    np.random.seed(5)  # the global generator is what is watched here
    expected = (torch.rand(1).item(), np.random.rand())
    torch.manual_seed(5)
    np.random.seed(5)
    load("my-ppo", root)
    assert (torch.rand(1).item(), np.random.rand()) == expected


def test_a_damaged_checkpoint_is_refused_by_name(root: Path) -> None:
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
    with pytest.raises(UserError, match="does not say which env"):
        bot.env_spec()
    dicts = load(
        "random",
        action_space=spaces.Box(-1, 1, (2,), np.float32),
        observation_space=spaces.Dict({"a": spaces.Box(-1, 1, (4,), np.float32), "b": spaces.Discrete(3)}),
    )
    assert dicts.predict({"a": OBS, "b": np.zeros(40, np.int64)}).shape == (40, 2)
    assert dicts.predict({"a": OBS[0], "b": np.int64(1)}).shape == (2,)

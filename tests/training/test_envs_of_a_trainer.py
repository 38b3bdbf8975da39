"""Envs that `create_trainer` accepts: an id, a function, one env object; and their form in `config.yaml`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import odd_envs
import pytest
import torch
from gymnasium import spaces
from sb3_runs import tiny_sb3
from tiny_runs import resumed, rows, same, tiny, trained, trainer_for

from ludus.config.loading import load_config
from ludus.config.schema import CurriculumConfig, TrainerConfig
from ludus.envs.make import EnvSpec
from ludus.envs.wrappers import EnvironmentWrapper
from ludus.errors import ConfigError, UnknownName, UserError
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.training.factory import create_trainer, open_trainer


def written(run: RunDirectory) -> TrainerConfig:
    return load_config(run.config_path).config


class Noisy(EnvironmentWrapper):
    """A wrapper of the user's own, which no config can name."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, 2 * float(reward), terminated, truncated, info


class AnySpaces(gym.Env):
    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, **kwargs: Any) -> Any:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 0.0, False, False, {}


@pytest.mark.parametrize("role", ["observation", "action"])
def test_spaces_that_no_policy_can_read_are_refused_in_three_lines(tmp_path: Path, role: str) -> None:
    pair, box, number = spaces.Tuple([spaces.Discrete(2)] * 2), spaces.Box(-1, 1, (2,)), spaces.Discrete(2)
    given = (pair, number) if role == "observation" else (box, pair)
    trainer = trainer_for(tiny(tmp_path, env=None), lambda: AnySpaces(*given))
    with pytest.raises(ConfigError, match=f"the env's {role} space") as caught:
        trainer.train(256)
    assert len(str(caught.value).splitlines()) == 3
    assert not list(tmp_path.iterdir())


def test_an_env_object_is_joined_by_copies_of_it_where_n_envs_is_set(tmp_path: Path) -> None:
    env = gym.make("CartPole-v1", max_episode_steps=7)
    trainer = trainer_for(tiny(tmp_path, n_envs=3, env=None, hyperparams={"batch_size": 96}), env)
    result = trainer.train(192)
    envs = trainer.get_env().get_attr("unwrapped")
    assert len(envs) == 3 and envs[0] is env.unwrapped and len({id(one) for one in envs}) == 3
    assert trainer.evaluate(2)[0] <= 7
    trainer.close()
    config = written(RunDirectory.open(result.run))
    assert (config.n_envs, config.vector) == (3, "serial")
    assert resumed(RunDirectory.open(result.run), total=384) == 192


def test_an_env_object_that_stays_alone_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tiny(tmp_path, env=None).model_dump(exclude_unset=True)
    del data["n_envs"]
    for config, env in ((TrainerConfig(**data), gym.make("CartPole-v1")), (tiny(tmp_path), odd_envs.Walk())):
        caplog.clear()
        trainer = trainer_for(config, env)
        trainer.create_model()
        trainer.close()
        assert [record.getMessage()[:36] for record in caplog.records] == [
            "this env object is the one env that "
        ]
        assert trainer.config.n_envs == 1


def test_an_env_object_is_the_one_env(tmp_path: Path) -> None:
    env = gym.make("CartPole-v1")
    trainer = trainer_for(tiny(tmp_path, n_envs=1, env=None), env)
    result = trainer.train(256)
    assert trainer.get_env().num_envs == 1 and trainer.get_env().get_attr("unwrapped")[0] is env.unwrapped
    assert result.evaluation is None and trainer.evaluate(2)[0] >= 1
    trainer.close()
    config = written(RunDirectory.open(result.run))
    assert config.n_envs == 1 and config.vector == "serial"
    assert config.env is not None and config.env.id == "CartPole-v1"
    assert resumed(RunDirectory.open(result.run), total=512) == 256


def test_the_time_limit_of_an_env_object_is_kept(tmp_path: Path) -> None:
    run = trained(tiny(tmp_path, total_timesteps=128), gym.make("CartPole-v1", max_episode_steps=7))
    env = written(run).env
    assert env is not None and env.max_episode_steps == 7
    plain = trained(tiny(tmp_path, total_timesteps=128), gym.make("CartPole-v1"))
    assert written(plain).env is not None and written(plain).env.max_episode_steps is None  # type: ignore[union-attr]


def test_a_wrapped_env_object_trains_and_is_evaluated(tmp_path: Path) -> None:
    trainer = trainer_for(
        tiny(tmp_path, evaluation={"every": 128, "episodes": 2}), Noisy(gym.make("CartPole-v1"))
    )
    result = trainer.train(256)
    assert result.evaluation is not None
    assert result.evaluation["mean_reward"] == 2 * result.evaluation["mean_length"]  # with the wrapper
    trainer.close()
    assert written(RunDirectory.open(result.run)).env is None


def test_a_run_on_an_object_resumes_with_the_same_object_only(tmp_path: Path) -> None:
    run = trained(tiny(tmp_path, env=None, total_timesteps=256), odd_envs.Walk())
    with pytest.raises(UserError, match="trained on an env object") as caught:
        open_trainer(run)
    assert "create_trainer(env, config).resume(run)" in caught.value.fix
    trainer = trainer_for(written(run), odd_envs.Walk())
    assert trainer.resume(run).step == 256
    assert trainer.train(512).steps == 512
    trainer.close()


def test_a_function_is_called_once_per_env(tmp_path: Path) -> None:
    made: list[gym.Env[Any, Any]] = []

    def walk() -> gym.Env[Any, Any]:
        made.append(odd_envs.MaskedWalk())
        return made[-1]

    trainer = trainer_for(tiny(tmp_path, n_envs=3, env=None, hyperparams={"batch_size": 48}), walk)
    trainer.create_model()
    assert trainer.get_env().num_envs == 3 and len(made) == 3
    result = trainer.train(192)
    trainer.close()
    assert result.run.parent.parent.name == "walk"  # a run is filed under the function's name
    assert written(RunDirectory.open(result.run)).env is None


def test_an_id_takes_the_rest_from_the_config(tmp_path: Path) -> None:
    config = tiny(tmp_path, env={"id": "Other-v0", "max_episode_steps": 5})
    trainer = trainer_for(config, "CartPole-v1")
    trainer.train(128)
    trainer.close()
    assert trainer.run is not None
    assert all('"length": 5' in line for line in trainer.run.episodes_path.read_text().splitlines())


def _dummy_vec_env() -> Any:
    from stable_baselines3.common.env_util import make_vec_env

    return make_vec_env("CartPole-v1", n_envs=2, seed=0)


VECTOR_ENVS: dict[str, Any] = {
    "sync, next step": lambda: gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync"),
    "sync, same step": lambda: gym.make_vec(
        "CartPole-v1",
        num_envs=2,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP},
    ),
    "Gymnasium's own CartPole": lambda: gym.make_vec("CartPole-v1", num_envs=2),
    "SB3's DummyVecEnv": _dummy_vec_env,
}


@pytest.mark.parametrize("name", VECTOR_ENVS)
def test_a_vector_env_is_stepped_as_it_is_and_the_run_resumes_exactly(name: str, tmp_path: Path) -> None:
    fields = {"env": None, "total_timesteps": 512, "checkpoint": {"every": 128, "keep": 0}}
    config = tiny(tmp_path / "whole", **fields, evaluation={"every": 256, "episodes": 2})
    whole = trained(config, VECTOR_ENVS[name]())
    assert whole.info()["steps"] >= 512 and "eval/mean_reward" in whole.metrics_path.read_text()
    lengths = [json.loads(line) for line in whole.episodes_path.read_text().splitlines()]
    assert lengths and all(row["reward"] == row["length"] for row in lengths)  # CartPole: 1 per step

    cut = RunDirectory.open(shutil.copytree(whole.path, tmp_path / "cut"))
    steps = [c.step for c in CheckpointManager(cut.checkpoints_dir).list() if c.resumable]
    trainer = trainer_for(config, VECTOR_ENVS[name]())
    trainer.resume(cut, steps[1])
    trainer.train()
    trainer.close()
    same(whole, cut)
    with pytest.raises(UserError, match="an env object, which a config cannot name"):
        open_trainer(whole)


def test_engines_train_on_the_vec_env_of_stable_baselines3_alike(tmp_path: Path) -> None:
    run = trained(tiny_sb3(tmp_path, env=None, total_timesteps=128), _dummy_vec_env())
    assert run.info()["steps"] == 128
    with pytest.raises(UserError, match="reset in the step"):
        trained(tiny_sb3(tmp_path, env=None), VECTOR_ENVS["sync, next step"]())


def test_a_vector_env_that_cannot_be_used_as_it_is_says_why(tmp_path: Path) -> None:
    from stable_baselines3.common.vec_env import VecNormalize

    with pytest.raises(UserError, match="VecNormalize keeps statistics"):
        create_trainer(VecNormalize(_dummy_vec_env()), TrainerConfig())
    with pytest.raises(ConfigError, match="n_envs is 3; the vector env that was given has 2"):
        create_trainer(_dummy_vec_env(), TrainerConfig(n_envs=3))
    with pytest.raises(ConfigError, match="a curriculum cannot reach"):
        create_trainer(_dummy_vec_env(), TrainerConfig(curriculum={}))


def test_parameters_can_be_taken_and_given_back(tmp_path: Path) -> None:
    for engine, algorithm in (("native", "PPO"), ("native", "DQN"), ("sb3", "PPO")):
        make = {"native": tiny, "sb3": tiny_sb3}[engine]
        trainer = trainer_for(make(tmp_path / engine, algorithm, total_timesteps=512))
        trainer.train(384)
        parameters = trainer.get_parameters()
        trainer.train(512)
        obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
        learned = trainer.get_parameters()
        assert any(not torch.equal(learned["policy"][k], v) for k, v in parameters["policy"].items())
        trainer.set_parameters(parameters)
        again = trainer.get_parameters()
        for part, tensors in parameters.items():
            assert all(torch.equal(again[part][key], value) for key, value in tensors.items()), part
        actions, state = trainer.predict(obs, deterministic=True)
        assert state is None and actions.shape == (50,)
        one, _ = trainer.predict(obs[0], deterministic=True)
        assert one == actions[0]
        with pytest.raises(UserError, match="expected parameters of policy"):
            trainer.set_parameters({})
        trainer.close()


def test_parameters_that_were_set_are_those_that_the_next_train_starts_from(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path, hyperparams={"learning_rate": 0.0}))
    trainer.train(128)
    zeros = {name: torch.zeros_like(value) for name, value in trainer.get_parameters()["policy"].items()}
    given = {name: value for name, value in zeros.items() if not name.startswith("obs_normalizer")}
    trainer.set_parameters({"policy": given}, exact_match=False)
    trainer.train(256)
    after = trainer.get_parameters()["policy"]
    assert not any(after[name].any() for name in given)
    with pytest.raises(UserError, match=r"no weights 'policy_net\.0\.weight' of shape"):
        trainer.set_parameters({"policy": {"policy_net.0.weight": torch.zeros(1)}}, exact_match=False)
    trainer.close()


@pytest.mark.parametrize("engine", ["native", "sb3"])
def test_set_env_keeps_the_policy_and_starts_a_run_of_its_own(engine: str, tmp_path: Path) -> None:
    make = {"native": tiny, "sb3": tiny_sb3}[engine]
    trainer = trainer_for(make(tmp_path, total_timesteps=128))
    first = trainer.train().run
    before = trainer.get_parameters()["policy"]
    trainer.set_env("CartPole-v0")
    after = trainer.get_parameters()["policy"]
    assert all(torch.equal(after[name], value) for name, value in before.items())
    second = trainer.train().run
    assert second != first and "CartPole-v0" in str(second)
    with pytest.raises(UserError, match=r"observation_space is .*; the policy was made for"):
        trainer.set_env("Acrobot-v1")
    assert trainer.env_id == "CartPole-v0"
    trainer.close()


def test_what_is_no_env_is_refused() -> None:
    with pytest.raises(UserError, match="int is not an env"):
        create_trainer(5, TrainerConfig())
    with pytest.raises(UnknownName, match="unknown env") as caught:
        create_trainer("CartPol-v1", TrainerConfig())
    assert "CartPole-v1" in caught.value.fix


@pytest.mark.parametrize(
    ("algorithm", "env", "instead"),
    [("DQN", "Pendulum-v1", "SAC"), ("SAC", "CartPole-v1", "PPO")],
)
def test_an_algorithm_that_cannot_act_there_says_which_can(
    tmp_path: Path, algorithm: str, env: str, instead: str
) -> None:
    trainer = trainer_for(tiny(tmp_path, algorithm, env=env))
    with pytest.raises(ConfigError, match="actions") as caught:
        trainer.train()
    assert instead in caught.value.fix and not list(tmp_path.iterdir())


def test_the_batch_must_divide_what_one_env_object_collects(tmp_path: Path) -> None:
    trainer = trainer_for(
        tiny(tmp_path, n_envs=8, hyperparams={"n_steps": 64, "batch_size": 128}), odd_envs.Walk()
    )
    with pytest.raises(ConfigError, match=r"batch_size 128 does not divide n_steps \* n_envs = 64 \* 1"):
        trainer.create_model()


@pytest.mark.parametrize("given", ["id", "object", "function"])
def test_a_curriculum_reaches_the_env_however_it_is_given(tmp_path: Path, given: str) -> None:
    levels: list[float] = []

    class Levelled(odd_envs.Walk):
        def set_difficulty(self, difficulty: float) -> None:
            levels.append(difficulty)

    gym.register("Levelled-v0", entry_point=Levelled, max_episode_steps=10)
    try:
        make: Any = {"id": str, "object": gym.make, "function": lambda name: lambda: gym.make(name)}[given]
        config = tiny(tmp_path, env=None, total_timesteps=512, curriculum={"success": -1e6, "window": 2})
        trainer = trainer_for(config, make("Levelled-v0"))
        trainer.train()
        assert max(levels) >= 1.0, levels[:10]
        raised = len(levels)
        trainer.evaluate(2)
        assert set(levels[raised:]) == {0.0}  # evaluations keep to one level
        trainer.close()
    finally:
        del gym.registry["Levelled-v0"]


def test_evaluation_plays_one_level_of_a_curriculum(tmp_path: Path) -> None:
    seen: list[float] = []

    class Watched(odd_envs.Walk):
        def reset(self, **kwargs: Any) -> Any:
            seen.append(self.difficulty)
            return super().reset(**kwargs)

    gym.register("Watched-v0", entry_point=Watched)
    curriculum = {"initial": 0.0, "increment": 1.0, "window": 1, "success_threshold": 0.01}
    for maximum, level in ((2.0, 2.0), (None, 0.0)):
        config = tiny(tmp_path, env="Watched-v0", curriculum={**curriculum, "maximum": maximum})
        trainer = trainer_for(config)
        trainer.create_model()
        seen.clear()
        trainer.evaluate(20)
        assert set(seen) == {level}
        trainer.close()


def test_the_curriculum_of_evaluations_is_held() -> None:
    held = CurriculumConfig(initial=1.0, maximum=4.0, success=5.0).held()
    assert held["initial"] == held["maximum"] == 4.0 and held["success"] == 5.0


def test_an_env_spec_is_taken_as_it_is(tmp_path: Path) -> None:
    run = trained(tiny(tmp_path, env=None, total_timesteps=128), EnvSpec("CartPole-v1", frame_stack=3))
    env = written(run).env
    assert env is not None and env.frame_stack == 3


def test_everything_auto_chose_is_named(tmp_path: Path) -> None:
    run = trained(tiny(tmp_path, vector="auto", device="auto", threads="auto", total_timesteps=128))
    config = written(run)
    assert config.vector == "batched" and config.device in ("cpu", "cuda") and isinstance(config.threads, int)
    given = config.hyperparams.given()
    assert given["clip_range"] == 0.2 and given["learning_rate"] == 3e-4 and given["n_steps"] == 64
    assert config.policy.activation == "auto" or config.policy.activation == "Tanh"


def test_features_dim_may_be_assigned_late(tmp_path: Path) -> None:
    config = tiny(tmp_path, env={"id": "odd_envs:PictureWalk-v0"}, total_timesteps=128)
    config.hyperparams.features_dim = 8
    trainer = trainer_for(config)
    trainer.create_model()
    assert trainer.config.policy.features_dim == 8
    trainer.close()


def test_usage_pattern_1_with_cartpole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    from ludus import create_trainer, get_default_config

    config = get_default_config("PPO")
    config.total_timesteps = 2_000
    config.hyperparams.n_steps = 256  # the only line of the test's own

    env = gym.make("CartPole-v1")
    trainer = create_trainer(env, config)

    trainer.train()
    mean, std = trainer.evaluate(n_episodes=10)
    saved = trainer.save_model()
    trainer.close()

    assert mean > 5 and std >= 0
    assert saved.is_dir() and saved.is_relative_to("runs/CartPole-v1/PPO")
    run = RunDirectory.open(saved.parents[1])
    assert run.info()["status"] == "finished" and rows(run)[-1]["step"] == 2_000
    assert isinstance(env.observation_space, spaces.Box)

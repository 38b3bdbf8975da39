"""What `create_trainer` takes as an env: an id, a function, one env object; and what `config.yaml` then says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import odd_envs
import pytest
from gymnasium import spaces
from tiny_runs import resumed, rows, tiny, trained, trainer_for

from ludus.config.loading import load_config
from ludus.config.schema import CurriculumConfig, TrainerConfig
from ludus.envs.make import EnvSpec
from ludus.envs.wrappers import EnvironmentWrapper
from ludus.errors import ConfigError, UnknownName, UserError
from ludus.runs.directory import RunDirectory
from ludus.training.factory import create_trainer, open_trainer


def written(run: RunDirectory) -> TrainerConfig:
    return load_config(run.config_path).config


class Noisy(EnvironmentWrapper):
    """A wrapper of the user's own, which no config can name."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, 2 * float(reward), terminated, truncated, info


def test_an_env_object_is_the_one_env(tmp_path: Path) -> None:
    env = gym.make("CartPole-v1")
    trainer = trainer_for(tiny(tmp_path, n_envs=8, env=None), env)
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


def test_a_vector_env_is_refused() -> None:
    with pytest.raises(UserError, match="a vector env cannot be given to a trainer"):
        create_trainer(gym.make_vec("CartPole-v1", num_envs=2), TrainerConfig())


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
    assert run.info()["status"] == "finished" and rows(run)[-1]["step"] == 2048
    assert isinstance(env.observation_space, spaces.Box)

"""Callbacks under their Stable-Baselines3 names: what is called, in which order, how often, and what it may do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from sb3_runs import tiny_sb3
from tiny_runs import resumed, rows, same, tiny, trained, trainer_for

import ludus
from ludus.errors import UserError
from ludus.training.callbacks import BaseCallback, CallbackList, CallbackLogger, as_callback
from ludus.training.factory import open_trainer


class Diary(BaseCallback):
    """Writes down what is called."""

    def __init__(self, stop_at: int | None = None) -> None:
        super().__init__()
        self.entries: list[str] = []
        self.steps: list[int] = []
        self.stop_at = stop_at

    def _init_callback(self) -> None:
        self.entries.append("init")

    def _on_training_start(self) -> None:
        self.entries.append(f"training start at {self.num_timesteps}")

    def _on_rollout_start(self) -> None:
        self.entries.append("rollout start")

    def _on_step(self) -> bool:
        self.steps.append(self.num_timesteps)
        return self.n_calls != self.stop_at

    def _on_rollout_end(self) -> None:
        self.entries.append(f"rollout end at {self.model.num_timesteps}")

    def _on_training_end(self) -> None:
        self.entries.append("training end")


def test_hooks_come_in_order_and_in_number(tmp_path: Path) -> None:
    diary = Diary()
    trained(tiny(tmp_path, total_timesteps=256), callback=diary)
    assert diary.entries == [
        "init",
        "training start at 0",
        "rollout start",
        "rollout end at 128",
        "rollout start",
        "rollout end at 256",
        "training end",
    ]
    assert diary.steps == list(range(2, 257, 2))  # two envs: two steps a call
    assert diary.n_calls == 128 and diary.num_timesteps == 256


def test_a_callback_sees_the_trainer_and_its_envs(tmp_path: Path) -> None:
    class Look(BaseCallback):
        def _on_step(self) -> bool:
            assert self.training_env.num_envs == 2
            assert self.model.policy is not None and self.locals["self"] is self.model
            return True

    trained(tiny(tmp_path, total_timesteps=128), callback=Look())


def test_returning_false_stops_the_run_which_can_resume(tmp_path: Path) -> None:
    diary = Diary(stop_at=100)
    trainer = trainer_for(tiny(tmp_path))
    result = trainer.train(callback=diary)
    trainer.close()
    assert result.status == "stopped" and result.exit_code == 0
    assert result.reason == "a callback asked for it"
    assert result.steps == 128  # the second collection was not finished
    assert diary.entries[-1] == "training end" and len(diary.steps) == 100
    assert trainer.run is not None and trainer.run.info()["status"] == "stopped"
    assert resumed(trainer.run) == 128
    assert trainer.run.info()["status"] == "finished" and trainer.run.info()["steps"] == 1024


def test_stopping_in_the_first_collection_leaves_a_run_that_can_resume(tmp_path: Path) -> None:
    trainer = trainer_for(tiny(tmp_path))
    assert trainer.train(callback=Diary(stop_at=3)).steps == 0
    trainer.close()
    assert trainer.run is not None
    assert resumed(trainer.run) == 0
    assert trainer.run.info()["steps"] == 1024


def test_none_is_distinguished_from_false(tmp_path: Path) -> None:
    calls: list[int] = []

    def count(local: dict[str, Any], global_: dict[str, Any]) -> None:
        calls.append(local["self"].num_timesteps)

    run = trained(tiny(tmp_path, total_timesteps=128), callback=count)
    assert run.info()["status"] == "finished" and len(calls) == 64


def test_a_function_may_stop_the_run(tmp_path: Path) -> None:
    run = trained(tiny(tmp_path), callback=lambda local, _: local["self"].num_timesteps < 300)
    assert run.info()["status"] == "stopped" and run.info()["steps"] == 256


def test_all_of_a_list_are_called_and_any_may_stop(tmp_path: Path) -> None:
    first, second = Diary(), Diary(stop_at=70)
    run = trained(tiny(tmp_path), callback=[first, CallbackList([second])])
    assert run.info()["status"] == "stopped"
    assert len(first.steps) == len(second.steps) == 70
    assert first.entries == second.entries


def test_what_a_callback_records_lands_in_the_metrics(tmp_path: Path) -> None:
    class Record(BaseCallback):
        def _on_step(self) -> bool:
            self.logger.record("mine/last_step", self.num_timesteps)
            return True

        def _on_rollout_end(self) -> None:
            self.logger.record("mine/rollouts", 1, exclude="stdout")

    run = trained(tiny(tmp_path, total_timesteps=512, tracking={"every": 256}), callback=Record())
    training = [row for row in rows(run) if "mine/rollouts" in row]
    assert [row["step"] for row in training] == [256, 512]
    assert [row["mine/last_step"] for row in training] == [192.0, 448.0]  # the mean over two updates each
    assert [row["mine/rollouts"] for row in training] == [1.0, 1.0]


def test_a_resumed_run_gives_callbacks_the_current_step(tmp_path: Path) -> None:
    run = trained(tiny(tmp_path, total_timesteps=256))
    trainer = open_trainer(run)
    trainer.resume(run)
    diary = Diary()
    trainer.train(512, callback=diary)
    trainer.close()
    assert diary.entries[:3] == ["init", "training start at 256", "rollout start"]
    assert diary.steps[0] == 258 and diary.num_timesteps == 512


def test_what_is_no_callback_is_refused() -> None:
    assert as_callback(None) is None
    with pytest.raises(UserError, match="5 is not a callback"):
        as_callback(5)


class Talkative(gym.Env[Any, Any]):
    """Ends after five steps, the last one truncated in every other episode, and says how far it is."""

    observation_space = gym.spaces.Box(-1, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self.bonus, self.episode, self.t = 0.0, -1, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        return np.zeros(1, np.float32), {"fresh": True}

    def step(self, action: Any) -> Any:
        self.t += 1
        over, cut = self.t == 5, bool(self.episode % 2)
        obs = np.full(1, self.t, np.float32)
        return obs, self.t + self.bonus, over and not cut, over and cut, {"t": self.t}

    def raise_bonus(self, by: float) -> float:
        self.bonus += by
        return self.bonus


@pytest.mark.parametrize("engine", ["native", "sb3"])
@pytest.mark.parametrize("algorithm", ["PPO", "DQN"])
def test_a_callback_sees_each_step_as_in_stable_baselines3(
    algorithm: str, engine: str, tmp_path: Path
) -> None:
    class Look(BaseCallback):
        def _on_step(self) -> bool:
            local, t = self.locals, (self.n_calls - 1) % 5 + 1
            infos, dones = local["infos"], local["dones"]
            assert [info["t"] for info in infos] == [t, t]
            assert np.asarray(local["rewards"]).tolist() == [t, t]
            assert np.asarray(dones).tolist() == [t == 5] * 2 and len(local["actions"]) == 2
            new_obs = np.asarray(local["new_obs"]).tolist()
            assert new_obs == [[t % 5]] * 2
            if t == 5:
                assert [info["terminal_observation"].tolist() for info in infos] == [[5.0]] * 2
                cut = bool((self.n_calls // 5 - 1) % 2)
                assert [info["TimeLimit.truncated"] for info in infos] == [cut, cut]
                assert [info["episode"]["r"] for info in infos] == [15.0, 15.0]
            else:
                assert not any("terminal_observation" in info for info in infos)
            self.logger.record_mean("mine/t", infos[0]["t"])
            return True

    config = {"native": tiny, "sb3": tiny_sb3}[engine](
        tmp_path, algorithm, env=None, total_timesteps=256, normalize_obs=False, normalize_reward=False
    )
    run = trained(config, Talkative, Look())
    if engine == "native":
        assert any(1.0 <= row["mine/t"] <= 5.0 for row in rows(run) if "mine/t" in row)


@pytest.mark.parametrize(
    ("vector", "engine"),
    [("serial", "native"), ("serial", "sb3"), pytest.param("process", "native", marks=pytest.mark.long)],
)
def test_a_callback_asks_and_changes_single_envs(vector: str, engine: str, tmp_path: Path) -> None:
    seen: list[Any] = []

    class Ask(BaseCallback):
        def _on_training_start(self) -> None:
            envs = self.training_env
            seen.append(envs.get_attr("bonus"))
            seen.append(envs.env_method("raise_bonus", 2.0, indices=1))
            seen.append(envs.get_attr("bonus"))
            envs.set_attr("bonus", 7.0, indices=[0])
            seen.append(envs.get_attr("bonus", indices=[1, 0]))
            envs.set_attr("bonus", 1.0)
            seen.append(envs.get_attr("bonus", 0))

    config = tiny(tmp_path, engine=engine, env=None, vector=vector, total_timesteps=128)
    trained(config, Talkative, Ask())
    assert seen == [[0.0, 0.0], [2.0], [0.0, 2.0], [2.0, 7.0], [1.0]]


def test_envs_without_objects_refuse_to_be_asked_by_name(tmp_path: Path) -> None:
    class Ask(BaseCallback):
        def _on_training_start(self) -> None:
            self.training_env.get_attr("gravity")

    with pytest.raises(UserError, match="no single env objects") as raised:
        trained(tiny(tmp_path, vector="batched", total_timesteps=128), callback=Ask())
    assert raised.value.fix == "train with vector: serial or vector: process"


@pytest.mark.parametrize("algorithm", ["PPO", "DQN"])
def test_callbacks_that_only_watch_do_not_change_what_is_learned(algorithm: str, tmp_path: Path) -> None:
    alone = trained(tiny(tmp_path / "alone", algorithm, total_timesteps=512))
    watched = trained(tiny(tmp_path / "watched", algorithm, total_timesteps=512), callback=Diary())
    same(alone, watched)


def test_callbacks_of_stable_baselines3_work_in_native_runs(tmp_path: Path) -> None:
    sb3 = pytest.importorskip("stable_baselines3.common.callbacks")
    evaluation = sb3.EvalCallback(
        gym.make("CartPole-v1"),
        n_eval_episodes=2,
        eval_freq=100,
        best_model_save_path=str(tmp_path / "best"),
        log_path=str(tmp_path / "evaluations"),
        callback_on_new_best=sb3.StopTrainingOnRewardThreshold(10_000),
        verbose=0,
    )
    saving = sb3.CheckpointCallback(save_freq=128, save_path=str(tmp_path / "saved"), name_prefix="mine")
    callbacks = [evaluation, saving, sb3.ProgressBarCallback(), sb3.StopTrainingOnMaxEpisodes(10_000)]
    run = trained(tiny(tmp_path / "runs", total_timesteps=1024), callback=callbacks)
    assert run.info()["status"] == "finished" and run.info()["steps"] == 1024
    assert evaluation.evaluations_timesteps == [200, 400, 600, 800, 1000]
    assert any(row.get("eval/mean_reward") == evaluation.last_mean_reward for row in rows(run))
    names = sorted(path.name for path in (tmp_path / "saved").iterdir())
    assert names == [f"mine_{step}_steps" for step in (1024, 256, 512, 768)]
    for folder in (tmp_path / "best" / "best_model", tmp_path / "saved" / "mine_512_steps"):
        assert ludus.load(str(folder)).predict(np.zeros(4, np.float32)) in (0, 1)


def test_a_total_in_time_has_a_progress_bar_without_an_end(tmp_path: Path) -> None:
    sb3 = pytest.importorskip("stable_baselines3.common.callbacks")
    run = trained(tiny(tmp_path, total_timesteps="2 updates"), callback=sb3.ProgressBarCallback())
    assert run.info()["status"] == "finished"


def test_what_is_not_a_number_is_refused_by_its_name() -> None:
    with pytest.raises(UserError, match="'mine/picture' was given list"):
        CallbackLogger().record("mine/picture", [1, 2])

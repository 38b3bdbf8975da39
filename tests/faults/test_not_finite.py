"""NaN and infinity: no optimizer step uses them, they are reported and the batch is kept, and they are never saved."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import safetensors.numpy
import torch
from killable_runs import HYPERPARAMS
from poisoned_envs import EPISODE, Poisoned

from ludus.config.language import GameSpec
from ludus.config.schema import TrainerConfig
from ludus.envs.finite import all_finite, first_bad
from ludus.envs.make import EnvSpec
from ludus.envs.vector.batched import BatchedVectorEnv
from ludus.envs.vector.process import ProcessVectorEnv
from ludus.envs.vector.remote import RemoteVectorEnv
from ludus.envs.vector.serial import SerialVectorEnv
from ludus.errors import EnvFault, LudusError, NotFinite
from ludus.language.text_games.game import TextGame
from ludus.rollout.stepper import Stepper
from ludus.runs.checkpoints import CheckpointManager
from ludus.training.callbacks import BaseCallback
from ludus.training.factory import create_trainer

ALGORITHMS = ["PPO", "A2C", "DQN", "SAC"]
PLACES = ["observation", "last observation", "reset", "reward"]
AT = 360  # by then every algorithm has learnt, and saved at 256


@pytest.fixture(autouse=True)
def at_the_beginning() -> None:
    Poisoned.steps_of_all = 0


class Watching(BaseCallback):
    """Remembers the weights as they were when the last collection ended, and when the last update had."""

    def _on_rollout_end(self) -> None:
        self.before_update = weights(self.model.policy)

    def _on_rollout_start(self) -> None:
        self.after_update = weights(self.model.policy)


def weights(policy: Any) -> list[bytes]:
    return [tensor.detach().numpy().tobytes() for tensor in policy.parameters()]


def trainer_of(run: Path, algorithm: str, kernels: bool, place: str, value: float, **fields: Any) -> Any:
    hyperparams = {**HYPERPARAMS[algorithm], "policy_net_arch": [8], "value_net_arch": [8]}
    if "learning_starts" in hyperparams:
        hyperparams |= {"learning_starts": 50, "gradient_steps": 1}
    settings: dict[str, Any] = {
        "algorithm": algorithm,
        "n_envs": 2,
        "vector": "serial",
        "kernels": kernels,
        "total_timesteps": 4000,
        "hyperparams": hyperparams,
        "checkpoint": {"every": 256, "keep": 2},
        "evaluation": {"every": None},
        "tracking": {"every": 256, "tensorboard": False},
        "run_dir": str(run),
    }
    env = partial(Poisoned, place, value, AT, continuous=algorithm == "SAC")
    return create_trainer(env, TrainerConfig.model_validate(settings | fields))


def fail(trainer: Any, kind: type[LudusError], watching: Watching, record_result: Any) -> Any:
    """Train until it fails, and return the error; `record_result(survived)` is called in both cases."""
    try:
        with pytest.raises(kind) as caught:
            trainer.train(callback=watching)
        record_result(1)
        return caught.value
    except BaseException:
        record_result(0)
        raise
    finally:
        trainer.close()


def evidence(run: Path, error: Any) -> dict[str, Any]:
    """Return the batch that was kept; check that all saved tensors are finite and not later than the fault."""
    newest = CheckpointManager(run / "checkpoints").newest_intact()
    assert newest is not None
    for part in ("policy", "learner"):
        for name, tensor in newest.tensors(part).items():
            assert bool(torch.isfinite(tensor.float()).all()), f"{part}: {name}"
    (file,) = (run / "faults").glob("*.safetensors")
    assert str(file) in "\n".join(error.__notes__)
    run_info = json.loads((run / "run.json").read_text())
    assert run_info["status"] == "failed"
    assert str(file) in run_info["error"]
    arrays: dict[str, Any] = safetensors.numpy.load_file(file)
    return arrays


def an_env_gives_it(
    run: Path, algorithm: str, kernels: bool, value: float, place: str, record_fault: Any
) -> None:
    """Statistics run along: they are what a bad number would spoil for good."""
    trainer = trainer_of(run, algorithm, kernels, place, value, normalize_obs=True, normalize_reward=True)
    watching = Watching()
    error = fail(
        trainer, EnvFault, watching, lambda survived: record_fault(f"NaN or infinite {place}", 1, survived)
    )
    what = "reward" if place == "reward" else "observation[1]"
    when = {"last observation": f"step {EPISODE} of its episode", "reset": "the reset"}.get(place, "step ")
    assert f"env 1 gave {what} = {value!r} at {when}" in str(error)
    assert (error.worker, error.exit_code) == (1, 3)
    assert weights(trainer.policy) == watching.after_update
    arrays = evidence(run, error)
    bad = arrays["rewards"] if place == "reward" else arrays["observations"]
    assert not np.isfinite(bad[1]).all()
    assert np.isfinite(bad[0]).all()
    assert {"actions", "observations_before", "env", "episode_steps"} < set(arrays)


@pytest.mark.faults
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", [math.nan, -math.inf])
@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_values_of_an_env_that_are_not_finite_end_the_run(
    algorithm: str, kernels: bool, value: float, place: str, tmp_path: Path, record_fault: Any
) -> None:
    an_env_gives_it(tmp_path / "run", algorithm, kernels, value, place, record_fault)


@pytest.mark.parametrize(
    ("algorithm", "kernels", "place"),
    [("PPO", True, "observation"), ("DQN", True, "reward"), ("SAC", False, "last observation")],
)
def test_three_kinds_of_env_values_that_are_not_finite_end_the_run(
    algorithm: str, kernels: bool, place: str, tmp_path: Path, record_fault: Any
) -> None:
    an_env_gives_it(tmp_path / "run", algorithm, kernels, math.inf, place, record_fault)


def poison_rewards(trainer: Any) -> None:
    """After they were looked at: the only way a reward that is not finite comes to a learner."""
    collector, collect = trainer.collector, trainer.collector.collect

    def poisoned(policy: Any) -> Any:
        experience = collect(policy)
        if trainer.num_timesteps >= AT:
            experience.rewards[..., -1] = math.inf
        return experience

    collector.collect = poisoned


def poison_loss(trainer: Any) -> None:
    """The networks' outputs become NaN from step AT on; what they were is what the learner has."""
    policy = trainer.policy

    def spoil(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        return output * math.nan if trainer.num_timesteps >= AT and torch.is_grad_enabled() else output

    layers = [module for module in policy.modules() if isinstance(module, torch.nn.Linear)]
    layers[-1].register_forward_hook(spoil)


def poison_gradient(trainer: Any) -> None:
    """The gradient of one weight becomes infinite from step AT on."""

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        return gradient + math.inf if trainer.num_timesteps >= AT else gradient

    next(iter(trainer.policy.parameters())).register_hook(spoil)


def learning_comes_upon_it(
    run: Path, algorithm: str, kernels: bool, place: str, poison: Any, record_fault: Any
) -> None:
    trainer = trainer_of(run, algorithm, kernels, "", 0.0, normalize_reward=False)
    trainer.create_model()
    poison(trainer)
    watching = Watching()
    error = fail(
        trainer, NotFinite, watching, lambda survived: record_fault(f"NaN or infinite {place}", 1, survived)
    )
    assert error.exit_code == 1
    assert "the optimizer was not stepped" in str(error)
    assert "It was env step " in "\n".join(error.__notes__)
    assert weights(trainer.policy) == watching.before_update
    arrays = evidence(run, error)
    assert {"actions", "rewards", "obs"} < set(arrays)


@pytest.mark.faults
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("place", "poison"), [("loss", poison_loss), ("gradient", poison_gradient)])
def test_loss_or_gradient_that_is_not_finite_ends_the_run(
    algorithm: str, place: str, poison: Any, tmp_path: Path, record_fault: Any
) -> None:
    learning_comes_upon_it(tmp_path / "run", algorithm, False, place, poison, record_fault)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_loss_that_is_not_finite_in_the_kernels_ends_the_run(
    algorithm: str, tmp_path: Path, record_fault: Any
) -> None:
    learning_comes_upon_it(tmp_path / "run", algorithm, True, "loss", poison_rewards, record_fault)


@pytest.mark.faults
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_undetected_nan_reward_ends_the_update(algorithm: str, tmp_path: Path, record_fault: Any) -> None:
    learning_comes_upon_it(tmp_path / "run", algorithm, False, "loss", poison_rewards, record_fault)


@pytest.mark.parametrize("kernels", [True, False])
def test_weights_that_are_not_finite_are_not_saved(kernels: bool, tmp_path: Path, record_fault: Any) -> None:
    class Spoiling(Watching):
        def _on_rollout_start(self) -> None:
            super()._on_rollout_start()
            if self.num_timesteps >= 256 - 64:  # an interval before it is saved
                with torch.no_grad():
                    self.model.optimizer_weights()[0].fill_(math.inf)

    run = tmp_path / "run"
    trainer = trainer_of(
        run, "DQN", kernels, "", 0.0, hyperparams={"learning_starts": 10**6}, checkpoint={"every": 64}
    )
    trainer.optimizer_weights = lambda: list(trainer.policy.parameters())
    error = fail(
        trainer,
        NotFinite,
        Spoiling(),
        lambda survived: record_fault("weights that are not finite", 1, survived),
    )
    assert "it is not saved" in str(error)
    newest = CheckpointManager(run / "checkpoints").newest_intact()
    assert newest is not None
    assert all(bool(torch.isfinite(t.float()).all()) for t in newest.tensors("policy").values())


class Spoilt(BatchedVectorEnv):
    """Batched envs of which the second one returns NaN in its third step."""

    steps = 0

    def step(self, actions: Any) -> Any:
        obs, *rest = super().step(actions)
        self.steps += 1
        if self.steps == 3:
            obs[1, 0] = math.nan
        return obs, *rest


def take_five(stepper: Stepper) -> None:
    for _ in range(5):
        stepper.step(np.zeros(2, dtype=np.int64))


def backends() -> dict[str, Any]:
    well, ill = partial(Poisoned), partial(AlwaysIll)
    return {
        "serial": lambda: SerialVectorEnv([well, ill], env_id="Ill-v0"),
        "process": lambda: ProcessVectorEnv([well, ill], env_id="Ill-v0", n_workers=2),
        "remote": lambda: RemoteVectorEnv([well, ill], env_id="Ill-v0"),
        "batched": lambda: Spoilt(EnvSpec("CartPole-v1"), 2),
    }


class AlwaysIll(Poisoned):
    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        if self.steps == 3:
            obs[0] = math.nan
        return obs, *rest


@pytest.mark.parametrize(
    "backend",
    ["batched", "process", "serial", pytest.param("remote", marks=pytest.mark.faults)],
)
def test_every_backend_reports_values_that_are_not_finite(backend: str, record_fault: Any) -> None:
    envs = backends()[backend]()
    stepper = Stepper(envs, lambda barrier, index: 70 + index)
    stepper.barrier(0)
    try:
        with pytest.raises(
            EnvFault, match=r"env 1 gave observation\[0\] = nan at step 3 of its episode"
        ) as caught:
            take_five(stepper)
    finally:
        envs.close()
        record_fault("NaN or infinite observation", 1, int("caught" in locals()))
    assert caught.value.seed == 71
    assert caught.value.env_id in ("Ill-v0", "CartPole-v1")


def test_observations_in_parts_are_named_by_their_key() -> None:
    stepper = Stepper(
        SerialVectorEnv([partial(Poisoned, "observation", math.inf, 4, many=True)] * 2), lambda *_: 0
    )
    stepper.barrier(0)
    with pytest.raises(EnvFault, match=r"observation\.near\[1\] = inf at step 2"):
        take_five(stepper)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_one_bad_number_is_found_wherever_it_is(dtype: Any, bad: float) -> None:
    for size in (1, 7, 64, 1000):
        for index in {0, size // 2, size - 1}:
            numbers = np.linspace(-1, 1, size).astype(dtype)
            assert all_finite(numbers)
            assert first_bad(numbers) is None
            numbers[index] = bad
            assert not all_finite(numbers)
            found = first_bad(numbers)
            assert found is not None
            assert found[1] == (index,)


def test_numbers_that_only_a_double_can_hold_are_infinite_to_a_network() -> None:
    assert not all_finite(np.array([1.0, 1e39]))
    assert all_finite(np.array([1.0, -3e38]))
    assert all_finite(np.full(3, 3e38, dtype=np.float32))
    assert first_bad({"a": np.ones(2), "b": np.array([[0.0, -1e300]])}) == ("b", (0, 1), -1e300)
    assert all_finite({"pixels": np.zeros((2, 2), np.uint8)})


def language_trainer(run: Path, algorithm: str, **fields: Any) -> Any:
    pytest.importorskip("textarena")
    game = {"id": "TicTacToe-v0", "template": {"prompt": "{position}"}}
    settings: dict[str, Any] = {
        "algorithm": algorithm,
        "total_timesteps": "4 updates",
        "language": {
            "model": "tiny",
            "model_kwargs": {"layers": 1, "hidden": 16, "heads": 2, "context": 32},
            "adapter": {"rank": 2, "alpha": 4},
            "sampler": {"max_new_tokens": 3},
        },
        "games": {"train": [game], "open": 8, "turns": 12} | ({"branch": 2} if algorithm == "GRPO" else {}),
        "league": {"opponents": "mirror"},
        "rewards": {"step": [{"length": -0.1}]},
        "checkpoint": {"every": "1 updates"},
        "evaluation": {"every": None},
        "tracking": {"every": 1, "tensorboard": False},
        "run_dir": str(run),
    }
    return create_trainer(None, TrainerConfig.model_validate(settings | fields))


@pytest.mark.parametrize(
    "algorithm",
    [pytest.param(name, marks=pytest.mark.faults) for name in ("A2C", "PPO", "GRPO")] + ["REINFORCE"],
)
def test_gradient_of_a_language_model_that_is_not_finite_ends_the_run(
    algorithm: str, tmp_path: Path, record_fault: Any
) -> None:
    run = tmp_path / "run"
    trainer = language_trainer(run, algorithm)
    trainer.create_model()
    student = trainer.learner.students["learner"]
    student.masters.parameters[0].register_hook(lambda g: g * math.nan if student.updates >= 2 else g)
    learnt: list[list[bytes]] = []

    class Remembering(BaseCallback):
        def _on_rollout_end(self) -> None:
            learnt.append([parameter.detach().numpy().tobytes() for parameter in student.masters.parameters])

    try:
        with pytest.raises(NotFinite, match="not finite") as caught:
            trainer.train(callback=Remembering())
    finally:
        trainer.close()
        record_fault("NaN or infinite gradient of a language model", 1, int("caught" in locals()))
    assert [parameter.detach().numpy().tobytes() for parameter in student.masters.parameters] == learnt[-1]
    assert len(learnt) == 3
    arrays = evidence(run, caught.value)
    assert {"prompts", "completions", "log_probs", "advantages"} < set(arrays)
    assert len(arrays["log_probs"]) == arrays["completion_lengths"].sum() > 0


class NoNumber(gym.Env[Any, Any]):
    """A text game whose reward is not finite."""

    observation_space = gym.spaces.Text(100)
    action_space = gym.spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, Any]:
        return "say something", {}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "thanks", math.nan, True, False, {}


def test_a_text_game_whose_reward_is_none_has_no_result(record_fault: Any) -> None:
    gym.register("NoNumber-v0", NoNumber)
    try:
        game = TextGame(GameSpec("gym:NoNumber-v0"))
        game.reset(1)
        game.play("hello")
    finally:
        del gym.registry["NoNumber-v0"]
    record_fault("NaN or infinite reward of a text game", 1, int(game.fault is not None))
    assert game.fault is not None
    assert "the reward nan is not finite" in game.fault.what
    assert game.outcome().cut_off
    assert game.outcome().rewards == (0.0,)

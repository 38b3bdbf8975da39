"""Every public function and class answers a wrong argument with an error of Ludus, which says what, where and fix.

Arguments are generated: one at a time is replaced in a call that works. What Python's own signature check refuses is
not tried. A value that is accepted is no failure here.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from pydantic import ValidationError

import ludus
from ludus.errors import LudusError, UserError

WRONG = (
    None,
    3,
    -1,
    2.5,
    float("nan"),
    "nonsense",
    "",
    [],
    ["x"],
    {},
    {"x": 1},
    object(),
    int,
    len,
    b"x",
    True,
)


def env() -> gym.Env[Any, Any]:
    return gym.make("CartPole-v1")


# Calls that work, by the name of what is called.
CALLS: dict[str, Callable[[], dict[str, Any]]] = {
    "ActionMaskWrapper": lambda: {"env": env()},
    "BalatroEnv": dict,
    "BalatroGymWrapper": lambda: {"env": env()},
    "BaseFeaturesExtractor": lambda: {"observation_space": env().observation_space, "features_dim": 3},
    "CallbackList": lambda: {"callbacks": []},
    "CheckpointManager": lambda: {"directory": "checkpoints"},
    "CurriculumWrapper": lambda: {"env": env()},
    "EnvSpec": lambda: {"id": "CartPole-v1"},
    "EnvironmentWrapper": lambda: {"env": env()},
    "ExperimentConfig": dict,
    "HyperparameterConfig": dict,
    "MultiAlgorithmBenchmark": dict,
    "RewardScalingWrapper": lambda: {"env": env()},
    "SB3Trainer": lambda: {"env": "CartPole-v1", "config": ludus.TrainerConfig()},
    "TrainerConfig": dict,
    "compute_moving_average": lambda: {"values": [1.0, 2.0]},
    "create_balatro_env": dict,
    "create_trainer": lambda: {"env": "CartPole-v1", "config": ludus.TrainerConfig()},
    "export_policy": lambda: {"policy": object(), "target": "onnx"},
    "get_default_config": dict,
    "get_filter_keys": lambda: {"game_id": "doapp"},
    "load": lambda: {"ref": "latest"},
    "load_config": dict,
    "make_env": lambda: {"id_or_spec": "CartPole-v1"},
    "make_vectorized_env": lambda: {"env_or_factory": "CartPole-v1", "n_envs": 1, "backend": "serial"},
    "plot_training_curves": lambda: {"metrics": {"a": [1.0, 2.0]}},
    "print_comparison_table": lambda: {"results": []},
    "register_algorithm": lambda: {"name": "wrong", "algorithm": ludus.RLTrainer},
    "register_extractor": lambda: {"name": "wrong", "cls": ludus.BaseFeaturesExtractor},
    "register_signals": lambda: {"pattern": "wrong-*", "signals": []},
    "register_wrapper": lambda: {"name": "wrong", "factory": gym.Wrapper},
    "setup_logging": dict,
    "validate_environment": lambda: {"env_or_id": "CartPole-v1", "quiet": True},
    "wrap_balatro_env": lambda: {"env": env()},
}
MORE_ARGUMENTS = {
    "EnvironmentWrapper": ["env"],
    "make_env": [
        "kwargs",
        "wrappers",
        "frame_stack",
        "frame_skip",
        "max_episode_steps",
        "curriculum",
        "render_mode",
    ],
    "create_balatro_env": [
        "deck",
        "stake",
        "max_ante",
        "max_hand",
        "max_steps",
        "observation",
        "actions",
        "rewards",
    ],
}
WITHOUT_A_CHECK = {
    "Algorithm": "a record of what its author gives, checked where it is used",
    "BalatroMetrics": "takes no argument",
    "BaseCallback": "a base class with Stable-Baselines3's own argument",
    "ExperimentResult": "a record that Ludus makes",
    "Hyperparameters": "a pydantic model for authors of algorithms: pydantic's own error",
    "RLTrainer": "abstract",
    "Signal": "a record of what its author gives, checked where it is used",
    "TrainResult": "a record that Ludus makes",
}


def arguments_of(name: str) -> Iterator[str]:
    for parameter in inspect.signature(getattr(ludus, name)).parameters.values():
        named = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if named and not parameter.name.startswith("_"):
            yield parameter.name
    yield from MORE_ARGUMENTS.get(name, ())


def test_every_public_name_is_tried_or_has_a_reason() -> None:
    public = {name for name in ludus.__all__ if callable(getattr(ludus, name))}
    assert public == CALLS.keys() | WITHOUT_A_CHECK.keys()


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_gives_an_error_of_ludus(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.getLogger("ludus"), "handlers", [])
    raised: list[str] = []
    for argument in arguments_of(name):
        for value in WRONG:
            try:
                made = getattr(ludus, name)(**(CALLS[name]() | {argument: value}))
                if isinstance(made, gym.Env | gym.vector.VectorEnv):
                    made.close()
            except UserError as error:
                if len(str(error)) < 10:
                    raised.append(f"{argument}={value!r}: a message that says nothing: {error}")
            except LudusError:
                pass
            except ValidationError as error:
                raised.append(f"{argument}={value!r}: pydantic's own error, {error.title}")
            except Exception as error:
                raised.append(f"{argument}={value!r}: {type(error).__name__}: {error}"[:160])
    assert raised == []

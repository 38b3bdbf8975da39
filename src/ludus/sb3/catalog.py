"""The algorithms of `engine: sb3` by name, and the search space of each for sweeps."""

from __future__ import annotations

from functools import partial
from typing import Any

from ludus.config.registry import Algorithm, algorithm_names, find_algorithm, register_algorithm
from ludus.errors import MissingExtra

try:
    from sb3_contrib import ARS, QRDQN, TQC, TRPO, CrossQ, MaskablePPO, RecurrentPPO
    from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
    from stable_baselines3.common.base_class import BaseAlgorithm
except ImportError:
    raise MissingExtra("engine: sb3", "sb3") from None

from ludus.sb3.hyperparameters import check, hyperparameters_of
from ludus.sb3.learner import SB3Learner

ALGORITHMS: dict[str, type[BaseAlgorithm]] = {
    "PPO": PPO,
    "A2C": A2C,
    "DQN": DQN,
    "SAC": SAC,
    "TD3": TD3,
    "DDPG": DDPG,
    "TQC": TQC,
    "QR-DQN": QRDQN,
    "TRPO": TRPO,
    "ARS": ARS,
    "CrossQ": CrossQ,
    "RecurrentPPO": RecurrentPPO,
    "MaskablePPO": MaskablePPO,
}

# Algorithms that use the search space of another one, limited to their own arguments.
_SEARCHED_AS = {
    **dict.fromkeys(("TD3", "DDPG", "TQC", "CrossQ"), "SAC"),
    **dict.fromkeys(("TRPO", "RecurrentPPO", "MaskablePPO"), "PPO"),
    "QR-DQN": "DQN",
}
_MORE_TO_SEARCH: dict[str, dict[str, Any]] = {
    "TD3": {"policy_delay": {"choice": [1, 2, 4]}, "target_policy_noise": {"uniform": [0.0, 0.5]}},
    "TQC": {"top_quantiles_to_drop_per_net": {"int": [0, 5]}},
    "CrossQ": {"policy_delay": {"choice": [1, 2, 3, 4]}},
    "TRPO": {"target_kl": {"log": [1e-3, 0.1]}, "cg_max_steps": {"choice": [5, 10, 15, 25]}},
    "ARS": {
        "learning_rate": {"log": [1e-3, 0.2]},
        "delta_std": {"log": [1e-3, 0.3]},
        "n_delta": {"choice": [4, 8, 16, 32, 64]},
        "zero_policy": {"choice": [True, False]},
    },
}


def _search_space(name: str, arguments: set[str]) -> dict[str, Any]:
    twin = _SEARCHED_AS.get(name, name)
    native = find_algorithm(twin).hyperparameters if twin in algorithm_names() else None
    shared = {} if native is None else {k: v for k, v in native.search_space.items() if k in arguments}
    return shared | _MORE_TO_SEARCH.get(name, {})


for _name, _class in ALGORITHMS.items():
    _model = hyperparameters_of(_class)
    _model.search_space = _search_space(_name, set(_model.model_fields))
    _model.normalizes_reward = "buffer_size" not in _model.model_fields
    _entry = Algorithm(_name, _model, learner=partial(SB3Learner, _class), check=check)
    for _spelling in (_name, _class.__name__):
        register_algorithm(_spelling, _entry, engine="sb3")

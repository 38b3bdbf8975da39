"""Which algorithms `engine: sb3` has, by the names people know them under."""

from __future__ import annotations

from functools import partial

from sb3_contrib import ARS, QRDQN, TQC, TRPO, CrossQ, MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm

from ludus.algorithms.sb3.hyperparameters import check, hyperparameters_of
from ludus.algorithms.sb3.learner import SB3Learner
from ludus.config.registry import Algorithm, register_algorithm

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

for _name, _class in ALGORITHMS.items():
    _entry = Algorithm(_name, hyperparameters_of(_class), learner=partial(SB3Learner, _class), check=check)
    for _spelling in (_name, _class.__name__):
        register_algorithm(_spelling, _entry, engine="sb3")

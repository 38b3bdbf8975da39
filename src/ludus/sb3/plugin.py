"""Stable-Baselines3 and sb3-contrib: `engine: sb3`, and models that come from and go to them."""

from __future__ import annotations

from ludus.plugins import Plugin

PLUGIN = Plugin(
    name="sb3",
    package="stable_baselines3",
    extra="sb3",
    vector_envs=("ludus.sb3.given_vec_env:as_vector_env",),
    engines={"sb3": "ludus.sb3.trainer:SB3Trainer"},
    algorithms={"sb3": "ludus.sb3.catalog"},
    exports={"sb3": "ludus.sb3.export"},
    model_importers={".zip": "ludus.sb3.imported:import_zip"},
    extras={
        "sb3": ("stable_baselines3", "`engine: sb3`: the algorithms of Stable-Baselines3 and sb3-contrib")
    },
)

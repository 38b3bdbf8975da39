"""Robots in Unity builds, through Unity's ROS-TCP connector."""

from __future__ import annotations

from ludus.plugins import CommandEntry, EnvEntry, Plugin

PLUGIN = Plugin(
    name="unity",
    env_group="ludus",
    envs=(EnvEntry("ludus/Unity-v0", "ludus.games.unity.env:UnityEnv"),),
    env_support={"ludus/Unity-*": "ludus.games.unity.support:SUPPORT"},
    config_importers=("ludus.games.unity.importer", "ludus.games.unity.import_env"),
    commands={"unity": CommandEntry("ludus.games.unity.cli:unity_app", "Run and check Unity simulators.")},
)

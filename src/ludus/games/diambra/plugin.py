"""DIAMBRA Arena's fighting games through the official client, with a stand-in for its engines."""

from __future__ import annotations

from ludus.plugins import CommandEntry, EnvEntry, Plugin

DIAMBRA = "diambra/"  # prefix of the env ids
GAME_IDS = ("doapp", "sfiii3n", "tektagt", "umk3", "samsh5sp", "kof98umh", "mvsc", "xmvsf", "soulclbr")

PLUGIN = Plugin(
    name="diambra",
    package="diambra",
    extra="diambra",
    own_environment=True,
    envs=tuple(
        EnvEntry(f"{DIAMBRA}{game_id}", "ludus.games.diambra.env:make_diambra", {"game_id": game_id})
        for game_id in GAME_IDS
    ),
    env_support={f"{DIAMBRA}*": "ludus.games.diambra.support:SUPPORT"},
    config_importers=("ludus.games.diambra.importer",),
    commands={
        "diambra": CommandEntry(
            "ludus.games.diambra.cli:diambra_app", "Play DIAMBRA's fighting games.", consents=True
        )
    },
    extras={
        "diambra": ("diambra", "DIAMBRA Arena's fighting games (an environment of its own: old protobuf)")
    },
)

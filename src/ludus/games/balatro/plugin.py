"""Balatro: the card game as compiled kernels, with a bot, a feature extractor, reports and play at the terminal."""

from __future__ import annotations

from typing import Any

from ludus.plugins import CommandEntry, EnvEntry, Plugin

PLACES = {"jokers": "joker_ids", "offers": "offer_ids", "hand": "hand_ids"}
"""Blocks of the Dict observation with one row of features per slot -> their ids. Consumables have only ids."""

_TITLES = {
    "mean_ante": "mean ante",
    "win_rate": "share of games won",
    "cleared_ante": "share of games that cleared an ante",
    "ante": "ante, median and 90th percentile",
    "score": "best hand of a game, median and 90th percentile",
}

PLUGIN = Plugin(
    name="balatro",
    env_group="ludus",
    envs=(
        EnvEntry(
            "ludus/Balatro-v0",
            "ludus.games.balatro.env:BalatroEnv",
            vector_entry_point="ludus.games.balatro.vector:make_vector",
        ),
    ),
    env_support={"ludus/Balatro-*": "ludus.games.balatro.support:SUPPORT"},
    signals={"ludus/Balatro-*": "ludus.games.balatro.signals:signals"},
    episode_reports={"balatro": "ludus.games.balatro.metrics:BalatroMetrics"},
    replay_recorders={"ludus/Balatro-*": "ludus.games.balatro.replay_recording:record_games"},
    report_sections=("ludus.games.balatro.report_section:game_section",),
    metric_titles={
        f"{prefix}/{name}": title for name, title in _TITLES.items() for prefix in ("eval", "balatro")
    },
    human_play=dict.fromkeys(("balatro", "ludus/Balatro-v0"), "ludus.games.balatro.terminal:play"),
    extractors={"balatro": "ludus.games.balatro.extractor:BalatroExtractor"},
    choose_extractor="ludus.games.balatro.plugin:choose_extractor",
    bots={"rules": "ludus.games.balatro.bot:make_bot"},
    bot_envs={"rules": "ludus.games.balatro.bot:bot_env"},
    commands={"balatro": CommandEntry("ludus.games.balatro.cli:balatro_app", "Look up and search seeds.")},
    bench={
        "balatro": CommandEntry(
            "ludus.games.balatro.cli:bench",
            "Measure the speed of the Balatro engine.",
            "ludus.games.balatro.cli:BENCH_EXAMPLES",
        )
    },
)


def choose_extractor(space: Any) -> str | None:
    """Return the extractor that `auto` selects for `space`; None for observations of other games."""
    from gymnasium.spaces import Dict  # not above: `ludus --help` reads this file

    ids = {*PLACES, *PLACES.values(), "consumable_ids"}
    return "balatro" if isinstance(space, Dict) and ids <= set(space.spaces) else None

"""Everything that GridWalk adds to Ludus. Only names: nothing else is imported until it is used."""

from __future__ import annotations

from ludus.plugins import CommandEntry, EnvEntry, Plugin

PLUGIN = Plugin(
    name="gridwalk",
    envs=(
        EnvEntry(
            "gridwalk/GridWalk-v0",
            "ludus_gridwalk.env:GridWalkEnv",
            vector_entry_point="ludus_gridwalk.vector:GridWalkVectorEnv",
        ),
    ),
    bots={"straight": "ludus_gridwalk.bot:StraightBot"},
    bot_envs={"straight": "ludus_gridwalk.bot:default_env"},
    episode_reports={"gridwalk": "ludus_gridwalk.report:GridWalkReports"},
    metric_titles={"gridwalk/detour": "steps beyond the shortest way"},
    extractors={"gridwalk": "ludus_gridwalk.extractor:GridWalkExtractor"},
    choose_extractor="ludus_gridwalk.extractor:choose_extractor",
    commands={"gridwalk": CommandEntry("ludus_gridwalk.cli:gridwalk", "Print a grid of GridWalk.")},
)

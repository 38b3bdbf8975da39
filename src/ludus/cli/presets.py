"""`ludus presets`: the ready configs."""

from __future__ import annotations

from typing import Any

from ludus.cli.commands import Json, examples
from ludus.cli.output import Output, plain_table

EXAMPLES = examples(
    "ludus presets",
)


def presets(json: Json = False) -> None:
    """List the presets."""
    from rich.text import Text

    from ludus.config.loading import read_yaml
    from ludus.config.presets import preset_names, preset_path, preset_summary
    from ludus.config.schema import TrainerConfig

    output = Output(json, listing=True)
    table = plain_table("preset", "what it trains", wrap=("what it trains",))
    listed = []
    for name in preset_names():
        # the hyperparameters stay unread: they would bring in torch, and no column shows them
        config = TrainerConfig.model_validate(read_yaml(preset_path(name))[0])
        row: dict[str, Any] = {
            "name": name,
            "summary": preset_summary(name),
            "algorithm": config.algorithm,
            "env": None if config.env is None else config.env.id,
            "total_timesteps": config.total_timesteps.plain(),
        }
        listed.append(row)
        steps = row["total_timesteps"]
        shown = f"{steps:,} steps" if isinstance(steps, int) else str(steps)
        facts = ", ".join(filter(None, [config.algorithm, row["env"], shown]))
        table.add_row(name, Text.assemble(row["summary"], "\n", (facts, "dim")))
    if listed:
        output.print(table)
        output.print("\ntrain one: ludus train PRESET")
    else:
        output.print("no presets are installed")
    output.result({"presets": listed})

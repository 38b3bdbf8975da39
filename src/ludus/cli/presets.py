"""`ludus presets`: the ready configs."""

from __future__ import annotations

from typing import Any

from ludus.cli.options import Json
from ludus.cli.output import Output, plain_table


def presets(json: Json = False) -> None:
    """List the presets."""
    from ludus.config.loading import read_yaml
    from ludus.config.presets import preset_names, preset_path, preset_summary
    from ludus.config.schema import TrainerConfig

    output = Output(json)
    table = plain_table("preset", "algorithm", "env", "steps", "", right=("steps",), wrap=("", "env"))
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
        shown = f"{steps:,}" if isinstance(steps, int) else str(steps)
        table.add_row(name, config.algorithm, row["env"] or "", shown, row["summary"])
    if listed:
        output.print(table)
        output.print("\ntrain one: ludus train PRESET")
    else:
        output.print("no presets are installed")
    output.result({"presets": listed})

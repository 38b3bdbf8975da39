"""Weights & Biases as a follower of the metrics rows. Needs the extra `wandb`; works offline (`mode`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ludus.errors import MissingExtra, UserError
from ludus.tracking.tracker import RowValue


class WandbTracker:
    """One W&B run; its local files stand under `directory`.

    `mode` None leaves the choice to W&B (and to `WANDB_MODE`). A `run_id` seen before continues that W&B run;
    the id of this one is in `run_id`, for a resume to pass back. Raises MissingExtra without wandb, UserError
    when W&B refuses (no login, no network).
    """

    def __init__(
        self,
        run_name: str,
        project: str,
        directory: str | Path,
        config: Mapping[str, Any],
        entity: str | None = None,
        group: str | None = None,
        tags: Sequence[str] = (),
        mode: Literal["online", "offline", "disabled"] | None = None,
        run_id: str | None = None,
    ) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingExtra("tracking with Weights & Biases", "wandb") from error
        Path(directory).mkdir(parents=True, exist_ok=True)
        try:
            self._run: Any = wandb.init(
                name=run_name,
                project=project,
                dir=str(directory),
                config=dict(config),
                entity=entity,
                group=group,
                tags=list(tags),
                mode=mode,
                id=run_id,
                resume="allow",
            )
        except wandb.Error as error:
            raise UserError(
                f"Weights & Biases did not start: {' '.join(str(error).split()):.200}",
                where="tracking.wandb",
                fix="`wandb login` once, or WANDB_MODE=offline, or leave it out: tracking.wandb=null",
            ) from error
        # W&B drops rows whose own step goes back, as it does at resume; a plotted column may go back
        self._run.define_metric("*", step_metric="step")
        self.run_id: str = self._run.id

    def row(self, row: Mapping[str, RowValue], step: int) -> None:
        """Log the whole row, with `step` as its x axis; missing values are left out."""
        self._run.log({name: value for name, value in row.items() if value is not None} | {"step": step})

    def close(self) -> None:
        """Wait for W&B to take what is pending, and end its run."""
        self._run.finish()

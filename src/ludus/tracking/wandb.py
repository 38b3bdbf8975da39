"""Weights & Biases as a follower of a run. Needs the extra `wandb`; works offline (`mode`)."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ludus.config.own_modules import foreign_folder
from ludus.errors import MissingExtra, UserError
from ludus.tracking.machine import stepped_back
from ludus.tracking.tracker import RowValue

_NOTE_SECONDS = 30.0
_POLICY_FILES = ("policy.safetensors", "state.json")


def require_wandb() -> None:
    """Raise MissingExtra if wandb is not installed; nothing is imported."""
    if importlib.util.find_spec("wandb") is None:
        raise MissingExtra("tracking with Weights & Biases", "wandb")


def _refuse_settings_of_runs(run: Path) -> None:
    """Raise UserError if W&B would read its settings, and with them the server address, from a file in a run."""
    for folder in (Path.cwd(), run):
        settings = folder / "wandb" / "settings"
        if os.path.lexists(settings) and foreign_folder(folder) is not None:
            raise UserError(
                "W&B would read its settings, including the server address, from a file in a run",
                where=str(settings),
                fix="remove the file, and use a working directory that is not inside a run",
            )


class WandbTracker:
    """One W&B run for the run directory `run`, which also holds W&B's local files.

    `mode` None leaves the choice to W&B (and to `WANDB_MODE`). A `run_id` seen before continues that W&B run. `note`
    is called with the id (`wandb_run_id`) and the env step up to which W&B has every row (`wandb_step`). Of a
    checkpoint, `checkpoints` names what becomes an artifact: what it takes to play, or to resume, or nothing.
    Raises MissingExtra without wandb, UserError when W&B refuses (no login, no network).
    """

    def __init__(
        self,
        run_name: str,
        project: str,
        run: str | Path,
        config: Mapping[str, Any],
        entity: str | None = None,
        group: str | None = None,
        tags: Sequence[str] = (),
        mode: Literal["online", "offline", "disabled"] | None = None,
        run_id: str | None = None,
        checkpoints: Literal["policy", "whole"] | None = "policy",
        note: Callable[..., None] = lambda **fields: None,
    ) -> None:
        _refuse_settings_of_runs(Path(run))
        try:
            import wandb
        except ImportError as error:
            raise MissingExtra("tracking with Weights & Biases", "wandb") from error
        self._wandb: Any = wandb
        self._directory = Path(run)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._name, self._checkpoints, self._note = run_name, checkpoints, note
        try:
            self._log_in(mode)
            # W&B starts a process, which must not take a core from training
            self._run: Any = stepped_back(
                lambda: wandb.init(
                    name=run_name,
                    project=project,
                    dir=str(self._directory),
                    config=dict(config),
                    entity=entity,
                    group=group,
                    tags=list(tags),
                    mode=mode,
                    id=run_id,
                    resume="allow",
                    # the terminal belongs to the run's own display
                    settings=wandb.Settings(silent=True, console="off"),
                )
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
        self.url: str | None = None if self._run.offline else self._run.url
        self._step: int | None = None
        self._noted_at = time.monotonic()
        note(wandb_run_id=self.run_id)

    def row(self, row: Mapping[str, RowValue], step: int) -> None:
        """Log the whole row, with `step` as its x axis; missing values are left out."""
        self._run.log({name: value for name, value in row.items() if value is not None} | {"step": step})
        self._step = step
        if time.monotonic() - self._noted_at > _NOTE_SECONDS:
            self._note(wandb_step=step)
            self._noted_at = time.monotonic()

    def checkpoint(self, path: Path, step: int, *, best: bool) -> None:
        """Log the checkpoint as a version of the artifact `<run>-policy`, a run that `ludus play` can load."""
        if self._checkpoints is None:
            return
        artifact = self._wandb.Artifact(f"{self._artifact_name}-policy", "model", metadata={"step": step})
        try:
            _add_checkpoint(artifact, path, whole=self._checkpoints == "whole")
            for name in ("run.json", "config.yaml"):
                artifact.add_file(str(self._directory / name), name=name)
        except (OSError, ValueError):
            return  # pruned meanwhile
        self._run.log_artifact(artifact, aliases=["latest", f"step-{step}", *(["best"] if best else [])])

    def video(self, path: Path, step: int) -> None:
        """Log the video with the run's media, and as a version of the artifact `<run>-videos`."""
        artifact = self._wandb.Artifact(f"{self._artifact_name}-videos", "video", metadata={"step": step})
        try:
            artifact.add_file(str(path), name=path.name)
            video = self._wandb.Video(str(path), format=path.suffix[1:])
        except (OSError, ValueError):
            return  # gone meanwhile
        self._run.log({"video": video, "step": step})
        self._run.log_artifact(artifact, aliases=["latest", f"step-{step}"])

    def close(self) -> None:
        """Wait for W&B to take what is pending, and end its run."""
        self._run.finish()
        if self._step is not None:
            self._note(wandb_step=self._step)

    @property
    def _artifact_name(self) -> str:
        return re.sub(r"[^\w.-]", "-", self._name)[:100]

    def _log_in(self, mode: str | None) -> None:
        """Use the saved login. Do not prompt for one: training has begun and its display uses the terminal."""
        if (mode or os.environ.get("WANDB_MODE", "online")) != "online":
            return
        try:
            known = self._wandb.login(verify=False, prompt=False)
        except TypeError:  # older than `prompt`: it asks for a second and gives up
            known = self._wandb.login(timeout=1)
        if not known:
            raise self._wandb.Error("nobody is logged in")


def _add_checkpoint(artifact: Any, path: Path, *, whole: bool) -> None:
    """Add the files of a checkpoint; without `whole`, a manifest says that files are missing."""
    manifest = json.loads((path / "MANIFEST.json").read_text("utf-8"))
    if not whole:
        files = {name: entry for name, entry in manifest["files"].items() if name in _POLICY_FILES}
        manifest |= {"files": files, "resumable": False, "exact": False}
    manifest.pop("sha256", None)  # checksum of the original file
    folder = f"checkpoints/{path.name}"
    for name in manifest["files"]:
        artifact.add_file(str(path / name), name=f"{folder}/{name}")
    with artifact.new_file(f"{folder}/MANIFEST.json", mode="w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=2)

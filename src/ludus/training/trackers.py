"""The trackers of a run, which follow `metrics.jsonl`: TensorBoard, W&B, monitor.csv."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ludus.config.loading import plain_config
from ludus.config.schema import TrainerConfig, WandbConfig
from ludus.runs.directory import RunDirectory
from ludus.tracking.background import Background, RunFiles
from ludus.tracking.tensorboard import TensorBoardTracker
from ludus.tracking.tracker import MetricsLog, Tracker
from ludus.training.failure import Storage

if TYPE_CHECKING:
    from ludus.tracking.wandb import WandbTracker

_log = logging.getLogger("ludus.training")
PATIENCE_AT_THE_END = {"tensorboard": 10.0, "wandb": 60.0}
"""Seconds that a tracker has to write pending rows when the run has ended."""


def open_trackers(config: TrainerConfig, directory: RunDirectory, resumed_at: int | None) -> list[Tracker]:
    """Open the trackers of `config`. TensorBoard and W&B work in threads; W&B continues the run's own W&B run.

    MissingExtra where W&B is asked for and not installed.
    """
    trackers: list[Tracker] = []
    resumed = resumed_at is not None
    if config.tracking.tensorboard:
        elsewhere = config.tracking.tensorboard_dir
        folder = directory.tensorboard_dir if elsewhere is None else Path(elsewhere) / directory.name
        trackers.append(
            Background(
                "TensorBoard",
                lambda: TensorBoardTracker(folder, resumed_at, hyperparameters_of(config), directory.name),
                RunFiles(directory.path, known=resumed),
                last_patience=PATIENCE_AT_THE_END["tensorboard"],
            )
        )
    if config.tracking.monitor_dir is not None:
        from ludus.tracking.monitor_csv import MonitorCsv

        path = Path(config.tracking.monitor_dir) / directory.name / "monitor.csv"
        trackers.append(MonitorCsv(path, directory.episodes_path, directory.env_id))
    settings = config.tracking.wandb
    if settings is not None:
        from ludus.tracking.wandb import require_wandb

        require_wandb()
        if resumed:  # W&B gets the rows after that once more
            directory.update_info(wandb_step=resumed_at)
        trackers.append(
            Background(
                "Weights & Biases",
                lambda: open_wandb(directory, settings, plain_config(config)),
                RunFiles(directory.path, known=resumed),
                advice=f"Make up for it: ludus sync wandb {shlex.quote(str(directory.path))}",
                last_patience=PATIENCE_AT_THE_END["wandb"],
            )
        )
    return trackers


def open_wandb(directory: RunDirectory, settings: WandbConfig, config: Mapping[str, Any]) -> WandbTracker:
    """Open the W&B run of `directory`: the one it had, or a new one. `config` is what W&B shows of the settings."""
    from ludus.tracking.wandb import WandbTracker

    tags = [*dict.fromkeys([*(config.get("tags") or []), *settings.tags])]
    tracker = WandbTracker(
        directory.name,
        settings.project,
        directory.path,
        config,
        entity=settings.entity,
        group=settings.group,
        tags=tags,
        mode=settings.mode,
        run_id=directory.info().get("wandb_run_id"),
        checkpoints=settings.checkpoints,
        note=directory.update_info,
    )
    _log.info("Weights & Biases: %s", tracker.url or f"offline, run {tracker.run_id}")
    return tracker


def hyperparameters_of(config: TrainerConfig) -> dict[str, Any]:
    """Return the settings that TensorBoard compares runs by."""
    typed = config.typed_hyperparams().model_dump(mode="json")
    env = {} if config.env is None else {"env": config.env.id}
    return {"algorithm": config.algorithm, **env, "n_envs": config.n_envs, "seed": config.seed} | {
        key: value for key, value in typed.items() if value is not None
    }


@contextmanager
def closing(log: MetricsLog, storage: Storage) -> Iterator[None]:
    """Close `log` at the end. After an error, a failure to close it is not reported as well."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            log.close()
        raise
    with storage.requiring("the last rows of metrics.jsonl"):
        log.close()

"""What follows a run's metrics beside `metrics.jsonl`, and how the log of both is closed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ludus.config.schema import TrainerConfig
from ludus.runs.directory import RunDirectory
from ludus.tracking.monitor_csv import MonitorCsv
from ludus.tracking.tensorboard import TensorBoardTracker
from ludus.tracking.tracker import MetricsLog, Tracker
from ludus.tracking.wandb import WandbTracker


def open_trackers(config: TrainerConfig, directory: RunDirectory, resumed_at: int | None) -> list[Tracker]:
    """The trackers that `config` asks for; W&B goes on with the run it began."""
    trackers: list[Tracker] = []
    if config.tracking.tensorboard:
        elsewhere = config.tracking.tensorboard_dir
        folder = directory.tensorboard_dir if elsewhere is None else Path(elsewhere) / directory.name
        trackers.append(TensorBoardTracker(folder, resumed_at))
    if config.tracking.monitor_dir is not None:
        path = Path(config.tracking.monitor_dir) / directory.name / "monitor.csv"
        trackers.append(MonitorCsv(path, directory.episodes_path, directory.env_id))
    settings = config.tracking.wandb
    if settings is not None:
        wandb = WandbTracker(
            directory.name,
            settings.project,
            directory.path,
            config.model_dump(mode="json"),
            entity=settings.entity,
            group=settings.group,
            tags=config.tags,
            mode=settings.mode,
            run_id=directory.info().get("wandb_run_id"),
        )
        directory.update_info(wandb_run_id=wandb.run_id)
        trackers.append(wandb)
    return trackers


@contextmanager
def closing(log: MetricsLog) -> Iterator[None]:
    """Closes `log` at the end. After an error, that its files cannot be closed either is not news."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            log.close()
        raise
    log.close()

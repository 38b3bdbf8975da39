"""Reads the files of a run as plain data, for the report and the dashboards, without torch.

All functions may be called while another process trains the run: incomplete lines are left for the next call, and files
that appear or vanish meanwhile are not an error.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ludus.config.plain_yaml import read_yaml
from ludus.config.when import When
from ludus.errors import CheckpointError, UserError, printable
from ludus.runs.atomic import is_alive
from ludus.runs.directory import RunDirectory, list_runs
from ludus.runs.hints import Hints, step_of
from ludus.runs.lock import is_locked
from ludus.runs.manifest import Manifest
from ludus.tracking.following import START, Columns, Follower, MetricSeries, Position, is_number, last_row
from ludus.types import Progress

VIDEO_SUFFIXES = (".mp4", ".gif", ".webm")
_LONGEST_STATUS = 16


@dataclass(frozen=True)
class RunSummary:
    """A run in one row of a table."""

    name: str
    path: str
    env: str
    algorithm: str
    status: str
    """As in run.json (`ludus.runs.directory.STATUSES`); `died` or `damaged` if that cannot be true."""
    steps: int | None
    seconds: float | None
    reward: float | None
    """The newest mean reward of training."""
    evaluation: float | None
    """The mean reward of the last evaluation."""
    best: float | None
    """The score of the best checkpoint."""
    seed: int | None
    created: str | None
    tags: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"tags": list(self.tags)}


@dataclass(frozen=True)
class MetricsRead:
    """The result of reading a metrics file. Pass `position` to the next call."""

    series: dict[str, MetricSeries]
    position: Position
    rows: int
    rewound: bool
    """The file was truncated by a resume: this call read it from the start, and earlier results are invalid."""
    damaged: int = 0
    """Number of skipped lines that are not rows, or have no step."""


@dataclass(frozen=True)
class CheckpointFile:
    """A checkpoint as described by its manifest; `intact` is False if that cannot be read."""

    name: str
    step: int
    path: str
    created: str
    size: int
    exact: bool
    resumable: bool
    best: bool
    pinned: bool
    intact: bool = True


@dataclass(frozen=True)
class VideoFile:
    """A video of the run; `step` is from its name, if it has one."""

    name: str
    path: str
    step: int | None
    size: int


def summaries(root: Path | str) -> list[RunSummary]:
    """Return all runs under `root`, newest first, including damaged ones."""
    return [summarize(run) for run in list_runs(root, damaged=True)]


def summarize(run: RunDirectory) -> RunSummary:
    """Summarise one run. Reads run.json, best.json and the end of the metrics: the cost does not grow with it."""
    info = read_info(run)
    row = last_row(run.metrics_path) or {}
    evaluation = info.get("evaluation")
    evaluation = evaluation if isinstance(evaluation, dict) else {}
    tags = info.get("tags")
    return RunSummary(
        name=readable(run.name),
        path=str(run.path),
        env=readable(str(info.get("env_id", run.path.absolute().parent.parent.name))),
        algorithm=readable(str(info.get("algorithm", run.path.absolute().parent.name))),
        status=status_of(run, info),
        steps=_steps(run, info, row),
        seconds=_number(row.get("time/seconds")) or _number(info.get("seconds")),
        reward=_number(row.get("rollout/ep_rew_mean")),
        evaluation=_number(evaluation.get("mean_reward")),
        best=_best_score(run),
        seed=info["seed"] if isinstance(info.get("seed"), int) else None,
        created=info["created"] if isinstance(info.get("created"), str) else None,
        tags=tuple(readable(str(tag)) for tag in tags) if isinstance(tags, list) else (),
    )


def readable(text: str) -> str:
    """Remove terminal control sequences from `text`: a run may come from an untrusted source."""
    return printable(text, sign="\ufffd")


def read_info(run: RunDirectory) -> dict[str, Any]:
    """Return the content of run.json; `{"status": "damaged"}` if it cannot be read."""
    try:
        return run.info()
    except UserError:
        return {"status": "damaged"}


def status_of(run: RunDirectory, info: dict[str, Any]) -> str:
    """Return the status in run.json; `died` if it is `running` without a process."""
    status, pid = info.get("status"), info.get("pid")
    status = readable(status[:_LONGEST_STATUS]) if isinstance(status, str) else "?"
    # check the lock last, because checking takes it for a moment
    if status != "running" or (isinstance(pid, int) and pid > 0 and is_alive(pid)) or is_locked(run.path):
        return status
    return "died"


def read_metrics(
    run: RunDirectory,
    names: Collection[str] | None = None,
    *,
    max_points: int | None = None,
    since: Position = START,
) -> MetricsRead:
    """Read the metrics of `run`, or those in `names`, each thinned to `max_points`, from `since` on.

    `updates` and `episodes` are returned as series, too. A run without metrics has no series.
    """
    return _read_rows(Follower(run.metrics_path, since), Columns(names, "time/seconds"), max_points)


def read_episodes(
    run: RunDirectory, *, max_points: int | None = None, since: Position = START
) -> MetricsRead:
    """Read the finished episodes as series over env steps: `reward`, `length`, and `success` if known."""
    return _read_rows(Follower(run.episodes_path, since), Columns(), max_points)


def _read_rows(follower: Follower, columns: Columns, max_points: int | None) -> MetricsRead:
    for row in follower.rows():
        columns.take(row)
    damaged = follower.damaged + columns.stray
    return MetricsRead(columns.series(max_points), follower.position, columns.rows, follower.rewound, damaged)


def damaged_rows(count: int, file: str) -> str:
    """Return a note on skipped rows; empty if there are none."""
    return f"{count:,} damaged row{'s are' if count > 1 else ' is'} left out of {file}" if count else ""


def read_config(run: RunDirectory) -> dict[str, Any]:
    """Return config.yaml as plain data; empty if it is missing or cannot be read."""
    try:
        return read_yaml(run.config_path)[0]
    except (OSError, UserError):
        return {}


def total_of(config: dict[str, Any]) -> When | None:
    """Return the total of a run with this config; None if it has none."""
    try:
        return When.parse(config.get("total_timesteps"))
    except ValueError:
        return None


def progress_at(row: dict[str, Any]) -> Progress:
    """Return the progress of the run when `row` of its metrics was written."""
    steps, updates, episodes, seconds = (
        _number(row.get(name)) or 0.0 for name in ("step", "updates", "episodes", "time/seconds")
    )
    return Progress(int(steps), int(updates), int(episodes), seconds)


def list_checkpoints(run: RunDirectory) -> list[CheckpointFile]:
    """Return the checkpoints, oldest step first."""
    hints = Hints(run.checkpoints_dir)
    try:
        best, pinned = hints.best(), hints.pinned()
    except CheckpointError:
        best, pinned = None, set()
    found = []
    for step, path in sorted(_steps_on_disk(run).items()):
        try:
            manifest = Manifest.read(path)
        except CheckpointError:
            found.append(
                CheckpointFile(
                    path.name, step, str(path), "", 0, False, False, step == best, False, intact=False
                )
            )
            continue
        size = sum(size for size, _ in manifest.files.values())
        found.append(
            CheckpointFile(
                name=path.name,
                step=step,
                path=str(path),
                created=manifest.created,
                size=size,
                exact=manifest.exact,
                resumable=manifest.resumable,
                best=step == best,
                pinned=step in pinned,
            )
        )
    return found


def list_videos(run: RunDirectory) -> list[VideoFile]:
    """Return the videos in `videos/`, by name; links to outside the run are skipped."""
    found = []
    for entry in _entries(run.videos_dir):
        name = entry.name
        if name.startswith(".") or not name.lower().endswith(VIDEO_SUFFIXES):
            continue
        try:
            if entry.is_file(follow_symlinks=False):
                size = entry.stat(follow_symlinks=False).st_size
                found.append(VideoFile(name, entry.path, step_of(name.split(".", 1)[0]), size))
        except OSError:
            continue  # deleted meanwhile
    return sorted(found, key=lambda video: video.name)


def _steps_on_disk(run: RunDirectory) -> dict[int, Path]:
    found = {}
    for entry in _entries(run.checkpoints_dir):
        step = step_of(entry.name)
        if step is not None:
            found[step] = Path(entry.path)
    return found


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    if folder.is_symlink():  # it may point anywhere
        return []
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _steps(run: RunDirectory, info: dict[str, Any], row: dict[str, Any]) -> int | None:
    known = [int(value) for value in (row.get("step"), info.get("steps")) if is_number(value)]
    return max(known) if known else max(_steps_on_disk(run), default=None)


def _best_score(run: RunDirectory) -> float | None:
    if run.checkpoints_dir.is_symlink():
        return None
    try:
        score = Hints(run.checkpoints_dir).best_score()
    except CheckpointError:
        return None
    return None if score is None else score[1]


def _number(value: object) -> float | None:
    return float(value) if is_number(value) else None

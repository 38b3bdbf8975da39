"""`ludus report`: one HTML page about one or several runs. It only reads run files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ludus.plugins import listed
from ludus.reports import reading
from ludus.reports.arranging import EVALUATION, arrange
from ludus.reports.charts import COLORS
from ludus.reports.configs import differences, groups_by_seed, relevant, unique_labels
from ludus.reports.curves import CurveLine, draw_chart, draw_quantiles
from ludus.reports.page import CLOCK_BUTTON, html_page, notices, rows_to_table, section
from ludus.reports.redaction import hide_in
from ludus.reports.run_files import checkpoint_section, hyperparameter_section, origin_section, video_section
from ludus.runs.atomic import write_atomic
from ludus.runs.directory import RunDirectory
from ludus.runs.mirror.state import MirrorState
from ludus.tracking.following import MetricSeries
from ludus.tracking.progress import duration, number

_CURVES_NOTE = "Lines are averages over neighbouring rows; the rows themselves are drawn faintly behind them."
_BANDS_NOTE = (
    "Runs that differ only by their seed are one line: the interquartile mean over seeds with its 95 % bootstrap "
    "interval. A run that ended earlier keeps its last value."
)


@dataclass(frozen=True)
class ReportedRun:
    """The data of one run in a report."""

    directory: RunDirectory
    summary: reading.RunSummary
    info: dict[str, Any]
    config: dict[str, Any]
    series: dict[str, MetricSeries]
    episodes: dict[str, MetricSeries]
    mirror: MirrorState | None
    notices: tuple[str, ...]
    """Problems of its files, or of its mirror."""

    @classmethod
    def read(cls, run: RunDirectory) -> ReportedRun:
        metrics, episodes, mirror = (
            reading.read_metrics(run),
            reading.read_episodes(run),
            MirrorState.load(run.path),
        )
        wrong = [
            reading.damaged_rows(metrics.damaged, run.metrics_path.name),
            reading.damaged_rows(episodes.damaged, run.episodes_path.name),
            f"the mirror is behind: {mirror.in_words()}" if mirror is not None and mirror.is_behind else "",
        ]
        return cls(
            directory=run,
            summary=reading.summarize(run),
            info=hide_in(reading.read_info(run)),
            config=hide_in(reading.read_config(run)),
            series=metrics.series,
            episodes=episodes.series,
            mirror=mirror,
            notices=tuple(filter(None, wrong)),
        )

    @property
    def label(self) -> str:
        return str(self.info.get("name") or self.summary.name)

    @property
    def evaluation_episodes(self) -> int | None:
        evaluation = self.config.get("evaluation")
        episodes = evaluation.get("episodes") if isinstance(evaluation, Mapping) else None
        return episodes if isinstance(episodes, int) else None

    def last(self, metric: str) -> float | None:
        """Return the newest value of a metric."""
        series = self.series.get(metric)
        return None if series is None or not len(series) else float(series.values[-1])


def write_report(
    runs: Sequence[RunDirectory], path: Path, note: Callable[[str], None] = lambda line: None
) -> Path:
    """Write the page about `runs` (one or more) to `path` atomically; return `path`.

    `note` is called with the problems of the runs' files that the page reports.
    """
    path.parent.mkdir(parents=True, exist_ok=True)  # first: without it there is no need to draw
    found = [ReportedRun.read(run) for run in runs]
    for run in found:
        for line in run.notices:
            note(f"{run.summary.name}: {line}")
    text = run_page(found[0], path) if len(found) == 1 else comparison_page(found, path)
    write_atomic(path, text)
    return path


def run_page(run: ReportedRun, path: Path) -> str:
    """Return the page about one run; `path` is its later location, for links to files that are not embedded."""
    line = CurveLine(run.label, COLORS[0], (run.series,), run.evaluation_episodes)
    parts = [notices(run.notices), _tiles(run), *_chapters([line], _CURVES_NOTE)]
    spread = [
        draw_quantiles(f"{name} of episodes", run.episodes[name])
        for name in ("reward", "length")
        if name in run.episodes and len(run.episodes[name]) >= 20
    ]
    if spread:
        note = "Single episodes: the median, and the ranges of the middle half and the middle nine tenths."
        parts.append(section("Episodes", note, f'<div class="grid">{"".join(spread)}</div>'))
    parts += [
        *(own_section(run.directory) for own_section in listed("report_sections")),
        video_section(run.directory, path),
        checkpoint_section(run.directory),
        hyperparameter_section(run.config),
        origin_section(run.directory, run.info, run.mirror),
    ]
    summary = run.summary
    title = f"{run.label}: {summary.algorithm} on {summary.env}"
    return html_page(title, f"{summary.name} · {summary.status}", parts, CLOCK_BUTTON)


def comparison_page(runs: Sequence[ReportedRun], path: Path) -> str:
    """Return the page about several runs: curves by config, a table of all, and the differences of their settings."""
    groups = groups_by_seed([run.config for run in runs])
    first = [runs[members[0]] for members in groups]
    labels = unique_labels([run.label for run in first], [run.config for run in first])
    lines = [
        CurveLine(
            label,
            COLORS[index % len(COLORS)],
            tuple(runs[member].series for member in members),
            runs[members[0]].evaluation_episodes,
        )
        for index, (label, members) in enumerate(zip(labels, groups, strict=True))
    ]
    line_of = {member: line for line, members in zip(lines, groups, strict=True) for member in members}
    ordered = [(runs[member], line_of[member]) for members in groups for member in members]
    note = _BANDS_NOTE if any(len(members) > 1 for members in groups) else _CURVES_NOTE
    wrong = notices(f"{run.summary.name}: {line}" for run, _ in ordered for line in run.notices)
    parts = [wrong, _legend(lines), _table(ordered), *_chapters(lines, note), _differing(first, lines)]
    for run, line in ordered:
        videos = video_section(run.directory, path, heading=False)
        saved = checkpoint_section(run.directory, heading=False)
        if videos or saved:
            parts.append(
                f"<section><details><summary>{_dot(line)}{escape(run.summary.name)}: videos and checkpoints"
                f"</summary>{videos}{saved}</details></section>"
            )
    envs = ", ".join(dict.fromkeys(run.summary.env for run in runs))
    shown = ", ".join(labels[:4]) + (f" and {len(labels) - 4} more" if len(labels) > 4 else "")
    return html_page(f"{shown} on {envs}", f"{len(runs)} runs", parts, CLOCK_BUTTON)


def _chapters(lines: Sequence[CurveLine], note: str) -> list[str]:
    names = {name for line in lines for run in line.runs for name in run}
    parts: list[str] = []
    for chapter in arrange(names):
        drawn = "".join(draw_chart(drawing, lines) for drawing in chapter.drawings)
        if not drawn:
            continue
        own = chapter.note
        if chapter.title == "Evaluation":
            counts = {line.episodes for line in lines if line.episodes}
            episodes = f"{counts.pop()} episodes" if len(counts) == 1 else "its episodes"
            own = f"Mean reward over {episodes}, with the 95 % interval of the mean."
        text = " ".join(part for part in (own, "" if parts else note) if part)
        parts.append(section(chapter.title, text, f'<div class="grid">{drawn}</div>'))
    if not parts:
        parts.append(section("No data yet", "The run has not written a row of metrics.", ""))
    return parts


def _tiles(run: ReportedRun) -> str:
    summary = run.summary
    tiles = [
        ("steps", f"{summary.steps:,}" if summary.steps is not None else "–"),
        ("training time", "–" if summary.seconds is None else duration(summary.seconds)),
        ("reward while training", _shown(run.last("rollout/ep_rew_mean"))),
        ("last evaluation", _shown(run.last(EVALUATION))),
        ("best", _shown(summary.best)),
        ("steps per second", _shown(_mean_speed(summary))),
        ("seed", "–" if summary.seed is None else str(summary.seed)),
    ]
    cells = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{name}</span></div>' for name, value in tiles
    )
    return f'<div class="tiles">{cells}</div>'


def _legend(lines: Sequence[CurveLine]) -> str:
    """Return the legend, which stays visible while the page is scrolled."""
    return f'<div class="legend-bar">{"".join(f"<span>{_dot(line)}{escape(line.name)}</span>" for line in lines)}</div>'


def _table(ordered: Sequence[tuple[ReportedRun, CurveLine]]) -> str:
    rows = []
    for run, line in ordered:
        summary = run.summary
        rows.append(
            [
                f"{_dot(line)}{escape(summary.name)}",
                escape(summary.algorithm),
                escape(summary.env),
                "–" if summary.seed is None else str(summary.seed),
                _status(summary.status),
                "–" if summary.steps is None else f"{summary.steps:,}",
                "–" if summary.seconds is None else duration(summary.seconds),
                _shown(run.last("rollout/ep_rew_mean")),
                _shown(run.last(EVALUATION)),
                _shown(summary.best),
                _shown(_mean_speed(summary)),
            ]
        )
    head = [
        "run",
        "algorithm",
        "env",
        "seed",
        "status",
        "steps",
        "time",
        "reward",
        "evaluation",
        "best",
        "steps/s",
    ]
    return section("Runs", "", rows_to_table(head, rows, text=("algorithm", "env", "status")))


def _differing(runs: Sequence[ReportedRun], lines: Sequence[CurveLine]) -> str:
    if len(runs) < 2:
        return ""
    found = differences([relevant(run.config) for run in runs])
    if not found:
        return section("Settings", "All runs have the same settings.", "")
    rows = [
        [f"<code>{escape(key)}</code>", *(_value(value) for value in values)] for key, values in found.items()
    ]
    head = ["setting", *(f"{_dot(line)}{escape(line.name)}" for line in lines)]
    return section("Settings that differ", "", rows_to_table(head, rows))


def _mean_speed(summary: reading.RunSummary) -> float | None:
    return summary.steps / summary.seconds if summary.steps and summary.seconds else None


def _value(value: Any) -> str:
    return "–" if value is None else escape(str(value))


def _shown(value: float | None) -> str:
    return "–" if value is None else number(value)


def _status(status: str) -> str:
    look = {"finished": "good", "stopped": "good", "failed": "bad", "died": "bad", "damaged": "bad"}.get(
        status
    )
    return f'<span class="{look}">{escape(status)}</span>' if look else escape(status)


def _dot(line: CurveLine) -> str:
    return f'<span class="dot" style="background:{line.color}"></span>'

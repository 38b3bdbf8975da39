"""Grouping of a run's metrics into figures: by known names, and by prefix for all others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from ludus.plugins import plugins, references

MAX_LINES = 12
EVALUATION = "eval/mean_reward"
SPREAD = "eval/std_reward"

# Sections in their order, each with a note for the reader.
_NOTES = {
    "Learning": "Means over the last 100 training episodes.",
    "Evaluation": "",
    "League": "Ratings of all players, how often each was chosen as opponent, and the learner's results.",
    "Win rates": "Win rates in training games, by game and opponent.",
    "Rewards": "By game and seat: the game's own result, and the reward after each transform.",
    "Games": "Statistics of the games of each update.",
    "Losses": "",
    "Policy and value": "",
    "Norms": "Norms of gradients before clipping, of parameters, and of the optimizer's moments.",
    "Schedules": "",
    "Throughput": "",
    "System load": "Load of the training process and its machine, sampled at most once a second.",
}
_TITLES = {
    "rollout/ep_rew_mean": "reward",
    "rollout/ep_len_mean": "episode length",
    "rollout/success_rate": "success rate",
    EVALUATION: "reward",
    "eval/mean_ep_length": "episode length",
}
_MORE_TITLES = {
    "league/rating": "rating",
    "league/win_rate": "win rate of late, by learner and opponent",
    "league/frequency": "how often each is drawn as opponent",
    "league/sigma": "uncertainty of the rating",
    "train/approx_kl": "approximate KL divergence",
    "train/entropy_loss": "entropy loss",
    "train/param_norm": "parameters",
    "train/grad_norm": "gradient",
    "train/moment_norm": "optimizer's first moment",
    "train/second_moment_norm": "root of the optimizer's second moment",
    "time/fps": "env steps per second",
    "time/cpu_cores": "cores kept busy by training",
    "time/cpu_machine": "share of the machine's cores in use",
    "time/memory_gb": "memory of the training process, GB",
    "time/gpu_percent": "GPU in use, %",
    "time/gpu_memory_gb": "memory of the GPU in use, GB",
}
_BY_PREFIX = {
    "rollout": "Learning",
    "eval": "Evaluation",
    "league": "League",
    "winrate": "Win rates",
    "reward": "Rewards",
    "games": "Games",
}
_NUMBERED = re.compile(r"(\w+/\w+?)_(p?\d+)")  # a level of a game, a percentile
_REPORTS_NOTE = "Means over the last 1,000 training games."
_LOAD = ("time/cpu_", "time/memory_", "time/gpu_")
# the x axis, and metrics that are drawn around another line
_NOT_DRAWN = {"time/seconds", SPREAD, "updates", "episodes"}


@dataclass
class Drawing:
    """One figure: its title, and the label of each metric in it."""

    title: str
    lines: dict[str, str] = field(default_factory=dict)


@dataclass
class Chapter:
    """A section of a page."""

    title: str
    note: str
    drawings: list[Drawing]


def arrange(names: Iterable[str]) -> list[Chapter]:
    """Return the figures of all these metrics by section; a metric of three parts is a line in a shared figure."""
    chapters: dict[str, dict[str, Drawing]] = {}
    for name in sorted(names, key=_rank):
        if name in _NOT_DRAWN or (name.startswith("winrate/") and name.endswith("/games")):
            continue
        key, label = _figure_of(name)
        drawings = chapters.setdefault(_chapter_of(name), {})
        drawing = drawings.setdefault(key, Drawing(_titles().get(key) or _words(key)))
        if len(drawing.lines) < MAX_LINES:
            drawing.lines[name] = label
    notes = _notes()
    order = [*notes, *sorted(title for title in chapters if title not in notes)]
    return [
        Chapter(title, notes.get(title, ""), list(chapters[title].values()))
        for title in order
        if title in chapters
    ]


@cache
def _titles() -> dict[str, str]:
    """Return the titles of figures in their order; those of games follow those of evaluations."""
    own = {name: title for plugin in plugins() for name, title in plugin.metric_titles.items()}
    return {**_TITLES, **own, **_MORE_TITLES}


@cache
def _notes() -> dict[str, str]:
    """Return the sections in their order, each with its note; reports of games follow evaluations."""
    games = {kind.capitalize(): _REPORTS_NOTE for kind in references("episode_reports")}
    first = {title: _NOTES[title] for title in ("Learning", "Evaluation")}
    return {**first, **games, **_NOTES}


def _figure_of(name: str) -> tuple[str, str]:
    """Return the figure of a metric, and the label of the metric in it."""
    parts = name.split("/")
    if len(parts) < 3:
        numbered = _NUMBERED.fullmatch(name)
        return (name, "") if numbered is None else (numbered[1], numbered[2])
    rest = parts[2:]
    if parts[0] == "reward" and len(rest) == 2:
        return "/".join(parts[:2]), f"seat {rest[0]}, {rest[1]}"
    return "/".join(parts[:2]), "/".join(rest)


def _chapter_of(name: str) -> str:
    prefix, _, rest = name.partition("/")
    if prefix == "train":
        if "norm" in rest:
            return "Norms"
        if "entropy" in rest or (not rest.endswith("loss") and not rest.startswith("loss")):
            scheduled = rest in ("learning_rate", "clip_range", "n_epochs", "n_updates", "ent_coef")
            return "Schedules" if scheduled else "Policy and value"
        return "Losses"
    if prefix == "time":
        return "System load" if name.startswith(_LOAD) else "Throughput"
    return _BY_PREFIX.get(prefix, prefix.replace("_", " ").capitalize() or "Others")


def _words(key: str) -> str:
    return key.split("/", 1)[-1].replace("_", " ")


def _rank(name: str) -> tuple[int, str]:
    known, figure = list(_titles()), _figure_of(name)[0]
    return (known.index(figure) if figure in known else len(known)), name

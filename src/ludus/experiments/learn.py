"""Learning benchmark: reward against steps and wall-clock time, of Ludus, its torch learners and other libraries.

Every (workload, library, seed) is one process with one `result.json`. Existing results are not repeated, and a trial
that another process works on is skipped: the benchmark can be stopped, resumed, and shared between processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ludus.errors import UserError
from ludus.experiments.libraries import Library
from ludus.experiments.panels import PanelChart, PanelLine
from ludus.experiments.workloads import Workload
from ludus.reports.statistics import Estimate, estimate, interquartile_mean
from ludus.runs import strict_json
from ludus.runs.atomic import write_atomic
from ludus.runs.lock import RunLock
from ludus.types import Array

_GRID = 100


@dataclass(frozen=True)
class LearnTrial:
    """One training run. `curve` has steps, seconds and mean reward of the last 100 episodes during training; `rewards`
    are those of deterministic episodes of the final policy. Seconds exclude compilation and evaluation.
    """

    workload: str
    library: str
    seed: int
    version: str
    threads: int
    steps: int
    seconds: float
    compile_seconds: float
    curve: tuple[tuple[float, float, float], ...]
    rewards: tuple[float, ...]

    @property
    def reward(self) -> float:
        return float(np.mean(self.rewards))


@dataclass(frozen=True)
class Score:
    """A library on a workload over its seeds.

    `ludus_is` says where Ludus's mean is relative to the library's interval: below, within or above.
    """

    workload: str
    library: str
    version: str
    threads: int
    steps: int
    rewards: tuple[float, ...]
    mean: Estimate
    quartiles: tuple[float, float]
    seconds: float
    compile_seconds: float
    ludus_is: str = ""

    def summary(self) -> dict[str, Any]:
        return asdict(self) | {"beside": self.ludus_is}  # the former name, for scripts that read it


def run_trials(
    workloads: Sequence[Workload],
    libraries: Sequence[Library],
    seeds: Sequence[int],
    episodes: int,
    out: Path,
    report: Callable[[str], None] = lambda text: None,
) -> tuple[list[LearnTrial], list[str]]:
    """Return the finished trials, and the names of those that another process works on."""
    done, elsewhere = [], []
    for seed in seeds:  # outermost loop: if stopped half-way, all libraries have the same number of seeds
        for workload in workloads:
            for library in libraries:
                if not library.has(workload):
                    continue
                name = f"{workload.name} {library.name} seed {seed}"
                trial = _run_trial(workload, library, seed, episodes, out, name, report)
                if trial is None:
                    elsewhere.append(name)
                else:
                    done.append(trial)
    return done, elsewhere


def _run_trial(
    workload: Workload,
    library: Library,
    seed: int,
    episodes: int,
    out: Path,
    name: str,
    report: Callable[[str], None],
) -> LearnTrial | None:
    folder = out / workload.name / library.name / f"seed-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "result.json"
    # after a JSON round trip, to compare it with the task of a stored result
    task = json.loads(json.dumps(asdict(workload) | {"seed": seed, "episodes": episodes}))
    with ExitStack() as stack:
        try:
            stack.enter_context(RunLock(folder))
        except UserError:
            report(f"{name}: another process works on it")
            return None
        found = _read(path, task)
        if found is None:
            found = library.run("learn", workload, seed=seed, episodes=episodes)
            write_atomic(path, json.dumps({"task": task, "answer": found}))
        trial = _trial(workload.name, library.name, seed, found)
    report(f"{name}: {trial.reward:.1f} in {trial.seconds:,.0f} s")
    return trial


def _read(path: Path, task: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer stored in `path`, if it belongs to this task."""
    if not path.exists():
        return None
    try:
        kept = strict_json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"cannot read the result: {error}", where=str(path), fix="delete it") from None
    return kept["answer"] if kept.get("task") == task else None


def _trial(workload: str, library: str, seed: int, answer: dict[str, Any]) -> LearnTrial:
    return LearnTrial(
        workload=workload,
        library=library,
        seed=seed,
        version=answer["version"],
        threads=answer["threads"],
        steps=answer["steps"],
        seconds=answer["seconds"],
        compile_seconds=answer["compile_seconds"],
        curve=tuple((step, seconds, reward) for step, seconds, reward in answer["curve"]),
        rewards=tuple(answer["rewards"]),
    )


def score(trials: Iterable[LearnTrial]) -> list[Score]:
    """Return one score per workload and library, in the order of their first trials, Ludus first."""
    by_pair: dict[tuple[str, str], list[LearnTrial]] = {}
    for trial in trials:
        by_pair.setdefault((trial.workload, trial.library), []).append(trial)
    ludus_means = {
        workload: float(interquartile_mean(_rewards(group)))
        for (workload, library), group in by_pair.items()
        if library == "ludus"
    }
    scores = []
    for (workload, library), group in by_pair.items():
        rewards = _rewards(group)
        mean = estimate([rewards])
        low, high = np.quantile(rewards, (0.25, 0.75))
        scores.append(
            Score(
                workload=workload,
                library=library,
                version=group[0].version,
                threads=group[0].threads,
                steps=group[0].steps,
                rewards=tuple(float(reward) for reward in rewards),
                mean=mean,
                quartiles=(float(low), float(high)),
                seconds=float(np.median([trial.seconds for trial in group])),
                compile_seconds=float(np.median([trial.compile_seconds for trial in group])),
                ludus_is=""
                if library == "ludus" or workload not in ludus_means
                else _relation(ludus_means[workload], mean),
            )
        )
    order = list(dict.fromkeys(item.workload for item in scores))
    return sorted(scores, key=lambda item: order.index(item.workload))


def _rewards(group: Sequence[LearnTrial]) -> Array:
    return np.array([trial.reward for trial in group])


def _relation(value: float, interval: Estimate) -> str:
    if value < interval.low:
        return "below"
    return "above" if value > interval.high else "within"


def charts(trials: Iterable[LearnTrial]) -> list[PanelChart]:
    """Return two charts per workload: reward by steps and by seconds, as interquartile mean and quartiles of seeds."""
    groups: dict[str, dict[str, list[LearnTrial]]] = {}
    for trial in trials:
        if trial.curve:
            groups.setdefault(trial.workload, {}).setdefault(trial.library, []).append(trial)
    found = []
    for workload, libraries in groups.items():
        for column, label in ((0, "steps"), (1, "seconds, without compilation")):
            lines = tuple(_line(name, group, column) for name, group in libraries.items())
            found.append(PanelChart(workload, label, "mean reward, last 100 episodes", lines))
    return found


def _line(name: str, group: Sequence[LearnTrial], column: int) -> PanelLine:
    curves = [np.array(trial.curve) for trial in group]
    start = max(curve[0, column] for curve in curves)
    grid = np.linspace(start, max(start, min(curve[-1, column] for curve in curves)), _GRID)
    values = np.stack([np.interp(grid, curve[:, column], curve[:, 2]) for curve in curves])
    low, high = np.quantile(values, (0.25, 0.75), axis=0)
    middle = interquartile_mean(values, axis=0)
    return PanelLine(name, grid.tolist(), middle.tolist(), low.tolist(), high.tolist())

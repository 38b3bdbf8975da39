"""The parts of a comparison, and its directory.

<directory>/
    comparison.json            experiments and seeds
    configs/<experiment>.yaml  the config of each experiment, for `ludus train`
    runs/<experiment>/seed-<n>/  an ordinary run directory per seed
    sessions/, logs/           costs and output of each process
  results.json, results.csv, costs.json, index.html
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ludus.config.loading import config_hash, dump_yaml, load_config
from ludus.config.schema import TrainerConfig
from ludus.errors import UserError
from ludus.experiments.comparison.reading import read_run, summarize
from ludus.experiments.experiment import ExperimentConfig, ExperimentResult, RunResult
from ludus.experiments.processes.job import Job
from ludus.runs import atomic, strict_json

FORMAT = 1
_FILE = "comparison.json"


@dataclass(frozen=True)
class Experiment:
    """One experiment of a comparison: `name` is for display, `key` is the name of its folders."""

    name: str
    key: str
    env: str
    config: TrainerConfig
    seeds: tuple[int, ...]

    @property
    def identity(self) -> str:
        """A hash that is equal for experiments with the same settings, regardless of seeds."""
        return config_hash(self.config.model_copy(update={"seed": 0, "name": None}))


@dataclass(frozen=True)
class Task:
    """One run of a comparison. Its `name` is unique there."""

    experiment: Experiment
    seed: int

    @property
    def name(self) -> str:
        return f"{self.experiment.key} seed {self.seed}"


def plan_experiments(configs: Sequence[ExperimentConfig], env: str | None = None) -> list[Experiment]:
    """Name the experiments: by the config's `name`, otherwise by algorithm and engine; duplicates are numbered.

    The same name on several envs is one method on several tasks. `env` is used for configs without an env. UserError if
    a config has no env, ConfigError if its hyperparameters are invalid.
    """
    several_envs = len({_env_of(config, env) for config in configs}) > 1
    seen: dict[tuple[str, str], int] = {}
    experiments: list[Experiment] = []
    for config in configs:
        algorithm = config.algorithm_entry().name
        name = config.name or (algorithm if config.engine == "native" else f"{config.engine} {algorithm}")
        env_id = _env_of(config, env)
        seen[name, env_id] = seen.get((name, env_id), 0) + 1
        if seen[name, env_id] > 1:
            name = f"{name}-{seen[name, env_id]}"
        config.typed_hyperparams()
        key = _as_folder(f"{name}_{env_id}" if several_envs else name)
        while any(key == other.key for other in experiments):
            key += "-2"
        experiments.append(Experiment(name, key, env_id, config.trainer_config(), tuple(config.seed_list)))
    if not experiments:
        raise UserError("no experiments to compare", fix="add experiments first")
    return experiments


def default_directory(experiments: Sequence[Experiment], root: str = "comparisons") -> Path:
    """Return the default folder of a comparison: equal for the same experiments, regardless of seeds."""
    identities = "".join(sorted(f"{one.name} {one.identity}" for one in experiments))
    digest = hashlib.sha256(identities.encode()).hexdigest()[:8]
    envs = "+".join(dict.fromkeys(one.env for one in experiments))
    return Path(root) / _as_folder(f"{envs}_{digest}")


class Comparison:
    """A comparison on disk: its experiments, their runs and its folders.

    `env` makes the env of every run, if the configs do not name one.
    """

    def __init__(
        self, path: Path, experiments: Sequence[Experiment], env: Callable[[], Any] | None = None
    ) -> None:
        self.path = path
        self.experiments = list(experiments)
        self._env = env

    @classmethod
    def open(cls, path: Path | str, env: Callable[[], Any] | None = None) -> Comparison:
        """Open the comparison in `path`. UserError if it is not found or its file is damaged."""
        path = Path(path)
        try:
            plan = strict_json.loads((path / _FILE).read_text("utf-8"))
            experiments = [_read(path, entry) for entry in plan["experiments"]]
        except FileNotFoundError:
            raise UserError(
                f"no comparison found in '{path}'", where=str(path / _FILE), fix="check the path"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{_FILE} is damaged: {error}", where=str(path / _FILE)) from error
        if plan.get("env_function") and env is None:
            raise UserError(
                "this comparison was created in Python, with an env function that cannot be stored in a file",
                where=str(path),
                fix="run its script again with the same directory",
            )
        return cls(path, experiments, env)

    def save(self) -> None:
        """Write the plan. UserError if the directory contains another experiment with one of the names."""
        old = (
            {one.key: one for one in Comparison.open(self.path, self._env or _nothing).experiments}
            if (self.path / _FILE).exists()
            else {}
        )
        for one in self.experiments:
            if one.key in old and old[one.key].identity != one.identity:
                raise UserError(
                    f"the directory contains another experiment called '{one.name}', with other settings",
                    where=str(self.path),
                    fix="use another directory (--out), or another name",
                )
        (self.path / "configs").mkdir(parents=True, exist_ok=True)
        for one in self.experiments:
            atomic.write_atomic(self._config_of(one), dump_yaml(one.config))
        plan = {
            "format": FORMAT,
            "env_function": self._env is not None,
            "experiments": [
                {"name": one.name, "key": one.key, "env": one.env, "seeds": list(one.seeds)}
                for one in self.experiments
            ],
        }
        atomic.write_atomic(self.path / _FILE, strict_json.dumps(plan, indent=2) + "\n")

    def tasks(self) -> list[Task]:
        """Return every run: all experiments with their first seed, then with their second, …"""
        most = max(len(one.seeds) for one in self.experiments)
        return [
            Task(one, one.seeds[index])
            for index in range(most)
            for one in self.experiments
            if index < len(one.seeds)
        ]

    def run_path(self, task: Task) -> Path:
        return self.path / "runs" / task.experiment.key / f"seed-{task.seed}"

    def result_of(self, task: Task) -> RunResult:
        return read_run(self.run_path(task), task.seed, self._sessions(task))

    def results(self) -> list[ExperimentResult]:
        """Return the results of the experiments so far."""
        return [
            summarize(
                one.name,
                one.config.algorithm_entry().name,
                one.env,
                one.config,
                [self.result_of(Task(one, seed)) for seed in one.seeds],
            )
            for one in self.experiments
        ]

    def job(self, task: Task, threads: int) -> Job:
        """Return the job that trains `task`, in a new session."""
        stem = f"{task.experiment.key}_seed-{task.seed}"
        for folder in ("sessions", "logs"):
            (self.path / folder).mkdir(exist_ok=True)
        settings: dict[str, Any] = {"seed": task.seed, "run_dir": str(self.run_path(task))}
        if task.experiment.config.threads == "auto":
            settings["threads"] = threads
        return Job(
            name=task.name,
            config=self._config_of(task.experiment),
            settings=settings,
            run=self.run_path(task),
            session=self.path / "sessions" / f"{stem}_{len(self._sessions(task)) + 1:03d}.json",
            log=self.path / "logs" / f"{stem}.log",
            env=self._env,
        )

    def _config_of(self, experiment: Experiment) -> Path:
        return self.path / "configs" / f"{experiment.key}.yaml"

    def _sessions(self, task: Task) -> list[Path]:
        folder = self.path / "sessions"
        return sorted(folder.glob(f"{task.experiment.key}_seed-{task.seed}_[0-9]*.json"))


def _read(path: Path, entry: dict[str, Any]) -> Experiment:
    config = load_config(path / "configs" / f"{entry['key']}.yaml").config
    return Experiment(entry["name"], entry["key"], entry["env"], config, tuple(entry["seeds"]))


def _env_of(config: TrainerConfig, env: str | None) -> str:
    if config.env is not None:
        return config.env.id
    if env is None:
        raise UserError(
            f"no env is given for {config.name or config.algorithm}",
            fix="add --env CartPole-v1 (`ludus envs` lists them), or set env in the config",
        )
    return env


def _nothing() -> None:
    raise AssertionError("only the plan is read; no env is created")


def _as_folder(text: str) -> str:
    return re.sub(r"[^\w.+-]", "-", text).lstrip(".")[:120] or "unnamed"

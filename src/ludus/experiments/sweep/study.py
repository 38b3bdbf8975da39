"""A sweep on disk, which several processes may work on at once: its trials and their results.

<directory>/
    config.yaml, space.yaml    the config and the search space
    study.journal              Optuna's log of the trials, the source of truth
    trials/<number>/run/       an ordinary run directory per trial
    sessions/, logs/           costs and output of each process
  best.yaml, trials.csv, index.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel

from ludus.config.loading import config_hash, dump_yaml, load_config, read_yaml
from ludus.config.plain_yaml import write_yaml
from ludus.config.schema import TrainerConfig
from ludus.config.search_space import Choice, Dimension, SearchSpace, parse_space
from ludus.errors import ConfigError, MissingExtra, UnknownName, UserError
from ludus.experiments.processes.job import Job
from ludus.posix import lock_file
from ludus.runs import atomic
from ludus.runs.lock import RunLock, is_locked

if TYPE_CHECKING:
    import optuna

_MISFITS_IN_A_ROW = 50
_OUT_OF_TRIES = "no setting of the search space fits the config: {}"


def require_optuna() -> Any:
    """Import Optuna with quiet logging. MissingExtra if it is not installed."""
    try:
        import optuna
    except ImportError:
        raise MissingExtra("ludus sweep", "sweep") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def choose_space(config: TrainerConfig, file: Path | None = None) -> tuple[dict[str, Any], str]:
    """Return the search space and its source: `file`, the config's `sweep`, or the default of its algorithm."""
    if file is not None:
        if not file.is_file():
            raise UserError(f"file not found: '{file}'", where="command line: --space", fix="check the path")
        data, _ = read_yaml(file)
        return (data["sweep"] if isinstance(data.get("sweep"), dict) else data), str(file)
    if config.sweep is not None:
        return config.sweep, "sweep"
    model = config.algorithm_entry().hyperparameters
    built_in = {} if model is None else dict(model.search_space)
    if not built_in:
        raise ConfigError(
            f"{config.algorithm} has no default search space",
            key="sweep",
            fix="add one to the config, for example sweep: {hyperparams.learning_rate: {log: [1e-5, 1e-2]}}",
        )
    return {
        f"hyperparams.{name}": value for name, value in built_in.items()
    }, f"built into {config.algorithm}"


@dataclass(frozen=True)
class SweepTrial:
    """A trial that this process works on; it holds `lock`. `settings` are the config keys that it tries.

    `reported` are its evaluations that another process has already reported.
    """

    number: int
    settings: Mapping[str, Any]
    reported: Mapping[int, float]
    handle: optuna.trial.Trial
    lock: RunLock


class Sweep:
    """The sweep in `path`. `create` starts or joins it."""

    def __init__(self, path: Path, config: TrainerConfig, space: SearchSpace, pruning: bool = True) -> None:
        library = require_optuna()
        from ludus.experiments.sweep.journal import open_journal

        self.path = path
        self.config = config
        self.space = space
        with _locked(path):
            self.study: optuna.Study = library.create_study(
                storage=open_journal(path / "study.journal"),
                study_name="sweep",
                direction="maximize",
                load_if_exists=True,
                pruner=library.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=2)
                if pruning
                else library.pruners.NopPruner(),
            )
            # every process has its own seed, otherwise two would try the same settings
            worker = int(self.study.user_attrs.get("workers", 0))
            self.study.set_user_attr("workers", worker + 1)
        self.study.sampler = library.samplers.TPESampler(seed=config.seed + 1000 * worker)

    @classmethod
    def create(
        cls, path: Path, config: TrainerConfig, written: Mapping[str, Any], pruning: bool = True
    ) -> Sweep:
        """Start the sweep of `config` over the space `written` in `path`, or join an existing one.

        UserError if the existing one has other settings, ConfigError if the space does not fit the config.
        """
        space = parse_space(written)
        _check_keys(config, space)
        path.mkdir(parents=True, exist_ok=True)
        config = config.model_copy(update={"sweep": None})
        with _locked(path):
            _begin_or_join(path, config, written)
        return cls(path, config, space, pruning)

    # Trials

    def trials(self, *states: str) -> list[optuna.trial.FrozenTrial]:
        """Return the valid trials in these states (COMPLETE, PRUNED, FAIL, RUNNING; default: all)."""
        found = [trial for trial in self.study.get_trials(deepcopy=False) if "misfit" not in trial.user_attrs]
        return [trial for trial in found if not states or trial.state.name in states]

    def next_trial(self, total: int) -> SweepTrial | None:
        """Return a trial to work on: an unfinished one of a dead process, otherwise a new one; None after `total`."""
        with _locked(self.path):
            for frozen in self.trials("RUNNING"):
                trial = self._adopt(frozen.number)
                if trial is not None:
                    return trial
            return self._ask() if len(self.trials()) < total else None

    def finish(self, trial: SweepTrial, value: float | None, state: str, error: str | None = None) -> None:
        """Record how a trial ended: COMPLETE with its value, PRUNED, or FAIL with the error."""
        from optuna.trial import TrialState

        if error is not None:
            trial.handle.set_user_attr("error", error)
        self.study.tell(trial.number, value if state == "COMPLETE" else None, TrialState[state])
        trial.lock.__exit__(None, None, None)
        if state == "COMPLETE":
            with _locked(self.path):
                self.write_best()

    def release(self, trial: SweepTrial) -> None:
        """Release an unfinished trial, so that another process can resume it."""
        trial.lock.__exit__(None, None, None)

    def job(self, trial: SweepTrial, threads: int) -> Job:
        for folder in ("sessions", "logs"):
            (self.path / folder).mkdir(exist_ok=True)
        run = self.path / "trials" / f"{trial.number:04d}" / "run"
        sessions = len(list((self.path / "sessions").glob(f"{trial.number:04d}_*.json")))
        settings: dict[str, Any] = {**trial.settings, "run_dir": str(run)}
        if self.config.threads == "auto":
            settings["threads"] = threads
        return Job(
            name=f"trial {trial.number}",
            config=self.path / "config.yaml",
            settings=settings,
            run=run,
            session=self.path / "sessions" / f"{trial.number:04d}_{sessions + 1:03d}.json",
            log=self.path / "logs" / f"{trial.number:04d}.log",
        )

    # Results

    def best(self) -> optuna.trial.FrozenTrial | None:
        done = self.trials("COMPLETE")
        return max(done, key=lambda trial: trial.value or 0.0, default=None)

    def settings_of(self, frozen: optuna.trial.FrozenTrial) -> dict[str, Any]:
        """Return the config keys that a trial tried."""
        return {
            key: _value(self.space[key], frozen.params[key]) for key in self.space if key in frozen.params
        }

    def write_best(self) -> Path | None:
        """Write the best config so far as YAML for `ludus train`; return None if no trial has ended."""
        best = self.best()
        if best is None:
            return None
        config = load_config(self.path / "config.yaml", flags=self.settings_of(best)).config
        target = self.path / "best.yaml"
        atomic.write_atomic(target, dump_yaml(config))
        return target

    # Internals

    def _ask(self) -> SweepTrial:
        """Create a new trial with valid settings; invalid ones are marked as misfits and not trained."""
        problem: ConfigError | None = None
        for _ in range(_MISFITS_IN_A_ROW):
            handle = self.study.ask()
            settings = {
                key: _value(dimension, _suggest(handle, key, dimension))
                for key, dimension in self.space.items()
            }
            problem = self._misfit(settings)
            if problem is None:
                lock = RunLock(self._folder(handle.number))
                return SweepTrial(handle.number, settings, {}, handle, lock.__enter__())
            self._discard(handle, problem.what)
        assert problem is not None
        raise ConfigError(_OUT_OF_TRIES.format(problem.what), key=problem.key, where="sweep", fix=problem.fix)

    def _adopt(self, number: int) -> SweepTrial | None:
        """Return the trial, if the process that worked on it is dead and it is not finished."""
        from optuna.trial import Trial as Handle

        folder = self._folder(number)
        if is_locked(folder):
            return None  # another process works on it; this check is faster than requesting the lock
        try:
            lock = RunLock(folder).__enter__()
        except UserError:
            return None
        # read it again under the lock: its process may have finished it just before releasing the lock
        frozen = next((one for one in self.trials("RUNNING") if one.number == number), None)
        if frozen is not None:
            handle, settings = Handle(self.study, frozen._trial_id), self.settings_of(frozen)
            drawn = settings.keys() == self.space.keys()
            problem = self._misfit(settings) if drawn else None
            if drawn and problem is None:
                return SweepTrial(number, settings, frozen.intermediate_values, handle, lock)
            self._discard(handle, "never all drawn" if problem is None else problem.what)
        lock.__exit__(None, None, None)
        return None

    def _misfit(self, settings: Mapping[str, Any]) -> ConfigError | None:
        """Return the error if these settings do not make a valid config, otherwise None."""
        try:
            load_config(self.path / "config.yaml", flags=settings)
        except ConfigError as error:
            return error
        return None

    def _discard(self, handle: optuna.trial.Trial, why: str) -> None:
        """Mark settings as invalid; the trial is not counted."""
        from optuna.trial import TrialState

        handle.set_user_attr("misfit", why)
        self.study.tell(handle.number, state=TrialState.FAIL)

    def _folder(self, number: int) -> Path:
        folder = self.path / "trials" / f"{number:04d}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of the sweep, for example between counting the trials and creating one."""
    with (path / "sweep.lock").open("a") as file:
        lock_file(file)
        yield


def _begin_or_join(path: Path, config: TrainerConfig, written: Mapping[str, Any]) -> None:
    config_file, space_file = path / "config.yaml", path / "space.yaml"
    if space_file.exists():
        other = load_config(config_file).config
        if config_hash(other) != config_hash(config) or read_yaml(space_file)[0] != dict(written):
            raise UserError(
                "the directory contains another sweep, with other settings",
                where=str(path),
                fix="use another directory: --out",
            )
    else:
        atomic.write_atomic(config_file, dump_yaml(config))
        atomic.write_atomic(space_file, write_yaml(dict(written)))


def _check_keys(config: TrainerConfig, space: SearchSpace) -> None:
    """Raise UnknownName for a key of the space that no config has."""
    model = config.algorithm_entry().hyperparameters
    hyperparams = set() if model is None else {f"hyperparams.{name}" for name in model.model_fields}
    for key in space:
        of_algorithm = key.startswith("hyperparams.")
        known = key in hyperparams or model is None if of_algorithm else _has(TrainerConfig, key)
        if not known:
            sections = [name for name in TrainerConfig.model_fields if name != "hyperparams"]
            raise UnknownName("config key", key, [*hyperparams, *sections], where=f"sweep: {key}")


def _has(model: type[BaseModel], key: str) -> bool:
    first, _, rest = key.partition(".")
    if first not in model.model_fields:
        return False
    annotation = model.model_fields[first].annotation
    parts = [part for part in (annotation, *get_args(annotation)) if isinstance(part, type)]
    section = next((part for part in parts if issubclass(part, BaseModel)), None)
    return not rest or section is None or _has(section, rest)


def _suggest(handle: optuna.trial.Trial, key: str, dimension: Dimension) -> Any:
    if isinstance(dimension, Choice):
        return handle.suggest_categorical(key, dimension.labels)
    if dimension.whole:
        return handle.suggest_int(key, int(dimension.low), int(dimension.high), log=dimension.log)
    return handle.suggest_float(key, dimension.low, dimension.high, log=dimension.log)


def _value(dimension: Dimension, found: Any) -> Any:
    return dimension.value_of(found) if isinstance(dimension, Choice) else found

"""Registry of algorithms and engines. An algorithm is added by registration, without editing a factory.

Ludus's own algorithms are listed here and imported one by one; those of a plugin's engine register when the module is
imported that `Plugin.algorithms` names. Third parties call `register_algorithm`, or name an object in the entry-point
group `ludus.algorithms`, which is imported on first use.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from ludus.errors import NONE, ConfigError, MissingExtra, UnknownName, require_types
from ludus.plugins import load, naming, references

if TYPE_CHECKING:
    from ludus.config.hyperparameters import LearningHyperparameters
    from ludus.config.schema import TrainerConfig

ENTRY_POINT_GROUP = "ludus.algorithms"
NATIVE = "native"
_NATIVE_ALGORITHMS = {
    "A2C": "ludus.algorithms.a2c:ALGORITHM",
    "DQN": "ludus.algorithms.dqn:ALGORITHM",
    "PPO": "ludus.algorithms.ppo:ALGORITHM",
    "SAC": "ludus.algorithms.sac:ALGORITHM",
}
LANGUAGE = "language"
"""In the place of an engine: algorithms for language models, which a config with a `language` section takes."""


@dataclass(frozen=True)
class Algorithm:
    """One algorithm in the registry.

    `hyperparameters` is its typed model (None: anything is accepted). `trainer` builds a whole trainer from
    (env, config); None means the native trainer, which then asks `learner` for the learner class.
    `check` raises ConfigError if config and hyperparameters do not fit together. `context` builds the learner's context
    from (config, device, streams, peers) in a process that only has the config; None: a `LearnerContext`.
    """

    name: str
    hyperparameters: type[LearningHyperparameters] | None = None
    trainer: Callable[..., Any] | None = None
    learner: Callable[..., Any] | None = None
    check: Callable[[TrainerConfig, Any], None] | None = None
    context: Callable[..., Any] | None = None


_by_engine: dict[str, dict[str, Algorithm]] = defaultdict(dict)


def register_algorithm(
    name: str,
    algorithm: Algorithm | Callable[..., Any],
    hyperparameters: type[LearningHyperparameters] | None = None,
    *,
    engine: str = "native",
) -> None:
    """Make `name` usable as `algorithm:` in a config with this `engine:`, or with a `language:` section.

    `algorithm` is a trainer class taking `(env, config)`, or an `Algorithm` for full control. Registering the
    same name again replaces it, so that a notebook cell can be run twice.
    """
    require_types(
        "register_algorithm",
        name=(name, (str,)),
        algorithm=(algorithm, (Algorithm, Callable)),  # type: ignore[arg-type]
        hyperparameters=(hyperparameters, (type, NONE)),
        engine=(engine, (str,)),
    )
    if not isinstance(algorithm, Algorithm):
        algorithm = Algorithm(name, hyperparameters=hyperparameters, trainer=algorithm)
    _by_engine[engine][name.upper()] = algorithm


def engine_names() -> tuple[str, ...]:
    """Return the names that `engine:` takes."""
    return (NATIVE, *(name for name in references("engines") if name != LANGUAGE))


def find_algorithm(name: str, engine: str = "native") -> Algorithm:
    """The algorithm registered as `name` (any case) for `engine`; UnknownName suggests the nearest.

    ConfigError when another engine has it, UserError when it comes from a package that cannot be imported,
    MissingExtra for an engine that is not installed.
    """
    require_types("algorithm", name=(name, (str,)), engine=(engine, (str,)))
    if engine not in (NATIVE, LANGUAGE, *engine_names()) and engine not in _by_engine:
        engines = engine_names()
        raise UnknownName("engine", engine, engines, where="engine", fix=f"known: {', '.join(engines)}")
    key = name.upper()
    registered = _by_engine[engine]
    if engine != NATIVE:
        _import_engine(engine)
    elif key not in registered and key in _NATIVE_ALGORITHMS:
        registered[key] = load(_NATIVE_ALGORITHMS[key])
    elif key not in registered and key in _plugins():
        _load(_plugins()[key])
    try:
        return registered[key]
    except KeyError:
        known = algorithm_names(engine)
        other = engine_with(name, besides=engine)
        if other is not None:
            raise _belongs_elsewhere(name, engine, other, known) from None
        raise UnknownName(
            "algorithm", name, known, where="algorithm", fix=f"known: {', '.join(known)}"
        ) from None


def algorithm_names(engine: str = "native") -> list[str]:
    """Return the names that `algorithm:` accepts with this `engine:`."""
    names: dict[str, str] = {}
    if engine == NATIVE:
        names = {key: key for key in _NATIVE_ALGORITHMS} | {key: p.name for key, p in _plugins().items()}
    else:
        _import_engine(engine)
    return sorted((names | {key: found.name for key, found in _by_engine[engine].items()}).values())


def _belongs_elsewhere(name: str, engine: str, other: str, known: list[str]) -> ConfigError:
    """The error of an algorithm that is known, but not to `engine`."""
    if other == LANGUAGE:
        what = f"{name} trains language models, and this config has no language section"
        fix = (
            "add language: and games: (see docs/explanation/language-learning.md), or take another algorithm"
        )
    elif engine == LANGUAGE:
        what = f"{name} does not train language models"
        fix = f"with a language section: {', '.join(known)}"
    else:
        what = f"{name} is an algorithm of engine: {other}, not of engine: {engine}"
        fix = f"set engine: {other}, or type engine={other}"
    return ConfigError(what, key="algorithm", fix=fix)


def engine_with(name: str, besides: str = "") -> str | None:
    """The first engine (or `language`) but `besides` that is installed and has an algorithm of this name."""
    for engine in (NATIVE, *references("algorithms")):
        with suppress(MissingExtra):
            if engine != besides and name.upper() in map(str.upper, algorithm_names(engine)):
                return engine
    return None


@cache
def _import_engine(engine: str) -> None:
    """Import the module that registers the algorithms of a plugin's engine."""
    registered = _by_engine[engine]
    earlier = dict(registered)
    load(references("algorithms")[engine])
    registered.update(earlier)  # a user who registered one of these names meant to replace it


@cache
def _plugins() -> dict[str, EntryPoint]:
    return {entry.name.upper(): entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


def _load(plugin: EntryPoint) -> None:
    with naming(f"the plugin algorithm '{plugin.name}'", f"entry point {plugin.value}"):
        register_algorithm(plugin.name, plugin.load())

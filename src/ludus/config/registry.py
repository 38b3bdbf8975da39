"""Which algorithms and engines exist. Algorithms enter by registration; nobody edits a factory.

Ludus's own algorithms register when `ludus.algorithms` is imported. Third parties call `register_algorithm`,
or name an object in the entry-point group `ludus.algorithms`, which is imported when somebody asks for it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from ludus.errors import UnknownName, UserError

if TYPE_CHECKING:
    from ludus.config.hyperparameters import Hyperparameters
    from ludus.config.schema import TrainerConfig

ENTRY_POINT_GROUP = "ludus.algorithms"
ENGINES = ("native",)
_PROVIDER = "ludus.algorithms"


@dataclass(frozen=True)
class Algorithm:
    """One algorithm, as the rest of Ludus knows it.

    `hyperparameters` is its typed model (None: anything is accepted). `trainer` builds a whole trainer from
    (env, config); None means the native trainer, which then asks `learner` for the learner class.
    `check` raises ConfigError when config and hyperparameters do not fit together.
    """

    name: str
    hyperparameters: type[Hyperparameters] | None = None
    trainer: Callable[..., Any] | None = None
    learner: Callable[..., Any] | None = None
    check: Callable[[TrainerConfig, Any], None] | None = None


_algorithms: dict[str, Algorithm] = {}


def register_algorithm(
    name: str, algorithm: Algorithm | Callable[..., Any], hyperparameters: type[Hyperparameters] | None = None
) -> None:
    """Make `name` usable as `algorithm:` in a config.

    `algorithm` is a trainer class taking `(env, config)`, or an `Algorithm` for full control. Registering the
    same name again replaces it, so that a notebook cell can be run twice.
    """
    if not isinstance(algorithm, Algorithm):
        algorithm = Algorithm(name, hyperparameters=hyperparameters, trainer=algorithm)
    _algorithms[name.upper()] = algorithm


def find_algorithm(name: str) -> Algorithm:
    """The algorithm registered as `name` (any case); UnknownName suggests the nearest.

    UserError when it comes from a package that cannot be imported.
    """
    _import_own()
    plugin = _plugins().get(name.upper())
    if plugin is not None and name.upper() not in _algorithms:
        _load(plugin)
    try:
        return _algorithms[name.upper()]
    except KeyError:
        known = algorithm_names()
        raise UnknownName(
            "algorithm", name, known, where="algorithm", fix=f"known: {', '.join(known)}"
        ) from None


def algorithm_names() -> list[str]:
    """The names that can stand in `algorithm:`."""
    _import_own()
    waiting = [plugin.name for key, plugin in _plugins().items() if key not in _algorithms]
    return sorted([*waiting, *(algorithm.name for algorithm in _algorithms.values())])


@cache
def _import_own() -> None:
    earlier = dict(_algorithms)
    importlib.import_module(_PROVIDER)
    _algorithms.update(earlier)  # whoever registered under a name of ours meant to replace it


@cache
def _plugins() -> dict[str, EntryPoint]:
    return {entry.name.upper(): entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


def _load(plugin: EntryPoint) -> None:
    try:
        register_algorithm(plugin.name, plugin.load())
    except Exception as error:  # a broken plugin is its author's fault and must be named, whatever it raised
        raise UserError(
            f"the plugin algorithm '{plugin.name}' could not be loaded: {type(error).__name__}: {error}",
            where=f"entry point {plugin.value}",
            fix="repair or uninstall the package that provides it",
        ) from error

"""Plugins: what a game, an engine or a model family adds to Ludus.

A plugin is one `Plugin`, called `PLUGIN`, in the file `plugin.py` of a package. The bundled ones are found by scanning
`ludus/*/plugin.py` and `ludus/games/*/plugin.py`; third parties name theirs in the entry-point group `ludus.plugins`.

Everything that is code is a lazy reference, `"module:object"`, imported when it is first used. Reading all plugins
therefore costs a few milliseconds, and `ludus --help` stays fast. docs/tutorials/write-a-plugin.md has an example.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ludus.errors import UserError

ENTRY_POINT_GROUP = "ludus.plugins"

References = Mapping[str, str]
"""Names and what each stands for, as `"module:object"`."""


@dataclass(frozen=True)
class EnvEntry:
    """One Gymnasium registration. `vector_entry_point` builds N envs at once: `make(num_envs=N, **kwargs)`."""

    id: str
    entry_point: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    vector_entry_point: str | None = None


@dataclass(frozen=True)
class CommandEntry:
    """One command, or a group of them: a function or a `typer.Typer`, and its line in the help.

    epilog: its examples, as a reference to a string.
    members: the commands of a group that has no target.
    panel: heading that it is listed under; hidden commands work and are not listed.
    consents: it may use what a run names, so its help shows `--allow`.
    """

    target: str
    help: str
    epilog: str | None = None
    members: Mapping[str, CommandEntry] = field(default_factory=dict)
    panel: str = "Commands"
    hidden: bool = False
    consents: bool = False


@dataclass(frozen=True)
class Plugin:
    """Everything that one plugin provides. Every field is optional.

    name: shown in errors, and the heading of its envs in `ludus envs` unless `env_group` says another.
    package, extra: the package that it needs, and the extra of Ludus that installs it. `own_environment`: that package
    does not fit those of other extras.

    envs: Gymnasium registrations.
    env_support: env id pattern -> an `EnvSupport` (envs/support.py): envs that need more than `gymnasium.make`.
    vector_envs: functions from an object given to `create_trainer` to a `gymnasium.vector.VectorEnv`, None for others.
    signals: env id pattern -> function of no arguments that returns (signals, action names), see envs/signals.py.
    episode_reports: `kind` of an episode report -> class that summarises such reports (envs/episode_reports.py).
    replay_recorders: env id pattern -> function (LoadedPolicy, EnvSpec, seeds, folder=, deterministic=, max_steps=)
        that evaluates as `evaluate` does, saves a replay of each episode in the folder, returns an EvaluationResult.
    report_sections: functions from a RunDirectory to a section of the report page, "" where it has nothing to say.
    metric_titles: metric name -> title of its chart.
    human_play: env id -> function (seeds, output) for a person at the terminal; returns an EpisodeRecord each.

    extractors: name -> feature extractor class.
    choose_extractor: function from an observation space to the name of an extractor, None where it has none for it.

    bots: name -> function (observation_space, action_space) that returns an actor for an env.
    bot_envs: name -> function of no arguments that returns the EnvSpec such a bot plays by default.
    seat_games: functions (GameConfig) that return a game with seats (envs/seats.py), or None.
    codecs: functions (game id, kwargs) that return a codec between a game with seats and a network, or None.
    players: name -> function (GameSpec, random generator) that returns a bot for that game, None where it has none.
        Several plugins may have bots of one name, for their own games.
    player_schemes: prefix such as "openai:" -> function (PlayerRequest) that returns a Player (league/players.py).
    run_players: engine -> function (PlayerRequest, TrainerConfig, Checkpoint) that returns the Player of a run.

    engines: name of `engine:` -> trainer class. "language" is the engine of configs with a `language:` section.
    algorithms: engine -> module that registers its algorithms when it is imported.
    config_importers: modules with recognise(document) and translate(document, choice), asked in this order.
    exports: target of `ludus export --to` -> module with FILENAME and export(policy, path).
    model_importers: file suffix -> function that turns a foreign model into a run, for `ludus import`.

    commands: command -> CommandEntry. One that has the plugin's name is `ludus NAME`; without such a one they are
        listed below `ludus NAME`, with `summary` as its line in the help. `ludus COMMAND` works too.
    bench: the same below `ludus bench`.
    env_listing: function (output, filter) that prints more of `ludus envs` and returns its rows.
    extras: extra -> (module that shows its presence, what it gives), for `ludus doctor`.
    presets, agents: folders of YAML files and of runs, next to `plugin.py`.
    """

    name: str
    package: str | None = None
    extra: str | None = None
    own_environment: bool = False
    env_group: str | None = None
    envs: tuple[EnvEntry, ...] = ()
    env_support: References = field(default_factory=dict)
    vector_envs: tuple[str, ...] = ()
    signals: References = field(default_factory=dict)
    episode_reports: References = field(default_factory=dict)
    replay_recorders: References = field(default_factory=dict)
    report_sections: tuple[str, ...] = ()
    metric_titles: Mapping[str, str] = field(default_factory=dict)
    human_play: References = field(default_factory=dict)
    extractors: References = field(default_factory=dict)
    choose_extractor: str | None = None
    bots: References = field(default_factory=dict)
    bot_envs: References = field(default_factory=dict)
    seat_games: tuple[str, ...] = ()
    codecs: tuple[str, ...] = ()
    players: References = field(default_factory=dict)
    player_schemes: References = field(default_factory=dict)
    run_players: References = field(default_factory=dict)
    engines: References = field(default_factory=dict)
    algorithms: References = field(default_factory=dict)
    config_importers: tuple[str, ...] = ()
    exports: References = field(default_factory=dict)
    model_importers: References = field(default_factory=dict)
    commands: Mapping[str, CommandEntry] = field(default_factory=dict)
    summary: str = ""
    bench: Mapping[str, CommandEntry] = field(default_factory=dict)
    env_listing: str | None = None
    extras: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    presets: Path | None = None
    agents: Path | None = None


@cache
def plugins() -> tuple[Plugin, ...]:
    """Return every plugin: bundled ones by name, then those of other packages. Raises UserError for a broken one."""
    found = [
        _checked(partial(load, f"{name}.plugin:PLUGIN"), name, f"{name}.plugin")
        for name in _bundled_packages()
    ]
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        found.append(_checked(entry.load, entry.name, f"entry point {entry.value}"))
    return tuple(found)


def _checked(make: Callable[[], Any], name: str, where: str) -> Plugin:
    with naming(f"the plugin '{name}'", where):
        plugin = make()
    if not isinstance(plugin, Plugin):
        raise UserError(
            f"the plugin '{name}' is a {type(plugin).__name__}, expected a ludus.plugins.Plugin", where=where
        )
    return plugin


@contextmanager
def naming(what: str, where: str) -> Iterator[None]:
    """Raise UserError that names a third party's part when loading it fails."""
    try:
        yield
    except Exception as error:  # its module may raise anything
        raise UserError(
            f"{what} could not be loaded: {type(error).__name__}: {error}",
            where=where,
            fix="repair or uninstall the package that provides it",
        ) from error


def load(reference: str) -> Any:
    """Import the object that `"module:object"` names, or the module where there is no colon.

    UserError when the module has no such object.
    """
    module, _, name = reference.partition(":")
    loaded: Any = importlib.import_module(module)
    if name and not hasattr(loaded, name):
        raise UserError(
            f"the module '{module}' has no '{name}'",
            where=f"plugin reference '{reference}'",
            fix="correct it in plugin.py",
        )
    return getattr(loaded, name) if name else loaded


def references(name: str) -> dict[str, str]:
    """Return one field that maps names to references, of all plugins together; the first plugin wins."""
    return _merged(name)


def find(name: str, key: str) -> Any | None:
    """Load what the field `name` has under `key`; None where no plugin has it."""
    reference = references(name).get(key)
    return None if reference is None else load(reference)


def find_all(name: str, key: str) -> Iterator[Any]:
    """Load what the field `name` has under `key`, of every plugin that has it, in order."""
    for plugin in plugins():
        reference = getattr(plugin, name).get(key)
        if reference is not None:
            yield load(reference)


def match_env(name: str, env_id: str) -> Any | None:
    """Load what the field `name` has under the first pattern that fits `env_id`; None where nothing fits."""
    plain = env_id.rpartition(":")[2]
    for pattern, reference in references(name).items():
        if fnmatchcase(plain, pattern):
            return load(reference)
    return None


def listed(name: str) -> Iterator[Any]:
    """Load every reference in the field `name`, which is a tuple or one reference, of all plugins in order."""
    for plugin in plugins():
        value = getattr(plugin, name)
        for reference in (value,) if isinstance(value, str) else value or ():
            yield load(reference)


def commands(name: str = "commands") -> dict[str, CommandEntry]:
    """Return the commands of all plugins: `commands`, or `bench` for those below `ludus bench`."""
    return _merged(name)


def folders(name: str) -> list[Path]:
    """Return the folders of presets, or of agents, that plugins bring."""
    return [folder for plugin in plugins() if (folder := getattr(plugin, name)) is not None]


def _merged(name: str) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for plugin in plugins():
        for key, value in getattr(plugin, name).items():
            merged.setdefault(key, value)
    return merged


def _bundled_packages() -> list[str]:
    root = Path(__file__).parent
    return sorted(
        f"{prefix}.{module.name}"
        for folder, prefix in ((root, "ludus"), (root / "games", "ludus.games"))
        for module in pkgutil.iter_modules([str(folder)])
        if module.ispkg and (folder / module.name / "plugin.py").is_file()
    )

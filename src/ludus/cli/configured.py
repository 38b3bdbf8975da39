"""The policy that a config means, where a command is given a config instead of a run."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ludus.errors import UnknownName, UserError

if TYPE_CHECKING:
    from ludus.config.importers import PlaySection
    from ludus.config.loading import LoadedConfig
    from ludus.runs.directory import RunDirectory

# What the document's own example says where a name belongs: <experiment>_<date>.
_PLACEHOLDER = "experiment_date"
_MODELS = {
    "model": "latest",
    "last_model": "latest",
    "latest": "latest",
    "best": "best",
    "best_model": "best",
}


@dataclass(frozen=True)
class ResolvedPolicy:
    """A policy by its name, and the folder that is searched for its run."""

    policy: str
    root: str


def resolve_policy(policy: str, root: str, env: str | None) -> ResolvedPolicy:
    """`policy` itself, unless it is a config file: then its run, what its play section names, or its newest run.

    Raises UserError when there is no such run.
    """
    from ludus.config.importers import SUFFIXES
    from ludus.config.own_modules import is_run

    path = Path(policy)
    if path.suffix.lower() not in SUFFIXES or not path.is_file():
        return ResolvedPolicy(policy, root)
    if path.name == "config.yaml" and is_run(path.parent):
        return ResolvedPolicy(str(path.parent), root)
    from ludus.cli.foreign import without_missing_wandb
    from ludus.config.loading import config_hash, load_config
    from ludus.runs.directory import find_config_runs

    loaded = without_missing_wandb(load_config(path, flags={} if env is None else {"env.id": env}))
    root = loaded.config.save_dir if root == "runs" else root
    play = None if loaded.imported is None else loaded.imported.play
    if play is not None:
        return ResolvedPolicy(f"{_named_run(play, loaded, root).path}@{_checkpoint(play)}", root)
    run = find_config_runs(loaded.config.run_dir or root, config_hash(loaded.config))
    if run is None:
        raise UserError(
            "there is no run of this config yet",
            where=root,
            fix=f"train one: ludus train {shlex.quote(policy)}",
        )
    return ResolvedPolicy(str(run.path), root)


def _named_run(play: PlaySection, loaded: LoadedConfig, root: str) -> RunDirectory:
    from ludus.runs.directory import find_run, list_runs

    if play.experiment == _PLACEHOLDER:
        own = [run for run in list_runs(root) if run.info().get("name") == loaded.config.name]
        if own:
            return own[0]
        raise UserError(
            f"there is no run of '{loaded.config.name}' yet, and play.experiment names no other",
            where=play.place,
            fix="train it first, or name a run: its folder, or latest",
        )
    try:
        return find_run(play.experiment, root)
    except UnknownName as error:
        error.where = f"{play.place}, looked for below {root}"
        raise


def _checkpoint(play: PlaySection) -> str:
    name = play.model.removesuffix(".zip")
    if name in _MODELS:
        return _MODELS[name]
    step = re.search(r"[0-9]+", name)
    if step is None:
        raise UserError(
            f"a run has no model called '{play.model}'",
            where=play.model_place,
            fix="use model (the last checkpoint), best, or the step of a checkpoint",
        )
    return step[0]

"""The one policy for code that a config, a run or a download names. SECURITY.md describes it for users.

A name (`module:Class`, `module:Env-v0`, a class in `models/`, a program, an address to listen on) comes from one of
two sources:

- **The user**: typed on the command line, written in a Python program, or in a config that is trained. Ludus does what
  it says. Installed modules are imported; modules of the user's own are loaded from the folder of the config or from
  the working directory by `import_own_module`, one by one. Neither folder is ever on `sys.path`.
- **A run that a command uses** (eval, play, video, analyze, export, match, resume, …). Nothing is imported or started
  that is not known to be harmless, unless the user consents by name (`--allow NAME`), or trained this very config here
  before (`ludus.config.trained_here`).

No file inside a run or a download is ever imported, not even by name.

To ask for consent, before something is done that a run names:

    require_consent(f"the program {path}", path, where="env.kwargs.build.path")

It returns if the name is the user's, or was given with `--allow`; else it raises a UserError that shows the name and
the option to type. Which source counts is set by `command` for a whole command (the run, until `trust_config` says
that the command trains) and by `Trust.applied` for what one run names. Processes that Ludus starts get the same policy
with `exported` and `adopt`.
"""

from __future__ import annotations

import importlib
import json
import os
import shlex
import sys
from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from ludus.errors import ConfigError, UserError, printable

DOWNLOADED = ".ludus-download"
"""An empty file of this name marks a folder with everything in it as fetched from elsewhere."""
_IMPORT_SYSTEM = {"importlib", "_frozen_importlib", "_frozen_importlib_external"}


@dataclass(frozen=True)
class Trust:
    """Owner of the names that are looked up: the user (`by_user`), or a run that a command uses.

    `folders` hold the user's modules that are not installed; only what is `by_user` or `allowed` is looked for there.
    `allowed` are names the user consented to.
    """

    by_user: bool = True
    folders: tuple[str, ...] = ()
    allowed: frozenset[str] = frozenset()

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply this to all names that are looked up inside the with-block, in this thread."""
        token = _inner.set(self)
        try:
            yield
        finally:
            _inner.reset(token)


_outer = Trust()
_ignoring_settings = False
_inner: ContextVar[Trust | None] = ContextVar("ludus_trust", default=None)
_places: dict[str, str] = {}
"""Modules of the user's own that may be loaded, each with its folder."""
_named: set[str] = set()
"""Names looked up so far that a run could not have had without consent."""
_folders: set[str] = set()
"""Folders in which these modules were found."""
_guarded: set[str] = set()
"""Packages of the user's own whose parts must not come from a run, wherever they were found."""


# Owner of the names


def current_trust() -> Trust:
    """Return what applies to names that are looked up now."""
    return _inner.get() or _outer


@contextmanager
def command() -> Iterator[None]:
    """Treat names as those of a run that the command uses, until the command says otherwise with `trust_config`."""
    global _outer
    outer, places, guarded = _outer, dict(_places), set(_guarded)
    _outer = Trust(by_user=False, folders=_working_directory())
    try:
        yield
    finally:
        _outer = outer
        _places.clear()
        _places.update(places)
        _guarded.intersection_update(guarded)
        _named.clear()
        _folders.clear()


def trust_config(*sources: str | Path | None) -> None:
    """Treat names as the user's own from now on: the command trains the configs `sources`, or resumes a run.

    Modules of the user's own are looked for in the folders of the configs, then in the working directory.
    """
    files = [os.path.abspath(source) for source in sources if source is not None and os.path.isfile(source)]
    trust_folders([*map(os.path.dirname, files), *_working_directory()])


def distrust_run(*names: str) -> None:
    """Treat names as those of a run again, except for `names`: the command continues with a run that it has found."""
    global _outer
    _outer = replace(_outer, by_user=False)
    consent_to(*names)


def trust_folders(folders: Iterable[str]) -> None:
    """As `trust_config`, with the folders to look in."""
    global _outer
    _outer = replace(_outer, by_user=True, folders=tuple(dict.fromkeys(folders)))


def _working_directory() -> tuple[str, ...]:
    try:
        return (os.getcwd(),)
    except OSError:  # it was removed
        return ()


def consent_to(*names: str) -> None:
    """Allow what runs call by these names: a module, `module:Class`, a program or an address, exactly as written."""
    global _outer
    _outer = replace(_outer, allowed=_outer.allowed | set(names))


def is_allowed(*names: str) -> bool:
    """Return whether the names are the user's own, or the user consented to one of them."""
    trust = current_trust()
    return trust.by_user or not trust.allowed.isdisjoint(names)


def require_consent(what: str, *names: str, where: str) -> None:
    """Raise UserError unless `is_allowed`. `what` says in words what the run would do; `names[0]` is to be allowed."""
    if is_allowed(*names):
        _named.update(names)
        return
    raise UserError(
        f"the run names {printable(what)}, which is not run without your consent",
        where=where,
        fix=f"only if you trust it, repeat the command with --allow {shlex.quote(printable(names[0]))}",
    )


def named_code() -> bool:
    """Return whether names were looked up that a run could not have used without consent."""
    return bool(_named)


def own_folders() -> tuple[str, ...]:
    """Return the folders that the code of these names was loaded from."""
    return tuple(sorted(_folders))


# What is foreign

_OF_A_RUN = ("run.json", "config.yaml", "checkpoints")


def is_run(folder: Path) -> bool:
    """Return whether `folder` is a run, perhaps a damaged one."""
    return holds_run([name for name in _OF_A_RUN if os.path.lexists(folder / name)])


def holds_run(names: Container[str]) -> bool:
    """Return whether a folder with files of these names is a run. Every part of Ludus asks this one rule."""
    return "run.json" in names or ("config.yaml" in names and "checkpoints" in names)


def is_foreign(folder: Path) -> bool:
    """Return whether `folder` is a run, or was downloaded."""
    return os.path.isfile(folder / DOWNLOADED) or is_run(folder)


def foreign_folder(path: Path | str) -> Path | None:
    """Return the run or download that `path` is or lies in, as it is written and with links followed; else None."""
    written = Path(os.path.abspath(path))
    for one in dict.fromkeys([written, written.resolve()]):
        for folder in (one, *one.parents):
            if is_foreign(folder):
                return folder
    return None


# Imports


def import_own_module(
    name: str, reference: str, *, where: str, known: Collection[str] = frozenset()
) -> ModuleType:
    """Import the module `name` of `reference` (such as `module:Class`) as the policy allows.

    `known` modules need no consent. Raises ModuleNotFoundError if it does not exist, UserError without consent, and
    ConfigError for a module among the files of a run or of a download.
    """
    if not all(name.split(".")):
        raise ConfigError(f"'{name}' is not the name of a module", where=where, fix="write module:Name")
    if name not in known:
        require_consent(f"the module '{name}' ('{reference}')", name, reference, where=where)
    for entry in sys.path:
        _refuse_foreign(Path(entry), name)
    top = name.partition(".")[0]
    if is_allowed(name, reference) and top not in sys.modules and PathFinder.find_spec(top) is None:
        _locate(name)
    if name not in known:
        _guard(top)
    module = importlib.import_module(name)
    file = getattr(sys.modules.get(top), "__file__", None)
    if name not in known and file is not None:
        package = os.path.basename(file).startswith("__init__.")
        _folders.add(os.path.dirname(os.path.dirname(file) if package else file))
    return module


def _locate(name: str) -> None:
    """Let Python find the module `name` in one of the folders of the user's own, if one has it."""
    top = name.partition(".")[0]
    importlib.invalidate_caches()
    foreign = None
    for folder in map(os.path.abspath, current_trust().folders):
        spec = PathFinder.find_spec(top, [folder])
        if spec is None:
            continue
        foreign = foreign_folder(spec.origin or os.path.join(folder, top)) or foreign_folder(folder)
        if foreign is None:
            _refuse_foreign(Path(folder), name)
            place(top, folder)
            return
    if foreign is not None:
        raise _in_foreign(name, foreign)


def place(name: str, folder: str) -> None:
    """Let the module `name` be loaded from `folder`, and what it imports itself from there."""
    _places[name] = folder
    _folders.add(folder)
    _guard(name)
    if _Finder not in sys.meta_path:
        sys.meta_path.append(_Finder)  # last: it hides nothing


def _guard(package: str) -> None:
    """Refuse parts of `package` that lie in a run or a download, whichever module imports them."""
    _guarded.add(package)
    if _Guard not in sys.meta_path:
        sys.meta_path.insert(0, _Guard)  # before those that would find the part


def _refuse_foreign(folder: Path, name: str) -> None:
    """Raise ConfigError if on the way from `folder` to the module `name` lies a run or a download."""
    for part in name.split("."):
        if is_foreign(folder) and _holds(folder, part):
            raise _in_foreign(name, folder)
        folder = folder / part


def _in_foreign(name: str, folder: Path) -> ConfigError:
    kind = "a download" if (folder / DOWNLOADED).is_file() else "a run"
    return ConfigError(
        f"the module '{name}' is in {kind}, and code from there is never run",
        where=str(folder),
        fix="if it is your own code, move it to a folder of its own",
    )


def _holds(folder: Path, module: str) -> bool:
    """Return True if Python would find a module of that name in `folder`: a package, a file, a compiled one."""
    return any(path.name.partition(".")[0] == module for path in folder.iterdir())


class _Finder:
    """Finds modules of the user's own in their folders, and what these import from there; no other modules."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if path is not None or "." in name:  # a part of a package: Python looks in the package's own folder
            return None
        folder = _places.get(name) or _folder_of(sys._getframe(1))
        spec = None if folder is None else PathFinder.find_spec(name, [folder])
        if folder is None or spec is None or foreign_folder(spec.origin or os.path.join(folder, name)):
            return None
        _places[name] = folder
        _guard(name)
        return spec


class _Guard:
    """Finds nothing. Raises ConfigError for a part of a guarded package that lies in a run or a download."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        if path is None or name.partition(".")[0] not in _guarded:
            return
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            return
        places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
        for place in places:
            foreign = None if place is None else foreign_folder(place)
            if foreign is not None:
                raise _in_foreign(name, foreign)


def _folder_of(frame: FrameType | None) -> str | None:
    """Return the folder of the user's own that the importing module was loaded from; None for any other module."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        top = name.partition(".")[0]
        if top not in _IMPORT_SYSTEM:
            folder = _places.get(name) or _places.get(top)
            file = str(frame.f_globals.get("__file__", ""))
            return folder if folder is not None and file.startswith(os.path.join(folder, "")) else None
        frame = frame.f_back
    return None


# Other processes

BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1])['path']; "
    "from ludus.config.own_modules import adopt; adopt(sys.argv[1]); "
)
"""Python code that begins a process which is given `exported()` as its first argument."""


def exported() -> str:
    """Return the import path and the policy of this process, for `adopt` in another one."""
    trust = current_trust()
    return json.dumps(
        {
            "path": [str(entry) for entry in sys.path],
            "by_user": trust.by_user,
            "folders": trust.folders,
            "allowed": sorted(trust.allowed),
            "places": _places,
            "guarded": sorted(_guarded),
            "ignoring_settings": _ignoring_settings,
        }
    )


def adopt(text: str) -> None:
    """Apply the policy that another process `exported`."""
    global _outer
    found = json.loads(text)
    _outer = Trust(found["by_user"], tuple(found["folders"]), frozenset(found["allowed"]))
    for name, folder in found["places"].items():
        place(name, folder)
    for package in found["guarded"]:
        _guard(package)
    if found["ignoring_settings"]:
        ignore_settings_here()


# The working directory

_READ_THERE = {".numba_config.yaml": "numba.core.config", "matplotlibrc": "matplotlib"}
"""Files that libraries read from the working directory, and the modules that do. They name code and folders of code."""


def ignore_settings_here() -> None:
    """Let no library read its settings in the working directory from now on."""
    global _ignoring_settings
    _ignoring_settings = True
    readers = [module for name, module in _READ_THERE.items() if os.path.lexists(name)]
    here = os.getcwd() if readers else ""
    for name in readers:
        os.chdir(os.path.dirname(os.path.abspath(__file__)))
        try:
            module: Any = importlib.import_module(name)
        except ImportError:
            continue  # not installed, so nothing will read the file
        finally:
            os.chdir(here)
        if hasattr(module, "_config_fname"):
            module._config_fname = os.devnull  # numba reads it again at each compilation

"""The run directory: its location, its name, and the search for existing runs.

<save_dir>/<env id>/<algorithm>/<name>_<time>/{config.yaml, run.json, metrics.jsonl, …}
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import re
import shlex
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import ludus
from ludus.config.own_modules import holds_run, is_run
from ludus.errors import UnknownName, UserError
from ludus.plain_files import is_refusal, read_plain, way_out
from ludus.posix import HAS_FILE_LOCKS, lock_file
from ludus.runs import atomic, strict_json
from ludus.runs.hints import step_of
from ludus.runs.lock import RunLock
from ludus.runs.manifest import foreign, pickled_file
from ludus.secret_values import without_secrets

STATUSES = ("running", "finished", "interrupted", "failed", "stopped", "exported")

_INFO = "run.json"
_PACKAGES = ("torch", "numpy", "gymnasium", "numba", "pydantic")
_WANDB = "wandb"  # W&B puts links to its own logs there; Ludus reads nothing of it
_LARGEST_INFO = 4 << 20
_MAX_NAME_BYTES = 160  # file systems allow 255; the time stamp and a counter follow
_log = logging.getLogger("ludus.runs")


class RunDirectory:
    """One run on disk. Making the object touches nothing; use `create` or `open`."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.config_path = self.path / "config.yaml"
        self.info_path = self.path / _INFO
        self.metrics_path = self.path / "metrics.jsonl"
        self.episodes_path = self.path / "episodes.jsonl"
        self.games_path = self.path / "games.json"
        self.checkpoints_dir = self.path / "checkpoints"
        self.videos_dir = self.path / "videos"
        self.tensorboard_dir = self.path / "tensorboard"
        self.logs_dir = self.path / "logs"
        self.faults_dir = self.path / "faults"
        self.report_path = self.path / "report.html"

    @classmethod
    def create(
        cls,
        save_dir: Path | str,
        env_id: str | Sequence[str],
        algorithm: str,
        name: str,
        *,
        now: datetime | None = None,
        timestamp: bool = True,
    ) -> RunDirectory:
        """Make `<save_dir>/<env id>/<algorithm>/<name>_<time>` with a first run.json.

        Without `timestamp` it is `<name>`. A second run of that name gets `-2`. Characters that are unsafe in
        a path become `-`.
        """
        env_ids = [env_id] if isinstance(env_id, str) else list(env_id)
        now = (now or datetime.now()).astimezone()
        folder = (
            Path(save_dir) / safe_name("+".join(safe_name(one) for one in env_ids)) / safe_name(algorithm)
        )
        folder.mkdir(parents=True, exist_ok=True)
        own = f"{safe_name(name)}_{now:%Y%m%d-%H%M%S}" if timestamp else safe_name(name)
        run = cls(_make_first_free(folder, own))
        run._begin("+".join(env_ids), algorithm, name, now)
        return run

    @classmethod
    def create_at(cls, path: Path | str, env_id: str, algorithm: str, name: str) -> RunDirectory:
        """Make the directory `path`, with a first run.json; UserError if it exists."""
        run = cls(path)
        run.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            atomic.make_directory(run.path)
        except FileExistsError:
            raise UserError(
                "run directory already exists",
                where=str(run.path),
                fix="resume that run, or choose another name",
            ) from None
        run._begin(env_id, algorithm, name, datetime.now().astimezone())
        return run

    def _begin(self, env_id: str, algorithm: str, name: str, now: datetime) -> None:
        created = now.astimezone(UTC).isoformat(timespec="microseconds")
        self.update_info(name=name, env_id=env_id, algorithm=algorithm, created=created)
        atomic.fsync_directory(self.path.parent)

    @classmethod
    def open(cls, path: Path | str) -> RunDirectory:
        """Return the run at `path`. Raises UserError if it is not a run, or if a link in it leads outside."""
        run = cls(path)
        if not is_run(run.path):
            filename = pickled_file(run.path)
            if filename is not None:
                raise foreign(run.path, filename)
            raise UserError(
                f"'{path}' is not a run",
                where=str(run.info_path),
                fix="give the directory that holds run.json",
            )
        return run.held_together()

    def held_together(self) -> RunDirectory:
        """Return the run itself. Raises UserError if a link leads outside it, where Ludus must not read or write."""
        found = way_out(self.path, besides=_WANDB)
        if found is not None:
            raise UserError(
                "the run contains a link that leads outside it, or something that is not a regular file",
                where=str(found),
                fix="remove it, or replace it by a regular file or folder; a link to the whole run is allowed",
            )
        return self

    @property
    def name(self) -> str:
        """Name of the directory, which `find_run` searches for."""
        return self.path.absolute().name

    @property
    def env_id(self) -> str:
        return str(self._info_or_empty().get("env_id", self.path.absolute().parent.parent.name))

    @property
    def algorithm(self) -> str:
        return str(self._info_or_empty().get("algorithm", self.path.absolute().parent.name))

    def info(self) -> dict[str, Any]:
        """The content of run.json; UserError if it is missing or damaged."""
        try:
            return strict_json.loads_sealed(read_plain(self.info_path, _LARGEST_INFO).decode("utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(
                f"run.json cannot be read ({error})",
                where=str(self.info_path),
                fix=(
                    "no data is lost: make the file readable (permissions, `ulimit -n`)"
                    if is_refusal(error)
                    else "`ludus resume` rebuilds it from the newest checkpoint; or restore it from a copy"
                ),
            ) from error

    def update_info(self, **fields: Any) -> None:
        """Merge `fields` into run.json in one step; other processes may do so at the same time."""
        if fields.get("status", STATUSES[0]) not in STATUSES:
            raise ValueError(f"invalid status {fields['status']!r}: expected one of {', '.join(STATUSES)}")
        with _exclusive(self.path):
            old = self.info() if self.info_path.exists() else {}
            atomic.write_atomic(self.info_path, strict_json.dumps_sealed(old | fields))

    def _info_or_empty(self) -> dict[str, Any]:
        try:
            return self.info()
        except UserError:
            return {}

    def __repr__(self) -> str:
        return f"RunDirectory({str(self.path)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunDirectory) and other.path.absolute() == self.path.absolute()

    def __hash__(self) -> int:
        return hash(self.path.absolute())


def list_runs(root: Path | str, *, damaged: bool = False) -> list[RunDirectory]:
    """The runs under `root`, newest first. Those with a missing or unreadable run.json only if `damaged`."""
    found: list[tuple[float, RunDirectory]] = []
    for run in walk_runs(Path(root)):
        info = run._info_or_empty()
        if info or damaged:
            found.append((_created(run, info), run))
    found.sort(key=lambda pair: (pair[0], pair[1].name), reverse=True)
    return [run for _, run in found]


def find_run(ref: str, root: Path | str) -> RunDirectory:
    """Return the run for `ref`: a path (also below `root`), "latest", or a name.

    A name is the directory's, else the config's `name`, else the beginning of the directory's. UserError
    lists the candidates if several match; UnknownName suggests the nearest if none does. UserError, too, for a run
    that is not `held_together`.
    """
    return find_any_run(ref, root).held_together()


def find_any_run(ref: str, root: Path | str) -> RunDirectory:
    """Like `find_run`, but accepts runs with links that lead outside, in order to remove them."""
    root = Path(root)
    if ref == "latest":
        runs = list_runs(root)
        if not runs:
            raise UserError("there is no run yet", where=str(root), fix="start one with `ludus train`")
        return runs[0]
    for path in (Path(ref), root / ref):
        if is_run(path):
            return RunDirectory(path)
    runs = list_runs(root, damaged=True)
    matches = (
        [run for run in runs if run.name == ref]
        or [run for run in runs if run._info_or_empty().get("name") == ref]
        or [run for run in runs if ref and run.name.startswith(ref)]
    )
    if len(matches) == 1:
        return matches[0]
    if matches:
        candidates = ", ".join(str(run.path.relative_to(root)) for run in matches[:10])
        more = f" and {len(matches) - 10} more" if len(matches) > 10 else ""
        raise UserError(
            f"'{ref}' matches {len(matches)} runs",
            where=str(root),
            fix=f"name one: {candidates}{more}",
        )
    if Path(ref).exists():
        return RunDirectory.open(ref)  # raises: it exists, but is not a run
    _explain_checkpoint(ref, root)
    raise UnknownName(
        "run", ref, [run.name for run in runs], where=str(root), fix="`ludus runs` lists what is there"
    )


def _explain_checkpoint(ref: str, root: Path) -> None:
    """Raise UserError if `ref` is a run's name with a checkpoint behind it."""
    head, _, which = ref.rpartition("@")
    if not head:
        return
    try:
        run = find_any_run(head, root)
    except UserError:
        return
    if split_policy_ref(ref)[1] is not None:
        raise UserError(
            f"'{ref}' is a checkpoint; a whole run is expected here",
            where=str(run.path),
            fix=f"leave out '@{which}': {head}",
        )
    steps = sorted(name for name in _names_in(run.checkpoints_dir) if step_of(name) is not None)
    raise UserError(
        f"unknown checkpoint '{which}' of run '{run.name}'",
        where=str(run.checkpoints_dir),
        fix="name one as " + ", ".join(f"{head}@{name}" for name in ("best", "latest", *steps[-5:])),
    )


def _names_in(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def split_policy_ref(ref: str) -> tuple[str, str | None]:
    """Split `RUN@best`, `RUN@latest` or `RUN@<digits>` into run and checkpoint. Any other `@` is part of the run."""
    run, _, checkpoint = ref.rpartition("@")
    if run and re.fullmatch(r"best|latest|[0-9]+", checkpoint):
        return run, checkpoint
    return ref, None


def find_config_runs(root: Path | str, config_hash: str) -> RunDirectory | None:
    """The newest run whose run.json has this `config_hash`."""
    found: list[tuple[float, str, RunDirectory]] = []
    for run in walk_runs(Path(root)):
        info = run._info_or_empty()
        if info.get("config_hash") == config_hash:
            found.append((_created(run, info), run.name, run))
    return max(found, key=lambda one: one[:2])[2].held_together() if found else None


def remove_run(run: RunDirectory) -> None:
    """Delete a run with all its files; UserError if it is in use. Half deleted, it is no longer listed."""
    run = RunDirectory(run.path.resolve())
    with RunLock(run.path):
        doomed = run.path.with_name(f"{atomic.TEMPORARY_PREFIX}removed-{run.name}-{os.getpid()}")
        atomic.rename(run.path, doomed)
    atomic.remove(doomed)
    atomic.remove_stale_temporaries(doomed.parent)


def tag_run(run: RunDirectory, tags: Iterable[str]) -> None:
    """Add `tags` to the run's own, each once, in the order they came."""
    run.update_info(tags=list(dict.fromkeys([*run.info().get("tags", []), *tags])))


def _make_first_free(folder: Path, name: str) -> Path:
    """Make `name`, or `name-2`, `name-3`, …: the first that does not exist."""
    number = 1
    while True:
        path = folder / (name if number == 1 else f"{name}-{number}")
        try:
            atomic.make_directory(path)
        except FileExistsError:
            number += 1
        else:
            return path


def safe_name(text: str) -> str:
    """`text` as one path component: letters, digits and `._+-` only, no leading dot, not too long."""
    text = re.sub(r"[^\w.+-]", "-", unicodedata.normalize("NFC", text))
    text = text.encode("utf-8", "replace")[:_MAX_NAME_BYTES].decode("utf-8", "ignore")
    return text.lstrip(".") or "unnamed"


def walk_runs(folder: Path) -> Iterator[RunDirectory]:
    """Yield run directories below `folder`. Does not descend into runs or hidden folders, nor follow links."""
    try:
        with os.scandir(folder) as entries:
            below = {entry.name: entry for entry in entries}
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        _log.warning("cannot search for runs in %s (%s)", folder, error.strerror)
        return
    if holds_run(below):
        yield RunDirectory(folder)
        return
    for name, entry in below.items():
        if not name.startswith(".") and entry.is_dir(follow_symlinks=False):
            yield from walk_runs(Path(entry.path))


def _created(run: RunDirectory, info: dict[str, Any]) -> float:
    try:
        return datetime.fromisoformat(info["created"]).timestamp()
    except (KeyError, TypeError, ValueError):
        pass  # no usable time in run.json: use that of the directory
    try:
        return run.path.stat().st_mtime
    except OSError:
        return 0.0  # removed meanwhile


@contextlib.contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Hold off other processes that read, change and write run.json; best effort where there are no locks."""
    if not HAS_FILE_LOCKS:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            lock_file(descriptor)
        yield
    finally:
        os.close(descriptor)


def command_line() -> str:
    """Return the command that started this process, without the secrets of the environment."""
    program = "ludus" if Path(sys.argv[0]).name in {"ludus", "__main__.py"} else Path(sys.argv[0]).name
    return without_secrets(shlex.join([program, *sys.argv[1:]]))


def versions() -> dict[str, str]:
    """Return the versions of Ludus, Python, and the packages that results depend on."""
    found = {"ludus": ludus.__version__, "python": platform.python_version(), "platform": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

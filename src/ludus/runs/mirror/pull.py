"""Download of a run from its mirror: every file is checked by its hash; the run appears only when it is complete.

It is assembled in a hidden folder next to its destination and renamed at the end. The files of an interrupted download
stay there for the next one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ludus.errors import UserError
from ludus.runs import atomic
from ludus.runs.directory import RunDirectory, safe_name
from ludus.runs.lock import RunLock
from ludus.runs.manifest import file_digest
from ludus.runs.mirror.inventory import Inventory, Stored
from ludus.runs.mirror.remote import Pace, Remote, in_words, open_remote
from ludus.runs.mirror.state import MirrorState
from ludus.runs.mirror.sync import read_inventory

_TRIES = 3  # the run may be training, so that its mirror changes during the download
_PART = ".part-"
_DEPTH = 3  # <url>/<env>/<algorithm>/<run>


@dataclass(frozen=True)
class Pulled:
    """A downloaded run. Not `whole`: some files of the run were missing in the mirror."""

    run: RunDirectory
    files: int
    bytes: int
    whole: bool
    written: str


def pull_run(
    url: str,
    root: Path | str = "runs",
    to: Path | None = None,
    *,
    pace: Pace | None = None,
    note: Callable[[str], None] = lambda path: None,
    may_ask: bool = False,
) -> Pulled:
    """Download the run at `url` to `<root>/<env>/<algorithm>/<name>`, or to `to`.

    `url` is the run's folder in the mirror, or a folder above it with a single run. UserError if there is no run or
    several, if the destination exists, or if a file does not match the inventory.
    """
    try:
        remote, inventory = _find(open_remote(url, pace, may_ask=may_ask))
        _require_config(remote, inventory)
        own = inventory.run
        place = to or Path(root, *(safe_name(part) for part in (own.env_id, own.algorithm, own.name)))
        if place.exists():
            raise UserError(
                "the destination already exists",
                where=str(place),
                fix="give another destination with --to, or remove it",
            )
        place.parent.mkdir(parents=True, exist_ok=True)
        staging = place.with_name(f".pull-{place.name}")
        staging.mkdir(exist_ok=True)
        with RunLock(staging):
            inventory = _fetch_all(remote, inventory, staging, note)
            _remove_unlisted(staging, inventory)
            state = MirrorState(remote.url, mirrored=inventory.written, based_on=inventory.written)
            state.save(staging)
            _remove_pid(RunDirectory(staging))
            atomic.fsync_directory(staging)
            atomic.rename(staging, place)
            atomic.fsync_directory(place.parent)
    except UserError:
        raise
    except OSError as error:
        if error.filename is not None:  # an error on this machine
            raise
        raise _read_error(url, error) from error
    except Exception as error:  # an external service may raise anything
        raise _read_error(url, error) from error
    size = sum(stored.size for stored in inventory.files.values())
    return Pulled(RunDirectory.open(place), len(inventory.files), size, inventory.whole, inventory.written)


def _find(remote: Remote) -> tuple[Remote, Inventory]:
    inventory = read_inventory(remote)
    if inventory is not None:
        return remote, inventory
    found = _search(remote, remote.url, _DEPTH)
    if len(found) == 1:
        below = type(remote)(found[0], remote.pace)
        inventory = read_inventory(below)
        if inventory is not None:
            return below, inventory
    if found:
        raise UserError(
            f"found {len(found)} runs", where=remote.url, fix=f"choose one: {', '.join(sorted(found)[:10])}"
        )
    raise UserError(
        "mirrored run not found, or its first upload was never completed",
        where=remote.url,
        fix="check the address; it is the folder that contains MIRROR.json",
    )


def _require_config(remote: Remote, inventory: Inventory) -> None:
    """Raise UserError if files are missing without which a folder is not a run."""
    missing = [name for name in ("run.json", "config.yaml") if name not in inventory.files]
    if missing:
        raise UserError(
            f"the mirror has no {' and no '.join(missing)}, so it is not a run",
            where=remote.url,
            fix="mirror the run again from its own machine: ludus mirror RUN URL",
        )


def _search(remote: Remote, url: str, depth: int) -> list[str]:
    """Return the addresses of the runs below the folder `url`."""
    found: list[str] = []
    prefix = url.removeprefix(remote.url).lstrip("/")
    for name in remote.folders(prefix):
        below = f"{prefix}/{name}".lstrip("/")
        address = f"{remote.url}/{below}"
        if remote.size(f"{below}/MIRROR.json") is not None:
            found.append(address)
        elif depth > 1:
            found += _search(remote, address, depth - 1)
    return found


def _fetch_all(remote: Remote, inventory: Inventory, staging: Path, note: Callable[[str], None]) -> Inventory:
    for _ in range(_TRIES):
        try:
            for path, stored in inventory.files.items():
                _fetch(remote, path, stored, staging, note)
            return inventory
        except FileNotFoundError as error:
            newer = read_inventory(remote)
            if newer is None or newer.written == inventory.written:
                raise UserError(
                    f"a file of the inventory is missing in the mirror ({error.args[-1]})",
                    where=remote.url,
                    fix="mirror the run again from its own machine: ludus mirror RUN URL",
                ) from None
            inventory = newer
    raise UserError(
        "the run changes faster than it can be downloaded",
        where=remote.url,
        fix="try again when it does not train",
    )


def _fetch(remote: Remote, path: str, stored: Stored, staging: Path, note: Callable[[str], None]) -> None:
    """Download one file, or the rest of it. UserError if it does not match the inventory."""
    place = staging / path
    if place.is_file() and place.stat().st_size == stored.size and file_digest(place) == stored.sha256:
        return
    note(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f"{_PART}{stored.sha256[:16]}")
    start = part.stat().st_size if part.exists() else 0
    if start > stored.size:
        part.unlink()
        start = 0
    if stored.name and start < stored.size:
        pieces = _pieces(remote, stored.name, start)
        with part.open("ab") as file:
            for piece in pieces:
                file.write(piece)
                if file.tell() > stored.size:
                    break  # longer than expected: do not read on without a limit
    else:
        part.touch()
    if part.stat().st_size != stored.size or file_digest(part) != stored.sha256:
        part.unlink()
        raise UserError(
            f"checksum mismatch: size or hash of {path} is wrong",
            where=f"{remote.url}/{stored.name}",
            fix="mirror the run again from its own machine (ludus mirror RUN URL), or pull an older copy",
        )
    atomic.sync(part)
    atomic.rename(part, place)


def _pieces(remote: Remote, name: str, start: int) -> Iterator[bytes]:
    """Yield the content of a file; FileNotFoundError has its name in the mirror as the last argument."""
    try:
        yield from remote.read(name, start)
    except FileNotFoundError:
        raise FileNotFoundError(name) from None


def _remove_unlisted(staging: Path, inventory: Inventory) -> None:
    """Remove files of an earlier interrupted download that are not in the inventory."""
    for folder, _, names in os.walk(staging):
        for name in names:
            path = Path(folder, name)
            if path.relative_to(staging).as_posix() not in inventory.files and name != "run.lock":
                path.unlink()


def _remove_pid(run: RunDirectory) -> None:
    """Remove the pid: the process runs on another machine, and here the pid may belong to another process."""
    if run.info().get("pid") is not None:
        run.update_info(pid=None)


def _read_error(url: str, error: Exception) -> UserError:
    return UserError(
        f"cannot read the run: {in_words(error)}",
        where=url,
        fix="fix the problem and repeat the command: it resumes where it stopped",
    )

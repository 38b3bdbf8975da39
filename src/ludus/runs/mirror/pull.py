"""A run comes back from its mirror: every file checked by its hash, all of it or nothing, from where it stopped.

It is put together in a hidden folder beside its place and renamed at the end. What an interrupted pull has brought
stays there for the next one.
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

_TRIES = 3  # the run may be training, and its mirror move on while it is read
_PART = ".part-"
_DEPTH = 3  # <url>/<env>/<algorithm>/<run>


@dataclass(frozen=True)
class Pulled:
    """What came back. Not `whole`: the mirror itself lacked some files of the run."""

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
    """Bring the run at `url` to `<root>/<env>/<algorithm>/<name>`, or to `to`.

    `url` is the run's folder in the mirror, or one above it that holds a single run. UserError if there is none or
    several, if something stands in its place here, or if a file is not what was mirrored.
    """
    try:
        remote, inventory = _find(open_remote(url, pace, may_ask=may_ask))
        own = inventory.run
        place = to or Path(root, *(safe_name(part) for part in (own.env_id, own.algorithm, own.name)))
        if place.exists():
            raise UserError(
                "something is there already",
                where=str(place),
                fix="name another place with --to, or remove it",
            )
        place.parent.mkdir(parents=True, exist_ok=True)
        staging = place.with_name(f".pull-{place.name}")
        staging.mkdir(exist_ok=True)
        with RunLock(staging):
            inventory = _fetch_all(remote, inventory, staging, note)
            _forget_others(staging, inventory)
            state = MirrorState(remote.url, mirrored=inventory.written, based_on=inventory.written)
            state.save(staging)
            _forget_process(RunDirectory(staging))
            atomic.fsync_directory(staging)
            atomic.rename(staging, place)
            atomic.fsync_directory(place.parent)
    except UserError:
        raise
    except OSError as error:
        if error.filename is not None:  # this machine's own trouble
            raise
        raise _unreachable(url, error) from error
    except Exception as error:  # the remote is somebody else's service: it may raise anything
        raise _unreachable(url, error) from error
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
            f"{len(found)} runs are there", where=remote.url, fix=f"name one: {', '.join(sorted(found)[:10])}"
        )
    raise UserError(
        "there is no mirrored run, or none that was ever whole",
        where=remote.url,
        fix="check the address; it is the folder that holds MIRROR.json",
    )


def _search(remote: Remote, url: str, depth: int) -> list[str]:
    """The addresses of the runs below the folder `url`."""
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
                    f"the mirror lacks a file that it names ({error.args[-1]})",
                    where=remote.url,
                    fix="mirror the run again from where it is: ludus mirror RUN URL",
                ) from None
            inventory = newer
    raise UserError(
        "the run changes faster than it can be read", where=remote.url, fix="try again when it rests"
    )


def _fetch(remote: Remote, path: str, stored: Stored, staging: Path, note: Callable[[str], None]) -> None:
    """Bring one file, or the rest of it; UserError if it is not what the inventory says."""
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
                    break  # longer than it may be: there is no end to what could follow
    else:
        part.touch()
    if part.stat().st_size != stored.size or file_digest(part) != stored.sha256:
        part.unlink()
        raise UserError(
            f"{path} is not what was mirrored: its size or hash is wrong",
            where=f"{remote.url}/{stored.name}",
            fix="mirror the run again from where it is (ludus mirror RUN URL), or pull an older copy",
        )
    atomic.sync(part)
    atomic.rename(part, place)


def _pieces(remote: Remote, name: str, start: int) -> Iterator[bytes]:
    """Of a file that is missing, the name it has in the mirror is the last argument of the error."""
    try:
        yield from remote.read(name, start)
    except FileNotFoundError:
        raise FileNotFoundError(name) from None


def _forget_others(staging: Path, inventory: Inventory) -> None:
    """Remove what an earlier pull of an older state has brought and this one does not name."""
    for folder, _, names in os.walk(staging):
        for name in names:
            path = Path(folder, name)
            if path.relative_to(staging).as_posix() not in inventory.files and name != "run.lock":
                path.unlink()


def _forget_process(run: RunDirectory) -> None:
    """The process that trained it runs on another machine; here its number is somebody else's."""
    if run.info().get("pid") is not None:
        run.update_info(pid=None)


def _unreachable(url: str, error: Exception) -> UserError:
    return UserError(
        f"the run cannot be read: {in_words(error)}",
        where=url,
        fix="mend that and repeat the command: it goes on where it stopped",
    )

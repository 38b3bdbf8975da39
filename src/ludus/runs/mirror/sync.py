"""One pass of a mirror: upload the changes, verify them by their hash, then list them in the inventory.

The first part is what a resume needs (the newest checkpoint, config, metrics), then the rest; each part ends with an
inventory. Files deleted here stay in the mirror, except checkpoints: those are deleted there, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from ludus.errors import CheckpointError, UserError
from ludus.runs.directory import RunDirectory, safe_name
from ludus.runs.hints import step_of
from ludus.runs.manifest import Manifest
from ludus.runs.mirror.inventory import (
    FILENAME,
    MAX_BYTES,
    SPARE,
    DamagedInventory,
    Identity,
    Inventory,
    Stored,
    is_run_path,
    renamed,
)
from ludus.runs.mirror.remote import PIECE, Pace, Remote, Source, open_remote
from ludus.runs.mirror.state import MirrorState, Stat

_NOT_MIRRORED = {"wandb"}  # local files of a service that has its own copy
_AT_THE_END = {"logs", "tensorboard"}  # grow all the time; it does no harm if they are behind
_LATER = {"videos", "games", "report.html"} | _AT_THE_END  # not needed for a resume
_SAVE_SECONDS = 1.0  # between two writes of the state

_log = logging.getLogger("ludus.runs")


@dataclass
class SyncOutcome:
    """The result of one pass."""

    files: int = 0
    bytes: int = 0
    whole: bool = True
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CheckpointFiles:
    """The files of a checkpoint with the hashes of its manifest; the manifest itself is the last."""

    resumable: bool
    paths: list[str]
    hashes: dict[str, str]


class WrongContent(Exception):
    """The remote file differs from what was sent."""


class Sync:
    """Copies `run` below `url` at each call of `once`. Only one process may do this at a time."""

    def __init__(self, run: RunDirectory, url: str, pace: Pace, *, may_ask: bool = False) -> None:
        self.run = run
        self.state = _state_for(run, url)
        self._pace = pace
        self._may_ask = may_ask
        self._trusted: set[str] = set()  # loose files that this process has sent
        self._remote: Remote | None = None
        self._promised: dict[str, str] = {}
        self._saved = 0.0

    def once(self, *, last: bool = True, note: Callable[[str], None] = lambda path: None) -> SyncOutcome:
        """Bring the mirror up to date; `last` includes files that grow all the time. Raises the errors of the remote.

        `note` is called with each file that is sent. UserError if the folder contains another run.
        """
        try:
            if self._remote is None:
                self._remote = open_remote(self.state.at, self._pace, may_ask=self._may_ask)
            return self._pass(self._remote, last, note)
        except BaseException:
            self._remote = None  # the next pass signs in again, with credentials that may have been renewed
            raise

    def missing(self, *, last: bool = True) -> list[str]:
        """Return the files of the run whose current content is not known to be in the mirror."""
        found = scan(self.run.path, last=last)
        return [path for path, stat in found.items() if self.state.seen.get(path) != stat]

    # Internals

    def _pass(self, remote: Remote, last: bool, note: Callable[[str], None]) -> SyncOutcome:
        try:
            before = read_inventory(remote)
        except DamagedInventory:
            before = None  # upload everything again
        self._check_identity(before)
        # wiped, or changed by another machine: what this machine knows about it is invalid
        if self.state.based_on != (before.written if before else None):
            self.state.loose.clear()
            self.state.seen.clear()
        self._drop_lost(remote)
        outcome = SyncOutcome()
        # one list for the whole pass: a later checkpoint may need rows of metrics that were not uploaded yet
        checkpoints = list_checkpoints(self.run)
        self._promised = {path: digest for found in checkpoints for path, digest in found.hashes.items()}
        for group in self._needed(checkpoints):
            self._send(remote, before, group, outcome, note)
        before = self._commit(remote, before, whole=None)
        for group in self._rest(checkpoints, last):
            self._send(remote, before, group, outcome, note)
        before = self._commit(remote, before, whole=outcome.whole)
        here = scan(self.run.path)
        self.state.seen = {path: stat for path, stat in self.state.seen.items() if path in here}
        self.state.trouble, self.state.missing = None, 0 if outcome.whole else len(self.missing(last=last))
        if outcome.whole:
            self.state.mirrored = before.written
        self.state.save(self.run.path)
        return outcome

    def _check_identity(self, there: Inventory | None) -> None:
        """Raise UserError if the mirror has another run, or if another machine has resumed this one."""
        if there is None or there.written == self.state.based_on:
            return
        if there.run.created != identity(self.run).created:
            raise UserError(
                f"the mirror contains another run ({there.run.name}, of {there.run.created[:10]})",
                where=self.state.at,
                fix="give this run another name or mirror",
            )
        here = [path for found in list_checkpoints(self.run) for path in found.paths]
        if (ahead := _newest_step(there.files)) > _newest_step(here):
            raise UserError(
                f"the run was resumed on another machine: the mirror has it at step {ahead:,}",
                where=self.state.at,
                fix="continue that one with `ludus pull`, or give this one another mirror",
            )

    def _drop_lost(self, remote: Remote) -> None:
        """Forget files of an earlier process that are no longer in the mirror."""
        for path, stored in list(self.state.loose.items()):
            if path not in self._trusted and stored.name and remote.size(stored.name) != stored.size:
                del self.state.loose[path]
                self.state.seen.pop(path, None)

    def _needed(self, checkpoints: list[CheckpointFiles]) -> list[list[str]]:
        """Return the files that a resume needs, in groups that are uploaded as of one moment.

        The metrics come after the checkpoint: a resume truncates them to its step, and cannot add missing rows.
        """
        newest = next((found.paths for found in checkpoints if found.resumable), [])
        return [
            newest,
            *([path] for path in self._outside_checkpoints(last=False) if path.split("/")[0] not in _LATER),
        ]

    def _rest(self, checkpoints: list[CheckpointFiles], last: bool) -> list[list[str]]:
        later = [path for path in self._outside_checkpoints(last=last) if path.split("/")[0] in _LATER]
        return [*(found.paths for found in checkpoints), *([path] for path in later)]

    def _outside_checkpoints(self, *, last: bool) -> list[str]:
        """Return all files that are not in the folder of a checkpoint."""
        found = scan(self.run.path, last=last)
        return [path for path in found if not (path.startswith("checkpoints/") and path.count("/") > 1)]

    def _send(
        self,
        remote: Remote,
        before: Inventory | None,
        group: Iterable[str],
        outcome: SyncOutcome,
        note: Callable[[str], None],
    ) -> None:
        with ExitStack() as stack:
            files: list[tuple[str, BinaryIO, os.stat_result]] = []
            try:
                for path in (
                    group
                ):  # keep all open: a checkpoint that is deleted meanwhile is still uploaded completely
                    file = stack.enter_context((self.run.path / path).open("rb"))
                    files.append((path, file, os.fstat(file.fileno())))
            except FileNotFoundError:
                return  # deleted, or being replaced: the next pass handles it
            except OSError as error:
                _log.debug("%s cannot be read: %s", path, error)
                outcome.whole = False
                return
            for path, held, stat in files:
                key = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
                if self.state.seen.get(path) == key:
                    continue
                if self._send_one(remote, before, path, held, stat.st_size, outcome, note):
                    self.state.seen[path] = key

    def _send_one(
        self,
        remote: Remote,
        before: Inventory | None,
        path: str,
        file: BinaryIO,
        size: int,
        outcome: SyncOutcome,
        note: Callable[[str], None],
    ) -> bool:
        """Return whether the file is now in the mirror; False if the local file is damaged."""
        sha256, md5 = digests(file, size)
        if self._promised.get(path, sha256) != sha256:  # the mirror may have the last good copy
            _log.warning("%s is damaged and was not mirrored", self.run.path / path)
            outcome.whole = False
            return False
        known = (before.files if before else {}) | self.state.loose
        same = known.get(path)
        if same is None or (same.size, same.sha256) != (size, sha256):
            same = next((one for one in known.values() if (one.size, one.sha256) == (size, sha256)), None)
        if same is None:
            taken = {one.name for one in known.values()}
            name = "" if size == 0 else path if path not in taken else renamed(path, sha256)
            same = Stored(name, size, sha256)
            if name:
                note(path)
                remote.write(name, Source(file, size, self._pace))
                verify(remote, same, md5)
            outcome.files += 1
            outcome.bytes += size
            outcome.names.append(path)
        self.state.loose[path] = same
        self._trusted.add(path)
        if time.monotonic() - self._saved > _SAVE_SECONDS:
            self.state.save(self.run.path)
            self._saved = time.monotonic()
        return True

    def _commit(self, remote: Remote, before: Inventory | None, whole: bool | None) -> Inventory:
        """Write the inventory, then delete files that it no longer lists. `whole` None: more will follow."""
        old = before.files if before else {}
        files = old | self.state.loose
        if list_checkpoints(self.run):  # a run that has lost all its checkpoints needs those of the mirror
            here = set(scan(self.run.path))
            files = {p: s for p, s in files.items() if not p.startswith("checkpoints/") or p in here}
        if before is not None and files == old and whole in (None, before.whole):
            self._settle(before)
            return before
        written = datetime.now(UTC).isoformat(timespec="microseconds")
        after = Inventory(identity(self.run), files, bool(whole), written)
        text = after.as_json().encode()
        for name in (SPARE, FILENAME):
            remote.write(name, Source(io.BytesIO(text), len(text), self._pace))
        unlisted = {s.name for s in (*old.values(), *self.state.loose.values())} - {
            s.name for s in files.values()
        }
        self._settle(after)
        for name in sorted(unlisted):
            with contextlib.suppress(
                Exception
            ):  # an account without permission to delete is fine for a mirror
                remote.remove(name)
        return after

    def _settle(self, inventory: Inventory) -> None:
        self.state.loose.clear()
        self.state.based_on = inventory.written
        self.state.save(self.run.path)


def read_inventory(remote: Remote) -> Inventory | None:
    """Return the inventory at `remote`; None if it does not exist. DamagedInventory if both copies are damaged."""
    trouble: DamagedInventory | None = None
    for name in (FILENAME, SPARE):
        try:
            data = remote.content(name, MAX_BYTES)
            if data is not None:
                return Inventory.parse(data, f"{remote.url}/{name}")
        except DamagedInventory as error:
            trouble = trouble or error
    if trouble is not None:
        raise trouble
    return None


def identity(run: RunDirectory) -> Identity:
    """Return the identity of a run, from its run.json."""
    info = run.info()
    return Identity(
        run.name, str(info.get("env_id", "")), str(info.get("algorithm", "")), str(info.get("created", ""))
    )


def scan(run: Path, *, last: bool = True) -> dict[str, Stat]:
    """Return the stats of all files of the run that are mirrored; without `last`, not those that grow all the time."""
    found: dict[str, Stat] = {}

    def look(folder: Path, prefix: str) -> None:
        try:
            with os.scandir(folder) as entries:
                below = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            return  # deleted meanwhile
        for entry in below:
            path = prefix + entry.name
            if not is_run_path(path) or entry.is_symlink():
                continue
            if entry.is_dir():
                if prefix or entry.name not in _NOT_MIRRORED | (set() if last else _AT_THE_END):
                    look(Path(entry.path), f"{path}/")
            elif entry.is_file():
                with contextlib.suppress(OSError):
                    stat = entry.stat()
                    found[path] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)

    look(run, "")
    return found


def digests(file: BinaryIO, size: int) -> tuple[str, str]:
    """Return sha256 and md5 of the first `size` bytes."""
    sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    file.seek(0)
    left = size
    while left and (piece := file.read(min(PIECE, left))):
        sha256.update(piece)
        md5.update(piece)
        left -= len(piece)
    return sha256.hexdigest(), md5.hexdigest()


def verify(remote: Remote, stored: Stored, md5: str) -> None:
    """Raise WrongContent if the remote file differs: by the md5 that the service computed, otherwise by reading it."""
    if remote.md5(stored.name) == md5:
        return
    sha256 = hashlib.sha256()
    for piece in remote.read(stored.name):
        sha256.update(piece)
    if sha256.hexdigest() != stored.sha256:
        raise WrongContent(f"checksum mismatch after the upload of {stored.name}")


def folder_of(run: RunDirectory, url: str) -> str:
    """Return the folder of a run below `url`: the same three levels as below `runs/`."""
    own = identity(run)
    return "/".join([url, *(safe_name(part) for part in (own.env_id, own.algorithm, own.name))])


def _state_for(run: RunDirectory, url: str) -> MirrorState:
    state = MirrorState.load(run.path)
    if state is None or not f"{state.at}/".startswith(f"{url}/"):
        return MirrorState(folder_of(run, url))
    return state


def _newest_step(paths: Iterable[str]) -> int:
    steps = (step_of(path.split("/")[1]) for path in paths if path.startswith("checkpoints/"))
    return max((step for step in steps if step is not None), default=-1)


def list_checkpoints(run: RunDirectory) -> list[CheckpointFiles]:
    """Return the valid checkpoints, newest first."""
    found = []
    try:
        names = os.listdir(run.checkpoints_dir)
    except OSError:
        return []
    for name in sorted((name for name in names if step_of(name) is not None), reverse=True):
        try:
            manifest = Manifest.read(run.checkpoints_dir / name)
        except CheckpointError:
            continue  # damaged, or deleted at this moment
        folder = f"checkpoints/{name}"
        hashes = {f"{folder}/{filename}": digest for filename, (_, digest) in manifest.files.items()}
        found.append(CheckpointFiles(manifest.resumable, [*hashes, f"{folder}/MANIFEST.json"], hashes))
    return found

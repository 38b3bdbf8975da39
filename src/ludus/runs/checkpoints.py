"""Checkpoints: safetensors and JSON, each one a directory that exists whole or not at all.

    checkpoints/000000100000/{policy.safetensors, …, state.json, MANIFEST.json}
    checkpoints/{latest,best,pins}.json

A checkpoint is written under a temporary name, hashed into its manifest, synced and renamed into place. The
directory scan is authoritative; latest.json holds its result for other tools. No pickle is ever read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Integral
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from ludus.errors import CheckpointError, UnknownName, require_types
from ludus.plain_files import is_refusal, read_plain
from ludus.runs import atomic, strict_json
from ludus.runs.hints import Hints, checkpoint_name, step_of
from ludus.runs.manifest import (
    ASIDE_PREFIX,
    FILENAME,
    FORMAT_VERSION,
    MIGRATIONS,
    CheckpointFormatError,
    Manifest,
    damaged,
    file_digest,
    foreign,
    is_plain_filename,
    pickled_file,
)

__all__ = ["FORMAT_VERSION", "MIGRATIONS", "Checkpoint", "CheckpointFormatError", "CheckpointManager"]

_STATE = "state.json"
_LARGEST_STATE = 256 << 20

_log = logging.getLogger("ludus.runs")


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint on disk. Reading a part of it checks that part's hash first.

    `exact`: resuming from it repeats the uninterrupted run bit by bit. `resumable`: it holds all that
    training needs, not the policy alone. `created`: UTC in ISO form. A damaged file is a
    CheckpointError naming it.
    """

    path: Path
    step: int
    exact: bool
    resumable: bool
    created: str

    @classmethod
    def open(cls, path: Path | str) -> Checkpoint:
        """The checkpoint in directory `path`; CheckpointError if it is foreign, too new or unreadable."""
        manifest = _read_manifest(Path(path))
        return cls(Path(path), manifest.step, manifest.exact, manifest.resumable, manifest.created)

    @property
    def name(self) -> str:
        return checkpoint_name(self.step)

    def has(self, name: str) -> bool:
        """Return True if the checkpoint holds tensors called `name`."""
        return f"{name}.safetensors" in _read_manifest(self.path).files

    def tensors(self, name: str) -> dict[str, torch.Tensor]:
        """The tensors saved under `name`, on the CPU."""
        filename = f"{name}.safetensors"
        manifest = _read_manifest(self.path)
        if filename not in manifest.files:
            parts = ", ".join(sorted(f.removesuffix(".safetensors") for f in manifest.files if f != _STATE))
            raise CheckpointError(
                f"checkpoint '{self.name}' has no '{name}' (it has {parts or 'no tensors'})",
                where=str(self.path),
            )
        manifest.check(self.path, filename)
        try:
            return safetensors.torch.load_file(self.path / filename)
        # Every error of the parser means that the file is damaged.
        except Exception as error:
            if is_refusal(error):
                raise
            raise damaged(self.path, f"{filename} is not valid safetensors ({error})") from error

    def state(self) -> dict[str, Any]:
        """The JSON state it was saved with, brought up to this version's format."""
        manifest = _read_manifest(self.path)
        manifest.check(self.path, _STATE)
        try:
            content = read_plain(self.path / _STATE, _LARGEST_STATE)
            state: dict[str, Any] = strict_json.loads(content.decode("utf-8"))
        except (OSError, ValueError) as error:
            if is_refusal(error):
                raise
            raise damaged(self.path, f"{_STATE} is not valid JSON ({error})") from error
        if not isinstance(state, dict):
            raise damaged(self.path, f"{_STATE} is not a JSON object")
        for version in range(manifest.format, FORMAT_VERSION):
            state = MIGRATIONS[version](state)
        return state

    @contextlib.contextmanager
    def understood(self) -> Iterator[None]:
        """Turn errors within the block into CheckpointError: the hashes match, but the state cannot be used."""
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise CheckpointError(
                f"the state of checkpoint '{self.name}' cannot be used ({type(error).__name__}: {error})",
                where=str(self.path),
                fix="take another checkpoint of the run",
            ) from error

    def verify(self) -> None:
        """Raise CheckpointError unless it holds exactly the files of its manifest, each with its size and hash."""
        manifest = _read_manifest(self.path)
        for filename in manifest.files:
            manifest.check(self.path, filename)
        for found in sorted(os.listdir(self.path)):
            if found not in manifest.files and found != FILENAME:
                raise damaged(self.path, f"{found} does not belong to it")


class CheckpointManager:
    """The checkpoints of one run: saves, finds, verifies and prunes them. One process may write at a time.

    If the files cannot be listed or read (permissions, too many open files), methods raise OSError.
    """

    def __init__(self, directory: Path | str, keep: int = 5) -> None:
        """`keep`: how many resumable checkpoints stay; zero or less keeps everything."""
        require_types("CheckpointManager", directory=(directory, (str, Path)), keep=(keep, (Integral,)))
        self.directory = Path(directory)
        self.keep = keep
        self._hints = Hints(self.directory)

    def save(
        self,
        step: int,
        tensors: Mapping[str, Mapping[str, torch.Tensor]],
        state: Mapping[str, Any],
        *,
        exact: bool = True,
        resumable: bool = True,
    ) -> Checkpoint:
        """Write the checkpoint of `step`, point latest.json at it if it is resumable, and prune.

        An existing checkpoint of `step` is replaced, unless it is intact and worth more (resumable
        before policy-only, then exact before not): then nothing is written and that one is returned.
        An OSError (disk full, …) leaves everything that was there before as it was.
        """
        if not self.directory.is_dir():
            self.directory.parent.mkdir(parents=True, exist_ok=True)
            atomic.make_directory(self.directory)
            atomic.fsync_directory(self.directory.parent)
        self._tidy()
        final = self.directory / checkpoint_name(step)
        if _is_worth_more(final, resumable=resumable, exact=exact):
            return Checkpoint.open(final)
        staging = self.directory / f"{atomic.TEMPORARY_PREFIX}{step}-{os.getpid()}"
        try:
            _write_checkpoint(staging, step, tensors, state, exact=exact, resumable=resumable)
            self._put_in_place(staging, final)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        if resumable:
            self._point_latest()
        self._prune(spare=step)
        return Checkpoint.open(final)

    def list(self) -> list[Checkpoint]:
        """Return every checkpoint with a readable manifest, oldest step first."""
        found = []
        for path in self._scan().values():
            with contextlib.suppress(CheckpointError):
                found.append(Checkpoint.open(path))
        return found

    def latest(self) -> Checkpoint | None:
        """Return the checkpoint of the highest step, resumable or not. Without a readable manifest it is skipped.

        CheckpointFormatError if that one was written by a newer Ludus.
        """
        for path in reversed(self._scan().values()):
            try:
                return Checkpoint.open(path)
            except CheckpointFormatError:
                raise
            except CheckpointError as error:
                _log.warning("%s; it is skipped", error.what)
        return None

    def best(self) -> Checkpoint | None:
        """Return the checkpoint last passed to `mark_best`, if it still exists."""
        try:
            step = self._hints.best()
        except CheckpointError as error:
            _log.warning("%s", error.what)
            return None
        return next((checkpoint for checkpoint in self.list() if checkpoint.step == step), None)

    def find(self, ref: str | int) -> Checkpoint:
        """Return the checkpoint for "latest", "best", a step or a name. Raises CheckpointError or UnknownName."""
        paths = self._scan()
        if ref == "latest":
            found = self.latest()
            if found is None:
                raise self._none_found("the run has no checkpoint yet")
            return found
        if ref == "best":
            step = self._hints.best()
            if step not in paths:
                raise self._none_found("no checkpoint of the run is marked as the best")
            return Checkpoint.open(paths[step])
        if isinstance(ref, int) or (ref.isascii() and ref.isdecimal()):
            if int(ref) in paths:
                return Checkpoint.open(paths[int(ref)])
            ref = checkpoint_name(int(ref))
        known = [checkpoint_name(step) for step in paths] + ["latest", "best"]
        raise UnknownName("checkpoint", ref, known, where=str(self.directory))

    def newest_intact(
        self, *, exact_only: bool = False, check: Callable[[Checkpoint], None] = lambda checkpoint: None
    ) -> Checkpoint | None:
        """Return the newest resumable checkpoint that verifies; None only if the run has no resumable one.

        Damaged ones are logged by name and skipped, and so are those for which `check` raises CheckpointError.
        CheckpointError if none is left, or if one was written by a newer Ludus: training never silently starts over.
        """
        broken: dict[str, str] = {}
        fix = ""
        inexact: list[str] = []
        for step, path in reversed(self._scan().items()):
            try:
                checkpoint = Checkpoint.open(path)
                if not checkpoint.resumable:
                    continue
                if exact_only and not checkpoint.exact:
                    inexact.append(checkpoint.name)
                    continue
                checkpoint.verify()
                check(checkpoint)
            except CheckpointFormatError:
                raise
            except CheckpointError as error:
                name = checkpoint_name(step)
                fix = fix or error.fix
                named = name in error.what
                broken[name] = error.what if named else f"checkpoint '{name}' cannot be used: {error.what}"
                continue
            for reason in broken.values():
                _log.warning("%s; it is skipped", reason)
            return checkpoint
        if not broken and not inexact:
            return None
        what = "none is exact"
        if broken:
            what = f"not {', '.join(broken)}: {next(iter(broken.values()))}"
        if inexact:
            fix = f"resume without asking for an exact one: {inexact[0]} is the newest"
        raise CheckpointError(
            f"no checkpoint to resume from ({what})",
            where=str(self.directory),
            fix=fix,
        )

    def mark_best(self, checkpoint: Checkpoint, metric: str, value: float) -> None:
        """Make `checkpoint` the best one, by `metric` = `value`; it is not pruned while it is."""
        self._hints.set_best(self.find(checkpoint.step).step, metric, value)

    def renew_best(self, step: int, metric: str, value: float) -> None:
        """Mark the checkpoint of `step` again where best.json is damaged, missing or names a worse one.

        A process killed between a save and its mark causes this. Does nothing if the checkpoint no longer exists.
        """
        try:
            score = self._hints.best_score()
        except CheckpointError:
            score = None
        if step in self._scan() and (score is None or score[0] != metric or score[1] < value):
            self._hints.set_best(step, metric, value)

    def damaged_hints(self) -> tuple[str, ...]:
        """Return the errors in latest.json, best.json and pins.json."""
        return tuple(error.what for error in self._hints.damaged())

    def pin(self, ref: str | int) -> None:
        """Never prune this checkpoint."""
        self._hints.set_pinned(self._hints.pinned() | {self.find(ref).step})

    def unpin(self, ref: str | int) -> None:
        """Let this checkpoint be pruned again."""
        self._hints.set_pinned(self._hints.pinned() - {self.find(ref).step})

    def prune(self) -> None:
        """Delete all but the newest `keep` resumable checkpoints, the best one and the pinned ones.

        Damaged ones are left alone. While best.json or pins.json is damaged, nothing is deleted.
        """
        self._prune(spare=None)

    def movable_after(self, step: int) -> dict[int, Path]:
        """Return the checkpoints beyond `step` that are not pinned, by step."""
        pinned = self._hints.pinned()
        return {s: path for s, path in self._scan().items() if s > step and s not in pinned}

    def move_after(self, step: int, folder: Path) -> None:
        """Move every checkpoint beyond `step`, pinned ones excepted, to the new directory `folder`."""
        self._tidy()
        beyond = self.movable_after(step)
        atomic.make_directory(folder)
        there = CheckpointManager(folder)
        with contextlib.suppress(CheckpointError):
            best, score = self._hints.best(), self._hints.best_score()
            if best in beyond and score is not None:
                there._hints.set_best(best, *score)
        for s in sorted(beyond, reverse=True):  # newest first: a crash in between leaves a true past
            atomic.rename(beyond[s], folder / checkpoint_name(s))
        atomic.fsync_directory(folder)
        atomic.fsync_directory(self.directory)
        there._point_latest()

    def truncate_after(self, step: int) -> None:
        """Delete every checkpoint after `step`, also damaged ones: a run resumed at `step` writes them again.

        A pinned checkpoint is kept, but is not resumable until it is written again.
        """
        self._tidy()
        beyond = {s: path for s, path in self._scan().items() if s > step}
        pinned = self._hints.pinned() if beyond else set()
        with contextlib.suppress(CheckpointError):  # a damaged best.json points nowhere already
            best = self._hints.best()
            if best is not None and best > step:
                self._hints.forget_best()
        for s in sorted(beyond, reverse=True):  # newest first: a crash in between leaves a true past
            if s not in pinned or not self._withdraw(beyond[s]):
                self._delete(beyond[s])
        self._point_latest()

    def _scan(self) -> dict[int, Path]:
        """Step to directory, oldest first. A checkpoint that a crash left moved aside is found there.

        Raises OSError if the folder cannot be listed: this does not mean that it is empty.
        """
        found: dict[int, Path] = {}
        try:
            paths = list(self.directory.iterdir())
        except FileNotFoundError:
            return {}
        for path in paths:
            step = step_of(path.name.removeprefix(ASIDE_PREFIX))
            if step is not None and path.is_dir() and (step not in found or path.name[0] != "."):
                found[step] = path
        return dict(sorted(found.items()))

    def _put_in_place(self, staging: Path, final: Path) -> None:
        """Rename `staging` to `final`. An existing `final` is moved aside, where `_scan` still finds it."""
        aside = final.with_name(ASIDE_PREFIX + final.name)
        replacing = final.exists()
        if replacing:
            atomic.rename(final, aside)
        try:
            atomic.rename(staging, final)
        except BaseException:
            if replacing and not final.exists():
                with contextlib.suppress(OSError):  # `_scan` finds it aside, too
                    atomic.rename(aside, final)
            raise
        atomic.fsync_directory(self.directory)
        if replacing:
            self._delete(aside)

    def _tidy(self) -> None:
        """Finish what a crash left half done."""
        for aside in self.directory.glob(ASIDE_PREFIX + "*"):
            final = aside.with_name(aside.name.removeprefix(ASIDE_PREFIX))
            if step_of(final.name) is None:
                continue  # not ours
            if final.exists():
                self._delete(aside)
            else:
                atomic.rename(aside, final)
        atomic.remove_stale_temporaries(self.directory)

    def _delete(self, path: Path) -> None:
        """Delete a checkpoint; half deleted, it already has a temporary name."""
        name = f"{atomic.TEMPORARY_PREFIX}deleted-{path.name.lstrip('.')}-{os.getpid()}"
        doomed = path.with_name(name)
        atomic.rename(path, doomed)
        atomic.fsync_directory(self.directory)
        atomic.remove(doomed)

    def _withdraw(self, path: Path) -> bool:
        """Mark a checkpoint as not resumable, in one step; False if its manifest cannot be read."""
        try:
            manifest = dataclasses.replace(_read_manifest(path), resumable=False)
        except CheckpointError:
            return False
        draft = self.directory / f"{atomic.TEMPORARY_PREFIX}manifest-{os.getpid()}"
        atomic.write_bytes(draft, manifest.as_json().encode())
        atomic.sync(draft)
        atomic.rename(draft, path / FILENAME)
        atomic.fsync_directory(path)
        return True

    def _prune(self, spare: int | None) -> None:
        if self.keep <= 0:
            return
        self._tidy()
        try:
            kept = {*self._hints.pinned(), self._hints.best(), spare}
        except CheckpointError as error:
            _log.warning("%s; no checkpoint is deleted until it is fixed", error.what)
            return
        found = self.list()
        kept |= {checkpoint.step for checkpoint in [c for c in found if c.resumable][-self.keep :]}
        for checkpoint in found:
            if checkpoint.step not in kept:
                self._delete(checkpoint.path)

    def _point_latest(self) -> None:
        resumable = [checkpoint for checkpoint in self.list() if checkpoint.resumable]
        if resumable:
            self._hints.set_latest(resumable[-1].step, exact=resumable[-1].exact)
        else:
            self._hints.forget_latest()

    def _none_found(self, what: str) -> CheckpointError:
        filename = pickled_file(self.directory)
        if filename is not None:
            return foreign(self.directory, filename)
        names = [checkpoint_name(step) for step in self._scan()]
        fix = f"use an existing one: latest, {', '.join(names[-5:])}" if names else ""
        return CheckpointError(what, where=str(self.directory), fix=fix)


def _read_manifest(path: Path) -> Manifest:
    """The manifest of the checkpoint at `path`, of a format this version can read."""
    manifest = Manifest.read(path)
    step = step_of(path.name.removeprefix(ASIDE_PREFIX))
    if step is not None and step != manifest.step:
        raise damaged(path, f"{FILENAME} is of step {manifest.step}, not of the step in the directory name")
    return manifest


def _is_worth_more(path: Path, *, resumable: bool, exact: bool) -> bool:
    """Return True if `path` is an intact checkpoint that one with these properties must not replace."""
    try:
        standing = Checkpoint.open(path)
        if (standing.resumable, standing.exact) <= (resumable, exact):
            return False
        standing.verify()
    except CheckpointError:
        return False
    return True


def _write_checkpoint(
    directory: Path,
    step: int,
    tensors: Mapping[str, Mapping[str, torch.Tensor]],
    state: Mapping[str, Any],
    *,
    exact: bool,
    resumable: bool,
) -> None:
    """Write all files of a checkpoint into the new directory `directory` and sync them."""
    atomic.make_directory(directory)
    for name, group in tensors.items():
        if not is_plain_filename(name):
            raise ValueError(f"{name!r} cannot name a file of tensors")
        save = functools.partial(safetensors.torch.save_file, _ready_to_save(group))
        try:
            atomic.write_by(directory / f"{name}.safetensors", save)
        except safetensors.SafetensorError as error:  # safetensors reports a full disk this way
            raise OSError(f"{name}.safetensors: {error}") from error
    content = strict_json.dumps(state).encode()
    if len(content) > _LARGEST_STATE:
        raise ValueError(f"{_STATE} would have {len(content):,} bytes; the limit is {_LARGEST_STATE:,}")
    atomic.write_bytes(directory / _STATE, content)
    files = {}
    for path in sorted(directory.iterdir()):
        shutil.copymode(directory / _STATE, path)  # safetensors makes files that only their owner can read
        atomic.sync(path)
        files[path.name] = (path.stat().st_size, file_digest(path))
    created = datetime.now(UTC).isoformat(timespec="seconds")
    manifest = Manifest(FORMAT_VERSION, step, created, exact, resumable, files)
    atomic.write_bytes(directory / FILENAME, manifest.as_json().encode())
    atomic.sync(directory / FILENAME)
    atomic.fsync_directory(directory)


def _ready_to_save(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Contiguous CPU tensors, no two of which share memory (safetensors refuses those)."""
    ready: dict[str, torch.Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        plain = tensor.detach().to("cpu").contiguous()
        if plain.untyped_storage().data_ptr() in storages:
            plain = plain.clone()
        storages.add(plain.untyped_storage().data_ptr())
        ready[name] = plain
    return ready

"""A remote folder, through fsspec. Files are transferred in pieces, so memory use does not depend on their size."""

from __future__ import annotations

import base64
import contextlib
import errno
import importlib.util
import io
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from ludus.config.sections import SCHEMES
from ludus.errors import MissingExtra, UserError
from ludus.plain_files import open_plain

PIECE = 2**20
BLOCK = 8 * 2**20  # fsspec's buffer before it sends; a multiple of 256 KiB, as Google requires
_MAX_PARTS = 9_000  # S3 allows 10,000 parts per upload
_PACKAGES = dict(zip(SCHEMES, ("s3fs", "gcsfs", "gdrive_fsspec", "fsspec"), strict=True))


class Abandoned(Exception):
    """The copy was cancelled."""


class Pace:
    """Limits the transfer to `rate` bytes per second; None is unlimited. `stop` cancels it."""

    def __init__(self, rate: float | None = None, stop: Callable[[], bool] = lambda: False) -> None:
        self._rate, self._stop = rate, stop
        self._free_at = time.monotonic()

    def take(self, size: int) -> None:
        """Wait until `size` bytes may be transferred. Abandoned if it was cancelled."""
        if self._rate is not None:
            self._free_at = max(self._free_at, time.monotonic()) + size / self._rate
            while (left := self._free_at - time.monotonic()) > 0 and not self._stop():
                time.sleep(min(left, 0.2))
        if self._stop():
            raise Abandoned


class Source(io.RawIOBase):
    """The first `size` bytes of an open file, read no faster than `pace` allows. Appended bytes are ignored."""

    def __init__(self, file: BinaryIO, size: int, pace: Pace) -> None:
        self.size = size
        self._file, self._pace = file, pace
        self._file.seek(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            offset, whence = self.size + offset, io.SEEK_SET
        return self._file.seek(offset, whence)

    def read(self, size: int | None = -1) -> bytes:
        left = max(self.size - self._file.tell(), 0)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._file.read(wanted)
        self._pace.take(len(data))
        return data


class Remote:
    """The folder at `url`. Errors of a service are not caught; `in_words` describes them."""

    def __init__(self, url: str, pace: Pace | None = None) -> None:
        import fsspec.core

        self.url = url
        self.pace = pace or Pace()
        # not a cached instance: credentials and the content may have changed
        self.fs, self.root = fsspec.core.url_to_fs(url, skip_instance_cache=True, **self._options())

    def _options(self) -> dict[str, Any]:
        return {"use_listings_cache": False}

    def write(self, name: str, source: Source) -> None:
        """Write `source` to `name`, replacing an existing file."""
        block = max(BLOCK, -(-source.size // _MAX_PARTS // BLOCK) * BLOCK)
        path = self._path(name)
        if self._is_local:
            self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            if os.path.lexists(path) and not os.path.isfile(path):
                raise self._not_plain(name)
        file = self.fs.open(path, "wb", block_size=block)
        try:
            while piece := source.read(PIECE):
                file.write(piece)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one to raise
                file.discard()
            with contextlib.suppress(Exception):  # a normal close would keep the incomplete file
                file.closed = True
            raise
        file.close()

    def read(self, name: str, start: int = 0) -> Iterator[bytes]:
        """Yield the content from byte `start` on, in pieces. FileNotFoundError if it does not exist."""
        with self._open(name) as file:
            file.seek(start)
            while piece := file.read(PIECE):
                self.pace.take(len(piece))
                yield piece

    def content(self, name: str, limit: int) -> bytes | None:
        """Return the first `limit` bytes of a file; None if it does not exist."""
        found = bytearray()
        try:
            for piece in self.read(name):
                found += piece
                if len(found) >= limit:
                    break
        except FileNotFoundError:
            return None
        return bytes(found[:limit])

    def size(self, name: str) -> int | None:
        """Return the size of the file; None if it does not exist."""
        try:
            return int(self.fs.info(self._path(name))["size"])
        except FileNotFoundError:
            return None

    def md5(self, name: str) -> str | None:
        """Return the md5 that the service computed itself; None if it does not provide one."""
        info = self.fs.info(self._path(name))
        if "md5Hash" in info:  # Google Cloud Storage
            return base64.b64decode(info["md5Hash"]).hex()
        etag = str(info.get("ETag", "")).strip('"')
        return etag if re.fullmatch(r"[0-9a-f]{32}", etag) else None

    def remove(self, name: str) -> None:
        self.fs.rm_file(self._path(name))

    def folders(self, name: str = "") -> list[str]:
        """Return the names of the folders in the folder `name`."""
        try:
            entries = self.fs.ls(self._path(name), detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(
            str(entry["name"]).rstrip("/").rpartition("/")[2]
            for entry in entries
            if entry["type"] == "directory"
        )

    @property
    def _is_local(self) -> bool:
        return self.url.startswith("file:")

    def _open(self, name: str) -> Any:
        path = self._path(name)
        if not self._is_local:
            return self.fs.open(path, "rb", block_size=BLOCK)
        try:
            return open_plain(path, links=True)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise self._not_plain(name) from None
            raise

    def _not_plain(self, name: str) -> UserError:
        """Return the error for a pipe, which would block forever, or a device."""
        return UserError(
            "expected a plain file", where=f"{self.url}/{name}", fix="remove it, or use another folder"
        )

    def _path(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}" if name else str(self.root)


def open_remote(url: str, pace: Pace | None = None, *, may_ask: bool = False) -> Remote:
    """Open the folder at `url`. `may_ask`: a user is present and can sign in to Google in a browser."""
    require_packages(url)
    if url.startswith("gdrive:"):
        from ludus.runs.mirror.drive import Drive

        return Drive(url, pace, may_ask=may_ask)
    return Remote(url, pace)


def require_packages(url: str) -> None:
    """Raise MissingExtra if the packages for `url` are not installed."""
    scheme = url.partition(":")[0]
    for package in ("fsspec", _PACKAGES[scheme]):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(f"a mirror at {scheme}://", "cloud")


_MEANINGS = (
    (
        r"storagequota|quota ?exceeded|storage ?full|insufficient ?storage|no space left|\b507\b",
        "no space left",
    ),
    (
        r"expired|refresherror|invalid_grant|unauthorized|\b401\b|credential|invalidaccesskey|signaturedoesnotmatch"
        r"|invalidtoken|token.{0,20}invalid",
        "the credentials are missing, wrong or expired",
    ),
    # S3's only message when the size of a file is requested with an expired token
    (r"\bbad request\b", "the request was rejected: the credentials may have expired"),
    (r"nosuchbucket|bucket does not exist", "bucket not found"),
    (
        r"permissionerror|accessdenied|access denied|forbidden|read-only|\b403\b",
        "permission denied for this account",
    ),
    (
        r"connect|gaierror|servernotfound|name resolution|timeout|timed out|unreachable|broken pipe|\b50[0234]\b",
        "cannot be reached",
    ),
    (r"filenotfounderror|no such file", "not found"),
)


def in_words(error: BaseException) -> str:
    """Describe a failure of the remote, without secrets: an unknown error only by its type and a few words."""
    if isinstance(error, UserError):
        return f"{error.what}{f'; {error.fix}' if error.fix else ''}"
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and len(chain) < 5:
        chain.append(link)
        link = link.__cause__ or link.__context__
    if any(isinstance(one, OSError) and one.errno in (errno.ENOSPC, errno.EDQUOT) for one in chain):
        return "no space left"
    for one in chain:
        text = f"{type(one).__name__} {one}".lower()
        for pattern, meaning in _MEANINGS:
            if re.search(pattern, text):
                return f"{meaning} ({type(one).__name__})"
    words = re.sub(r"\?\S*|[\w+=-]{32,}", "…", str(error).partition("\n")[0])
    return f"{type(error).__name__}: {words[:160]}"

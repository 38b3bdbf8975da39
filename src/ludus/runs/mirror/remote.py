"""A folder elsewhere, through fsspec: files go in and come out in pieces, so that memory does not grow with them."""

from __future__ import annotations

import base64
import contextlib
import errno
import importlib.util
import io
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from ludus.config.sections import SCHEMES
from ludus.errors import MissingExtra, UserError

PIECE = 2**20
BLOCK = 8 * 2**20  # what fsspec holds back before it sends; a multiple of 256 KiB, as Google asks
_MAX_PARTS = 9_000  # S3 takes 10,000 parts of one upload
_PACKAGES = dict(zip(SCHEMES, ("s3fs", "gcsfs", "gdrive_fsspec", "fsspec"), strict=True))


class Abandoned(Exception):
    """Nobody waits any longer for what is being copied."""


class Pace:
    """Bounds what passes through to `rate` bytes per second; None lets everything pass. `stop` ends it."""

    def __init__(self, rate: float | None = None, stop: Callable[[], bool] = lambda: False) -> None:
        self._rate, self._stop = rate, stop
        self._free_at = time.monotonic()

    def take(self, size: int) -> None:
        """Return once `size` bytes may pass. Abandoned if nobody waits for them any longer."""
        if self._rate is not None:
            self._free_at = max(self._free_at, time.monotonic()) + size / self._rate
            while (left := self._free_at - time.monotonic()) > 0 and not self._stop():
                time.sleep(min(left, 0.2))
        if self._stop():
            raise Abandoned


class Source(io.RawIOBase):
    """The first `size` bytes of an open file, read no faster than `pace` allows. What is appended is not seen."""

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
    """The folder at `url`. Whatever a service raises passes through; `in_words` says what it means."""

    def __init__(self, url: str, pace: Pace | None = None) -> None:
        import fsspec.core

        self.url = url
        self.pace = pace or Pace()
        # not a cached one: credentials that were renewed meanwhile count, and so does what others have changed there
        self.fs, self.root = fsspec.core.url_to_fs(url, skip_instance_cache=True, **self._options())

    def _options(self) -> dict[str, Any]:
        return {"use_listings_cache": False}

    def write(self, name: str, source: Source) -> None:
        """Put `source` there under `name`, in place of what may be there."""
        block = max(BLOCK, -(-source.size // _MAX_PARTS // BLOCK) * BLOCK)
        path = self._path(name)
        if self.url.startswith("file:"):
            self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        file = self.fs.open(path, "wb", block_size=block)
        try:
            while piece := source.read(PIECE):
                file.write(piece)
        except BaseException:
            with contextlib.suppress(Exception):  # the first trouble is the one to tell
                file.discard()
            with contextlib.suppress(
                Exception
            ):  # closing it as it should be would keep the half that was sent
                file.closed = True
            raise
        file.close()

    def read(self, name: str, start: int = 0) -> Iterator[bytes]:
        """The content from byte `start` on, piece by piece; FileNotFoundError."""
        with self.fs.open(self._path(name), "rb", block_size=BLOCK) as file:
            file.seek(start)
            while piece := file.read(PIECE):
                self.pace.take(len(piece))
                yield piece

    def content(self, name: str, limit: int) -> bytes | None:
        """The first `limit` bytes of a file, None if there is none."""
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
        """How long the file is; None if there is none."""
        try:
            return int(self.fs.info(self._path(name))["size"])
        except FileNotFoundError:
            return None

    def md5(self, name: str) -> str | None:
        """The md5 that the service itself has computed of what it holds; None where it tells none."""
        info = self.fs.info(self._path(name))
        if "md5Hash" in info:  # Google Cloud Storage
            return base64.b64decode(info["md5Hash"]).hex()
        etag = str(info.get("ETag", "")).strip('"')
        return etag if re.fullmatch(r"[0-9a-f]{32}", etag) else None

    def remove(self, name: str) -> None:
        self.fs.rm_file(self._path(name))

    def folders(self, name: str = "") -> list[str]:
        """The names of the folders in the folder `name`."""
        try:
            entries = self.fs.ls(self._path(name), detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(
            str(entry["name"]).rstrip("/").rpartition("/")[2]
            for entry in entries
            if entry["type"] == "directory"
        )

    def _path(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}" if name else str(self.root)


def open_remote(url: str, pace: Pace | None = None, *, may_ask: bool = False) -> Remote:
    """The folder at `url`. `may_ask`: somebody sits there and can sign in to Google in a browser."""
    require_packages(url)
    if url.startswith("gdrive:"):
        from ludus.runs.mirror.drive import Drive

        return Drive(url, pace, may_ask=may_ask)
    return Remote(url, pace)


def require_packages(url: str) -> None:
    """MissingExtra if what it takes to reach `url` is not installed."""
    scheme = url.partition(":")[0]
    for package in ("fsspec", _PACKAGES[scheme]):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(f"a mirror at {scheme}://", "cloud")


_MEANINGS = (
    (r"storagequota|quota ?exceeded|storage ?full|insufficient ?storage|no space left|\b507\b", "it is full"),
    (
        r"expired|refresherror|invalid_grant|unauthorized|\b401\b|credential|invalidaccesskey|signaturedoesnotmatch"
        r"|invalidtoken|token.{0,20}invalid",
        "the credentials are missing, wrong or expired",
    ),
    # S3 says no more than this when it is asked for the size of a file with a token that has expired
    (r"\bbad request\b", "it refuses the request: the credentials may have expired"),
    (r"nosuchbucket|bucket does not exist", "there is no such bucket"),
    (
        r"permissionerror|accessdenied|access denied|forbidden|read-only|\b403\b",
        "it does not let this account write or read",
    ),
    (
        r"connect|gaierror|servernotfound|name resolution|timeout|timed out|unreachable|broken pipe|\b50[0234]\b",
        "it cannot be reached",
    ),
    (r"filenotfounderror|no such file", "there is no such place"),
)


def in_words(error: BaseException) -> str:
    """What a failure of the remote means. Nothing secret is in it: of an unknown one, only its type and a few words."""
    if isinstance(error, UserError):
        return f"{error.what}{f'; {error.fix}' if error.fix else ''}"
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and len(chain) < 5:
        chain.append(link)
        link = link.__cause__ or link.__context__
    if any(isinstance(one, OSError) and one.errno in (errno.ENOSPC, errno.EDQUOT) for one in chain):
        return "it is full"
    for one in chain:
        text = f"{type(one).__name__} {one}".lower()
        for pattern, meaning in _MEANINGS:
            if re.search(pattern, text):
                return f"{meaning} ({type(one).__name__})"
    words = re.sub(r"\?\S*|[\w+=-]{32,}", "…", str(error).partition("\n")[0])
    return f"{type(error).__name__}: {words[:160]}"

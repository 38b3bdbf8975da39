"""Google Drive as a mirror: gdrive-fsspec signs in and reads, Google's own client finds and writes files.

gdrive-fsspec creates a second file of the same name instead of replacing it, hides the reason of a rejected upload, and
lists whole folders to find one file. Google's client does not have these problems, and it resumes an upload whose
connection broke.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from ludus.errors import UserError
from ludus.runs.mirror.remote import BLOCK, Pace, Remote, Source

_RETRIES = 3  # of one request, with Google's own backoff
_FOLDER = "application/vnd.google-apps.folder"
_FIELDS = "id,name,size,mimeType,md5Checksum"


class Drive(Remote):
    """A folder of the user's Drive. Names there need not be unique: all files with the name are replaced.

    Folder ids are cached: after a failure, which may mean that one of them is gone, create a new object.
    """

    def __init__(self, url: str, pace: Pace | None = None, *, may_ask: bool = False) -> None:
        if not may_ask:
            _require_sign_in()
        super().__init__(url, pace)
        self._folders: dict[str, str] = {"": self.fs.root_file_id}
        self._sent: dict[str, dict[str, Any]] = {}
        shared = self.fs.drive
        self._scope: dict[str, Any] = {"spaces": self.fs.spaces}
        if shared is not None:
            self._scope |= {"corpora": "drive", "driveId": shared, "supportsAllDrives": True}
            self._scope["includeItemsFromAllDrives"] = True

    def _options(self) -> dict[str, Any]:
        return {}  # its uploads need its listings cache; nothing here uses that cache

    def write(self, name: str, source: Source) -> None:
        folder, _, own = self._path(name).rpartition("/")
        parent = self._folder(folder, make=True)
        self.remove(name)
        media = _google("googleapiclient.http").MediaIoBaseUpload(
            source, "application/octet-stream", chunksize=BLOCK, resumable=True
        )
        # send bytes, not a stream: a stream would be exhausted when a piece is sent again
        media.has_stream = lambda: False
        request = self.fs.files.create(
            body={"name": own, "parents": [parent]},
            media_body=media,
            fields=_FIELDS,
            supportsAllDrives=True,
        )
        done = None
        while done is None:
            _, done = request.next_chunk(num_retries=_RETRIES)
        self._sent[name] = done

    def read(self, name: str, start: int = 0) -> Iterator[bytes]:
        found = self._files_named(name)
        path = self._path(name)
        if not found:
            raise FileNotFoundError(name)
        entry = {**found[0], "name": path, "size": int(found[0].get("size", 0)), "type": "file"}
        self.fs.dircache[path.rpartition("/")[0]] = [entry]  # gdrive-fsspec takes the id from here
        return super().read(name, start)

    def size(self, name: str) -> int | None:
        found = self._files_named(name)
        return int(found[0].get("size", 0)) if found else None

    def md5(self, name: str) -> str | None:
        found = [self._sent[name]] if name in self._sent else self._files_named(name)
        return found[0].get("md5Checksum") if found else None

    def remove(self, name: str) -> None:
        self._sent.pop(name, None)
        for entry in self._files_named(name):
            self.fs.files.delete(fileId=entry["id"], supportsAllDrives=True).execute(num_retries=_RETRIES)

    def folders(self, name: str = "") -> list[str]:
        parent = self._folder(self._path(name))
        found = [] if parent is None else self._list(parent, f"mimeType = '{_FOLDER}'")
        return sorted({str(entry["name"]) for entry in found})

    def _files_named(self, name: str) -> list[dict[str, Any]]:
        """Return every file of this name: an interrupted upload, or another machine, may have left several."""
        folder, _, own = self._path(name).rpartition("/")
        parent = self._folder(folder)
        return [] if parent is None else self._list(parent, f"name = '{_quoted(own)}'")

    def _folder(self, path: str, *, make: bool = False) -> str | None:
        """Return the id of a folder; if it does not exist, None, or with `make` the id of a new one."""
        path = path.strip("/")
        if path in self._folders:
            return self._folders[path]
        above, _, own = path.rpartition("/")
        parent = self._folder(above, make=make)
        if parent is None:
            return None
        found = self._list(parent, f"mimeType = '{_FOLDER}' and name = '{_quoted(own)}'")
        if not found:
            if not make:
                return None
            body = {"name": own, "mimeType": _FOLDER, "parents": [parent]}
            request = self.fs.files.create(body=body, fields=_FIELDS, supportsAllDrives=True)
            found = [request.execute(num_retries=_RETRIES)]
        self._folders[path] = str(found[0]["id"])
        return self._folders[path]

    def _list(self, parent: str, condition: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        page: str | None = None
        while True:
            answer = self.fs.files.list(
                q=f"'{parent}' in parents and {condition} and trashed = false",
                fields=f"nextPageToken,files({_FIELDS})",
                pageSize=1000,
                pageToken=page,
                **self._scope,
            ).execute(num_retries=_RETRIES)
            found += answer.get("files", [])
            page = answer.get("nextPageToken")
            if page is None:
                return found


def _quoted(text: str) -> str:
    """Escape `text` for the quotes of a query."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _google(module: str) -> Any:
    """Import a module of Google's client, which comes with gdrive-fsspec and has no types."""
    return importlib.import_module(module)


def _require_sign_in() -> None:
    """Raise UserError without credentials: gdrive-fsspec would open a browser and wait."""
    from fsspec.config import conf

    if conf.get("gdrive", {}).get("token", "cache") != "cache":
        return
    if _google("pydata_google_auth.cache").READ_WRITE.load() is None:
        raise UserError(
            "not signed in to Google Drive on this machine, or the sign-in has expired",
            where="gdrive://",
            fix="sign in once from a terminal: ludus mirror RUN gdrive://FOLDER",
        )

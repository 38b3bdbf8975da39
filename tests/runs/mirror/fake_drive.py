"""A fake of the part of Google Drive's HTTP API that a mirror uses, on loopback, with its failures.

Files have ids, names need not be unique, uploads are resumable in pieces of 256 KiB, and every request needs a token
that the token endpoint gives for a signed assertion.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "ya29.a0AfB_byC-the-access-token-of-a-test"
FOLDER = "application/vnd.google-apps.folder"
PIECE = 256 * 1024


class FakeDrive:
    """The content of the drive, and the next failures."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, Any]] = {}
        self.uploads: dict[str, dict[str, Any]] = {}
        self.number = 0
        self.full = False
        self.signed_out = False
        self.corrupt = 0
        """Number of the next files that are stored with a wrong byte."""
        self.cut_off = 0
        """Number of the next pieces of an upload that get a server error."""

    def add(self, meta: dict[str, Any], content: bytes | None) -> dict[str, Any]:
        self.number += 1
        entry = {"id": f"id{self.number}", "mimeType": "application/octet-stream", "trashed": False, **meta}
        if content is not None and self.corrupt and content:
            self.corrupt -= 1
            content = bytes([content[0] ^ 1]) + content[1:]
        if content is not None:
            entry |= {"content": content, "size": str(len(content))}
            entry["md5Checksum"] = hashlib.md5(content).hexdigest()
        self.files[entry["id"]] = entry
        return entry

    def find(self, query: str) -> list[dict[str, Any]]:
        """Evaluate `'parent' in parents and name = '…' and mimeType = '…' and trashed = false`."""
        parent = re.match(r"'([^']+)' in parents", query)
        assert parent is not None
        wanted = dict(re.findall(r"(name|mimeType) = '((?:[^'\\\\]|\\\\.)*)'", query))
        return [
            entry
            for entry in self.files.values()
            if parent[1] in entry.get("parents", [])
            and all(entry[key] == re.sub(r"\\\\(.)", r"\1", value) for key, value in wanted.items())
        ]

    def named(self, name: str) -> list[dict[str, Any]]:
        return [entry for entry in self.files.values() if entry["name"] == name]


def _shown(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "content"}


def _handler(drive: FakeDrive) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet per answer, otherwise each waits for the acknowledgement of the last
        disable_nagle_algorithm = True

        def log_message(self, *arguments: Any) -> None:
            pass

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _answer(self, status: int, body: Any = None, **headers: str) -> None:
            data = body if isinstance(body, bytes) else json.dumps(body if body is not None else {}).encode()
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Type", "application/json; charset=UTF-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _refuse(self, status: int, reason: str, message: str) -> None:
            error = {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}
            self._answer(status, {"error": error})

        def _allowed(self) -> bool:
            if self.headers.get("Authorization") == f"Bearer {TOKEN}" and not drive.signed_out:
                return True
            self._refuse(401, "authError", "Invalid Credentials")
            return False

        def do_GET(self) -> None:
            self._body()
            url = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            if not self._allowed():
                return
            if url.path == "/drive/v3/files":
                self._answer(200, {"files": [_shown(entry) for entry in drive.find(query["q"])]})
                return
            entry = drive.files.get(url.path.rpartition("/")[2])
            if entry is None:
                self._refuse(404, "notFound", "File not found")
            elif query.get("alt") == "media":
                content = entry["content"]
                span = re.match(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
                if span:
                    self._answer(206, content[int(span[1]) : int(span[2]) + 1])
                else:
                    self._answer(200, content)
            else:
                self._answer(200, _shown(entry))

        def do_POST(self) -> None:
            body, url = self._body(), urlsplit(self.path)
            if url.path == "/token":
                if drive.signed_out:
                    self._answer(
                        400, {"error": "invalid_grant", "error_description": "Token has been expired"}
                    )
                else:
                    self._answer(200, {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"})
                return
            if not self._allowed():
                return
            meta = json.loads(body)
            if drive.full and meta.get("mimeType") != FOLDER:
                self._refuse(403, "storageQuotaExceeded", "The user's Drive storage quota has been exceeded.")
            elif url.path.startswith("/upload/"):
                drive.number += 1
                session = f"upload{drive.number}"
                drive.uploads[session] = {"meta": meta, "content": b""}
                host = self.headers["Host"]
                self._answer(200, Location=f"http://{host}/upload/drive/v3/files?upload_id={session}")
            else:
                self._answer(200, _shown(drive.add(meta, None)))

        def do_PUT(self) -> None:
            body, query = self._body(), parse_qs(urlsplit(self.path).query)
            upload = drive.uploads[query["upload_id"][0]]
            if not self._allowed():
                return
            span = re.fullmatch(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)", self.headers["Content-Range"])
            assert span is not None
            if drive.cut_off and span[1] is not None:
                drive.cut_off -= 1
                self._refuse(503, "backendError", "Backend Error")
                return
            if span[1] is not None:
                assert int(span[1]) == len(upload["content"])
                upload["content"] += body
            if span[3] != "*" and len(upload["content"]) == int(span[3]):
                self._answer(200, _shown(drive.add(upload["meta"], upload["content"])))
                return
            assert len(upload["content"]) % PIECE == 0, "Google refuses pieces of any other size"
            done = len(upload["content"])
            self._answer(308, **({"Range": f"bytes=0-{done - 1}"} if done else {}))

        def do_DELETE(self) -> None:
            self._body()
            if self._allowed():
                drive.files.pop(urlsplit(self.path).path.rpartition("/")[2], None)
                self._answer(204)

    return Handler


@contextmanager
def fake_drive() -> Iterator[tuple[str, FakeDrive]]:
    """Yield the address of the server, and its content."""
    drive = FakeDrive()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(drive))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", drive
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

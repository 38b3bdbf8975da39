"""The dashboard's server: pages, their data as JSON, live changes as server-sent events, videos, and two buttons."""

from __future__ import annotations

import asyncio
import hashlib
import json
import mimetypes
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

import ludus
from ludus.errors import UserError
from ludus.reports.web import details
from ludus.reports.web.columns import CLOCKS
from ludus.reports.web.control import RunControl
from ludus.reports.web.entry import RunEntry
from ludus.reports.web.index import RunIndex
from ludus.reports.web.security import REPORT_POLICY, Guard
from ludus.runs.directory import RunDirectory

_TICK = 0.25
_KEEP_ALIVE = 15.0
_MAX_RUNS = 60
_MAX_POINTS = 4000
_MAX_NEWS = 2000  # rows; with more of them the page asks for everything afresh
_MAX_REPORTS = 16  # that wait to be drawn
_MEDIA_CHUNK = 256 << 10


class Dashboard:
    """State shared by all requests: the index and the buttons."""

    def __init__(self, index: RunIndex) -> None:
        self.index = index
        self.control = RunControl(index.folder)
        self.static = _load_static()
        self._drawing = asyncio.Lock()  # a report takes memory: one at a time; those that wait hold no thread
        self._reports = 0

    def routes(self) -> list[Route]:
        run = "/api/runs/{run}"
        return [
            *(Route(path, self.page) for path in ("/", "/run/{run}", "/compare")),
            Route("/static/{name}", self.static_file),
            Route("/api/runs", self.runs),
            Route("/api/series", self.series),
            Route("/api/events", self.events),
            Route(run, self.run),
            Route(run + "/config", self._part(details.read_config)),
            Route(run + "/checkpoints", self._part(details.read_checkpoints)),
            Route(run + "/videos", self._part(details.list_videos)),
            Route(run + "/videos/{name}", self.video),
            Route(run + "/logs", self._part(details.list_logs)),
            Route(run + "/logs/{name}", self.log),
            Route(run + "/league", self._part(details.read_league)),
            Route(run + "/games", self._part(details.list_games)),
            Route(run + "/games/{file:path}", self.games),
            Route(run + "/report", self.report),
            Route(run + "/stop", self.stop, methods=["POST"]),
            Route(run + "/resume", self.resume, methods=["POST"]),
        ]

    # Pages

    def page(self, request: Request) -> Response:
        return self._static("index.html", request)

    def static_file(self, request: Request) -> Response:
        return self._static(request.path_params["name"], request)

    def _static(self, name: str, request: Request) -> Response:
        if name not in self.static:
            raise _NotFound
        content, kind, tag = self.static[name]
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    # Data

    def runs(self, request: Request) -> Response:
        self.index.note_request()
        version = self.index.version
        return _json(
            {
                "version": version,
                "ludus": ludus.__version__,
                "root": str(self.index.folder.root),
                "indexing": self.index.waiting,
                "runs": [entry.summary() for entry in list(self.index.entries.values())],
            }
        )

    def run(self, request: Request) -> Response:
        entry = self._entry(request)
        self.index.refresh(entry)
        folder = self.index.folder
        hidden = ("evaluation", "tags")
        return _json(
            {
                "version": self.index.version,
                "summary": entry.summary(),
                "root": str(folder.root),
                "path": str(entry.path),
                "info": {key: value for key, value in entry.info.items() if key not in hidden},
                "metrics": sorted(entry.read_progress.last),
                "last": entry.read_progress.last,
                "control": self.control.state(entry),
                "has": {
                    "videos": len(details.list_videos(folder, entry)),
                    "games": len(details.list_games(folder, entry)),
                    "league": entry.self_play,
                },
            }
        )

    def series(self, request: Request) -> Response:
        """`runs` and `metrics`, each as often as wanted; `x`, `points`, and `from` and `to` for a part of the axis."""
        self.index.note_request()
        query = request.query_params
        x = query.get("x", "step")
        points = min(max(_integer(query.get("points"), 600), 10), _MAX_POINTS)
        between = None
        if "from" in query and "to" in query:
            between = (_number(query["from"]), _number(query["to"]))
        if x not in CLOCKS:
            raise UserError(f"unknown axis '{x}'", where="x", fix=", ".join(CLOCKS))
        found = []
        for run in list(dict.fromkeys(query.getlist("runs")))[:_MAX_RUNS]:
            entry = self.index.get(run)
            if entry is None:
                continue
            self.index.refresh(entry)
            for metric in dict.fromkeys(query.getlist("metrics")):
                if metric in entry.read_progress.last:
                    data = self.index.series(entry, metric, x, points, between)
                    found.append({"run": run, "metric": metric, **data})
        return _json({"series": found})

    def log(self, request: Request) -> Response:
        entry = self._entry(request)
        text = details.read_log(self.index.folder, entry, request.path_params["name"])
        return _json({"text": text})

    def games(self, request: Request) -> Response:
        entry = self._entry(request)
        return _json(details.read_games(self.index.folder, entry, request.path_params["file"]))

    def video(self, request: Request) -> Response:
        entry = self._entry(request)
        name = request.path_params["name"]
        if name not in {video["name"] for video in details.list_videos(self.index.folder, entry)}:
            raise _NotFound
        return _media(self.index.folder.open(*entry.parts, "videos", name), name, request)

    async def report(self, request: Request) -> Response:
        """The report, drawn after those that were asked for before it. With too many of them, an error."""
        if self._reports > _MAX_REPORTS:
            return _problem(503, "too many reports are asked for at once", fix="try again in a few seconds")
        self._reports += 1
        try:
            async with self._drawing:
                return await run_in_threadpool(self._draw, request)
        finally:
            self._reports -= 1

    def _draw(self, request: Request) -> Response:
        """Return a newly drawn report. A report page that came with the run is untrusted and is not shown."""
        from ludus.reports.report import ReportedRun, run_page

        run = RunDirectory(self._entry(request).path)
        try:
            page = run_page(ReportedRun.read(run.held_together()), run.report_path)
        except UserError as error:
            return _problem(404, error.what, error.where, error.fix)
        headers = {"content-security-policy": REPORT_POLICY}
        return Response(page, media_type="text/html; charset=utf-8", headers=headers)

    # Live

    async def events(self, request: Request) -> Response:
        """Server-sent events: `runs` when any changed after `since`, `rows` of every `watch=RUN:ROWS:EPOCH`."""
        query = request.query_params
        since = _integer(query.get("since"), self.index.version)
        watched: dict[str, tuple[int, int]] = {}
        for text in query.getlist("watch")[:_MAX_RUNS]:
            run, _, position = text.partition(":")
            rows, _, epoch = position.partition(":")
            watched[run] = _integer(rows, 0), _integer(epoch, 0)
        return StreamingResponse(self._stream(since, watched), media_type="text/event-stream")

    async def _stream(self, since: int, watched: dict[str, tuple[int, int]]) -> AsyncIterator[str]:
        names = list(watched)
        self.index.watch(names)
        quiet = 0.0
        yield "retry: 2000\n\n"
        try:
            while not self.index.stopping:
                if self.index.version != since:
                    version = self.index.version
                    for event in await run_in_threadpool(self._news, since, watched):
                        yield event
                    since, quiet = version, 0.0
                elif quiet >= _KEEP_ALIVE:
                    quiet = 0.0
                    yield ": still here\n\n"
                await run_in_threadpool(self.index.note_request)
                await asyncio.sleep(_TICK)
                quiet += _TICK
        finally:
            self.index.unwatch(names)

    def _news(self, since: int, watched: dict[str, tuple[int, int]]) -> list[str]:
        changed, removed = self.index.changed_since(since)
        found = []
        for run, (rows, epoch) in watched.items():
            entry = self.index.get(run)
            if entry is None or (entry.read_progress.rows, entry.read_progress.epoch) == (rows, epoch):
                continue
            with entry.busy:
                progress = entry.read_progress
                watched[run] = progress.rows, progress.epoch
                if progress.epoch == epoch and progress.rows - rows <= _MAX_NEWS:
                    columns = self.index.store.newest(run, rows, progress)
                    found.append(_event("rows", {"run": run, "rows": progress.rows, "columns": columns}))
                else:
                    found.append(
                        _event("reset", {"run": run, "rows": progress.rows, "epoch": progress.epoch})
                    )
        if changed or removed:
            runs = [entry.summary() | {"control": self.control.state(entry)} for entry in changed]
            data = {
                "version": self.index.version,
                "indexing": self.index.waiting,
                "removed": removed,
                "runs": runs,
            }
            found.append(_event("runs", data))
        return found

    # Buttons

    def stop(self, request: Request) -> Response:
        entry = self._entry(request)
        pid = self.control.stop(entry)
        return _json({"message": f"process {pid} was asked to save and stop", "pid": pid})

    async def resume(self, request: Request) -> Response:
        body = await request.body()
        try:
            steps = json.loads(body or b"{}").get("steps")
        except (ValueError, AttributeError, RecursionError):
            raise UserError("the request is not JSON") from None
        entry = self._entry(request)
        pid = await run_in_threadpool(self.control.resume, entry, None if steps in (None, "") else str(steps))
        return _json({"message": "the run is being resumed", "pid": pid})

    # Within

    def _entry(self, request: Request) -> RunEntry:
        entry = self.index.get(request.path_params["run"])
        if entry is None:
            self.index.note_request()  # it may be new
            entry = self.index.get(request.path_params["run"])
        if entry is None:
            raise _NotFound
        return entry

    def _part(self, read: Callable[..., Any]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            return _json(read(self.index.folder, self._entry(request)))

        return answer


class _NotFound(Exception):
    """There is no such run, file or page."""


def create_app(index: RunIndex, *, token: str | None = None, cookie: str = "ludus_ui") -> Any:
    """Return the dashboard as an ASGI app. It starts `index` and stops it at the end."""
    dashboard = Dashboard(index)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        index.start()
        yield
        await run_in_threadpool(index.stop)

    handlers: dict[Any, Any] = {
        _NotFound: lambda request, error: _problem(404, "there is no such thing here"),
        404: lambda request, error: _problem(404, "there is no such page"),
        UserError: lambda request, error: _problem(409, error.what, error.where, error.fix),
        OSError: lambda request, error: _problem(404, "the file cannot be read"),
    }
    app = Starlette(routes=dashboard.routes(), exception_handlers=handlers, lifespan=lifespan)
    return Guard(app, token, cookie)


def _json(data: Any, status: int = 200) -> Response:
    # only ASCII: a name that is no valid text in any language still travels
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Response(text, status, media_type="application/json")


def _problem(status: int, what: str, where: str = "", fix: str = "") -> Response:
    return _json({"error": {"what": what, "where": where, "fix": fix}}, status)


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data, allow_nan=False, separators=(',', ':'))}\n\n"


def _media(file: BinaryIO, name: str, request: Request) -> Response:
    """Return a video, or the part of it that the browser requests."""
    size = file.seek(0, 2)
    headers = {"accept-ranges": "bytes", "cache-control": "no-cache"}
    kind = mimetypes.guess_type("x" + Path(name).suffix.lower())[0] or "application/octet-stream"
    start, end, status = 0, size, 200
    found = re.fullmatch(r"bytes=([0-9]{0,18})-([0-9]{0,18})", request.headers.get("range", ""))
    if found and (found[1] or found[2]):
        status = 206
        if found[1]:
            start, end = int(found[1]), min(int(found[2] or size), size - 1) + 1
        else:
            start = max(0, size - int(found[2]))
        if start >= size or end <= start:
            file.close()
            return Response(status_code=416, headers={"content-range": f"bytes */{size}"})
        headers["content-range"] = f"bytes {start}-{end - 1}/{size}"
    headers["content-length"] = str(end - start)
    file.seek(start)
    return StreamingResponse(_chunks(file, end - start), status, headers, kind)


def _chunks(file: BinaryIO, length: int) -> Iterator[bytes]:
    with file:
        while length > 0:
            data = file.read(min(_MEDIA_CHUNK, length))
            if not data:
                return
            length -= len(data)
            yield data


def _load_static() -> dict[str, tuple[bytes, str, str]]:
    """Return content, type and tag of every static file by name: files are served by name, never by path."""
    kinds = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
    found = {}
    for file in (files("ludus.reports.web") / "static").iterdir():
        kind = kinds.get(Path(file.name).suffix)
        if kind is not None:
            content = file.read_bytes()
            tag = f'"{hashlib.blake2b(content, digest_size=8).hexdigest()}"'
            found[file.name] = content, f"{kind}; charset=utf-8", tag
    return found


def _integer(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,15}", text) else otherwise


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"'{text}' is not a number", where="from, to") from None

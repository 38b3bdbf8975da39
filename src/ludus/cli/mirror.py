"""`ludus mirror`: bring the copy of a run elsewhere up to date, now."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ludus.cli.commands import Bandwidth, Json, Quiet, Root
from ludus.cli.output import Output
from ludus.errors import UserError

if TYPE_CHECKING:
    from ludus.runs.directory import RunDirectory

MIRROR_EXAMPLES = (
    "Examples: ludus mirror latest s3://bucket/runs, ludus mirror latest gdrive://runs; "
    "back: ludus pull s3://bucket/runs"
)


def mirror(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A path, a run's name, or latest.")],
    url: Annotated[
        str | None,
        typer.Argument(metavar="URL", help="s3://…, gs://…, gdrive://…, file:///…. Default: where it was."),
    ] = None,
    bandwidth: Bandwidth = None,
    root: Root = "runs",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Copy a run to a mirror: what is new, verified by its hash."""
    from ludus.runs.directory import find_run
    from ludus.runs.mirror.background import mirror_now

    output = Output(json, quiet=quiet)
    found = find_run(run, root)
    where, rate = _settings(found, url, bandwidth)
    state, outcome = mirror_now(
        found,
        where,
        bandwidth=rate,
        note=lambda path: output.print(f"  {path}"),
        may_ask=sys.stdin.isatty(),
    )
    output.pairs(
        [
            ("run", str(found.path)),
            ("sent", f"{outcome.files} files, {size_text(outcome.bytes)}"),
            ("mirror", state.in_words()),
            ("back", f"ludus pull {shlex.quote(state.at)}"),
        ]
    )
    output.result(
        {"run": str(found.path), "sent": outcome.files, "bytes": outcome.bytes, **state.summary()},
        short=state.at,
    )


def checked(url: str) -> str:
    """`url` as the command line gave it; UserError if a mirror cannot be there."""
    from ludus.config.sections import checked_url

    try:
        return checked_url(url)
    except ValueError as error:
        raise UserError(str(error), where="command line: URL", fix="as in s3://bucket/runs") from None


def checked_rate(text: str | None) -> str | None:
    from ludus.config.sections import bytes_per_second

    try:
        if text is not None:
            bytes_per_second(text)
    except ValueError as error:
        raise UserError(str(error), where="command line: --bandwidth", fix='as in "5 MB/s"') from None
    return text


def size_text(size: float) -> str:
    """Bytes as people say them: `3.4 MB`."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _settings(run: RunDirectory, url: str | None, bandwidth: str | None) -> tuple[str, str | None]:
    """Where to and how fast: as typed, else as the run was mirrored before, else as its config says."""
    from ludus.reports.reading import read_config
    from ludus.runs.mirror.state import MirrorState

    config = read_config(run).get("mirror")
    config = config if isinstance(config, dict) else {}
    state = MirrorState.load(run.path)
    where = url or (state.at if state is not None else None) or config.get("url")
    if not isinstance(where, str):
        raise UserError(
            "the run has no mirror",
            where=str(run.config_path),
            fix="name one: ludus mirror RUN s3://bucket/runs",
        )
    return checked(where), checked_rate(bandwidth or config.get("bandwidth"))

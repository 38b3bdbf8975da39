"""`ludus mirror`: update the mirror of a run now."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ludus.cli.commands import Bandwidth, Json, Quiet, Root, examples
from ludus.cli.output import Output
from ludus.errors import UserError

if TYPE_CHECKING:
    from ludus.runs.directory import RunDirectory

_NOTES = "mirrored"
EXAMPLES = examples(
    "ludus mirror latest s3://bucket/runs",
    "ludus mirror latest gdrive://runs",
)


def mirror(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A path, a run's name, or latest.")],
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="URL", help="s3://…, gs://…, gdrive://…, file:///…. Default: the previous address."
        ),
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
    remember_typed(found, state.at)
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


def remember_typed(run: RunDirectory, url: str) -> None:
    """Note that the user has named `url` as this run's mirror."""
    from ludus.config.trained_here import note

    note(_NOTES, f"{run.path.resolve()} {url}")


def typed_mirror(run: RunDirectory) -> str | None:
    """Return the mirror that the run says it has, if the user has named it before; see `remember_typed`."""
    from ludus.config.trained_here import is_noted
    from ludus.runs.mirror.state import MirrorState

    state = MirrorState.load(run.path)
    noted = state is not None and is_noted(_NOTES, f"{run.path.resolve()} {state.at}")
    return state.at if state is not None and noted else None


def _require_consent(run: RunDirectory, url: str) -> None:
    """Raise UserError where only the run names the mirror: the user has neither trained it so nor typed it."""
    from ludus.config.loading import load_config
    from ludus.config.own_modules import current_trust
    from ludus.config.requests import ConsentRequest, require_all
    from ludus.config.trained_here import trust_in_run

    if url == typed_mirror(run):
        return
    try:
        trust = trust_in_run(load_config(run.config_path).config)
    except UserError:  # a damaged config is mirrored as it is
        trust = current_trust()
    with trust.applied():
        require_all([ConsentRequest("copy itself to", url, "mirror")], str(run.path))


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
    """Return a number of bytes as text: `3.4 MB`."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _settings(run: RunDirectory, url: str | None, bandwidth: str | None) -> tuple[str, str | None]:
    """Return the URL and bandwidth: from the command line, else the run's last mirror, else its config."""
    from ludus.reports.reading import read_config
    from ludus.runs.mirror.state import MirrorState

    config = read_config(run).get("mirror")
    config = config if isinstance(config, dict) else {}
    state = MirrorState.load(run.path)
    where = url or (state.at if state is not None else None) or config.get("url")
    if url is None and isinstance(where, str):
        _require_consent(run, where)
    if not isinstance(where, str):
        raise UserError(
            "the run has no mirror",
            where=str(run.config_path),
            fix="name one: ludus mirror RUN s3://bucket/runs",
        )
    return checked(where), checked_rate(bandwidth or config.get("bandwidth"))

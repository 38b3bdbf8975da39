"""`ludus balatro verify` and `ludus balatro show`: check the replays of evaluated games, and look at one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ludus.cli.commands import Json, Quiet, examples
from ludus.cli.output import Output
from ludus.errors import UserError

VERIFY_EXAMPLES = examples(
    "ludus balatro verify games/*.jsonl",
    "ludus balatro verify games/balatro-ppo-7I4M53DL.jsonl --json",
)
SHOW_EXAMPLES = examples(
    "ludus balatro show games/balatro-ppo-7I4M53DL.jsonl",
    "ludus balatro show game.jsonl --out game.html --no-open",
)


def verify(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Replays, from `eval --replays`.")],
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Play replays again from their seeds, and compare every visible state and the result.

    Exit code 1 if one differs, 2 if a file is damaged.
    """
    from ludus.cli.failures import report
    from ludus.kernel_cache import announce_compiling

    announce_compiling()
    output = Output(json, quiet=quiet)
    rows, codes = [], []
    for path in files:
        try:
            rows.append(_verified(path))
        except UserError as error:
            codes.append(report(error, []))
            rows.append(_failed(path, error))
            continue
        output.print(f"{path}: {rows[-1]['decisions']} decisions, {rows[-1]['end']}")
    verified = len(rows) - len(codes)
    decisions = sum(row.get("decisions", 0) for row in rows)
    summary = f"{verified} of {len(rows)} replays verified, {decisions:,} decisions"
    output.print(summary)
    output.result(
        {"replays": len(rows), "verified": verified, "decisions": decisions, "files": rows}, short=summary
    )
    if codes:
        raise typer.Exit(min(codes))


def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A replay, from `eval --replays`.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="PAGE.html", help="Default: FILE with the ending .html."),
    ] = None,
    open_page: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="Open it in the browser; default: if a person sees this."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a page that steps through a game: the table, each decision, and what the agent considered."""
    from ludus.evaluation.screen import has_screen
    from ludus.games.balatro.replay_files import load_replay
    from ludus.games.balatro.replay_page import write_replay_page
    from ludus.kernel_cache import announce_compiling

    announce_compiling()
    output = Output(json, quiet=quiet)
    replay = load_replay(file)
    path = out or file.with_suffix(".html")
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(
            f"the page is an HTML file, not '{path.name}'",
            where=f"command line: --out {path}",
            fix=f"--out {path.stem}.html",
        )
    if path.resolve() == file.resolve():
        raise UserError(
            "the page would replace the replay", where=f"command line: {file}", fix="--out PAGE.html"
        )
    write_replay_page(replay, path, str(file))
    output.pairs(
        [
            ("page", str(path)),
            ("game", f"{replay.header.policy}, seed {replay.header.seed}: {_end(replay)}"),
            ("size", f"{path.stat().st_size / 1e6:.1f} MB, opens without a network"),
        ]
    )
    output.result(
        {"page": str(path), "bytes": path.stat().st_size, "decisions": len(replay.decisions)}, short=str(path)
    )
    if open_page is None:
        open_page = has_screen() and sys.stdout.isatty() and not json
    if open_page:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())


def _verified(path: Path) -> dict[str, Any]:
    """Verify one file and return its row. UserError if it is damaged or differs."""
    from ludus.games.balatro.replay_check import verify_replay
    from ludus.games.balatro.replay_files import load_replay

    replay = load_replay(path)
    verify_replay(replay, str(path))
    header, result = replay.header, replay.result
    return {
        "file": str(path),
        "verified": True,
        "seed": header.seed,
        "deck": header.deck,
        "stake": header.stake,
        "policy": header.policy,
        "decisions": len(replay.decisions),
        "won": result.won,
        "ante": result.ante,
        "end": _end(replay),
    }


def _failed(path: Path, error: UserError) -> dict[str, Any]:
    from ludus.games.balatro.replay_check import ReplayMismatch

    row: dict[str, Any] = {"file": str(path), "verified": False}
    row["error"] = {"what": error.what, "where": error.where, "fix": error.fix}
    if isinstance(error, ReplayMismatch):
        row |= {"step": error.step, "expected": error.expected, "got": error.got}
    return row


def _end(replay: Any) -> str:
    from ludus.games.balatro.replay_page import end_in_words

    return end_in_words(replay.result)

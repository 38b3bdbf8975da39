"""`ludus runs`: list, remove and tag runs; pin checkpoints so that they are never deleted."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.commands import Commands, Json, Root, examples
from ludus.cli.output import Output, plain_table
from ludus.errors import UserError

if TYPE_CHECKING:
    from rich.text import Text

    from ludus.runs.checkpoints import CheckpointManager
    from ludus.runs.directory import RunDirectory

Runs = Annotated[list[str], typer.Argument(metavar="RUN", help="Paths, run names, or latest.")]
Pinned = Annotated[list[str], typer.Argument(metavar="RUN@STEP", help="RUN@STEP, RUN@best, RUN@latest.")]

runs_app = typer.Typer(
    cls=Commands,
    help="List, remove and tag runs; pin checkpoints.",
    invoke_without_command=True,
    add_completion=False,
    epilog=examples("ludus runs", "ludus runs tag latest baseline"),
    rich_markup_mode=None,
)

_LOOK = {"running": "cyan", "finished": "green", "stopped": "green", "interrupted": "yellow"}


@runs_app.callback()
def runs(context: typer.Context, root: Root = "runs", json: Json = False) -> None:
    if context.invoked_subcommand is None:
        list_all(context, root, json)


@runs_app.command("list", epilog=examples("ludus runs list"))
def list_all(context: typer.Context, root: Root = "runs", json: Json = False) -> None:
    """List the runs, newest first."""
    from rich.text import Text

    from ludus.runs.directory import list_runs

    root, json = _settings(context, root, json)
    output = Output(json, listing=True)
    rows = [_row(run) for run in list_runs(root, damaged=True)]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["env"], row["algorithm"]), []).append(row)
    for (env, algorithm), members in groups.items():
        output.print(Text.assemble((env, "bold"), (f"   {algorithm}", "bold cyan")))
        mirrored = any(row["mirror"] for row in members)
        columns = ["  run", "status", "steps", "eval", "age", *(["mirror"] if mirrored else []), "tags"]
        table = plain_table(*columns, right=("steps", "eval", "age"))
        for row in members:
            cells = _cells(row)
            table.add_row(*(cells if not mirrored else [*cells[:-1], _mirror(row["mirror"]), cells[-1]]))
        output.print(table)
        output.print("")
    if not rows:
        output.print(f"no runs in {root}/ yet: ludus train quickstart")
    output.result({"runs": rows})


@runs_app.command("rm", epilog=examples("ludus runs rm latest --yes"))
def remove(
    context: typer.Context,
    runs: Runs,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    root: Root = "runs",
    json: Json = False,
) -> None:
    """Delete runs with all their files."""
    from ludus.runs.directory import find_any_run, remove_run

    root, json = _settings(context, root, json)
    output = Output(json, listing=True)
    found = list(dict.fromkeys(find_any_run(name, root) for name in runs))
    if not yes:
        if json or not sys.stdin.isatty():
            raise UserError("removing runs needs confirmation", fix="add --yes")
        for run in found:
            output.print(f"  {run.path}   {_size(run.path)}")
        if not typer.confirm(f"Delete {'these runs' if len(found) > 1 else 'this run'} for good?"):
            output.print("nothing was deleted")
            return
    removed = []
    for run in found:
        remove_run(run)
        removed.append(str(run.path))
        output.print(f"removed {run.path}")
    output.result({"removed": removed})


@runs_app.command("tag", epilog=examples("ludus runs tag latest baseline"))
def tag(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A path, a run's name, or latest.")],
    tags: Annotated[list[str], typer.Argument(metavar="TAG", help="Tags to add.")],
    root: Root = "runs",
    json: Json = False,
) -> None:
    """Add tags to a run."""
    from ludus.runs.directory import find_run, tag_run

    root, json = _settings(context, root, json)
    output = Output(json, listing=True)
    found = find_run(run, root)
    tag_run(found, tags)
    now = found.info()["tags"]
    output.print(f"{found.path}: {', '.join(now)}")
    output.result({"run": str(found.path), "tags": now})


@runs_app.command("pin", epilog=examples("ludus runs pin latest@best"))
def pin(context: typer.Context, checkpoints: Pinned, root: Root = "runs", json: Json = False) -> None:
    """Keep checkpoints for good, whatever checkpoint.keep says."""
    _set_pins(context, checkpoints, root, json, pinned=True)


@runs_app.command("unpin", epilog=examples("ludus runs unpin latest@best"))
def unpin(context: typer.Context, checkpoints: Pinned, root: Root = "runs", json: Json = False) -> None:
    """Let pinned checkpoints be deleted again."""
    _set_pins(context, checkpoints, root, json, pinned=False)


def _set_pins(context: typer.Context, names: list[str], root: str, json: bool, *, pinned: bool) -> None:
    root, json = _settings(context, root, json)
    output = Output(json, listing=True)
    found = [_checkpoint(name, root) for name in names]
    paths = []
    for manager, which in found:
        (manager.pin if pinned else manager.unpin)(which)
        paths.append(str(manager.find(which).path))
        output.print(f"{'pinned' if pinned else 'unpinned'} {paths[-1]}")
    output.result({"checkpoints": paths, "pinned": pinned})


def _checkpoint(name: str, root: str) -> tuple[CheckpointManager, str]:
    from ludus.runs.checkpoints import CheckpointManager
    from ludus.runs.directory import find_run, split_policy_ref

    run, which = split_policy_ref(name)
    if which is None:
        raise UserError(
            f"'{name}' does not name a checkpoint", fix=f"{name}@latest, {name}@best or {name}@STEP"
        )
    manager = CheckpointManager(find_run(run, root).checkpoints_dir)
    manager.find(which)
    return manager, which


def _settings(context: typer.Context, root: str, json: bool) -> tuple[str, bool]:
    """Accept `--root` and `--json` also before the subcommand: `ludus runs --json list`."""
    outer = context.parent.params if context.parent is not None else {}
    return (outer.get("root") or root) if root == "runs" else root, json or bool(outer.get("json"))


def _row(run: RunDirectory) -> dict[str, Any]:
    """Return the row of a run in the list, as plain data."""
    from ludus.reports.reading import summarize
    from ludus.runs.mirror.state import MirrorState

    found, mirror = summarize(run), MirrorState.load(run.path)
    return {
        "name": found.name,
        "path": found.path,
        "env": found.env,
        "algorithm": found.algorithm,
        "status": found.status,
        "steps": found.steps,
        "eval": found.evaluation,
        "best": found.best,
        "created": found.created,
        "tags": list(found.tags),
        "mirror": None if mirror is None else mirror.summary(),
    }


def _cells(row: dict[str, Any]) -> list[Any]:
    from rich.text import Text

    from ludus.tracking.progress import number

    score = row["eval"] if row["eval"] is not None else row["best"]
    return [
        Text(f"  {row['name']}"),
        Text(row["status"], _LOOK.get(row["status"], "red")),
        "" if row["steps"] is None else f"{row['steps']:,}",
        "" if score is None else number(score),
        _age(row["created"]),
        Text(" ".join(row["tags"]), "dim"),
    ]


def _mirror(state: dict[str, Any] | None) -> Text | str:
    """Return the state of the mirror: `whole`, or how many files are missing."""
    from rich.text import Text

    if state is None:
        return ""
    if state["trouble"] is None and not state["missing"]:
        return Text("whole" if state["mirrored"] else "begun", "green")
    return Text(f"lacks {state['missing']}", "red")


def _age(created: str | None) -> str:
    """Return the time since `created` in one unit: `5 min`, `3 h`, `12 d`."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(created or "")).total_seconds()
    except (ValueError, TypeError):
        return ""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(int(seconds), 0)} s"


def _size(path: Path) -> str:
    size = float(sum(file.stat().st_size for file in path.rglob("*") if file.is_file()))
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"

"""`ludus sync`: upload a run's files to a tracking service, after its end or after an outage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ludus.cli.commands import Commands, Json, Quiet, Root, examples
from ludus.cli.output import Output
from ludus.errors import UserError

sync_app = typer.Typer(
    cls=Commands,
    help="Upload the files of a run to a tracking service.",
    no_args_is_help=True,
    add_completion=False,
    epilog=examples("ludus sync wandb latest"),
    rich_markup_mode=None,
)


@sync_app.callback()
def sync() -> None:
    pass


@sync_app.command("wandb", epilog=examples("ludus sync wandb latest --project my-project"))
def wandb(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A path, a run's name, or latest.")],
    project: Annotated[
        str | None,
        typer.Option("--project", metavar="NAME", help="Project; default: that of the run's config."),
    ] = None,
    entity: Annotated[str | None, typer.Option("--entity", metavar="NAME", help="User or team.")] = None,
    group: Annotated[
        str | None, typer.Option("--group", metavar="NAME", help="Group of runs in W&B.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Tag of the W&B run; can be repeated.")
    ] = None,
    online: Annotated[
        bool | None,
        typer.Option(
            "--online/--offline", help="Offline: local files for `wandb sync`. Default: as configured."
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Upload everything again, to a new W&B run.")
    ] = False,
    root: Root = "runs",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Upload the rows, checkpoints and videos of a run that are not in Weights & Biases yet."""
    from ludus.config.loading import load_config
    from ludus.config.requests import require_all, wandb_request
    from ludus.config.trained_here import trust_in_run
    from ludus.reports.reading import read_config, read_info, status_of
    from ludus.runs.directory import find_run
    from ludus.tracking.background import RunFiles
    from ludus.tracking.following import Follower
    from ludus.tracking.wandb import require_wandb
    from ludus.training.trackers import open_wandb

    output = Output(json, quiet=quiet)
    require_wandb()
    directory = find_run(run, root)
    info, config = read_info(directory), read_config(directory)
    if status_of(directory, info) == "running":
        raise UserError("the run is still training", where=str(directory.path), fix="wait for it to end")
    if again:
        directory.update_info(wandb_run_id=None, wandb_step=None)
    uploaded_step = info.get("wandb_step")
    uploaded_step = uploaded_step if isinstance(uploaded_step, int) and not again else -1
    mode = None if online is None else "online" if online else "offline"
    given = {"project": project, "entity": entity, "group": group, "mode": mode}
    settings = _settings(config, given, tag or [], directory.config_path)
    if settings != _settings({}, given, tag or [], directory.config_path):
        with trust_in_run(load_config(directory.config_path).config).applied():
            require_all([wandb_request(settings)], str(directory.config_path))
    rows = [
        row for row in Follower(directory.metrics_path).rows() if int(row.get("step") or 0) > uploaded_step
    ]
    files = [file for file in RunFiles(directory.path).news(last=True) if file.step > uploaded_step]
    if not rows and not files:
        output.print(
            f"W&B has every row of {directory.path} (run {info.get('wandb_run_id')}); --again uploads it as a new run"
        )
        output.result(
            {"run": str(directory.path), "wandb_run_id": info.get("wandb_run_id"), "rows": 0, "files": 0}
        )
        return
    tracker = open_wandb(directory, settings, config)
    for row in rows:
        tracker.row(row, int(row["step"]))
    for file in files:
        if file.kind == "video":
            tracker.video(file.path, file.step)
        else:
            tracker.checkpoint(file.path, file.step, best=file.best)
    tracker.close()
    where = tracker.url or f"offline: wandb sync {directory.path / 'wandb'}/offline-run-*-{tracker.run_id}"
    output.pairs(
        [("run", str(directory.path)), ("rows", f"{len(rows):,}"), ("files", str(len(files))), ("at", where)]
    )
    output.result(
        {
            "run": str(directory.path),
            "wandb_run_id": tracker.run_id,
            "rows": len(rows),
            "files": len(files),
            "url": tracker.url,
        },
        short=where,
    )


def _settings(config: dict[str, Any], given: dict[str, Any], tags: list[str], path: Path) -> Any:
    """Return the W&B settings of the run's config, overridden by the command line."""
    from pydantic import ValidationError

    from ludus.config.schema import WandbConfig

    tracking = config.get("tracking")
    configured = tracking.get("wandb") if isinstance(tracking, dict) else None
    configured = configured if isinstance(configured, dict) else {}
    merged = configured | {key: value for key, value in given.items() if value is not None}
    merged["tags"] = [*(merged.get("tags") or []), *tags]
    try:
        return WandbConfig.model_validate(merged)
    except ValidationError as error:
        raise UserError(
            f"invalid tracking.wandb: {error.errors()[0]['msg']}",
            where=str(path),
            fix="correct the config",
        ) from None

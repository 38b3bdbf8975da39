"""`ludus resume`: go on with a run that was interrupted, killed or is to be trained longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ludus.cli.commands import Json, Quiet, Root, Verbose
from ludus.cli.output import Output
from ludus.errors import UserError

if TYPE_CHECKING:
    from ludus.config.when import When
    from ludus.runs.checkpoints import Checkpoint
    from ludus.runs.directory import RunDirectory
    from ludus.training.trainer import RunTrainer


def resume(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A path, a run's name, or latest.")],
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="STEP|latest|best", help="Go back to this one; later ones go."),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="From the newest checkpoint that repeats the run to the byte.")
    ] = False,
    steps: Annotated[
        str | None, typer.Option("--steps", metavar="N|TIME", help="A new total, past steps included.")
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option("--scale", metavar="ADDRESS", help="A run on Ray: where its cluster is now."),
    ] = None,
    root: Root = "runs",
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Continue a run where it was saved last."""
    from ludus.runs.directory import find_run, split_policy_ref
    from ludus.runs.limits import require_memory_to_train

    output = Output(json, quiet=quiet, verbose=verbose)
    require_memory_to_train()
    if exact and checkpoint is not None:
        raise UserError("--exact and --checkpoint both choose a checkpoint", fix="give one of them")
    name, which = split_policy_ref(run)
    continue_run(
        find_run(name, root),
        output,
        checkpoint=checkpoint or which,
        exact=exact,
        total=_total(steps),
        ray=scale,
    )


def continue_run(
    run: RunDirectory,
    output: Output,
    *,
    checkpoint: str | None = None,
    exact: bool = False,
    total: When | None = None,
    ray: str | None = None,
    finished_is_fine: bool = False,
) -> None:
    """Resume `run` and train it to its end, saying from where. `ray` is where a run on Ray finds its cluster now.

    A run that has reached its total is left alone; with `finished_is_fine`, one that stopped early as well.
    """
    from ludus.cli.training import train_and_tell
    from ludus.training.factory import open_trainer

    trainer = open_trainer(run, display=output.display())
    if ray is not None:
        _move(trainer, ray)
    found = trainer.resume(run, checkpoint, exact=exact)
    info = run.info()
    ended = ("finished", "stopped") if finished_is_fine else ("finished",)
    if info.get("status") in ended and (_is_complete(trainer, found, total) or info["status"] == "stopped"):
        trainer.close()
        steps = int(info.get("steps", found.step))
        output.print(f"{run.path} is already {info['status']}, at step {steps:,}")
        output.print("to train it longer: ludus resume RUN --steps TOTAL")
        summary = {"run": str(run.path), "status": info["status"], "steps": steps, "fps": 0.0, "seconds": 0.0}
        output.result({**summary, "eval": info.get("evaluation"), "reason": info.get("reason")})
        return
    if total is not None and _is_complete(trainer, found, total):
        trainer.close()
        raise UserError(
            f"the run is at step {found.step:,}, past a total of {total}",
            where="command line: --steps",
            fix="--steps is the total of the whole run: give more than it has, or leave it out",
        )
    output.print(f"from checkpoint {found.name}, {_kind(trainer, found)}")
    train_and_tell(trainer, output, total)


def _move(trainer: RunTrainer, ray: str) -> None:
    """Have the trainer connect to another cluster than its run was started on."""
    scale = trainer.config.scale
    if scale is None:
        raise UserError(
            "this run has no collectors on Ray, and would not be the same with them",
            where="command line: --scale",
            fix="leave --scale out, or start a new run with it",
        )
    try:
        moved = type(scale)(**scale.model_dump() | {"ray": ray})
    except ValueError:
        raise UserError(
            f"'{ray}' is no address of a Ray cluster",
            where="command line: --scale",
            fix="auto, local, HOST:6379 or ray://HOST:10001",
        ) from None
    trainer.config = trainer.config.model_copy(update={"scale": moved})


def _total(text: str | None) -> When | None:
    from ludus.config.when import When

    try:
        return None if text is None else When.parse(text)
    except ValueError as error:
        raise UserError(str(error), where=f"command line: --steps {text}") from None


def _is_complete(trainer: RunTrainer, checkpoint: Checkpoint, total: When | None) -> bool:
    from ludus.types import Progress

    with checkpoint.understood():
        progress = Progress.of(checkpoint.state()["progress"])
    return (total or trainer.config.total_timesteps).fraction(progress) >= 1.0


def _kind(trainer: RunTrainer, checkpoint: Checkpoint) -> str:
    """Whether what follows repeats an uninterrupted run, in words."""
    if not checkpoint.exact:
        return "approximately: it was saved between two barriers, so open episodes begin anew"
    if trainer.config.device != "cpu" and not trainer.config.deterministic:
        return f"approximately: on {trainer.config.device}, only deterministic: true repeats to the byte"
    return "exactly: the run goes on as if it had never stopped"

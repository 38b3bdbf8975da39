"""`ludus resume`: continue a run that was interrupted or killed, or train a finished one longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ludus.cli.commands import Json, Quiet, Root, Verbose, examples
from ludus.cli.output import Output
from ludus.errors import UserError
from ludus.tracking.logs import works_without_output

if TYPE_CHECKING:
    from ludus.config.schema import TrainerConfig
    from ludus.config.when import When
    from ludus.runs.checkpoints import Checkpoint
    from ludus.runs.directory import RunDirectory
    from ludus.training.trainer import RunTrainer


EXAMPLES = examples(
    "ludus resume latest",
    "ludus resume latest --steps 200_000",
    "ludus resume latest --checkpoint best",
)


@works_without_output
def resume(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A path, a run's name, or latest.")],
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="STEP|latest|best",
            help="Resume from this checkpoint; later ones are moved aside.",
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Resume from the newest checkpoint that gives byte-identical results."),
    ] = False,
    discard_later: Annotated[
        bool, typer.Option("--discard-later", help="Delete checkpoints later than the chosen one.")
    ] = False,
    steps: Annotated[
        str | None,
        typer.Option("--steps", metavar="N|TIME", help="New total of env steps, including past steps."),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option("--scale", metavar="ADDRESS", help="For a run on Ray: address of the cluster."),
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
        discard_later=discard_later,
        total=_total(steps),
        ray=scale,
        root=root,
    )


def continue_run(
    run: RunDirectory,
    output: Output,
    *,
    checkpoint: str | None = None,
    exact: bool = False,
    discard_later: bool = False,
    total: When | None = None,
    ray: str | None = None,
    finished_is_fine: bool = False,
    asked: TrainerConfig | None = None,
    root: str | None = None,
) -> None:
    """Resume `run` and train it to its end, saying from where. `ray` is where a run on Ray finds its cluster now.

    A run that has reached its total is left alone; with `finished_is_fine`, one that stopped early as well.
    `asked` is a config that learns the same with another budget, other intervals or names, which hold from here on.
    `root` is where the user looks for runs; None: the run's `save_dir`.
    """
    from ludus.cli.mirror import typed_mirror
    from ludus.cli.training import train_and_report
    from ludus.config.own_modules import consent_to
    from ludus.training.factory import open_trainer
    from ludus.training.matching import with_free_keys

    # what the user has typed
    consent_to(*(() if ray is None else (ray,)), *_folders_above(typed_mirror(run)))
    trainer = open_trainer(run, ray=ray, display=output.display())
    if asked is not None:
        trainer.config = with_free_keys(trainer.config, asked)
        total = asked.total_timesteps
    found = trainer.resume(run, checkpoint, exact=exact, discard_later=discard_later)
    info = run.info()
    ended = ("finished", "stopped") if finished_is_fine else ("finished",)
    if info.get("status") in ended and (
        _is_complete(trainer, found, total) or (info["status"] == "stopped" and asked is None)
    ):
        trainer.close()
        steps = int(info.get("steps", found.step))
        output.print(f"{run.path} is already {info['status']}, at step {steps:,}")
        if total is None or asked is not None:
            output.print("to train it longer: ludus resume RUN --steps TOTAL")
        else:
            output.print(
                f"--steps {total.in_words()} is the total of the whole run, including past steps: "
                f"to train it longer, give more than {steps:,}"
            )
        summary = {"run": str(run.path), "status": info["status"], "steps": steps, "fps": 0.0, "seconds": 0.0}
        output.result({**summary, "eval": info.get("evaluation"), "reason": info.get("reason")})
        return
    if total is not None and _is_complete(trainer, found, total):
        trainer.close()
        raise UserError(
            f"the run is already at step {found.step:,}, beyond the given total of {total.in_words()}",
            where="command line: --steps",
            fix="--steps is the total of the whole run: give a larger number, or leave it out",
        )
    output.print(f"from checkpoint {found.name}, {_kind(trainer, found)}")
    train_and_report(trainer, output, total, root)


def _folders_above(url: str | None) -> list[str]:
    """Return the folders that a run's own folder in a mirror is in: `mirror.url` is one of them."""
    parts = [] if url is None else url.split("/")
    return ["/".join(parts[:length]) for length in range(3, len(parts))]


def _total(text: str | None) -> When | None:
    from ludus.config.when import EXPECTED, When

    try:
        return None if text is None else When.parse(text)
    except ValueError as error:
        raise UserError(str(error), where=f"command line: --steps {text}", fix=f"give {EXPECTED}") from None


def _is_complete(trainer: RunTrainer, checkpoint: Checkpoint, total: When | None) -> bool:
    from ludus.types import Progress

    with checkpoint.understood():
        progress = Progress.of(checkpoint.state()["progress"])
    return (total or trainer.config.total_timesteps).fraction(progress) >= 1.0


def _kind(trainer: RunTrainer, checkpoint: Checkpoint) -> str:
    """Return a sentence that says if the resumed run will equal an uninterrupted one."""
    if not checkpoint.exact:
        return "approximately: it was saved while episodes were open, and these start again from a reset"
    if trainer.config.device != "cpu" and not trainer.config.deterministic:
        return f"approximately: on {trainer.config.device}, only deterministic: true repeats to the byte"
    return "exactly: the result will be the same as without the interruption"

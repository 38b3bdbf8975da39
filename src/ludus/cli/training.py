"""Shared by `train` and `resume`: run the trainer, then print the result and the next commands."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ludus.cli.output import Output

if TYPE_CHECKING:
    from ludus.config.schema import TrainerConfig
    from ludus.runs.mirror.state import MirrorState
    from ludus.training.base import RLTrainer, TrainResult

_LOOK = {"finished": "bold green", "stopped": "bold green", "interrupted": "bold yellow"}


def train_and_report(
    trainer: RLTrainer, output: Output, total_timesteps: Any = None, root: str | None = None
) -> None:
    """Train, print the summary, and exit with the result's code when it is not 0.

    The summary names the run as found below `root`; None: below the config's `save_dir`.
    """
    from ludus.training.base import TrainResult
    from ludus.training.learner_ranks import under_torchrun

    if under_torchrun() and int(os.environ["RANK"]) > 0:
        from ludus.scale.learners import follow_torchrun

        follow_torchrun(trainer.config)
        return
    try:
        trainer.create_model()  # everything that can be wrong with the config shows here, before a run exists
        result = trainer.train(total_timesteps)
    finally:
        trainer.close()
    if not isinstance(result, TrainResult):  # a third party's trainer may return what it likes
        output.print("finished")
        output.result({"run": None, "status": "finished"})
        return
    config = trainer.config
    _print_summary(result, config, output, config.save_dir if root is None else root)
    mirror = _mirror_state(result, config)
    mirrored = {} if mirror is None else {"mirror": mirror.summary()}
    output.result({**result.summary(), **mirrored}, short=str(result.run))
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _reference(run: Path, save_dir: str) -> str:
    """Return the run's name for the next command: `latest` if that resolves to it, else its path."""
    from ludus.runs.directory import list_runs

    newest = list_runs(save_dir)[:1]
    if not newest or newest[0].path.resolve() != run.resolve():
        return shlex.quote(str(run))
    return "latest" if save_dir == "runs" else f"latest --root {shlex.quote(save_dir)}"


def _print_summary(result: TrainResult, config: TrainerConfig, output: Output, save_dir: str) -> None:
    from rich.text import Text

    from ludus.tracking.progress import duration

    reason = f": {result.reason}" if result.reason else ""
    head = Text.assemble(
        "  ",
        (result.status, _LOOK.get(result.status, "bold")),
        f"{reason}   {result.steps:,} steps, {duration(result.seconds)}, {result.fps:,.0f} steps/s",
    )
    events = config.tracking.tensorboard_dir
    output.print(Text())
    output.print(head)
    name = _reference(result.run, save_dir)
    rows = [("eval", text) for text in _evaluation(result)]
    rows.append(("run", str(result.run)))
    mirror = _mirror_state(result, config)
    if mirror is not None:
        rows.append(("mirror", mirror.in_words()))
        if mirror.missing:
            rows.append(("", f"ludus mirror {name}"))
    if result.status == "interrupted":
        rows.append(("resume", f"ludus resume {name}"))
    else:
        logs = save_dir if Path(save_dir).resolve() in result.run.resolve().parents else str(result.run)
        logs = logs if events is None else events
        if config.language is None:
            rows += [("next", f"ludus eval {name}"), ("", f"ludus play {name}")]
        else:
            rows += [("next", f"ludus match {name} random"), ("", f"ludus league {name}")]
            rows.append(("", f"ludus games {name}"))
        rows.append(("", f"tensorboard --logdir {shlex.quote(logs)}"))
    output.pairs(rows)


def _mirror_state(result: TrainResult, config: TrainerConfig) -> MirrorState | None:
    """Return the state of the run's mirror; None if the config sets no mirror."""
    if config.mirror is None:
        return None
    from ludus.runs.mirror.state import MirrorState

    return MirrorState.load(result.run)


def _evaluation(result: TrainResult) -> list[str]:
    """Return the last and the best evaluation as text; empty without evaluations."""
    from ludus.errors import CheckpointError
    from ludus.runs.directory import RunDirectory
    from ludus.runs.hints import Hints
    from ludus.tracking.progress import mean_and_spread, number

    parts = []
    last = result.evaluation
    if last is not None:
        shown = mean_and_spread(last["mean_reward"], last["std_reward"])
        cut = f" ({last['capped_episodes']} cut)" if last.get("capped_episodes") else ""
        parts.append(f"{shown} over {last['episodes']} episodes{cut}")
    try:
        best = Hints(RunDirectory(result.run).checkpoints_dir).best_score()
    except CheckpointError:  # a damaged hint must not make a finished training look failed
        best = None
    if best is not None:
        metric, value = best
        parts.append(f"best {number(value)}" + ("" if metric == "eval/mean_reward" else f" ({metric})"))
    return [", ".join(parts)] if parts else []

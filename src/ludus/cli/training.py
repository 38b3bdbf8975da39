"""What `train` and `resume` share: run the trainer to its end, then say how it went and what to type next."""

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


def train_and_tell(trainer: RLTrainer, output: Output, total_timesteps: Any = None) -> None:
    """Train, print the summary, and exit with the result's code when it is not 0."""
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
    _print_summary(result, config, output)
    mirror = _mirror_state(result, config)
    mirrored = {} if mirror is None else {"mirror": mirror.summary()}
    output.result({**result.summary(), **mirrored}, short=str(result.run))
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _reference(run: Path, save_dir: str) -> str:
    """How to name the run in the next command: `latest` if that finds it, else its path."""
    from ludus.runs.directory import list_runs

    newest = list_runs(save_dir)[:1]
    if not newest or newest[0].path.resolve() != run.resolve():
        return shlex.quote(str(run))
    return "latest" if save_dir == "runs" else f"latest --root {shlex.quote(save_dir)}"


def _print_summary(result: TrainResult, config: TrainerConfig, output: Output) -> None:
    from rich.text import Text

    from ludus.tracking.progress import duration

    reason = f": {result.reason}" if result.reason else ""
    head = Text.assemble(
        "  ",
        (result.status, _LOOK.get(result.status, "bold")),
        f"{reason}   {result.steps:,} steps, {duration(result.seconds)}, {result.fps:,.0f} steps/s",
    )
    save_dir, events = config.save_dir, config.tracking.tensorboard_dir
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
        rows.append(("go on", f"ludus resume {name}"))
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
    """How the copy elsewhere stands; None where the config asks for none."""
    if config.mirror is None:
        return None
    from ludus.runs.mirror.state import MirrorState

    return MirrorState.load(result.run)


def _evaluation(result: TrainResult) -> list[str]:
    """The last evaluation and the best one, in words; empty when there was none."""
    from ludus.errors import CheckpointError
    from ludus.runs.directory import RunDirectory
    from ludus.runs.hints import Hints
    from ludus.tracking.progress import number

    parts = []
    last = result.evaluation
    if last is not None:
        mean, std = number(last["mean_reward"]), number(last["std_reward"])
        parts.append(f"{mean} ± {std} over {last['episodes']} episodes")
    try:
        best = Hints(RunDirectory(result.run).checkpoints_dir).best_score()
    except CheckpointError:  # a damaged hint must not make a finished training look failed
        best = None
    if best is not None:
        metric, value = best
        parts.append(f"best {number(value)}" + ("" if metric == "eval/mean_reward" else f" ({metric})"))
    return [", ".join(parts)] if parts else []

"""`ludus warmup`: the supervised start of a language run without self-play."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from ludus.cli.commands import Json, Quiet, examples
from ludus.cli.output import Output
from ludus.errors import UserError
from ludus.tracking.logs import works_without_output

EXAMPLES = examples(
    "ludus language warmup tictactoe-tiny",
)


@works_without_output
def warmup(
    config: Annotated[str, typer.Argument(metavar="CONFIG|PRESET", help="A config with a language section.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Config keys to set, dotted where nested.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a language model on observation-action pairs, and keep it as a run to start from."""
    from ludus.config.loading import load_config
    from ludus.config.own_modules import trust_config
    from ludus.language.trainer import LanguageTrainer
    from ludus.training.factory import create_trainer

    output = Output(json, quiet=quiet)
    trust_config(config)
    loaded = load_config(config, overrides or [])
    if loaded.config.language is None:
        raise UserError(
            "this config trains no language model", where=config, fix="take one with a language section"
        )
    with loaded.locating_errors():
        trainer = create_trainer(None, loaded.config)
        assert isinstance(trainer, LanguageTrainer)
        try:
            found = trainer.warm_up()
            run = trainer.save_warm_start().path
        finally:
            trainer.close()
    output.pairs([(name.removeprefix("warmup/"), f"{value:.4g}") for name, value in found.items()])
    # the next run must not repeat the warm start
    following = ["ludus", "train", config, *(overrides or []), f"pretrained_model={run}", "warmup=null"]
    output.pairs([("run", str(run)), ("next", shlex.join(following))])
    output.result({"run": str(run), **found}, short=str(run))

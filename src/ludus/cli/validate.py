"""`ludus validate`: check that an env can be trained on, and list every problem."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.commands import Json, examples
from ludus.cli.failures import typed_as
from ludus.cli.output import Output
from ludus.errors import EXIT_USER_ERROR

if TYPE_CHECKING:
    from ludus.envs.validate import Problem

_LOOK = {"error": "bold red", "warning": "yellow"}


EXAMPLES = examples(
    "ludus validate CartPole-v1",
    "ludus validate my_module:MyEnv-v0",
)


def validate(
    env: Annotated[str, typer.Argument(metavar="ENV", help="An id, module:Id, or module:ClassOrFunction.")],
    json: Json = False,
) -> None:
    """Check an environment, and list all that is wrong with it."""
    from ludus.envs.validate import validate_environment

    output = Output(json, listing=True)
    with typed_as("", env):
        problems = validate_environment(_target(env), quiet=True)
    for problem in problems:
        _print(problem, output)
    errors = sum(problem.severity == "error" for problem in problems)
    warnings = len(problems) - errors
    if problems:
        output.print(f"{env}: {_count(errors, 'error')}, {_count(warnings, 'warning')}")
    else:
        output.print(f"{env}: no problem found")
    output.result(
        {
            "env": env,
            "errors": errors,
            "warnings": warnings,
            "problems": [
                {"severity": p.severity, "where": p.where, "what": p.what, "fix": p.fix} for p in problems
            ],
        }
    )
    if errors:
        raise typer.Exit(EXIT_USER_ERROR)


def _target(env: str) -> Any:
    """The class or function that `module:Name` means, where it is not a registered id."""
    import gymnasium as gym

    from ludus.config.own_modules import consent_to
    from ludus.envs.catalog import import_registering_module

    module, _, name = env.rpartition(":")
    if not module:
        return env
    consent_to(module)
    found = getattr(import_registering_module(module, env), name, None)
    return found if name not in gym.registry and callable(found) else env


def _print(problem: Problem, output: Output) -> None:
    from rich.text import Text

    head = Text.assemble((problem.severity, _LOOK[problem.severity]), (f" in {problem.where}", "bold"))
    output.print(head)
    output.print(indent(problem.what, "  "))  # as it is: it may hold a traceback
    output.print(f"  fix: {problem.fix}\n")


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"

"""`ludus unity`: the stand-in simulator, and Unity builds started by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from ludus.cli.commands import Commands, Json
from ludus.cli.output import Output
from ludus.errors import EXIT_OK, ConfigError, UnknownName, UserError

unity_app = typer.Typer(
    cls=Commands,
    help="Unity: a stand-in simulator, use cases, and builds to start.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@unity_app.callback()
def _unity() -> None:
    """Unity: a stand-in simulator, use cases, and builds to start."""


@unity_app.command("simulator")
def simulator(
    use_case: Annotated[str, typer.Option("--use-case", metavar="NAME", help="uc1, uc2 or uc3.")] = "uc1",
    host: Annotated[str, typer.Option(metavar="HOST", help="Where training listens.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=1, max=65_535, help="Its first port; the others follow.")
    ] = 10_000,
    n: Annotated[int, typer.Option("--n", metavar="N", min=1, max=1_000, help="How many simulators.")] = 1,
    first: Annotated[
        int, typer.Option(metavar="N", min=0, help="The environment id of the simulator at PORT.")
    ] = 0,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Where its chance comes from.")] = 0,
    camera: Annotated[
        int, typer.Option(metavar="PIXELS", min=0, max=1_024, help="Send a picture of this size; 0: none.")
    ] = 0,
    obstacles: Annotated[int, typer.Option(metavar="N", min=0, max=50, help="In the yard.")] = 4,
    sample_time: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.001, max=10.0, help="Simulated per step.")
    ] = 0.1,
    latency_ms: Annotated[
        float, typer.Option(metavar="MS", min=0.0, help="Wait before every answer, as a slow build does.")
    ] = 0.0,
) -> None:
    """Stand in for Unity builds: connect to a training, simulate.

    For tests, development and trying Ludus without Unity: the tank tasks of the three use cases.
    """
    import asyncio

    from ludus.games.unity.simulator.client import SELF, StandInOptions, run_simulators
    from ludus.games.unity.use_case import shipped_use_cases

    output = Output()
    if use_case not in shipped_use_cases():
        raise UnknownName(
            "use case", use_case, shipped_use_cases(), where="--use-case", fix=", ".join(shipped_use_cases())
        )
    if port + n - 1 > 65_535:
        raise UserError(f"{n} ports from {port} on do not exist", where="--port, --n", fix="begin lower")
    options = StandInOptions(use_case, seed, sample_time, latency_ms / 1e3, camera, obstacles)
    output.print(f"{SELF}.")
    output.print(
        f"{n} x {use_case}, connecting to {host}:{port}{'' if n == 1 else f' to {port + n - 1}'}; Ctrl-C ends"
    )
    try:
        asyncio.run(run_simulators(n, host, port, options, first=first, say=output.print))
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_OK) from None


@unity_app.command("launch")
def launch(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="A config with a Unity build in it.")],
) -> None:
    """Start the Unity builds that a config names, one per env. Ctrl-C ends them; training is another command."""
    import time

    from ludus.config.loading import load_config
    from ludus.games.unity.builds import Builds, why_not_launched
    from ludus.games.unity.settings import parse_settings
    from ludus.games.unity.support import is_unity

    output = Output()
    loaded = load_config(config)
    env = loaded.config.env
    if env is None or not is_unity(env.id):
        raise ConfigError(
            "the config trains no Unity env", key="env.id", where=config, fix="env: ludus/Unity-v0"
        )
    settings = parse_settings(env.kwargs)
    if settings.build is None:
        raise ConfigError("the config names no Unity build", where=config, fix="env.kwargs.build: {path: …}")
    why_not_launched(settings.build.model_copy(update={"launch": True}))
    places = list(range(loaded.config.n_envs))
    builds = Builds(settings.build, [settings.port + index for index in places], places)
    output.print(f"{len(places)} builds run; Ctrl-C ends them. Train with: ludus train {config}")
    try:
        running = set(places)
        while running:
            time.sleep(0.5)
            for index in [index for index in running if builds.exit_code(index) is not None]:
                running.discard(index)
                output.print(
                    f"build {index} ended with code {builds.exit_code(index)}: {builds.last_words(index)}"
                )
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_OK) from None
    finally:
        builds.close()


@unity_app.command("use-cases")
def use_cases(json: Json = False) -> None:
    """List the use cases that are shipped."""
    from ludus.cli.output import plain_table
    from ludus.games.unity.use_case import load_use_case, shipped_use_cases

    output = Output(json, listing=True)
    rows = []
    table = plain_table("use case", "actions", "observations", "task", wrap=("task",))
    for name in shipped_use_cases():
        found = load_use_case(name)
        seen = found.observation.size * len(found.observation.lags)
        table.add_row(name, str(found.action.size), str(seen), found.description)
        rows.append(
            {"name": name, "actions": found.action.size, "observations": seen, "task": found.description}
        )
    output.print(table)
    output.result({"use_cases": rows})

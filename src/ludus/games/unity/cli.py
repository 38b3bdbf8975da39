"""`ludus unity`: the stand-in simulator, and starting Unity builds."""

from __future__ import annotations

from typing import Annotated

import typer

from ludus.cli.commands import Commands, Json, examples
from ludus.cli.output import Output
from ludus.errors import EXIT_OK, ConfigError, UnknownName, UserError

unity_app = typer.Typer(
    cls=Commands,
    help="Unity: stand-in simulator, use cases, and starting builds.",
    no_args_is_help=True,
    add_completion=False,
    epilog=examples("ludus unity simulator --use-case uc1", "ludus unity use-cases"),
    rich_markup_mode=None,
)


@unity_app.callback()
def _unity() -> None:
    """Unity: stand-in simulator, use cases, and starting builds."""


@unity_app.command("simulator", epilog=examples("ludus unity simulator --use-case uc1 --n 8"))
def simulator(
    use_case: Annotated[str, typer.Option("--use-case", metavar="NAME", help="uc1, uc2 or uc3.")] = "uc1",
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Address where the training listens.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=1, max=65_535, help="Port of the first env; the others follow.")
    ] = 10_000,
    n: Annotated[int, typer.Option("--n", metavar="N", min=1, max=1_000, help="Number of simulators.")] = 1,
    first: Annotated[
        int, typer.Option(metavar="N", min=0, help="Environment id of the simulator at PORT.")
    ] = 0,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the simulation.")] = 0,
    camera: Annotated[
        int,
        typer.Option(metavar="PIXELS", min=0, max=1_024, help="Size of the camera image; 0 for no image."),
    ] = 0,
    obstacles: Annotated[int, typer.Option(metavar="N", min=0, max=50, help="Number of obstacles.")] = 4,
    sample_time: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.001, max=10.0, help="Simulated seconds per step.")
    ] = 0.1,
    latency_ms: Annotated[
        float, typer.Option(metavar="MS", min=0.0, help="Delay of every answer, to simulate a slow build.")
    ] = 0.0,
) -> None:
    """Simulate Unity builds: connect to a training and answer like them.

    For tests, development and trying Ludus without Unity: it simulates the tank tasks of the three use cases.
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
        raise UserError(f"port {port + n - 1} is out of range", where="--port, --n", fix="use a lower --port")
    options = StandInOptions(use_case, seed, sample_time, latency_ms / 1e3, camera, obstacles)
    output.print(f"{SELF}.")
    output.print(
        f"{n} x {use_case}, connecting to {host}:{port}{'' if n == 1 else f' to {port + n - 1}'}; Ctrl-C stops it"
    )
    try:
        asyncio.run(run_simulators(n, host, port, options, first=first, say=output.print))
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_OK) from None


@unity_app.command("launch", epilog=examples("ludus unity launch my.yaml"))
def launch(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="Config with a Unity build.")],
) -> None:
    """Start the Unity builds of a config, one per env. Ctrl-C stops them; train with another command."""
    import time

    from ludus.config.loading import load_config
    from ludus.config.own_modules import trust_config
    from ludus.games.unity.builds import Builds, not_launched_reason
    from ludus.games.unity.settings import parse_settings
    from ludus.games.unity.support import is_unity

    output = Output()
    trust_config(config)
    loaded = load_config(config)
    env = loaded.config.env
    if env is None or not is_unity(env.id):
        raise ConfigError(
            "the config does not train a Unity env", key="env.id", where=config, fix="env: ludus/Unity-v0"
        )
    settings = parse_settings(env.kwargs)
    if settings.build is None:
        raise ConfigError(
            "the config has no Unity build", where=config, fix="set env.kwargs.build: {path: …}"
        )
    not_launched_reason(settings.build.model_copy(update={"launch": True}))
    indices = list(range(loaded.config.n_envs))
    builds = Builds(settings.build, [settings.port + index for index in indices], indices)
    output.print(f"{len(indices)} builds running; Ctrl-C stops them. Train with: ludus train {config}")
    try:
        running = set(indices)
        while running:
            time.sleep(0.5)
            for index in [index for index in running if builds.exit_code(index) is not None]:
                running.discard(index)
                output.print(
                    f"build {index} ended with code {builds.exit_code(index)}: {builds.output_tail(index)}"
                )
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_OK) from None
    finally:
        builds.close()


@unity_app.command("use-cases", epilog=examples("ludus unity use-cases"))
def use_cases(json: Json = False) -> None:
    """List the use cases that Ludus ships."""
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

"""`ludus eval`: how well a policy plays, over many episodes."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

import typer

from ludus.cli.commands import EnvId, Episodes, Json, Quiet, Root, Seed, Stochastic
from ludus.cli.output import Output


def evaluate(
    policy: Annotated[
        str,
        typer.Argument(
            metavar="POLICY", help="RUN, RUN@best, RUN@STEP, preset:NAME, latest, random; or a config."
        ),
    ],
    episodes: Episodes = 100,
    env: EnvId = None,
    seed: Seed = 0,
    stochastic: Stochastic = False,
    root: Root = "runs",
    json: Json = False,
    quiet: Quiet = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Every episode.")] = False,
) -> None:
    """Evaluate a policy."""
    from ludus.cli.configured import resolve_policy
    from ludus.cli.player import seat
    from ludus.evaluation.evaluate import evaluate as play_all
    from ludus.tracking.progress import number

    output = Output(json, quiet=quiet, verbose=verbose)
    meant = resolve_policy(policy, root, env)
    player = seat(meant.policy, env, meant.root, seed)
    seeds = [seed + episode for episode in range(episodes)]
    with output.console.status("playing") if output.console.is_terminal and not quiet else nullcontext():
        result = play_all(player.policy, player.spec, seeds, deterministic=not stochastic)
    summary = result.summary()
    if verbose:
        for own_seed, record in zip(seeds, result.episodes, strict=True):
            output.print(f"  seed {own_seed:<6} reward {number(record.reward):>8}   {record.length:,} steps")
    rows = [("policy", player.described), ("env", player.spec.id)]
    rows.append(("reward", f"{number(result.mean_reward)} ± {number(result.std_reward)}"))
    rows.append(("range", f"{number(summary['min_reward'])} to {number(summary['max_reward'])}"))
    rows.append(("length", f"{number(result.mean_length)} steps"))
    if result.success_rate is not None:
        rows.append(("success", f"{result.success_rate:.0%}"))
    reports = result.reports()
    if reports is not None:
        rows += reports.lines()
    manner = "sampled actions" if stochastic else "deterministic"
    rows.append(("episodes", f"{episodes}, {manner}, seeds {seeds[0]} to {seeds[-1]}"))
    output.pairs(rows)
    output.result(
        {**summary, **player.as_dict(), "seed": seed, "deterministic": not stochastic},
        short=f"{result.mean_reward:g}",
    )

"""`ludus eval`: how well a policy plays, over many episodes."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.commands import EnvId, Json, MaxSteps, Quiet, Root, SeedOrText, Stochastic, examples
from ludus.cli.output import Output
from ludus.errors import UserError

if TYPE_CHECKING:
    from ludus.envs.seeds import EpisodeSeed

_EPISODES = 100

EXAMPLES = examples(
    "ludus eval latest",
    "ludus eval latest@best --episodes 20 --json",
    "ludus eval random --env CartPole-v1",
)


def evaluate(
    policy: Annotated[
        str,
        typer.Argument(
            metavar="POLICY", help="RUN, RUN@best, RUN@STEP, preset:NAME, latest, random; or a config."
        ),
    ],
    episodes: Annotated[
        int | None,
        typer.Option(
            "--episodes",
            "-n",
            metavar="N",
            min=1,
            help="Number of episodes; default: 100, or 1 with a text seed.",
        ),
    ] = None,
    env: EnvId = None,
    seed: SeedOrText = "0",
    seeds: Annotated[
        Path | None,
        typer.Option(
            "--seeds", metavar="FILE", help="File with one seed per line; plays one episode of each."
        ),
    ] = None,
    stochastic: Stochastic = False,
    max_steps: MaxSteps = None,
    replays: Annotated[
        Path | None,
        typer.Option(
            "--replays",
            metavar="DIR",
            help="Save a replay of every episode there, for games that have replays; they are played one by one.",
        ),
    ] = None,
    root: Root = "runs",
    json: Json = False,
    quiet: Quiet = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print every episode.")] = False,
) -> None:
    """Evaluate a policy."""
    from ludus.cli.configured import resolve_policy
    from ludus.cli.player import seat
    from ludus.envs.seeds import number_of_seed
    from ludus.evaluation.evaluate import evaluate as play_only
    from ludus.evaluation.load import RANDOM
    from ludus.tracking.progress import mean_and_spread, number

    output = Output(json, quiet=quiet, verbose=verbose)
    meant = resolve_policy(policy, root, env)
    chosen = _chosen_seeds(seed, seeds, episodes)
    player = seat(meant.policy, env, meant.root, number_of_seed(chosen[0]))
    play_all = play_only if replays is None else _recorder(player.spec.id, replays)
    with output.console.status("playing") if output.console.is_terminal and not quiet else nullcontext():
        result = play_all(
            player.policy,
            player.spec,
            chosen,
            deterministic=not stochastic,
            max_steps=player.max_steps(max_steps),
        )
    summary = result.summary()
    if verbose:
        for own_seed, record in zip(chosen, result.episodes, strict=True):
            cut = ", cut" if record.capped else ""
            output.print(
                f"  seed {own_seed:<6} reward {number(record.reward):>8}   {record.length:,} steps{cut}"
            )
    rows = [("policy", player.described), ("env", player.spec.id)]
    rows.append(("reward", mean_and_spread(result.mean_reward, result.std_reward)))
    rows.append(("range", f"{number(summary['min_reward'])} to {number(summary['max_reward'])}"))
    rows.append(("length", f"{number(result.mean_length)} steps"))
    if result.capped:
        rows.append(("cut", f"{result.capped} of {len(chosen)} episodes, which did not end (--max-steps)"))
    if result.success_rate is not None:
        rows.append(("success", f"{result.success_rate:.0%}"))
    for reports in result.reports():
        rows += reports.lines()
    deterministic = not stochastic and player.policy.name != RANDOM
    manner = "deterministic" if deterministic else "sampled actions"
    rows.append(("episodes", f"{len(chosen)}, {manner}, {_described(chosen, seeds)}"))
    data = {**summary, **player.as_dict(), "seed": chosen[0], "deterministic": deterministic}
    if replays is not None:
        rows.append(("replays", f"{len(chosen)} files in {replays}"))
        data["replays"] = str(replays)
    output.pairs(rows)
    output.result(data, short=f"{result.mean_reward:g}")


def _recorder(env_id: str, folder: Path) -> Any:
    """Return the function that evaluates and saves replays; UserError if the env has no replays."""
    from ludus.plugins import match_env

    where = f"command line: --replays {folder}"
    recorder = match_env("replay_recorders", env_id)
    if recorder is None:
        raise UserError(
            f"'{env_id}' has no replays",
            where=where,
            fix="leave out --replays; `ludus video` records any env",
        )
    if folder.exists() and not folder.is_dir():
        raise UserError(
            f"'{folder}' is not a folder", where=where, fix="give a folder; it is made if missing"
        )
    return partial(recorder, folder=folder)


def _chosen_seeds(seed: str, path: Path | None, episodes: int | None) -> list[EpisodeSeed]:
    """Return the seed of each episode."""
    from ludus.envs.seeds import following_seed, parse_seed, read_seeds

    if path is None:
        first = parse_seed(seed, f"command line: --seed {seed}")
        count = episodes or (1 if isinstance(first, str) else _EPISODES)
        return [following_seed(first, episode) for episode in range(count)]
    if episodes is not None:
        raise UserError(
            "--episodes and --seeds exclude each other",
            where=f"command line: --seeds {path}",
            fix="leave out --episodes: every seed of the file is one episode",
        )
    return read_seeds(path, f"command line: --seeds {path}")


def _described(seeds: list[EpisodeSeed], path: Path | None) -> str:
    if path is not None:
        return f"seeds of {path}"
    return f"seed {seeds[0]}" if isinstance(seeds[0], str) else f"seeds {seeds[0]} to {seeds[-1]}"

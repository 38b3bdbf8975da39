"""`ludus analyze`: replay a policy, record every step of it, and draw what the env and the policy did."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ludus.cli.commands import EnvId, Episodes, Json, MaxSteps, Quiet, Root, Seed, Stochastic, examples
from ludus.cli.output import Output
from ludus.errors import UserError

if TYPE_CHECKING:
    from ludus.cli.player import PolicyOnEnv
    from ludus.evaluation.analysis.recording import Recording

_PAGE, _STEPS = "analysis.html", "steps"


EXAMPLES = examples(
    "ludus analyze latest",
    "ludus analyze latest@best --episodes 20 --export parquet --png",
)


def analyze(
    policy: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="RUN, RUN@best, RUN@STEP, preset:NAME, latest, random; or a config."
        ),
    ],
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", metavar="C", help="best, latest or a step.")
    ] = None,
    episodes: Episodes = 5,
    export: Annotated[
        Literal["csv", "parquet"] | None,
        typer.Option(
            "--export", help="The file of steps; default: parquet where pyarrow is installed, else csv."
        ),
    ] = None,
    png: Annotated[
        bool, typer.Option("--png", help="The charts as pictures too (needs matplotlib).")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Output folder; default: analysis/ in the run."),
    ] = None,
    env: EnvId = None,
    seed: Seed = 0,
    stochastic: Stochastic = False,
    max_steps: MaxSteps = None,
    root: Root = "runs",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Replay a policy and plot the env's signals, its actions and its values."""
    from ludus.cli.configured import resolve_policy
    from ludus.cli.player import seat
    from ludus.evaluation.analysis.export import require_format, usual_format
    from ludus.evaluation.analysis.recording import record_episodes
    from ludus.reports.analysis.pictures import require_pictures

    output = Output(json, quiet=quiet)
    kind = export or usual_format()
    require_format(kind)  # before the first episode
    if png:
        require_pictures()
    meant = resolve_policy(policy, root, env)
    if checkpoint is not None and "@" in meant.policy:
        raise UserError(
            f"'{meant.policy}' already names a checkpoint",
            where="command line: --checkpoint",
            fix="name the run alone, or leave --checkpoint out",
        )
    player = seat(
        meant.policy if checkpoint is None else f"{meant.policy}@{checkpoint}", env, meant.root, seed
    )
    folder = to or _folder(player, seed, stochastic)
    waiting = output.console.is_terminal and not quiet
    with output.console.status("playing") if waiting else nullcontext() as status:
        recording = record_episodes(
            player.policy,
            player.spec,
            range(seed, seed + episodes),
            reward_scale=player.policy.reward_scale(),
            gamma=_gamma(player),
            deterministic=not stochastic,
            max_steps=player.max_steps(max_steps),
            on_episode=None
            if status is None
            else lambda done: status.update(f"playing: {done} of {episodes}"),
        )
    page, steps, pictures = _write(recording, folder, kind, png, player, seed, stochastic)
    _report(output, recording, player, page, steps, pictures)


def _write(
    recording: Recording,
    folder: Path,
    kind: Literal["csv", "parquet"],
    png: bool,
    player: PolicyOnEnv,
    seed: int,
    stochastic: bool,
) -> tuple[Path, Path, list[Path]]:
    """Write the page, the file of steps and, with `png`, the pictures."""
    from ludus.evaluation.analysis.charts import figures_of
    from ludus.evaluation.analysis.export import write_steps
    from ludus.reports.analysis.page import write_page
    from ludus.reports.analysis.pictures import write_pictures

    folder.mkdir(parents=True, exist_ok=True)
    figures = figures_of(recording)
    about = {**player.as_dict(), "seed": seed, "deterministic": not stochastic, "gamma": recording.gamma}
    steps = write_steps(recording, folder / f"{_STEPS}.{kind}", kind, about)
    page = write_page(
        folder / _PAGE, player.described, _subtitle(player, seed, stochastic), _facts(recording), figures
    )
    return page, steps, write_pictures(folder, figures) if png else []


def _report(
    output: Output, recording: Recording, player: PolicyOnEnv, page: Path, steps: Path, pictures: list[Path]
) -> None:
    """Print the rewards and the files written."""
    from ludus.tracking.progress import number

    rewards = recording.rewards
    rows = [("policy", player.described), ("reward", "  ".join(number(reward) for reward in rewards))]
    rows += [("page", str(page)), ("steps", f"{steps}  ({len(recording.columns['step']):,} rows)")]
    rows += [("pictures" if index == 0 else "", str(path)) for index, path in enumerate(pictures)]
    output.pairs(rows)
    output.result(
        {
            **player.as_dict(),
            "episodes": len(rewards),
            "rewards": rewards,
            "mean_reward": sum(rewards) / len(rewards),
            "steps": len(recording.columns["step"]),
            "signals": list(recording.signals.names),
            "page": str(page),
            "data": str(steps),
            "pictures": [str(path) for path in pictures],
        },
        short=str(page),
    )


def _gamma(player: PolicyOnEnv) -> float:
    """Return the discount factor of the policy; 1 for a bot."""
    config = player.policy.config
    return 1.0 if config is None else float(config.typed_hyperparams().gamma(0.0))


def _folder(player: PolicyOnEnv, seed: int, stochastic: bool) -> Path:
    """Return the default folder: in the run, or in the current folder for a bot."""
    policy = player.policy
    if policy.run is None or policy.checkpoint is None:
        return Path(f"analysis-{policy.name}-{player.spec.id.replace('/', '-').replace(':', '-')}")
    name = f"{policy.checkpoint.name}-seed{seed}" + "-stochastic" * stochastic
    return policy.run.path / "analysis" / name


def _subtitle(player: PolicyOnEnv, seed: int, stochastic: bool) -> str:
    if player.policy.config is None:
        return f"{player.spec.id}, seeds from {seed}"
    manner = "actions sampled" if stochastic else "the likeliest actions"
    return f"{player.policy.config.algorithm} on {player.spec.id}, {manner}, seeds from {seed}"


def _facts(recording: Recording) -> dict[str, str]:
    import numpy as np

    from ludus.tracking.progress import mean_and_spread

    rewards = np.array(recording.rewards)
    lengths = np.array([episode.length for episode in recording.episodes])
    facts = {
        "episodes": f"{len(rewards):,}",
        "return": mean_and_spread(float(rewards.mean()), float(rewards.std())),
        "steps an episode": f"{lengths.mean():,.0f}",
        "ended by the env": f"{np.mean([one.ended == 'terminated' for one in recording.episodes]):.0%}",
    }
    for signal, column in zip(recording.signals.signals, recording.signal_columns, strict=True):
        if signal.contact:
            facts[f"of steps with {signal.name}"] = f"{(recording.columns[column] != 0).mean():.0%}"
    return facts

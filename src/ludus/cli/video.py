"""`ludus video`: record videos of policies, with an overlay of observations, policy outputs and actions."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ludus.cli.commands import EnvId, Episodes, Json, MaxSteps, Quiet, Root, Seed, Stochastic, examples
from ludus.cli.output import Output
from ludus.errors import UserError

if TYPE_CHECKING:
    from ludus.cli.player import PolicyOnEnv
    from ludus.evaluation.video import RecordedVideo, Scene

_LONGEST_NAME = 120


EXAMPLES = examples(
    "ludus video latest",
    "ludus video latest --checkpoint 100000 --checkpoint best",
    "ludus video RUN1 RUN2 --gif",
)


def video(
    policies: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="RUN, RUN@best, RUN@STEP, preset:NAME, latest, random. Several: side by side.",
        ),
    ],
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            "--checkpoint", metavar="C", help="best, latest or a step, of every RUN. Several: side by side."
        ),
    ] = None,
    episodes: Episodes = 3,
    overlay: Annotated[
        bool,
        typer.Option(
            "--overlay/--no-overlay", help="Numbers and live plots next to the picture, or the picture alone."
        ),
    ] = True,
    length: Annotated[
        int | None, typer.Option("--length", metavar="N", min=1, help="Maximum number of frames.")
    ] = None,
    gif: Annotated[bool, typer.Option("--gif", help="A GIF instead of an MP4.")] = False,
    to: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Output file; default: in the run's videos/."),
    ] = None,
    env: EnvId = None,
    seed: Seed = 0,
    stochastic: Stochastic = False,
    max_steps: MaxSteps = None,
    root: Root = "runs",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Record a video of policies, with an overlay of observations, policy outputs and actions."""
    from ludus.evaluation.encoding import check_name, require_video
    from ludus.evaluation.screen import check_drawable, render_modes
    from ludus.evaluation.video import record_scenes

    output = Output(json, quiet=quiet)
    if to is not None:
        check_name(to, "command line: --output")
        if gif and to.suffix.lower() != ".gif":
            raise UserError(
                f"'{to.name}' does not name a GIF", where="command line: --gif", fix="end the name in .gif"
            )
    require_video()
    players = _players(policies, checkpoint or [], env, root, seed)
    for player in players:
        check_drawable(player.spec.id, render_modes(player.spec))
    path = to or _path(players, seed, gif, stochastic, env)
    waiting = output.console.is_terminal and not quiet
    with output.console.status("recording") if waiting else nullcontext() as status:
        recorded = record_scenes(
            [_scene(player, max_steps) for player in players],
            path,
            seed=seed,
            episodes=episodes,
            max_frames=length,
            deterministic=not stochastic,
            overlay=overlay,
            on_frame=None
            if status is None
            else lambda frames: status.update(f"recording: {frames:,} frames"),
        )
    _report(output, players, recorded)


def _report(output: Output, players: list[PolicyOnEnv], recorded: RecordedVideo) -> None:
    """Print the rewards of each policy and the path of the video."""
    from ludus.tracking.progress import number

    rows = []
    for player, rewards in zip(players, recorded.rewards_of, strict=True):
        rows.append(("policy", player.described))
        rows.append(("reward", "  ".join(number(reward) for reward in rewards)))
    if recorded.capped:
        rows.append(("cut", f"{recorded.capped} episodes, which did not end (--max-steps)"))
    rows.append(("video", f"{recorded.path}  ({recorded.frames:,} frames, {recorded.seconds:.0f} s)"))
    output.pairs(rows)
    output.result(
        {
            "video": str(recorded.path),
            "frames": recorded.frames,
            "seconds": recorded.seconds,
            "policies": [
                {**player.as_dict(), "rewards": rewards}
                for player, rewards in zip(players, recorded.rewards_of, strict=True)
            ],
        },
        short=str(recorded.path),
    )


def _players(
    policies: list[str], checkpoints: list[str], env: str | None, root: str, seed: int
) -> list[PolicyOnEnv]:
    """Return every policy at every checkpoint."""
    from ludus.cli.configured import resolve_policy
    from ludus.cli.player import seat
    from ludus.evaluation.load import is_bot

    names = []
    for policy in policies:
        meant = resolve_policy(policy, root, env)
        if checkpoints and ("@" in meant.policy or meant.policy == "random"):
            raise UserError(
                f"'{meant.policy}' already names a checkpoint",
                where="command line: --checkpoint",
                fix="name the run alone, or leave --checkpoint out",
            )
        of_policy = [f"{meant.policy}@{checkpoint}" for checkpoint in checkpoints] or [meant.policy]
        names += [(name, meant.root) for name in of_policy]
    # bots last: they play the env of the first run
    seated: dict[int, PolicyOnEnv] = {}
    for place in sorted(range(len(names)), key=lambda place: is_bot(names[place][0])):
        name, folder = names[place]
        seated[place] = seat(name, env, folder, seed, partner=next(iter(seated.values()), None))
    return [seated[place] for place in range(len(names))]


def _scene(player: PolicyOnEnv, max_steps: int | None) -> Scene:
    from ludus.evaluation.video import Scene

    policy = player.policy
    title = policy.name if policy.run is None else policy.run.name
    if policy.config is None or policy.checkpoint is None:
        subtitle = player.spec.id
    else:
        subtitle = f"{policy.config.algorithm}  ·  step {policy.checkpoint.step:,}"
    return Scene(
        policy,
        replace(player.spec, render_mode="rgb_array"),
        title,
        subtitle,
        policy.reward_scale(),
        player.max_steps(max_steps),
    )


def _path(players: list[PolicyOnEnv], seed: int, gif: bool, stochastic: bool, env: str | None) -> Path:
    """Return the default path: in the videos of the first run, or in the current folder without a run."""
    first = players[0].policy
    parts = ["video" if len(players) == 1 else "comparison"]
    for player in players:
        policy = player.policy
        own_run = policy.run is None or first.run is None or policy.run.path != first.run.path
        if own_run:
            parts.append(policy.name if policy.run is None else policy.run.name)
        if policy.checkpoint is not None:
            parts.append(policy.checkpoint.name)
    if env is not None:
        parts.append(players[0].spec.id.replace("/", "-").replace(":", "-"))
    name = "-".join(parts)[:_LONGEST_NAME] + f"-seed{seed}" + "-stochastic" * stochastic
    folder = Path() if first.run is None else first.run.videos_dir
    return folder / (name + (".gif" if gif else ".mp4"))

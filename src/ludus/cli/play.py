"""`ludus play`: see a policy play, in a window or as a video, or play yourself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ludus.cli.commands import EnvId, Episodes, Json, MaxSteps, Quiet, Root, SeedOrText, Stochastic, examples
from ludus.cli.output import Output
from ludus.errors import UserError

if TYPE_CHECKING:
    from ludus.cli.player import PolicyOnEnv
    from ludus.envs.make import EnvSpec
    from ludus.envs.seeds import EpisodeSeed

_HUMAN = "human"


EXAMPLES = examples(
    "ludus play latest",
    "ludus play latest --episodes 3 --video landing.mp4",
    "ludus play --human --env CartPole-v1",
)


def play(
    policy: Annotated[
        str | None,
        typer.Argument(
            metavar="POLICY",
            help="RUN, RUN@best, RUN@STEP, preset:NAME, latest, random, human; or a config: its run.",
        ),
    ] = None,
    episodes: Episodes = 1,
    human: Annotated[bool, typer.Option("--human", help="Play yourself, by keyboard.")] = False,
    video: Annotated[
        Path | None,
        typer.Option("--video", metavar="FILE", help="Record a video instead of opening a window."),
    ] = None,
    env: EnvId = None,
    seed: SeedOrText = "0",
    stochastic: Stochastic = False,
    max_steps: MaxSteps = None,
    root: Root = "runs",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Watch a policy play in a window, or record a video; or play yourself."""
    from ludus.cli.configured import resolve_policy
    from ludus.cli.player import seat
    from ludus.envs.seeds import following_seed, number_of_seed, parse_seed
    from ludus.evaluation.screen import check_drawable, has_screen, render_modes

    output = Output(json, quiet=quiet)
    first = parse_seed(seed, f"command line: --seed {seed}")
    seeds = [following_seed(first, episode) for episode in range(episodes)]
    if human or policy == _HUMAN:
        if video is not None:
            raise UserError("cannot record a video of a human's game", fix="leave out --video, or --human")
        from ludus.plugins import find

        in_terminal = find("human_play", str(env or policy))
        if in_terminal is not None:
            records = in_terminal(seeds, output.print)
            data = {"policy": _HUMAN, "env": env or policy, "run": None, "checkpoint": None}
            _report([record.reward for record in records], data, None, output, described="you")
            return
        _play_by_hand(_human_spec(policy, env, root), seeds, output)
        return
    if policy is None:
        raise UserError("no policy is given", fix="ludus play latest, or ludus play random --env CartPole-v1")
    meant = resolve_policy(policy, root, env)
    player = seat(meant.policy, env, meant.root, number_of_seed(first))
    modes = render_modes(player.spec)
    limit = player.max_steps(max_steps)
    if video is None and has_screen() and "human" in modes:
        rewards, path = _watch(player, seeds, not stochastic, limit), None
    else:
        check_drawable(player.spec.id, modes)
        if video is None:
            reason = "this env opens no window" if has_screen() else "there is no screen here"
            output.print(f"{reason}, so a video is recorded")
        path = video if video is not None else _video_path(player, first, env, stochastic)
        rewards = _record(player, seeds, path, not stochastic, limit)
    _report(rewards, player.as_dict(), path, output, described=player.described)


def _watch(
    player: PolicyOnEnv, seeds: list[EpisodeSeed], deterministic: bool, max_steps: int | None
) -> list[float]:
    from ludus.envs.user_code import build, close_env
    from ludus.evaluation.play import watch
    from ludus.evaluation.screen import prepare_pygame

    prepare_pygame()
    env = build(replace(player.spec, render_mode="human"))
    try:
        records = watch(player.policy, env, seeds, deterministic=deterministic, max_steps=max_steps)
        return [record.reward for record in records]
    finally:
        close_env(env)


def _record(
    player: PolicyOnEnv, seeds: list[EpisodeSeed], path: Path, deterministic: bool, max_steps: int | None
) -> list[float]:
    from ludus.evaluation.encoding import check_name
    from ludus.evaluation.video import record_video

    check_name(path, "command line: --video")
    recorded = record_video(
        player.policy,
        replace(player.spec, render_mode="rgb_array"),
        path,
        seed=seeds[0],
        episodes=len(seeds),
        max_steps=max_steps,
        deterministic=deterministic,
    )
    return recorded.rewards


def _video_path(player: PolicyOnEnv, seed: EpisodeSeed, env: str | None, stochastic: bool) -> Path:
    """Return a path among the run's videos, or in this folder without a run. The same episodes get the same name."""
    policy = player.policy
    parts = ["play", policy.name if policy.checkpoint is None else policy.checkpoint.name]
    if env is not None:
        parts.append(player.spec.id.replace("/", "-").replace(":", "-"))
    parts += [f"seed{seed}"] + ["stochastic"] * stochastic
    folder = Path() if policy.run is None else policy.run.videos_dir
    return folder / ("-".join(parts) + ".mp4")


def _human_spec(policy: str | None, env: str | None, root: str) -> EnvSpec:
    """The env to play by hand: the one named, else the one that the policy plays."""
    from ludus.cli.player import open_spec
    from ludus.envs.make import EnvSpec

    if env is not None:
        return open_spec(EnvSpec(env), env)
    if policy in (None, _HUMAN):
        raise UserError("no env is given", fix="give one with --env, as in --env LunarLander-v3")
    from ludus.evaluation.load import load

    return load(str(policy), root).env_spec().resolve()


def _play_by_hand(spec: EnvSpec, seeds: list[EpisodeSeed], output: Output) -> None:
    from ludus.envs.human import key_bindings
    from ludus.envs.user_code import build, close_env
    from ludus.evaluation.play import play_by_hand
    from ludus.evaluation.screen import check_drawable, has_screen, prepare_pygame, render_modes

    if not has_screen():
        raise UserError(
            "there is no screen here to play on",
            where="DISPLAY and WAYLAND_DISPLAY are not set",
            fix="play on a machine with a screen; `ludus play POLICY` records a video of a policy without one",
        )
    check_drawable(spec.id, render_modes(spec))
    prepare_pygame()
    env: Any = build(replace(spec, render_mode="rgb_array"))
    try:
        bindings = key_bindings(env)
        if bindings is None:
            raise UserError(
                f"no keys are known for '{spec.id}'",
                where=f"env '{spec.id}'",
                fix="give the env a method get_keys_to_action() that returns {keys: action}",
            )
        names = sorted({"+".join(keys) for keys in bindings if keys})
        output.print(f"keys: {', '.join(names)}; Escape ends the game")
        rewards = [record.reward for record in play_by_hand(env, bindings, seeds, say=output.print)]
    finally:
        close_env(env)
    data = {"policy": _HUMAN, "env": spec.id, "run": None, "checkpoint": None}
    _report(rewards, data, None, output, described="you")


def _report(
    rewards: list[float], data: dict[str, Any], video: Path | None, output: Output, described: str
) -> None:
    from ludus.tracking.progress import number

    mean = sum(rewards) / len(rewards) if rewards else None
    rows = [("policy", described), ("env", str(data["env"]))]
    if rewards:
        rows.append(("reward", "  ".join(number(reward) for reward in rewards)))
    if video is not None:
        rows.append(("video", str(video)))
    output.pairs(rows)
    output.result(
        {
            **data,
            "episodes": len(rewards),
            "rewards": rewards,
            "mean_reward": mean,
            "video": None if video is None else str(video),
        },
        short=None if mean is None else f"{mean:g}",
    )

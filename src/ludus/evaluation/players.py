"""Makes players for games with seats from names: bots, runs, people, and prefixes of plugins.

The names are those of `evaluation.load`, `human`, the bots of plugins, and prefixes such as `openai:`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from ludus import plugins
from ludus.config.language import GameConfig, GameSpec
from ludus.config.loading import load_config
from ludus.config.registry import LANGUAGE
from ludus.config.requests import requests_to_play, require_all
from ludus.config.schema import TrainerConfig
from ludus.config.trained_here import trust_in_run
from ludus.envs.seats import SEAT_ENV, GameBot, find_codec
from ludus.envs.spaces import describe_space
from ludus.errors import UnknownName, UserError, nearest
from ludus.evaluation.load import find_checkpoint, load
from ludus.league.human import HumanPlayer
from ludus.league.players import BotPlayer, Player, PlayerRequest, PolicyPlayer
from ludus.policies.base import RecurrentActor
from ludus.runs.checkpoints import Checkpoint
from ludus.runs.directory import RunDirectory
from ludus.runs.streams import Streams

HUMAN = "human"


def make_player(
    ref: str,
    games: Sequence[GameSpec],
    *,
    streams: Streams,
    stream: str | None = None,
    root: str | Path = "runs",
    deterministic: bool = True,
    device: str = "cpu",
    screen: TextIO | None = None,
) -> Player:
    """Return the player named `ref` for `games`; its `plays` returns which of them it can play.

    Its random numbers come from the streams called `stream` (default: its name). The rest is as in `PlayerRequest`;
    language models sample as in training. UserError if it cannot play any of the games.
    """
    request = PlayerRequest(
        ref, games, streams, stream or f"player/{ref}", root, deterministic, device, screen
    )
    if ref == HUMAN:
        return HumanPlayer(screen)
    if ref in bot_names():
        return _bot(request)
    for prefix, factory in plugins.references("player_schemes").items():
        if ref.startswith(prefix):
            player: Player = plugins.load(factory)(request)
            return player
    run, checkpoint = find(ref, root)
    config = load_config(run.config_path).config
    require_to_play(run, config)
    make = plugins.find("run_players", LANGUAGE if config.language is not None else config.engine)
    return _network(request, config) if make is None else make(request, config, checkpoint)


def bot_names() -> list[str]:
    """Return the names of the bots of all plugins."""
    return list(plugins.references("players"))


def make_bot(name: str, spec: GameSpec, rng: np.random.Generator) -> GameBot:
    """Return the bot called `name` for this game, drawing from `rng`.

    UnknownName, and UserError if it does not play this game.
    """
    if name not in bot_names():
        raise UnknownName("bot", name, bot_names(), fix=f"bots: {', '.join(bot_names())}")
    bot = _find_bot(name, spec, rng)
    if bot is None:
        playing = [other for other in bot_names() if _find_bot(other, spec, rng) is not None]
        raise UserError(
            f"the bot '{name}' does not play {spec.id}",
            where="bots",
            fix=f"bots for it: {', '.join(playing) or 'none'}",
        )
    return bot


def game_of(ref: str, root: str | Path = "runs") -> GameConfig | None:
    """Return the first game that the run `ref` was trained on; None for other players."""
    if not is_run(ref):
        return None
    run, _ = find(ref, root)
    config = load_config(run.config_path).config
    require_to_play(run, config)
    if config.games is not None:
        return config.games.train[0]
    return _game_of_env(config)


def is_run(ref: str) -> bool:
    """Return True if `ref` names a run, not a bot, a person or a name with a plugin's prefix."""
    prefixes = tuple(plugins.references("player_schemes"))
    return ref not in bot_names() and ref != HUMAN and not ref.startswith(prefixes)


def describe(ref: str, root: str | Path = "runs") -> str:
    """Return the run and step of `ref` now; `ref` itself if it is not a run."""
    if not is_run(ref):
        return ref
    run, checkpoint = find(ref, root)
    return f"{run.name} at step {checkpoint.step:,}"


def require_to_play(run: RunDirectory, config: TrainerConfig) -> None:
    """Raise UserError if playing the run needs something outside it for which the user has not consented."""
    with trust_in_run(config).applied():
        require_all(requests_to_play(config), str(run.config_path))


def find(ref: str, root: str | Path) -> tuple[RunDirectory, Checkpoint]:
    """Return the run and checkpoint of `ref`. UnknownName if neither a run nor a bot has that name."""
    try:
        return find_checkpoint(ref, root)
    except UnknownName as error:
        names = (*bot_names(), HUMAN)
        if nearest(ref, names) is None:
            raise
        raise UnknownName("policy", ref, names, where=error.where) from None


def _find_bot(name: str, spec: GameSpec, rng: np.random.Generator) -> GameBot | None:
    """Return a bot of this name from the first plugin that has one for the game."""
    for make in plugins.find_all("players", name):
        bot: GameBot | None = make(spec, rng)
        if bot is not None:
            return bot
    return None


def _bot(request: PlayerRequest) -> BotPlayer:
    bots, refusal = {}, None
    for spec in request.games:
        try:
            bots[spec] = make_bot(request.name, spec, request.streams.numpy(request.stream))
        except UserError as error:
            refusal = refusal or error
    if not bots and refusal is not None:
        raise refusal
    return BotPlayer(request.name, bots)


def _game_of_env(config: TrainerConfig) -> GameConfig | None:
    """Return the game of which a network's env is one seat; None for other envs."""
    if config.env is None or not config.env.id.startswith(SEAT_ENV):
        return None
    kwargs = config.env.kwargs
    return GameConfig(
        id=kwargs.get("game", config.env.id.removeprefix(SEAT_ENV)), kwargs=kwargs.get("game_kwargs") or {}
    )


def _network(request: PlayerRequest, config: TrainerConfig) -> PolicyPlayer:
    policy = load(request.name, request.root)
    where = str(policy.run.path if policy.run else request.root)
    own = _game_of_env(config)
    trained_on = SEAT_ENV + own.id if own is not None else "" if config.env is None else config.env.id
    spec = next((spec for spec in request.games if own is not None and spec.id == own.id), None)
    if spec is None:
        raise UserError(
            f"'{request.name}' is a network for {trained_on or 'an env of its own'} and cannot play "
            f"{' or '.join(spec.id for spec in request.games)}",
            where=where,
            fix=f"train one for it: ludus train --algo ppo --env {SEAT_ENV}{request.games[0].id}",
        )
    codec = find_codec(spec.id, spec.kwargs)
    space = policy.actor.observation_space
    if codec is None or space != codec.observation_space or isinstance(policy, RecurrentActor):
        seen = "nothing" if codec is None else describe_space(codec.observation_space)
        raise UserError(
            f"'{request.name}' cannot play here: it observes {describe_space(space)}, the game shows {seen}",
            where=where,
            fix="train without wrappers, frame_stack and recurrence",
        )
    generator = None if request.deterministic else request.streams.torch(request.stream)
    return PolicyPlayer(
        request.name, policy.actor, spec.id, codec, deterministic=generator is None, generator=generator
    )

"""From a policy's name to a player at text games: bots, runs of networks and of language models, APIs, people.

The names are those of `evaluation.load`, and besides: `openai:MODEL` and `human`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import torch

from ludus.config.language import GameConfig, GameSpec
from ludus.config.loading import load_config
from ludus.config.schema import TrainerConfig
from ludus.envs.spaces import describe_space
from ludus.errors import UnknownName, UserError, nearest
from ludus.evaluation.load import find_checkpoint, load
from ludus.games.board.bots import BOTS, make_bot
from ludus.games.board.codecs import codec_for
from ludus.language.text_games.extraction import make_extractor
from ludus.language.text_games.templates import make_template
from ludus.league.human import HumanPlayer
from ludus.league.players import BotPlayer, LanguagePlayer, Player, PolicyPlayer, RemotePlayer, Seated
from ludus.runs.checkpoints import Checkpoint
from ludus.runs.directory import RunDirectory
from ludus.runs.streams import Streams

REMOTE = "openai:"
HUMAN = "human"
TEXT_ENV = "Text/"
"""Before a game's id: the env in which a network learns it."""


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
    """The player that `ref` names, for `games`; its `plays` says which of them.

    What it draws comes from the streams called `stream` (default: by its name). Networks take their likeliest
    action unless `deterministic` is False; language models sample as they did in training. Runs are looked for
    under `root`. A person reads on `screen` (default: stdout). UserError when it can play none of the games.
    """
    stream = stream or f"player/{ref}"
    if ref == HUMAN:
        return HumanPlayer(spell, screen)
    if ref.startswith(REMOTE):
        return _remote(ref)
    if ref in BOTS:
        return _bot(ref, games, streams, stream)
    run, checkpoint = find(ref, root)
    config = load_config(run.config_path).config
    if config.language is not None:
        return _language_model(ref, config, checkpoint, games, streams, stream, device)
    generator = None if deterministic else streams.torch(stream)
    return _network(ref, root, config, games, generator)


def game_of(ref: str, root: str | Path = "runs") -> GameConfig | None:
    """The first game that the run `ref` was trained on; None for anybody else."""
    if not is_run(ref):
        return None
    run, _ = find(ref, root)
    config = load_config(run.config_path).config
    if config.games is not None:
        return config.games.train[0]
    return _game_of_env(config)


def _game_of_env(config: TrainerConfig) -> GameConfig | None:
    """The game that a network's env is; None where it is no text game."""
    if config.env is None or not config.env.id.startswith(TEXT_ENV):
        return None
    kwargs = config.env.kwargs
    return GameConfig(
        id=kwargs.get("game", config.env.id.removeprefix(TEXT_ENV)), kwargs=kwargs.get("game_kwargs") or {}
    )


def is_run(ref: str) -> bool:
    """Whether `ref` names a run, not a bot, an API or a person."""
    return ref not in BOTS and ref != HUMAN and not ref.startswith(REMOTE)


def describe(ref: str, root: str | Path = "runs") -> str:
    """Which run and step `ref` means today; itself where it is no run."""
    if not is_run(ref):
        return ref
    run, checkpoint = find(ref, root)
    return f"{run.name} at step {checkpoint.step:,}"


def spell(turn: Seated, typed: str) -> str:
    """What was typed, as the game writes it: `4` or `col 4` for `[4]`, where there is a codec that understands it."""
    codec = codec_for(turn.game.spec.id, turn.game.spec.kwargs)
    action = None if codec is None else codec.index(typed)
    return typed if codec is None or action is None else codec.text(action)


def find(ref: str, root: str | Path) -> tuple[RunDirectory, Checkpoint]:
    """The run and checkpoint that `ref` names; UnknownName where none has that name, nor a bot."""
    try:
        return find_checkpoint(ref, root)
    except UnknownName as error:
        names = (*BOTS, HUMAN)
        if nearest(ref, names) is None:
            raise
        raise UnknownName("policy", ref, names, where=error.where) from None


def _bot(name: str, games: Sequence[GameSpec], streams: Streams, stream: str) -> BotPlayer:
    bots, refusal = {}, None
    for spec in games:
        try:
            bots[spec] = make_bot(name, spec, streams.numpy(stream))
        except UserError as error:
            refusal = refusal or error
    if not bots and refusal is not None:
        raise refusal
    return BotPlayer(name, bots)


def _remote(ref: str) -> RemotePlayer:
    from ludus.language.models.remote import OpenAIClient

    return RemotePlayer(ref, OpenAIClient.from_ref(ref.removeprefix(REMOTE)))


def _network(
    ref: str,
    root: str | Path,
    config: TrainerConfig,
    games: Sequence[GameSpec],
    generator: torch.Generator | None,
) -> PolicyPlayer:
    policy = load(ref, root)
    own = _game_of_env(config)
    trained_on = TEXT_ENV + own.id if own is not None else "" if config.env is None else config.env.id
    spec = next((spec for spec in games if own is not None and spec.id == own.id), None)
    if spec is None:
        raise UserError(
            f"'{ref}' is a network for {trained_on or 'an env of its own'} and cannot play "
            f"{' or '.join(spec.id for spec in games)}",
            where=str(policy.run.path if policy.run else root),
            fix=f"train one that can: ludus train --algo ppo --env {TEXT_ENV}{games[0].id}",
        )
    codec = codec_for(spec.id, spec.kwargs)
    space = policy.actor.observation_space
    if codec is None or space != codec.observation_space or policy.predict_with_memory is not None:
        seen = "nothing" if codec is None else describe_space(codec.observation_space)
        raise UserError(
            f"'{ref}' cannot sit at a table: it observes {describe_space(space)}, the table shows {seen}",
            where=str(policy.run.path if policy.run else root),
            fix="train without wrappers, frame_stack and recurrence",
        )
    return PolicyPlayer(
        ref, policy.actor, spec.id, codec, deterministic=generator is None, generator=generator
    )


def _language_model(
    ref: str,
    config: TrainerConfig,
    checkpoint: Checkpoint,
    games: Sequence[GameSpec],
    streams: Streams,
    stream: str,
    device: str,
) -> LanguagePlayer:
    from ludus.language.models.learned import LearnedWeights
    from ludus.language.models.local import LocalSampler
    from ludus.language.models.models import load_language_model

    language = config.language
    assert language is not None
    state = checkpoint.state()
    # the weights of `tiny` are drawn, so they follow from the run's seed
    model = load_language_model(language, device, Streams(config.seed).torch("model"))
    with checkpoint.understood():
        learner = best_learner(state)
        updates = int(state.get("progress", {}).get("updates", 0))
    model.add_adapter(learner, None if language.adapter is None else language.adapter.without_start())
    LearnedWeights(model, [learner], language).load_state_dict(checkpoint.tensors("policy"))
    own = own_game(config, games)
    return LanguagePlayer(
        ref,
        model.tokenizer,
        LocalSampler(model, language.sampler, streams.torch(stream)),
        learner,
        version=updates,
        kind="model",
        template=make_template(own.template),
        extractor=make_extractor(own.extract),
    )


def best_learner(state: dict[str, Any]) -> str:
    """Of several learners, the one with the highest rating."""
    learners: list[str] = state["learners"]
    ratings: dict[str, tuple[float, float]] = (state.get("league") or {}).get("ratings", {})
    return str(max(learners, key=lambda name: float(ratings.get(name, (0.0, 0.0))[0])))


def own_game(config: TrainerConfig, games: Sequence[GameSpec]) -> GameConfig:
    """How the run saw these games; at one it does not know, as it saw its first."""
    assert config.games is not None
    known = [*config.games.train, *config.games.eval]
    ids = [spec.id for spec in games]
    return next((game for game in known if game.id in ids), known[0])

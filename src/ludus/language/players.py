"""Players that read and write text: language models, models behind an API, and a bot for any text game."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

import numpy as np

from ludus.config.language import GameConfig, GameSpec
from ludus.config.schema import TrainerConfig
from ludus.envs.seats import TurnGame, find_codec
from ludus.errors import UserError
from ludus.language.models.sampling import Completion, Request, Sampler, fit_prompt
from ludus.language.text_games.extraction import THOUGHT_BEGINS, Extractor, make_extractor
from ludus.language.text_games.game import EXTRACTOR, TEMPLATE, TextGame
from ludus.language.text_games.templates import Template, lasting_beginning, make_template
from ludus.language.turns import Turn
from ludus.league.league import Kind
from ludus.league.players import PendingTurn, Player, PlayerRequest, Reply, TokenUse
from ludus.runs.checkpoints import Checkpoint
from ludus.runs.streams import Streams

if TYPE_CHECKING:
    from ludus.language.models.tokenizer import Tokenizer

_log = logging.getLogger("ludus.language")
REMOTE = "openai:"
_MAX_LENGTHS = 256
_REPORTED: WeakSet[Any] = WeakSet()
"""Samplers that had a prompt which was too long: this is logged once per sampler."""


class LanguagePlayer(Player):
    """A language model under one of its adapters. Every reply carries the turn, with the tokens as sampled.

    `template` and `extractor` replace those of the game if it was trained with others.
    """

    def __init__(
        self,
        name: str,
        tokenizer: Tokenizer,
        sampler: Sampler,
        adapter: str | None,
        *,
        version: int = 0,
        kind: Kind = "learner",
        template: Template | None = None,
        extractor: Extractor | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.version = version
        self.adapter = adapter
        self._tokenizer = tokenizer
        self.sampler = sampler
        self._template = template
        self._extractor = extractor
        self._opens_thought: dict[Template, bool] = {}
        self._lengths: dict[str, int] = {}
        """Tokens of the beginnings of prompts, which repeat from turn to turn."""

    @property
    def batch_key(self) -> object:
        return self.sampler

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        return self.act_together([(self, turn) for turn in turns])

    def act_together(self, pending: Sequence[tuple[Any, PendingTurn]]) -> list[Reply]:
        requests = [player.request(turn) for player, turn in pending]
        completions = self.sampler.sample(requests)
        self._report_cut(requests, completions)
        return [
            player.reply(turn, request, completion)
            for (player, turn), request, completion in zip(pending, requests, completions, strict=True)
        ]

    def request(self, turn: PendingTurn) -> Request:
        """Return the request for this turn. If the prompt is too long, its header and rules are kept."""
        observed = turn.game.observe()
        text = self._template_of(turn).render(observed, self._tokenizer)
        beginning = lasting_beginning(text, observed)
        if beginning not in self._lengths:
            if len(self._lengths) >= _MAX_LENGTHS:
                self._lengths.clear()
            self._lengths[beginning] = len(self._tokenizer.encode(beginning))
        prompt = tuple(self._tokenizer.encode(text)) or (self._tokenizer.start_id,)
        return Request(prompt, self.adapter, f"{turn.match}/{turn.seat}", self._lengths[beginning])

    def read(self, turn: PendingTurn, text: str) -> tuple[str, bool]:
        """Return the action in `text`, and whether it was well formed."""
        template = self._template_of(turn)
        if template not in self._opens_thought:
            self._opens_thought[template] = template.opens_thought(self._tokenizer)
        thought = THOUGHT_BEGINS if self._opens_thought[template] else ""
        return (self._extractor or _extractor(turn.game))(thought + text)

    def reply(self, turn: PendingTurn, request: Request, completion: Completion) -> Reply:
        """Return the answer in the `completion` of a request for this turn."""
        text = self._tokenizer.decode(completion.tokens)
        action, well_formed = self.read(turn, text)
        record = Turn(
            game=turn.game.spec.id,
            match=turn.match,
            seat=turn.seat,
            index=turn.game.turns,
            player=self.name,
            version=self.version,
            # exactly the tokens that the model was given
            prompt=fit_prompt(request.prompt, request.keep, len(request.prompt) - completion.prompt_cut),
            completion=completion.tokens,
            log_probs=completion.log_probs,
            raw_log_probs=completion.raw_log_probs,
            observation=turn.game.observe().text,
            text=text,
            action=action,
            well_formed=well_formed,
            truncated=completion.truncated,
            prompt_cut=completion.prompt_cut,
            entropy=completion.entropy,
        )
        return Reply(action, text, record)

    def _template_of(self, turn: PendingTurn) -> Template:
        return self._template or (turn.game.template if isinstance(turn.game, TextGame) else TEMPLATE)

    def _report_cut(self, requests: Sequence[Request], completions: Sequence[Completion]) -> None:
        """Log the first prompt of this sampler that was too long."""
        cuts = [(one.prompt_cut, len(asked.prompt)) for asked, one in zip(requests, completions, strict=True)]
        cut, length = max(cuts, default=(0, 0))
        if cut and self.sampler not in _REPORTED:
            _REPORTED.add(self.sampler)
            _log.warning(
                "a prompt has %d tokens, %d more than fit: header, rules and end are kept, the middle is dropped; "
                "raise language.sampler.max_prompt_tokens if the model can read more (games/prompts_cut counts them)",
                length,
                cut,
            )


class Conversation(Protocol):
    """A remote model: returns an answer or an error for each prompt."""

    def ask(self, prompts: Sequence[str]) -> list[str | UserError]: ...

    def take_token_use(self) -> TokenUse | None:
        """Return what was used since the last call."""


class RemotePlayer(Player):
    """A model behind an API. An error (network, deadline, refusal) is the `fault` of the reply."""

    kind: Kind = "remote"

    def __init__(self, name: str, client: Conversation) -> None:
        self.name = name
        self._client = client

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        answers = self._client.ask([turn.game.observe().text for turn in turns])
        return [_read(turn, answer) for turn, answer in zip(turns, answers, strict=True)]

    def take_token_use(self) -> TokenUse | None:
        return self._client.take_token_use()


class ReadingBot:
    """Plays any move that the text offers in brackets, preferably one that is listed as available."""

    _listed = re.compile(
        r"(?:available|valid|legal|possible|allowed)[^\n]*?(?:moves?|actions?|options?)", re.I
    )
    _in_brackets = re.compile(r"\[[^\[\]\n]+\]")
    _speaker = re.compile(r"\[(?:GAME|Player(?: \d+)?)\]")

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def act(self, game: TurnGame) -> str:
        seen = game.observe()
        listed = list(self._listed.finditer(seen.text))
        for text in (seen.text[listed[-1].start() :] if listed else "", seen.board, seen.text):
            offered = [move for move in self._in_brackets.findall(text) if not self._speaker.fullmatch(move)]
            if offered:
                return str(offered[int(self._rng.integers(len(offered)))])
        return "[0]"


def random_bot(spec: GameSpec, rng: np.random.Generator) -> ReadingBot | None:
    """Return the bot `random` for a game of free text; None for a game with a codec."""
    return ReadingBot(rng) if find_codec(spec.id, spec.kwargs) is None else None


def remote_player(request: PlayerRequest) -> RemotePlayer:
    """Return the model that a name such as `openai:MODEL` means."""
    from ludus.language.models.remote import OpenAIClient

    return RemotePlayer(request.name, OpenAIClient.from_ref(request.name.removeprefix(REMOTE)))


def player_of_run(request: PlayerRequest, config: TrainerConfig, checkpoint: Checkpoint) -> LanguagePlayer:
    """Return the best-rated learner of a language run; it samples as it did in training."""
    from ludus.language.models.learned import LearnedWeights
    from ludus.language.models.local import LocalSampler
    from ludus.language.models.models import load_language_model

    language = config.language
    assert language is not None
    state = checkpoint.state()
    # the weights of `tiny` are random and depend on the run's seed
    model = load_language_model(language, request.device, Streams(config.seed).torch("model"))
    with checkpoint.understood():
        learner = best_learner(state)
        updates = int(state.get("progress", {}).get("updates", 0))
    model.add_adapter(learner, None if language.adapter is None else language.adapter.without_start())
    LearnedWeights(model, [learner], language).load_state_dict(checkpoint.tensors("policy"))
    own = own_game(config, request.games)
    return LanguagePlayer(
        request.name,
        model.tokenizer,
        LocalSampler(model, language.sampler, request.streams.torch(request.stream)),
        learner,
        version=updates,
        kind="model",
        template=make_template(own.template),
        extractor=make_extractor(own.extract),
    )


def best_learner(state: dict[str, Any]) -> str:
    """Return the learner with the highest rating."""
    learners: list[str] = state["learners"]
    ratings: dict[str, tuple[float, float]] = (state.get("league") or {}).get("ratings", {})
    return str(max(learners, key=lambda name: float(ratings.get(name, (0.0, 0.0))[0])))


def own_game(config: TrainerConfig, games: Sequence[GameSpec]) -> GameConfig:
    """Return the run's own settings for these games; those of its first game if it has none of them."""
    assert config.games is not None
    known = [*config.games.train, *config.games.eval]
    ids = [spec.id for spec in games]
    return next((game for game in known if game.id in ids), known[0])


def _extractor(game: TurnGame) -> Extractor:
    return game.extractor if isinstance(game, TextGame) else EXTRACTOR


def _read(turn: PendingTurn, answer: str | UserError) -> Reply:
    if isinstance(answer, UserError):
        return Reply("", "", fault=answer.what)
    action, _ = _extractor(turn.game)(answer)
    return Reply(action, answer)

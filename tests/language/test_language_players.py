"""Language players: a turn holds the tokens that were sampled, and every player answers its own turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("textarena")

from ludus.config.language import AdapterConfig, GameSpec, SamplerConfig
from ludus.envs.seats import Observed, find_codec
from ludus.errors import UserError
from ludus.evaluation.players import make_bot
from ludus.language.algorithms.rewards import Format
from ludus.language.models.local import LocalSampler
from ludus.language.models.model import LanguageModel, whole_rows
from ludus.language.models.models import tiny
from ludus.language.models.sampling import Completion, Request
from ludus.language.players import LanguagePlayer, ReadingBot, RemotePlayer
from ludus.language.text_games.extraction import make_extractor
from ludus.language.text_games.game import TextGame
from ludus.language.text_games.templates import make_template
from ludus.league.match import play_matches
from ludus.league.players import BotPlayer, PendingTurn, answer

SPEC = GameSpec("TicTacToe-v0")
TEMPLATE = make_template("default")
EXTRACTOR = make_extractor("brackets")


class Overheard:
    """A sampler that remembers what went through it."""

    def __init__(self, inner: LocalSampler) -> None:
        self.inner = inner
        self.seen: list[tuple[Request, Completion]] = []

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        completions = self.inner.sample(requests)
        self.seen += zip(requests, completions, strict=True)
        return completions


def language_player(name: str = "me", **settings: object) -> tuple[LanguagePlayer, Overheard, LanguageModel]:
    model = tiny(
        {"layers": 1, "hidden": 32, "heads": 2, "context": 4096}, torch.Generator().manual_seed(1)
    ).eval()
    model.add_adapter(name, AdapterConfig(rank=2), torch.Generator().manual_seed(2))
    for parameter in model.trainable(name):  # a new adapter changes nothing; this one does
        torch.nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(3))
    config = SamplerConfig(**{"max_new_tokens": 6, "max_prompt_tokens": 4000, "temperature": 0.8, **settings})
    sampler = Overheard(LocalSampler(model, config, torch.Generator().manual_seed(4)))
    return LanguagePlayer(name, model.tokenizer, sampler, name, version=17), sampler, model


def new_game() -> TextGame:
    return TextGame(SPEC, TEMPLATE, EXTRACTOR)


def pending(number: int, *moves: str) -> PendingTurn:
    game = new_game()
    game.reset(number)
    for move in moves:
        assert game.play(move)
    return PendingTurn(game, number)


def test_a_turn_holds_exactly_the_tokens_that_went_in_and_came_out() -> None:
    player, sampler, model = language_player()
    turns = [pending(3), pending(8, "[4]"), pending(5, "[0]", "[1]")]
    replies = player.act(turns)
    assert len(sampler.seen) == 3
    for turn, reply, (request, completion) in zip(turns, replies, sampler.seen, strict=True):
        record = reply.turn
        assert record is not None
        assert record.prompt == request.prompt
        assert record.prompt == tuple(TEMPLATE.render(turn.game.observe(), model.tokenizer).encode())
        assert record.completion == completion.tokens
        assert record.log_probs is completion.log_probs and record.raw_log_probs is completion.raw_log_probs
        assert record.text == reply.text == model.tokenizer.decode(completion.tokens)
        assert (record.action, record.well_formed) == EXTRACTOR(reply.text)
        assert (record.truncated, record.entropy) == (completion.truncated, completion.entropy)
        assert (record.game, record.match, record.seat) == ("TicTacToe-v0", turn.match, turn.seat)
        assert (record.player, record.version, record.prompt_cut) == ("me", 17, 0)
        assert record.observation == turn.game.observe().text
        assert request.adapter == "me" and request.key == f"{turn.match}/{turn.seat}"
    assert [reply.turn.index for reply in replies if reply.turn] == [0, 1, 2]
    assert [reply.turn.seat for reply in replies if reply.turn] == [0, 1, 0]


@pytest.mark.parametrize("longest", [4000, 50])
def test_the_model_gives_the_recorded_tokens_the_recorded_probabilities(longest: int) -> None:
    """Would fail if the prompt were rendered again, cut elsewhere, or the completion tokenised from its text."""
    player, _, model = language_player(max_prompt_tokens=longest)
    for reply in player.act([pending(3), pending(8, "[4]")]):
        turn = reply.turn
        assert turn is not None
        assert turn.prompt_cut == max(turn.prompt_cut + len(turn.prompt) - longest, 0)
        assert (turn.prompt_cut > 0) == (longest == 50)
        tokens = torch.tensor([[*turn.prompt, *turn.completion]])
        positions, segments = whole_rows([tokens.shape[1]], torch.device("cpu"))
        with torch.no_grad():
            hidden = model.hidden(tokens, positions, segments, adapter="me")
            logits = model.head(hidden[0, len(turn.prompt) - 1 : -1], adapter="me")
        at = torch.tensor(turn.completion)[:, None]
        raw = torch.log_softmax(logits, -1).gather(-1, at).squeeze(-1)
        sampled = torch.log_softmax(logits / 0.8, -1).gather(-1, at).squeeze(-1)
        np.testing.assert_allclose(raw.numpy(), turn.raw_log_probs, atol=1e-4)
        np.testing.assert_allclose(sampled.numpy(), turn.log_probs, atol=1e-4)


@pytest.mark.parametrize(("completion", "move"), [("[4] it is, or", ""), ("[0]?</think>[4]", "[4]")])
def test_an_unfinished_thought_is_an_invalid_move_without_format_reward(completion: str, move: str) -> None:
    player, _, model = language_player()
    game = TextGame(SPEC, make_template("qwen3-reasoning"), EXTRACTOR)  # its prompt ends with <think>
    game.reset(3)
    turn = PendingTurn(game, 3)
    request, tokens = player.request(turn), tuple(model.tokenizer.encode(completion))
    zeros = np.zeros(len(tokens), dtype=np.float32)
    reply = player.reply(turn, request, Completion(tokens, zeros, zeros, truncated=not move, entropy=0.0))
    record: Any = reply.turn
    assert (reply.action, record.well_formed) == (move, bool(move))
    assert game.play(reply.action) == bool(move)
    assert Format()(record, 0.0) == (0.1 if move else 0.0)


def test_a_prompt_that_is_too_long_keeps_header_and_rules_and_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    player, _, model = language_player(max_prompt_tokens=1024)
    template = make_template({"prompt": "HEADER\n{observation}\nYour move:"})
    game = TextGame(GameSpec("ConnectFour-v0"), template, EXTRACTOR)
    game.reset(1)
    cut = 0
    for move in ("[col 0]", "[col 1]", "[col 2]", "[col 3]", "[col 4]", "[col 5]", "[col 6]"):
        record: Any = player.act([PendingTurn(game, 1)])[0].turn
        shown = model.tokenizer.decode(record.prompt)
        observed = game.observe()
        assert shown.startswith(f"HEADER\n[GAME] {observed.rules.strip()}")
        assert shown.endswith(f"{observed.text[-200:].strip()}\nYour move:")
        assert len(record.prompt) + record.prompt_cut == len(template.render(observed, model.tokenizer))
        cut += record.prompt_cut > 0
        assert game.play(move)
    assert cut >= 3
    assert len([text for text in caplog.messages if "the middle is dropped" in text]) == 1


def test_an_empty_prompt_is_recorded_as_what_stood_in_for_it() -> None:
    player, sampler, model = language_player()
    player._template = make_template({"prompt": "{board}"})
    [reply] = player.act([PendingTurn(Blank(), 0)])  # type: ignore[arg-type]
    assert reply.turn is not None
    assert reply.turn.prompt == sampler.seen[0][0].prompt == (model.tokenizer.start_id,)


class Blank:
    """A game that shows nothing."""

    spec, turns, seat = SPEC, 0, 0

    def observe(self) -> Observed:
        return Observed("", "", "", 0)


def test_in_a_match_every_turn_stands_in_its_own_game_in_order() -> None:
    player, sampler, _ = language_player()
    opponent = BotPlayer("random", {SPEC: make_bot("random", SPEC, np.random.default_rng(0))})
    result = play_matches(player, opponent, new_game, 6, 0)
    turns = [turn for record in result.records for turn in record.turns]
    drawn = [completion.tokens for _, completion in sampler.seen]
    assert sorted(turn.completion for turn in turns) == sorted(drawn)  # every one once, none invented
    for record in result.records:
        own_seat = record.players.index("me")
        assert {turn.seat for turn in record.turns} <= {own_seat}
        assert [turn.index for turn in record.turns] == [
            i for i, (seat, _) in enumerate(record.moves) if seat == own_seat
        ]
        for turn in record.turns:
            assert turn.match == record.match
            assert record.moves[turn.index] == (own_seat, turn.action)
            game = TextGame.replay(SPEC, record.seed, [action for _, action in record.moves[: turn.index]])
            assert turn.observation == game.observe().text
            assert turn.invalid == (not game.play(turn.action))


def test_against_itself_both_seats_are_recorded() -> None:
    player, _, _ = language_player()
    result = play_matches(player, player, new_game, 2, 0)
    for record in result.records:
        assert [(turn.seat, turn.action) for turn in record.turns] == record.moves
    assert result.total.games + result.cut_off == 2


def test_players_who_share_a_sampler_are_one_batch_and_each_gets_its_own_answer() -> None:
    player, sampler, model = language_player()
    model.add_adapter("old", AdapterConfig(rank=2), torch.Generator().manual_seed(5))
    old = LanguagePlayer("old", model.tokenizer, sampler, "old", version=3, kind="version")
    bot = BotPlayer("minimax", {SPEC: make_bot("minimax", SPEC, np.random.default_rng(0))})
    turns = [pending(0), pending(1, "[0]"), pending(2, "[0]", "[1]", "[3]", "[4]"), pending(3)]
    calls = []
    sample = sampler.sample
    sampler.sample = lambda requests: (calls.append(len(requests)), sample(requests))[1]  # type: ignore[method-assign]
    replies = answer(list(zip([player, old, bot, player], turns, strict=True)))
    assert calls == [3]
    found = [(reply.turn.player, reply.turn.version, reply.turn.match) for reply in replies if reply.turn]
    assert found == [("me", 17, 0), ("old", 3, 1), ("me", 17, 3)]
    assert [request.adapter for request, _ in sampler.seen] == ["me", "old", "me"]
    for reply, (request, completion) in zip((replies[0], replies[1], replies[3]), sampler.seen, strict=True):
        assert reply.turn is not None
        assert (reply.turn.prompt, reply.turn.completion) == (request.prompt, completion.tokens)
    assert replies[2].turn is None and replies[2].action == "[6]"  # the one that wins at once


class Line:
    """A remote model that does not always answer."""

    def __init__(self, *answers: str | UserError) -> None:
        self.answers = list(answers)
        self.prompts: list[str] = []

    def ask(self, prompts: Sequence[str]) -> list[str | UserError]:
        self.prompts += prompts
        return self.answers


def test_what_a_remote_model_cannot_answer_is_a_fault_and_the_rest_are_moves() -> None:
    line = Line("I take the middle: [4].", UserError("no answer within 60 s"))
    turns = [pending(0), pending(1, "[0]")]
    said, failed = RemotePlayer("openai:some", line).act(turns)
    assert (said.action, said.text, said.fault) == ("[4]", "I take the middle: [4].", None)
    assert failed.fault == "no answer within 60 s"
    assert line.prompts == [turn.game.observe().text for turn in turns]


def test_without_a_codec_the_random_bot_plays_what_the_text_offers() -> None:
    assert find_codec("Othello-v0-tiny") is None
    game = TextGame(GameSpec("Othello-v0-tiny"))
    bot = make_bot("random", game.spec, np.random.default_rng(0))
    assert isinstance(bot, ReadingBot)
    for seed in range(5):
        game.reset(seed)
        while not game.over:
            assert game.play(bot.act(game))
        assert not game.outcome().cut_off

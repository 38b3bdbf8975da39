"""The supervised start: pairs from bots and files, and a model that comes to imitate them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from language_setup import learner, tiny_model, weights

from ludus.config.language import GameConfig, WarmupConfig
from ludus.errors import ConfigError, UserError
from ludus.language.algorithms.demonstrations import Demonstration, completion_for, demonstrations, stop_token
from ludus.language.algorithms.warmup import imitate, warm_up
from ludus.language.collector import GameSetup
from ludus.language.models.tokenizer import ByteTokenizer
from ludus.language.text_games.extraction import make_extractor
from ludus.language.text_games.templates import make_template
from ludus.runs.streams import Streams

TOKENIZER = ByteTokenizer()
END = TOKENIZER.encode("<|end|>")[0]


def table(game: str = "TicTacToe-v0", extract: str = "brackets", **given: Any) -> GameSetup:
    config = GameConfig(id=game, template={"prompt": "{seat}\n{board}\n"}, extract=extract, **given)
    return GameSetup(config.spec(), make_template(config.template), make_extractor(extract), config.weight)


def shown(
    settings: WarmupConfig, *tables: GameSetup, longest: int = 300, seed: int = 0
) -> list[Demonstration]:
    return demonstrations(tables or (table(),), settings, TOKENIZER, longest, Streams(seed))


def test_a_bots_moves_are_what_its_games_ask_for() -> None:
    pytest.importorskip("textarena")
    pairs = shown(WarmupConfig(source="minimax", pairs=30))
    assert len(pairs) == 30
    for pair in pairs:
        text = TOKENIZER.decode(pair.completion)
        assert text[0] == "[" and text[-1] == "]" and text[1:-1].isdecimal()
        assert pair.completion[-1] == END and pair.completion.count(END) == 1
        prompt = TOKENIZER.decode(pair.prompt)
        assert (
            prompt[:2] in ("0\n", "1\n") and text[1:-1] in prompt
        )  # the move is still to be seen on the board
    assert shown(WarmupConfig(source="minimax", pairs=30)) == pairs
    assert shown(WarmupConfig(source="minimax", pairs=30), seed=1) != pairs
    assert len(shown(WarmupConfig(source="random", pairs=3), longest=5)[0].prompt) == 5


def test_a_move_is_shown_after_the_thought_that_its_prompt_opens() -> None:
    pytest.importorskip("textarena")
    thinking = replace(table(), template=make_template("qwen3-reasoning"))
    for pair in shown(WarmupConfig(source="minimax", pairs=4), thinking):
        assert TOKENIZER.decode(pair.prompt).endswith("<think>\n")
        assert TOKENIZER.decode(pair.completion).startswith("</think>\n\n[")


def test_games_are_drawn_by_weight_and_written_as_each_reads_them() -> None:
    pytest.importorskip("textarena")
    both = (table(extract="boxed"), table("Nim-v0", "last-line", weight=1e-6))
    pairs = shown(WarmupConfig(source="minimax", pairs=12), *both)
    assert all(TOKENIZER.decode(pair.completion).startswith("\\boxed{[") for pair in pairs)


def test_a_bot_that_does_not_play_a_game_is_refused() -> None:
    pytest.importorskip("textarena")
    with pytest.raises(UserError, match="minimax' does not play"):
        shown(WarmupConfig(source="minimax"), table("KuhnPoker-v0"))


@pytest.mark.parametrize(
    ("extract", "action", "text"),
    [
        ("brackets", "[4]", "[4]"),
        ("boxed", "[4]", "\\boxed{[4]}"),
        ("last-line", "e2e4", "e2e4"),
        ({"regex": r"\[(\d)\]"}, "4", "[4]"),
    ],
)
def test_a_completion_is_read_back_as_its_action(extract: Any, action: str, text: str) -> None:
    assert completion_for(action, make_extractor(extract), "G") == text


def test_an_action_that_no_completion_gives_is_named() -> None:
    with pytest.raises(ConfigError, match=r"extraction of G reads '\[4\]'"):
        completion_for("[4]", make_extractor({"regex": "move (.*)$"}), "G")


def test_the_end_of_a_turn_is_preferred_among_stop_tokens() -> None:
    assert stop_token(TOKENIZER) == END
    other = ByteTokenizer()
    other.stop_ids = frozenset({65, 66})
    assert stop_token(other) == 65


def test_pairs_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "my pairs.csv"
    path.write_text('observation,action,seat\n"a board,\nwith lines",[4],1\nanother,<think>so</think>[2],\n')
    pairs = shown(WarmupConfig(source=str(path)))
    assert [TOKENIZER.decode(pair.prompt) for pair in pairs] == ["1\na board,\nwith lines\n", "0\nanother\n"]
    assert [TOKENIZER.decode(pair.completion) for pair in pairs] == ["[4]", "<think>so</think>[2]"]
    assert all(pair.completion[-1] == END for pair in pairs)
    assert len(shown(WarmupConfig(source=str(path), pairs=1))) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("observation,move\na,b\n", "no column 'action'"),
        ("", "no column 'observation'"),
        ("observation,action\n", "no pairs"),
        ("observation,action\na,[1]\nb,\n", "pair 2 has no action"),
        ("observation,action,game\na,[1],Chess-v0\n", "pair 1 is of 'Chess-v0'"),
        ("observation,action,seat\na,[1],first\n", "invalid seat 'first' in pair 1"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        shown(WarmupConfig(source=str(path)))
    assert caught.value.where == str(path) and caught.value.fix


def test_missing_source_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read the pairs: No such file"):
        shown(WarmupConfig(source=str(tmp_path / "none.csv")))
    with pytest.raises(UserError, match="cannot read the pairs"):
        shown(WarmupConfig(source=str(tmp_path)))
    with pytest.raises(ConfigError) as caught:
        shown(WarmupConfig(source="minmax"))
    assert caught.value.fix == "did you mean 'minimax'?" and caught.value.key == "warmup.source"


def copying_pairs(n: int) -> list[Demonstration]:
    return [Demonstration((97, 98, 97 + i % 3), (97 + i % 3, END)) for i in range(n)]


def test_a_model_comes_to_imitate_its_pairs() -> None:
    one = learner("REINFORCE", tiny_model(full=True))
    settings = WarmupConfig(epochs=6, batch_size=8, learning_rate=1e-2)
    points = []
    curve = imitate(
        one.context, "learner", copying_pairs(100), settings, Streams(0).numpy("warmup"), points.append
    )
    assert curve == points and [point.epoch for point in curve] == list(range(7))
    assert curve[0].accuracy < 0.5 and curve[-1].accuracy == 1.0
    assert curve[-1].loss < 0.1 < curve[0].loss


def test_the_loss_is_the_mean_over_tokens_and_few_pairs_are_measured_by_themselves() -> None:
    one = learner("REINFORCE", language={"tokens_per_step": 7})
    pairs = copying_pairs(4)
    settings = WarmupConfig(epochs=1, learning_rate=1e-12)
    start, after = imitate(one.context, "learner", pairs, settings, Streams(0).numpy("warmup"))
    expected = 0.0
    for pair in pairs:
        tokens = torch.tensor([[*pair.prompt, *pair.completion]])
        positions, segments = torch.arange(5)[None], torch.ones(1, 5)
        hidden = one.context.model.hidden(tokens, positions, segments, adapter="learner")
        log_probs = torch.log_softmax(one.context.model.head(hidden, adapter="learner"), -1)[0]
        expected -= (log_probs[2, pair.completion[0]] + log_probs[3, pair.completion[1]]).item() / 8
    assert start.loss == pytest.approx(expected, rel=1e-5) and after.loss == pytest.approx(expected, rel=1e-4)


def test_all_learners_begin_alike_and_the_base_stays_as_it_is() -> None:
    pytest.importorskip("textarena")
    one = learner("GRPO", learners=("one", "two"), language={"sampler": {"max_prompt_tokens": 20}})
    base = [weight.clone() for weight in one.context.model.base.parameters()]
    before = weights(one.context.model, "one")
    settings = WarmupConfig(source="random", pairs=24, epochs=1, batch_size=8)
    metrics = warm_up(one, [table()], settings, one.context.streams)
    assert metrics["warmup/pairs"] == 24 and 0 <= metrics["warmup/accuracy"] <= 1
    first, second = (weights(one.context.model, name) for name in ("one", "two"))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(before, first, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(base, one.context.model.base.parameters(), strict=True))

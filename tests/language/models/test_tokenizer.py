"""Text becomes tokens and text again."""

from __future__ import annotations

import pytest

from ludus.language.models.tokenizer import ByteTokenizer


@pytest.mark.parametrize("text", ["", "[4]", "Zug: ♟ → e4\n", "\x00\x7f", "日本"])
def test_bytes_come_back_as_the_text_they_were(text: str) -> None:
    tokenizer = ByteTokenizer()
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_special_tokens_in_a_text_are_one_token_each_and_are_left_out_of_decoded_text() -> None:
    tokenizer = ByteTokenizer()
    ids = tokenizer.encode("<|start|>a<|end|><|pad|>")
    assert ids == [257, 97, 258, 256]
    assert ids[2] in tokenizer.stop_ids and ids[3] == tokenizer.pad_id and ids[0] == tokenizer.start_id
    assert tokenizer.decode(ids) == "a"
    assert tokenizer.vocab_size == 259


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    assert ByteTokenizer().decode([0xFF, 97]) == "\ufffda"


def test_tiny_was_taught_no_chat() -> None:
    assert ByteTokenizer().chat([{"role": "user", "content": "hi"}]) is None

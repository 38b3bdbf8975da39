"""Text to token ids and back: single bytes for `tiny`, a Hugging Face tokenizer for everything else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ludus.errors import MissingExtra, UserError

# End-of-turn tokens of model families; if a tokenizer has one, the model was trained to stop there.
ENDS_OF_TURN = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "</s>")


class Tokenizer(Protocol):
    """The tokenizer that samplers, templates and learners use."""

    vocab_size: int
    stop_ids: frozenset[int]
    """A completion ends with the first of these."""
    pad_id: int
    start_id: int
    """The token in place of an empty prompt: a model needs at least one."""

    def encode(self, text: str) -> list[int]:
        """Return the token ids. No tokens are added; special tokens in the text become their ids."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text. Special tokens are left out; invalid UTF-8 becomes U+FFFD."""

    def chat(self, messages: Sequence[Mapping[str, str]]) -> str | None:
        """Return the messages in this model's chat format, up to its answer; None if it has no chat format."""

    def save(self, folder: Path) -> None:
        """Write the files that `load_tokenizer` reads."""


class ByteTokenizer:
    """One token for each byte of UTF-8, and three special ones."""

    SPECIAL = ("<|pad|>", "<|start|>", "<|end|>")

    def __init__(self) -> None:
        self.vocab_size = 256 + len(self.SPECIAL)
        self.pad_id, self.start_id, end = range(256, self.vocab_size)
        self.stop_ids = frozenset({end})
        self._ids = dict(zip(self.SPECIAL, range(256, self.vocab_size), strict=True))
        self._parts = re.compile("(" + "|".join(re.escape(name) for name in self.SPECIAL) + ")")

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in self._parts.split(text):
            special = self._ids.get(part)
            ids += part.encode("utf-8", errors="replace") if special is None else (special,)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(i for i in ids if i < 256).decode("utf-8", errors="replace")

    def chat(self, messages: Sequence[Mapping[str, str]]) -> str | None:
        return None

    def save(self, folder: Path) -> None:
        pass  # the model's config.json names it


class HuggingFaceTokenizer:
    """A tokenizer of the transformers library. `vocab_size` is that of the model."""

    def __init__(self, inner: Any, vocab_size: int, stop_ids: Sequence[int] = ()) -> None:
        self._inner = inner
        self.vocab_size = vocab_size
        known = inner.get_vocab()
        stops = {*stop_ids, *(known[end] for end in ENDS_OF_TURN if end in known)}
        if inner.eos_token_id is not None:
            stops.add(int(inner.eos_token_id))
        self.stop_ids = frozenset(stops)
        first = (i for i in (inner.bos_token_id, inner.eos_token_id, inner.pad_token_id) if i is not None)
        self.start_id = int(next(first, 0))
        self.pad_id = int(inner.pad_token_id if inner.pad_token_id is not None else self.start_id)

    def encode(self, text: str) -> list[int]:
        return list(self._inner(text, add_special_tokens=False, verbose=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        return str(
            self._inner.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        )

    def chat(self, messages: Sequence[Mapping[str, str]]) -> str | None:
        if not getattr(self._inner, "chat_template", None):
            return None
        turns = [dict(message) for message in messages]
        return str(self._inner.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))

    def save(self, folder: Path) -> None:
        self._inner.save_pretrained(str(folder))


def first_line(error: Exception) -> str:
    """Return the first line of an error message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def load_tokenizer(source: str, vocab_size: int, stop_ids: Sequence[int] = ()) -> HuggingFaceTokenizer:
    """Load the tokenizer of a folder or hub id. Raises UserError where it is not found, MissingExtra."""
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise MissingExtra("a Hugging Face tokenizer", "text") from error
    try:
        inner = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    # the readers of many formats raise many kinds of errors
    except Exception as error:
        raise UserError(
            f"cannot read the tokenizer: {first_line(error)}",
            where=source,
            fix="put tokenizer.json and tokenizer_config.json next to the weights",
        ) from error
    return HuggingFaceTokenizer(inner, vocab_size, stop_ids)

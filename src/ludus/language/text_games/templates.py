"""Templates that turn the observation of a seat into a prompt: named ones, the tokenizer's, or one of the config.

A template is text with slots: `{observation}` (all that was shown), `{board}` (the newest board alone), `{position}`
(the state in a few characters, where the game has a codec), `{rules}` (the first prompt alone), `{seat}`. Other
braces are text. It is saved with the run as `as_dict` gives it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ludus.envs.seats import Observed
from ludus.errors import ConfigError, nearest
from ludus.language.text_games.extraction import THOUGHT_BEGINS

_SLOT = re.compile(r"\{(observation|board|position|rules|seat)\}")
_WORD_IN_BRACES = re.compile(r"\{(\w+)\}")
_SLOTS = ("observation", "board", "position", "rules", "seat")
_SHOWING = {"observation", "board", "position"}
_ASK = "{observation}\n\nReply with your next move only, in the format the rules ask for."
_ASK_TO_THINK = (
    "{observation}\n\nThink step by step about your next move, then give the move itself, in the format the rules "
    "ask for, within \\boxed{}."
)


class ChatTokenizer(Protocol):
    """The part of a tokenizer that a template needs."""

    def chat(self, messages: Sequence[Mapping[str, str]]) -> str | None:
        """Return the messages as a prompt that ends before the model's answer; None without a chat template."""
        ...


@dataclass(frozen=True)
class Template:
    """A prompt with slots; with `chat` it is the user's message in the tokenizer's own format."""

    name: str
    text: str
    chat: bool = False
    system: str = ""

    def render(self, observed: Observed, tokenizer: ChatTokenizer) -> str:
        """Return the prompt of one turn. Without a chat format of the tokenizer, the template `default` is used."""
        content = _fill(self.text, observed)
        if not self.chat:
            return content
        messages = [{"role": "system", "content": self.system}] if self.system else []
        prompt = tokenizer.chat([*messages, {"role": "user", "content": content}])
        if prompt is None:
            before = f"{self.system}\n\n" if self.system else ""
            return f"{before}{content}{_DEFAULT_END}"
        return prompt

    def opens_thought(self, tokenizer: ChatTokenizer) -> bool:
        """Return True if its prompts end with `<think>`, so that completions begin inside a thought."""
        return self.render(Observed("", "", "", 0), tokenizer).rstrip().endswith(THOUGHT_BEGINS)

    def as_dict(self) -> dict[str, str]:
        """Return the template as in a config; `make_template` reads it."""
        data = {"name": self.name, "chat" if self.chat else "prompt": self.text}
        return data | ({"system": self.system} if self.system else {})


def lasting_beginning(prompt: str, observed: Observed) -> str:
    """Return the part of a prompt that is kept if it is too long: header and rules."""
    rules, shown = observed.rules.strip(), observed.text.strip()
    if rules and rules in prompt:
        return prompt[: prompt.index(rules) + len(rules)]
    return prompt[: max(prompt.find(shown), 0)] if shown else ""


_DEFAULT_END = "\nMove: "
_NAMED = {
    template.name: template
    for template in (
        Template("default", _ASK + _DEFAULT_END),
        Template("chat", _ASK, chat=True),
        # in Qwen3's format an empty <think> block asks for an answer without thinking
        Template(
            "qwen3",
            f"<|im_start|>user\n{_ASK}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
        ),
        Template(
            "qwen3-reasoning",
            f"<|im_start|>user\n{_ASK_TO_THINK}<|im_end|>\n<|im_start|>assistant\n<think>\n",
        ),
        Template("gemma3", f"<bos><start_of_turn>user\n{_ASK}<end_of_turn>\n<start_of_turn>model\n"),
        Template(
            "llama-instruct",
            f"<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n{_ASK}<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
    )
}


def make_template(setting: str | Mapping[str, str]) -> Template:
    """Return the template of a game's `template`. ConfigError if it is invalid or has no slot for the game."""
    if isinstance(setting, str):
        if setting in _NAMED:
            return _NAMED[setting]
        near = nearest(setting, _NAMED)
        raise ConfigError(
            f"unknown template '{setting}'",
            key="template",
            fix=f"did you mean '{near}'?"
            if near
            else f"one of {', '.join(_NAMED)}, or {{prompt: text with slots}}",
        )
    texts = {"prompt", "chat"} & set(setting)
    if len(texts) != 1 or set(setting) - {"prompt", "chat", "name", "system"}:
        raise ConfigError(
            f"a template needs either prompt or chat, got {', '.join(setting) or 'nothing'}",
            key="template",
            fix="{prompt: text}, or {chat: text, system: text} in the tokenizer's own format",
        )
    (kind,) = texts
    if kind == "prompt" and "system" in setting:
        raise ConfigError(
            "a prompt has no system message",
            key="template.system",
            fix="write it into the prompt, or use chat",
        )
    text = setting[kind]
    if not _SHOWING & set(_SLOT.findall(text)):
        guesses = [
            (word, nearest(word, _SLOTS)) for word in _WORD_IN_BRACES.findall(text) if word not in _SLOTS
        ]
        near = next((f"'{{{word}}}' is not a slot, '{{{slot}}}' is" for word, slot in guesses if slot), "")
        raise ConfigError(
            "the template has no slot for the game: neither {observation} nor {board} nor {position}",
            key=f"template.{kind}",
            fix=near or "write {observation} where the game's text goes",
        )
    return Template(setting.get("name", "own"), text, kind == "chat", setting.get("system", ""))


def _fill(text: str, observed: Observed) -> str:
    slots = {
        "observation": observed.text.strip("\n"),
        "board": observed.board.strip("\n"),
        "position": observed.position,
        "rules": observed.rules.strip("\n"),
        "seat": str(observed.seat),
    }
    return _SLOT.sub(lambda slot: slots[slot.group(1)], text)

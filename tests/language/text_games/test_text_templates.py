"""Templates: what a seat sees becomes a prompt, in the format its model knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ludus.envs.seats import Observed
from ludus.errors import ConfigError
from ludus.language.text_games.templates import make_template

SEEN = Observed(text="\n[GAME] Rules.\n[GAME] Board {seat}", board="Board {seat}", rules="Rules.\n", seat=1)


class Plain:
    def chat(self, messages: Sequence[Mapping[str, str]]) -> str | None:
        return None


class Chatty:
    def chat(self, messages: Sequence[Mapping[str, str]]) -> str | None:
        return "".join(f"<{m['role']}>{m['content']}" for m in messages) + "<assistant>"


@pytest.mark.parametrize(
    ("name", "start", "end"),
    [
        ("default", "[GAME] Rules.\n[GAME] Board {seat}\n\nReply", "\nMove: "),
        ("qwen3", "<|im_start|>user\n[GAME] Rules.", "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        (
            "qwen3-reasoning",
            "<|im_start|>user\n[GAME] Rules.",
            "\\boxed{}.<|im_end|>\n<|im_start|>assistant\n<think>\n",
        ),
        ("gemma3", "<bos><start_of_turn>user\n[GAME] Rules.", "<end_of_turn>\n<start_of_turn>model\n"),
        (
            "llama-instruct",
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n[GAME] Rules.",
            "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        ("chat", "<user>[GAME] Rules.", "<assistant>"),
    ],
)
def test_named_templates_speak_their_models_format(name: str, start: str, end: str) -> None:
    prompt = make_template(name).render(SEEN, Chatty())
    assert prompt.startswith(start) and prompt.endswith(end)


def test_chat_falls_back_to_default_without_a_chat_format() -> None:
    assert make_template("chat").render(SEEN, Plain()) == make_template("default").render(SEEN, Plain())


def test_own_slots_are_filled_once_and_other_braces_are_text() -> None:
    template = make_template({"prompt": "P{seat} {rules}|{board}|\\boxed{} {json: 1}"})
    assert template.render(SEEN, Plain()) == "P1 Rules.|Board {seat}|\\boxed{} {json: 1}"


def test_an_own_chat_message_has_a_system_message_too() -> None:
    template = make_template({"chat": "{board}", "system": "Win."})
    assert template.render(SEEN, Chatty()) == "<system>Win.<user>Board {seat}<assistant>"
    assert template.render(SEEN, Plain()) == "Win.\n\nBoard {seat}\nMove: "


@pytest.mark.parametrize(
    "setting", ["default", "chat", "gemma3", {"prompt": "{board}"}, {"chat": "{board}", "system": "S"}]
)
def test_a_saved_template_is_read_back(setting: str | dict[str, str]) -> None:
    template = make_template(setting)
    assert make_template(template.as_dict()) == template


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"prompt": "Your move, player {seat}:"}, r"no slot for the game[\s\S]*template.prompt"),
        ({"prompt": "{observaton}"}, r"'\{observaton\}' is not a slot, '\{observation\}' is"),
        ("qwen-3", r"unknown template 'qwen-3'[\s\S]*did you mean 'qwen3'"),
        ({}, "needs either prompt or chat, got nothing"),
        ({"prompt": "{board}", "chat": "{board}"}, "needs either prompt or chat"),
        ({"prompt": "{board}", "system": "S"}, "no system message"),
    ],
)
def test_a_template_that_cannot_work_says_why(setting: str | dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_template(setting)

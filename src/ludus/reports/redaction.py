"""Removes passwords, keys and tokens from displayed configs, commands and logs."""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "•••"

_WORDS = (
    r"(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|credentials?"
    r"|auth|authorization)"
)
_KEY = re.compile(
    rf"(?:^|[_.-])(?:{_WORDS}|(?<!pad_)(?<!eos_)(?<!bos_)(?<!unk_)(?<!sep_)(?<!mask_)token)$", re.IGNORECASE
)
# all repetitions are bounded: a log may contain a line that is slow to search on purpose
_ASSIGNMENT = re.compile(
    rf"""(?P<key>(?:{_WORDS}|token)["']?\s{{0,4}}[=:]\s{{0,4}})"""
    r"""(?P<value>bearer\s{1,4}[^\s,;})]+|"[^"\n]{0,2000}"|'[^'\n]{0,2000}'|[^\s,;})]+)""",
    re.IGNORECASE,
)
_OPTION = re.compile(
    rf"(?P<key>(?<!\S)--[\w-]{{0,40}}(?:{_WORDS}|token)\s{{1,4}})(?P<value>\S+)", re.IGNORECASE
)
_IN_ADDRESS = re.compile(r"(?P<key>://)[^\s/@:]{0,200}:[^\s/@]{0,200}@")
# tokens with a known prefix: OpenAI, Hugging Face, GitHub, Slack, AWS, Google, and JSON Web Tokens
_MARKED = re.compile(
    r"\b(?:sk-[\w-]{16,200}|hf_\w{16,200}|gh[pousr]_\w{20,200}|xox[abprs]-[\w-]{10,200}|AKIA[0-9A-Z]{16}"
    r"|AIza[\w-]{30,200}|ya29\.[\w-]{20,400}|eyJ[\w-]{10,400}\.[\w-]{10,2000}\.[\w-]{10,400})"
)


def is_secret_key(key: str) -> bool:
    """Return whether the name of a config key suggests a secret; `max_tokens` does not."""
    return _KEY.search(key) is not None


def hide_in_text(text: str) -> str:
    """Return `text` with everything that looks like a secret replaced."""
    text = _IN_ADDRESS.sub(rf"\g<key>{HIDDEN}@", text)
    text = _ASSIGNMENT.sub(_hide_value, text)
    text = _OPTION.sub(_hide_value, text)
    return _MARKED.sub(HIDDEN, text)


def hide_in(value: Any, key: str = "") -> Any:
    """Return plain data with the values of secret keys, and secrets in any text, replaced."""
    if isinstance(value, dict):
        return {name: hide_in(item, str(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [hide_in(item, key) for item in value]
    if isinstance(value, str) and value:
        return HIDDEN if is_secret_key(key) else hide_in_text(value)
    return (
        HIDDEN
        if is_secret_key(key) and isinstance(value, int | float) and not isinstance(value, bool)
        else value
    )


def _hide_value(found: re.Match[str]) -> str:
    # a number, a switch or an empty value is not a secret; logs contain `token: 17`
    plain = re.fullmatch(r"[\"']?(?:-?[0-9.]+|true|false|none|null|)[\"']?", found["value"], re.IGNORECASE)
    return found[0] if plain else f"{found['key']}{HIDDEN}"

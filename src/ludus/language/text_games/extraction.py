r"""From what a model wrote to the move it plays: `\boxed{}`, brackets, the last line, a pattern, or all of it.

Where a completion thinks first (`… </think>`), only what follows counts; of several candidates, the last one. A thought
that does not end is no answer: the action is empty, which games refuse as invalid, and it has not the asked form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ludus.errors import ConfigError, nearest

Extractor = Callable[[str], tuple[str, bool]]
"""Function from a completion to the action, and whether it is well formed; if not, the action is the whole text."""

THOUGHT_BEGINS, THOUGHT_ENDS = "<think>", "</think>"
_BRACKETS = re.compile(r"\[[^\[\]]+\]")
_BOXED = r"\boxed{"


def make_extractor(setting: str | Mapping[str, str]) -> Extractor:
    """Return the extractor that a game's `extract` names. Raises ConfigError."""
    if isinstance(setting, str):
        if setting not in _NAMED:
            near = nearest(setting, _NAMED)
            raise ConfigError(
                f"unknown extraction '{setting}'",
                key="extract",
                fix=f"did you mean '{near}'?"
                if near
                else f"one of {', '.join(_NAMED)}, or {{regex: pattern}}",
            )
        find = _NAMED[setting]
    elif set(setting) == {"regex"}:
        find = _by_pattern(setting["regex"])
    else:
        raise ConfigError(f"unknown extraction {dict(setting)}", key="extract", fix="{regex: pattern}")

    def extract(completion: str) -> tuple[str, bool]:
        answer = completion.rpartition(THOUGHT_ENDS)[2]
        if THOUGHT_BEGINS in answer:  # games search for moves anywhere in a text, so it must not contain any
            return "", False
        action = find(answer)
        return (answer.strip(), False) if action is None else (action, True)

    return extract


def _in_brackets(answer: str) -> str | None:
    found = _BRACKETS.findall(answer)
    return str(found[-1]) if found else None


def _in_box(answer: str) -> str | None:
    start = answer.rfind(_BOXED)
    if start < 0:
        return None
    start += len(_BOXED)
    depth = 1
    for at in range(start, len(answer)):
        depth += {"{": 1, "}": -1}.get(answer[at], 0)
        if depth == 0:
            content = answer[start:at].strip()
            # most games expect brackets, according to their rules
            return (content if "[" in content else f"[{content}]") if content else None
    return None


def _last_line(answer: str) -> str | None:
    lines = answer.strip().splitlines()
    return lines[-1].strip() if lines else None


def _whole(answer: str) -> str | None:
    return answer.strip() or None


_NAMED: dict[str, Callable[[str], str | None]] = {
    "brackets": _in_brackets,
    "boxed": _in_box,
    "last-line": _last_line,
    "whole": _whole,
}


def _by_pattern(text: str) -> Callable[[str], str | None]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ConfigError(
            f"the pattern '{text}' cannot be read: {error}",
            key="extract.regex",
            fix="a Python regular expression",
        ) from None

    def find(answer: str) -> str | None:
        found = list(pattern.finditer(answer))
        return str(found[-1].group(1 if pattern.groups else 0) or "") if found else None

    return find

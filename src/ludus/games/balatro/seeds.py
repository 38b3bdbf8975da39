"""Seeds of games: texts of 1 to 8 characters, as the real game shows them, and integers, which stand for such texts."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from ludus.errors import UserError

_TYPED = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MADE = _TYPED.replace("O", "")  # the game itself never makes an O
N_MADE_SEEDS = len(_MADE) ** 8


def seed_text(seed: int | str) -> str:
    """Return the text of a seed. An integer is written with 8 digits to base 34 (1 to 9, A to Z without O).

    A typed text is raised to upper case and 0 is read as O, as the game does. Raises UserError for any other character
    and for a wrong length.
    """
    if isinstance(seed, int):
        number, text = seed % N_MADE_SEEDS, ""
        for _ in range(8):
            number, digit = divmod(number, len(_MADE))
            text = _MADE[digit] + text
        return text
    text = seed.upper().replace("0", "O")
    wrong = sorted(set(text) - set(_TYPED))
    if wrong or not 1 <= len(text) <= 8:
        raise UserError(
            f"invalid Balatro seed {seed!r}: expected 1 to 8 of the characters 1-9 and A-Z",
            where="seed",
            fix="use a seed as the game shows it, such as 7I4M53DL",
        )
    return text


def seed_code(seed: int | str) -> int:
    """Return a seed as the integer that kernels read: its characters as digits to base 36, the first one lowest."""
    code = 0
    for character in reversed(seed_text(seed)):
        code = code * 36 + _TYPED.index(character) + 1
    return code


def code_text(code: int) -> str:
    """Return the text of a seed from the integer of `seed_code`."""
    text = ""
    while code > 0:
        code, digit = divmod(code, 36)
        text += _TYPED[digit - 1]
    return text


def run_seed_code(generator: np.random.Generator, seed: int | None, text: str | None = None) -> int:
    """Return the code of the seed of a run: of the text, else of an integer seed, else of one that is drawn."""
    if text is not None:
        return seed_code(text)
    return seed_code(int(generator.integers(N_MADE_SEEDS)) if seed is None else seed)


def text_per_game(options: Mapping[str, Any] | None, n_games: int) -> list[str | None]:
    """Return `options["seed"]` for each game: a text for all, or a list. UserError for a list of another length."""
    given = (options or {}).get("seed")
    if given is None or isinstance(given, str):
        return [given] * n_games
    if isinstance(given, int) or len(given) != n_games:
        raise UserError(
            f"invalid Balatro seeds {given!r}: expected a text, or a list with one for each of {n_games} games",
            where='reset(options={"seed": …})',
            fix="give an integer as reset(seed=…), and a text for each game",
        )
    return list(given)


def random_seed(generator: random.Random) -> str:
    """Return a seed as the game makes one: 8 characters without O."""
    return seed_text(generator.randrange(N_MADE_SEEDS))

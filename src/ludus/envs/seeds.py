"""Seeds of episodes: integers, and texts for games whose own seeds are texts."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ludus.errors import UserError

EpisodeSeed = int | str


class TextSeeds:
    """An env whose `reset` takes a seed in the game's own words as `options["seed"]`; UserError for an invalid one.

    A vector env also takes a list with one element per env, in which None leaves the env to its integer seed.
    """


def parse_seed(text: str, where: str) -> EpisodeSeed:
    """Return a typed seed: an integer if it is one, else the text. Digits in double quotes are a text."""
    text = text.strip()
    if len(text) > 2 and text[0] == text[-1] == '"':
        return text[1:-1]
    try:
        seed: EpisodeSeed = int(text)
    except ValueError:
        seed = text
    if seed == "" or (isinstance(seed, int) and seed < 0):
        raise UserError(f"invalid seed {text!r}", where=where, fix="give an integer from 0 on")
    return seed


def read_seeds(path: Path, where: str) -> list[EpisodeSeed]:
    """Return the seeds of a file with one per line; empty lines are skipped. UserError if the file has none."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the file of seeds: {error}", where=where) from None
    seeds = [parse_seed(line, f"{path}, line {n}") for n, line in enumerate(lines, 1) if line.strip()]
    if not seeds:
        raise UserError("the file has no seeds", where=where, fix="write one seed per line")
    return seeds


def following_seed(seed: EpisodeSeed, episode: int) -> EpisodeSeed:
    """Return the seed of an episode, counted from 0: the integers that follow, or always the same text."""
    return seed if isinstance(seed, str) else seed + episode


def number_of_seed(seed: EpisodeSeed) -> int:
    """Return an integer for other generators, such as the one that samples actions."""
    return zlib.crc32(seed.encode()) if isinstance(seed, str) else seed


def reset_arguments(env: Any, seed: EpisodeSeed | Sequence[EpisodeSeed]) -> dict[str, Any]:
    """Return the arguments of `env.reset` for a text seed, or of a vector env for one seed per env.

    Raises UserError if the env has integer seeds only.
    """
    if not isinstance(env.unwrapped, TextSeeds):
        seeds = [seed] if isinstance(seed, str | int) else seed
        text = next(one for one in seeds if isinstance(one, str))
        name = type(env.unwrapped).__name__ if env.spec is None else env.spec.id
        raise UserError(
            f"invalid seed {text!r}: '{name}' has integer seeds only",
            where="seed",
            fix="give an integer from 0 on",
        )
    if isinstance(seed, str | int):
        return {"options": {"seed": seed}}
    numbers = [None if isinstance(one, str) else one for one in seed]
    return {"seed": numbers, "options": {"seed": [one if isinstance(one, str) else None for one in seed]}}

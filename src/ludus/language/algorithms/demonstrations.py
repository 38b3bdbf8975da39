"""Observation-action pairs for the supervised start: moves of a bot in its games, or a CSV file.

Prompts use the same templates as in play, and completions end with the end-of-sequence token.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from ludus.config.language import WarmupConfig
from ludus.envs.seats import Observed
from ludus.errors import ConfigError, UserError, nearest
from ludus.evaluation.players import bot_names, make_bot
from ludus.language.collector import GameSetup
from ludus.language.models.sampling import fit_prompt
from ludus.language.models.tokenizer import ENDS_OF_TURN, Tokenizer
from ludus.language.text_games.extraction import THOUGHT_ENDS, Extractor
from ludus.language.text_games.templates import lasting_beginning
from ludus.runs.streams import Streams

_COLUMNS = ("observation", "action")
_LONGEST_LINE = 4 << 20


@dataclass(frozen=True)
class Demonstration:
    """A prompt and the completion to learn."""

    prompt: tuple[int, ...]
    completion: tuple[int, ...]


def demonstrations(
    tables: Sequence[GameSetup],
    settings: WarmupConfig,
    tokenizer: Tokenizer,
    longest_prompt: int,
    streams: Streams,
) -> list[Demonstration]:
    """Return at most `settings.pairs` pairs from `settings.source`.

    Raises UserError, or ConfigError, for a bot or file that does not exist, a bot that does not play one of the games,
    a file without its columns, and completions that a game would not read back.
    """
    source, bots = settings.source, bot_names()
    if source in bots:
        shown = _played(tables, settings, streams)
    elif Path(source).suffix.lower() == ".csv" or Path(source).exists():
        shown = _written(tables, Path(source), settings.pairs)
    else:
        hint = nearest(source, bots)
        raise ConfigError(
            f"'{source}' is neither a bot nor an existing CSV file",
            key="warmup.source",
            fix=f"did you mean '{hint}'?" if hint else f"bots: {', '.join(bots)}; or the path of a CSV",
        )
    end = stop_token(tokenizer)
    pairs = []
    for table, observed, completion in shown[: settings.pairs]:
        text = table.template.render(observed, tokenizer)
        if source in bots and table.template.opens_thought(tokenizer):
            completion = f"{THOUGHT_ENDS}\n\n{completion}"  # a move inside <think> would not be played
        keep = len(tokenizer.encode(lasting_beginning(text, observed)))
        prompt = fit_prompt(tuple(tokenizer.encode(text)), keep, longest_prompt) or (tokenizer.start_id,)
        pairs.append(Demonstration(prompt, (*tokenizer.encode(completion), end)))
    return pairs


def stop_token(tokenizer: Tokenizer) -> int:
    """Return the token that ends a turn, if the model has several stop tokens."""
    for name in ENDS_OF_TURN:
        ids = tokenizer.encode(name)
        if len(ids) == 1 and ids[0] in tokenizer.stop_ids:
            return ids[0]
    if not tokenizer.stop_ids:
        raise UserError("the model has no end-of-sequence token", where="language.model")
    return min(tokenizer.stop_ids)


def completion_for(action: str, extractor: Extractor, game: str) -> str:
    """Return a completion from which `extractor` reads `action`. ConfigError if no usual form works."""
    for text in (action, f"\\boxed{{{action}}}", f"[{action}]"):
        if extractor(text) == (action, True):
            return text
    raise ConfigError(
        f"cannot write a completion from which the extraction of {game} reads '{action}'",
        key="games.train.extract",
        fix="use brackets, boxed, last-line or whole; or warm up from a CSV of whole completions",
    )


def _played(
    tables: Sequence[GameSetup], settings: WarmupConfig, streams: Streams
) -> list[tuple[GameSetup, Observed, str]]:
    """Return the bot's moves in states of games between bots; a share of the moves played is random."""
    rng = streams.numpy("warmup games")
    weights = np.array([table.weight for table in tables])
    weights /= weights.sum()
    bots = [make_bot(settings.source, table.spec, rng) for table in tables]
    strays = [make_bot("random", table.spec, rng) for table in tables]
    found: list[tuple[GameSetup, Observed, str]] = []
    games = 0
    while len(found) < settings.pairs:
        index = int(rng.choice(len(tables), p=weights))
        table = tables[index]
        game = table.new_game()
        game.reset(streams.derive("warmup", games))
        games += 1
        while not game.over:
            observed, action = game.observe(), bots[index].act(game)
            found.append((table, observed, completion_for(action, table.extractor, table.game)))
            stray = rng.random() < settings.explore
            game.play(strays[index].act(game) if stray else action)
    return found


def _written(tables: Sequence[GameSetup], path: Path, most: int) -> list[tuple[GameSetup, Observed, str]]:
    by_game = {table.game: table for table in tables}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(_lines(file))
            columns = [*(reader.fieldnames or [])]
            rows = list(itertools.islice(reader, most))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"cannot read the pairs: {reason}", where=str(path), fix="check warmup.source"
        ) from None
    missing = [name for name in _COLUMNS if name not in columns]
    if missing:
        raise UserError(
            f"the file has no column '{missing[0]}'",
            where=str(path),
            fix=f"its first line names the columns: observation,action; it has {', '.join(columns) or 'none'}",
        )
    if not rows:
        raise UserError(
            "the file has no pairs", where=str(path), fix="one line each, below the columns' names"
        )
    found = []
    for number, row in enumerate(rows, start=1):
        game, seat = row.get("game") or tables[0].game, row.get("seat") or "0"
        if not row["action"] or row["observation"] is None:
            raise UserError(f"pair {number} has no action", where=str(path), fix="complete or remove it")
        if game not in by_game:
            raise UserError(
                f"pair {number} is of '{game}', which this run does not play",
                where=str(path),
                fix=f"its games: {', '.join(by_game)}",
            )
        if not seat.isdecimal() or len(seat) > 3:
            raise UserError(
                f"invalid seat '{seat}' in pair {number}", where=str(path), fix="a number from 0 on"
            )
        observed = Observed(row["observation"], row["observation"], "", int(seat))
        found.append((by_game[game], observed, row["action"]))
    return found


def _lines(file: TextIO) -> Iterator[str]:
    """Yield the lines of `file`; csv.Error for a line that is too long."""
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise csv.Error(f"a line has more than {_LONGEST_LINE:,} characters")
        yield line

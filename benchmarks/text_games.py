"""Plays every text game for a few turns, well and badly, and writes what works and what does not as a table.

    python benchmarks/text_games.py                      # prints the table
    python benchmarks/text_games.py --write docs/how-to/text-games.md

Every id is played three times: twice by a bot that takes any move the text offers, once with nonsense. Each game is
then played again from its seed and its actions, in the same process and in another one, and must show the same texts.
An id that takes longer than its deadline counts as one that never ends.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import queue
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- games: begin -->", "<!-- games: end -->"
TURNS, GAMES, DEADLINE_S = 40, 3, 300.0
NONSENSE = ("", "I would rather not.", "[nonsense]", "[0]", "[1 2 3]", "[[", "\\boxed{4}", "[Player 1] " * 20)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="ids that this pattern is found in")
    parser.add_argument("--write", type=Path, help="the page whose table is replaced")
    parser.add_argument(
        "--records", type=Path, help="every id's record is added to this file; those there stand"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work()
        return
    from ludus.language.text_games.catalog import games

    by_game = games()
    ids = [i for known in by_game.values() for i in known if re.search(args.only, i)]
    records = read(args.records)
    play_missing([i for i in ids if i not in records], records, args.records)
    text = table({game: [records[i] for i in known if i in records] for game, known in by_game.items()})
    if args.write:
        page = args.write.read_text()
        before, rest = page.split(BEGIN)
        args.write.write_text(f"{before}{BEGIN}\n{text}{END}{rest.split(END)[1]}")
    else:
        print(text)


def read(path: Path | None) -> dict[str, dict[str, Any]]:
    lines = path.read_text().splitlines() if path and path.exists() else []
    return {record["id"]: record for record in map(json.loads, lines)}


def play_missing(ids: list[str], records: dict[str, dict[str, Any]], path: Path | None) -> None:
    first, second = Worker("1"), Worker("2")
    with contextlib.ExitStack() as stack:
        stack.callback(first.stop)
        stack.callback(second.stop)
        log = stack.enter_context(path.open("a")) if path else None
        for number, game_id in enumerate(ids):
            record, other = first.play(game_id), second.play(game_id)
            # what met its deadline in one of them cannot be compared
            timed_out = any("no answer within" in fault for fault in record["faults"] + other["faults"])
            same = record.get("digest") == other.get("digest")
            record |= {"id": game_id, "elsewhere": same or timed_out}
            records[game_id] = record
            if log:
                print(json.dumps(record), file=log, flush=True)
            print(f"\r{number + 1}/{len(ids)} {game_id:60}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


class Worker:
    """A process that plays ids one after the other, with a hash seed of its own; ended when it does not answer."""

    def __init__(self, hash_seed: str) -> None:
        self._hash_seed = hash_seed
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()

    def play(self, game_id: str) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            self._start()
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(game_id + "\n")
        self._process.stdin.flush()
        try:
            record: dict[str, Any] = json.loads(self._lines.get(timeout=DEADLINE_S))
        except queue.Empty:
            self.stop()
            return {"faults": [f"no answer within {DEADLINE_S:.0f} s"], "hangs": True}
        return record

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": self._hash_seed},
        )
        self._lines = queue.Queue()
        threading.Thread(target=_read, args=(self._process, self._lines), daemon=True).start()


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)


def work() -> None:
    for line in sys.stdin:
        print(json.dumps(play_all(line.strip())), flush=True)


def play_all(game_id: str) -> dict[str, Any]:
    """One id's record: by how many it is played, how its games went, what they raised."""
    import time

    from ludus.config.language import GameSpec
    from ludus.errors import LudusError
    from ludus.language.text_games.catalog import player_counts
    from ludus.language.text_games.game import TextGame

    spec = GameSpec(game_id, max_turns=TURNS)
    record: dict[str, Any] = {"faults": [], "ended": 0, "refused": 0, "turns": 0, "repeats": True}
    started = time.perf_counter()
    digest = hashlib.sha256()
    try:
        if not game_id.endswith(("-train", "-raw")):
            record["players"] = player_counts(spec)
        for seed, sensible in ((0, True), (1, True), (2, False)):
            game = TextGame(spec)
            game.reset(seed)
            play(game, seed, sensible, record, digest)
            if game.fault is not None:
                record["faults"].append(game.fault.what)
            record["ended"] += not game.outcome().cut_off
            record["turns"] += game.turns
            again = TextGame.replay(spec, seed, game.actions)
            record["repeats"] &= again.observe() == game.observe() and again.outcome() == game.outcome()
    except LudusError as error:
        record["missing"] = getattr(error, "what", str(error).splitlines()[0])
        record["faults"].append(record["missing"])
    except Exception as error:  # Ludus should not raise anything else: it is written down as what it is
        record["missing"] = f"Ludus raised {type(error).__name__}: {error}"
        record["faults"].append(record["missing"])
    record["seconds"] = round(time.perf_counter() - started, 2)
    record["digest"] = digest.hexdigest()
    return record


def play(game: Any, seed: int, sensible: bool, record: dict[str, Any], digest: Any) -> None:
    import numpy as np

    from ludus.evaluation.players import make_bot

    rng = np.random.default_rng(seed)
    bot = make_bot("random", game.spec, rng)
    while not game.over:
        digest.update(game.observe().text.encode())
        action = bot.act(game) if sensible else NONSENSE[int(rng.integers(len(NONSENSE)))]
        record["refused"] += not game.play(action)
    digest.update(repr(game.outcome()).encode())


def table(by_game: dict[str, list[dict[str, Any]]]) -> str:
    by_game = {game: known for game, known in by_game.items() if known}
    records = [record for known in by_game.values() for record in known]
    rows = [
        "| game | ids | players | plays | again from its seed | what does not |",
        "|---|---:|---|---|---|---|",
    ]
    for game, known in sorted(by_game.items()):
        counts = sorted({count for record in known for count in record.get("players", ())})
        plays = sum(map(playable, known))
        notes = sorted(
            {_short(fault.replace(record["id"], "")) for record in known for fault in record["faults"]}
        )
        sound = [record for record in known if "missing" not in record and not record.get("hangs")]
        again = "-"
        if sound:
            same = all(record["repeats"] for record in sound)
            again = (
                "yes" if same and all(r["elsewhere"] for r in sound) else "in one process" if same else "no"
            )
        working = "yes" if plays == len(known) else f"{plays} of {len(known)}" if plays else "no"
        rows.append(
            f"| {game} | {len(known)} | {_range(counts)} | {working} | {again} | {'; '.join(notes)} |"
        )
    good = sum(map(playable, records))
    rows.append(f"\n{good} of {len(records)} ids play, of {len(by_game)} games.\n")
    return "\n".join(rows)


def playable(record: dict[str, Any]) -> bool:
    """Whether at least one of its games was played without raising."""
    return "missing" not in record and not record.get("hangs") and len(record["faults"]) < GAMES


def _range(counts: list[int]) -> str:
    if not counts:
        return "-"
    whole = counts == list(range(counts[0], counts[-1] + 1)) and len(counts) > 2
    return f"{counts[0]} to {counts[-1]}" if whole else ", ".join(map(str, counts))


def _short(fault: str) -> str:
    line = " ".join(fault.replace("|", "/").split()).removeprefix("the game raised: ")
    line = re.sub(r"\S*/site-packages/", "", line)
    return line if len(line) <= 110 else line[:109] + "…"


if __name__ == "__main__":
    main()

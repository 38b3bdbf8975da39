"""Language runs that others might send: their league, frozen versions, games and warm start turned against us."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostile_runs import _HOSTILE_TEXT, Attack, _config, _link, lying_safetensors, newest, pickles, put

_DEEP = 900
"""As deep as JSON can be read; what walks through it in Python gives up earlier."""
_BROKEN = "\ud800"
"""Half a character: it can be in JSON, and cannot be written anywhere else."""


def _nested(depth: int = _DEEP) -> Any:
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


def _state(change: Callable[[dict[str, Any]], Any]) -> Attack:
    """A checkpoint whose state was changed, and whose manifest says that this is what was written."""

    def attack(run: Path, outside: Path, mark: Path) -> None:
        state = json.loads((newest(run) / "state.json").read_text())
        change(state)
        put(run, "state.json", json.dumps(state).encode())

    return attack


def _league(value: Any) -> Attack:
    return _state(lambda state: state.update(league=value))


def _member(**changes: Any) -> Attack:
    return _state(lambda state: state["league"]["members"][0].update(changes))


def _roster(value: Any) -> Attack:
    return _state(lambda state: state.update(roster=value))


def _version(content: Callable[[Path], bytes]) -> Attack:
    """The newest frozen version is this, as the checkpoint says."""

    def attack(run: Path, outside: Path, mark: Path) -> None:
        state = json.loads((newest(run) / "state.json").read_text())
        name = list(state["roster"])[-1]
        (run / "league" / f"{name}.safetensors").write_bytes(content(mark))
        state["roster"][name]["sha256"] = hashlib.sha256(content(mark)).hexdigest()
        put(run, "state.json", json.dumps(state).encode())

    return attack


def _roster_outside(name: str) -> Attack:
    def attack(run: Path, outside: Path, mark: Path) -> None:
        content = (outside / "secret.txt").read_bytes()
        known = {"sha256": hashlib.sha256(content).hexdigest(), "version": 9}
        state = json.loads((newest(run) / "state.json").read_text())
        leading = name.replace("OUTSIDE", str(outside))
        state["roster"] = {leading: known}
        state["learners"] = [leading.rpartition("@")[0]]
        put(run, "state.json", json.dumps(state).encode())

    return attack


def _game(**changes: Any) -> Attack:
    """Every game, of training and of evaluations, is changed so."""

    def attack(run: Path, outside: Path, mark: Path) -> None:
        for path in (run / "games").glob("*/*.jsonl"):
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            path.write_text("".join(json.dumps(row | changes) + "\n" for row in rows))

    return attack


def _turn(**changes: Any) -> Attack:
    def attack(run: Path, outside: Path, mark: Path) -> None:
        for path in (run / "games").glob("*/*.jsonl"):
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            for row in rows:
                row["turns"] = [turn | changes for turn in row["turns"]]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    return attack


def _games_file(name: str, content: str) -> Attack:
    def attack(run: Path, outside: Path, mark: Path) -> None:
        for kind in ("train", "eval"):
            (run / "games" / kind / name).write_text(content)

    return attack


def _games_pipe(run: Path, outside: Path, mark: Path) -> None:
    os.mkfifo(run / "games" / "train" / "00000009.jsonl")


def _metrics(**row: Any) -> Attack:
    text = json.dumps({"step": 1, "updates": 1, "league/rating/learner": 25.0} | row) + "\n"
    return lambda run, outside, mark: (run / "metrics.jsonl").write_text(text) and None


_MEMBER = {"name": "learner", "kind": "learner"}
_MARKUP = "[/bold][link=file:///etc]x[/]"

LEAGUE_ATTACKS: dict[str, Attack] = {
    "league: text": _league("x"),
    "league: a list": _league([1]),
    "league: without members": _league({"ratings": {}, "pairs": []}),
    "league: members of another kind": _league({"members": {"a": 1}, "ratings": {}, "pairs": []}),
    "league: a member without a kind": _league({"members": [{"name": "a"}], "ratings": {}, "pairs": []}),
    "league: ratings of another kind": _league({"members": [_MEMBER], "ratings": [1], "pairs": []}),
    "league: ratings that are no numbers": _league(
        {"members": [_MEMBER], "ratings": {"learner": ["x", "y"]}, "pairs": []}
    ),
    "league: ratings that are not finite": _league(
        {"members": [_MEMBER], "ratings": {"learner": [{"__float__": "nan"}, 1]}, "pairs": []}
    ),
    "league: pairs of another kind": _league({"members": [_MEMBER], "ratings": {}, "pairs": [[1], {}, "x"]}),
    "league: 20,000 members": _league(
        {
            "members": [{"name": f"m{n}", "kind": "bot"} for n in range(20_000)],
            "ratings": {},
            "pairs": [["m1", "m2", {}]],
        }
    ),
    "league: nested deeply": _league({"members": _nested(), "ratings": {}, "pairs": []}),
    "league: a name with commands": _member(name=_HOSTILE_TEXT),
    "league: a name with markup": _member(name=_MARKUP),
    "league: half a character as a name": _member(name=_BROKEN),
    "league: a name that is not text": _member(name=[1]),
    "league: a kind that is not text": _member(kind=["learner"]),
    "league: counts without end": _member(games=10**400, chosen=-(10**400)),
    "league: counts that are not numbers": _member(games="many", chosen={}),
    "learners: none": _state(lambda state: state.update(learners=[])),
    "learners: numbers": _state(lambda state: state.update(learners=[1])),
    "learners: of another kind": _state(lambda state: state.update(learners={"a": 1})),
    "learners: a way up": _state(lambda state: state.update(learners=["../../outside/x"])),
    "learners: names with commands": _state(lambda state: state.update(learners=[_HOSTILE_TEXT])),
    "progress: of another kind": _state(lambda state: state.update(progress=[1])),
    "progress: text": _state(lambda state: state["progress"].update(updates="x")),
    "roster: a list": _roster([1]),
    "roster: of another kind": _roster({"learner@1": 7, "learner@2": None}),
    "roster: a version that is not a number": _roster({"learner@1": {"sha256": "0", "version": "x"}}),
    "roster: a way up": _roster_outside("../../outside/learner@9"),
    "roster: an absolute path": _roster_outside("OUTSIDE/learner@9"),
    "roster: 20,000 versions": _roster(
        {f"learner@{n}": {"sha256": "0", "version": n} for n in range(20_000)}
    ),
    **{
        f"a frozen version: {kind}": _version(lambda mark, kind=kind: pickles(mark)[kind])  # type: ignore[misc]
        for kind in ("pickle, protocol 4", "torch.save", "numpy, an array of objects")
    },
    **{
        f"a frozen version: {name}": _version(lambda mark, content=content: content)  # type: ignore[misc]
        for name, content in lying_safetensors().items()
    },
    "link: the league": _link("league", "folder"),
    "link: a frozen version": _link("league/learner@1.safetensors", "secret.txt"),
    "link: the games": _link("games", "folder"),
    "link: the games of training": _link("games/train", "folder"),
    "link: games": _link("games/train/00000001.jsonl", "secret.json"),
    "link: the sums of the games": _link("games/SHA256SUMS", "secret.txt"),
    "pipe: games": _games_pipe,
    "games: names with commands": _game(
        game=_HOSTILE_TEXT, players=[_HOSTILE_TEXT, _HOSTILE_TEXT], reason=_HOSTILE_TEXT
    ),
    "games: names with markup": _game(game=_MARKUP, players=[_MARKUP, _MARKUP], reason=_MARKUP),
    "games: half a character": _game(game=_BROKEN, players=[_BROKEN, _BROKEN], reason=_BROKEN),
    "games: of other kinds": _game(players="x", rewards={"a": 1}, moves=7, turns="x"),
    "games: seats that are not there": _game(moves=[[99, "x"], [-99, "x"]]),
    "games: moves of other kinds": _game(moves=[[], [1], "xy", [0, [1]]]),
    "games: numbers without end": _game(rewards=[10**400, -(10**400)], length=10**4000),
    "games: rewards that are not numbers": _game(rewards=[None, None]),
    "games: nested deeply": _game(extra=_nested()),
    "games: nested too deeply": _games_file("00000009.jsonl", '{"match": ' + "[" * 100_000 + "\n"),
    "games: no rows": _games_file("00000009.jsonl", "\0" * 100_000),
    "games: a number that int does not know": _games_file("\u00b2.jsonl", "{}\n"),
    "games: a file for every update to come": _games_file("9" * 200 + ".jsonl", "{}\n"),
    "turns: of other kinds": _turn(prompt=7, reward_parts=[1], entropy="x"),
    "turns: values that are not numbers": _turn(
        entropy=None, reward_parts={"game": None, _HOSTILE_TEXT: 10**400}
    ),
    "turns: texts with commands": _turn(
        text=_HOSTILE_TEXT, observation=_HOSTILE_TEXT + _BROKEN, reward_parts={_HOSTILE_TEXT: 1}
    ),
    "turns: nested deeply": _turn(reward_parts={"a": _nested()}),
    "metrics: ratings of names with commands": _metrics(
        **{f"league/rating/{_HOSTILE_TEXT}": 25.0, f"games/{_HOSTILE_TEXT}": 1}
    ),
    "metrics: half a character": _metrics(**{f"league/rating/{_BROKEN}": 25.0, f"train/{_BROKEN}": 1.0}),
    "metrics: ratings without end": _metrics(**{"league/rating/a": 1e308, "league/sigma/a": -1e308}),
    "config: a model outside": _config(language__model="OUTSIDE/folder"),
    "config: a model with a way up": _config(language__model="../outside/folder"),
    "config: a model of 10^18 weights": _config(
        language__model_kwargs={"layers": 10**6, "hidden": 10**6, "heads": 2, "context": 32}
    ),
    "config: a template that looks inside": _config(
        games__train=[{"id": "KuhnPoker-v0-stakes", "template": {"prompt": "{position.__class__.__init__}"}}]
    ),
    "config: an extraction that is a bomb": _config(
        games__train=[{"id": "KuhnPoker-v0-stakes", "extract": {"pattern": "(" * 5_000}}]
    ),
    "config: a game that is a module": _config(games__train=[{"id": "gym:os:mkdir"}]),
    "config: an adapter elsewhere": _config(language__adapter={"start": "OUTSIDE/folder"}),
}

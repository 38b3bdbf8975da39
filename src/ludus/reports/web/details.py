"""Data of a run's pages other than its curves: config, checkpoints, videos, logs, league and games.

The run may be untrusted: only plain files are read, each up to a size limit, and secrets are left out.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import yaml

from ludus.reports.reading import VIDEO_SUFFIXES, list_checkpoints
from ludus.reports.redaction import HIDDEN, hide_in_text, is_secret_key
from ludus.reports.web.entry import RunEntry
from ludus.reports.web.index import MAX_JSON
from ludus.reports.web.security import RunsFolder
from ludus.runs import strict_json
from ludus.runs.directory import RunDirectory
from ludus.runs.hints import step_of

_MAX_CONFIG = 200_000
_MAX_VALUES = 3000
_MAX_DEPTH = 20
_MAX_STATE = 64 << 20
_MAX_GAMES = 32 << 20
_MAX_TEXT = 6000
_LOG_TAIL = 96 << 10
_ANSI = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b\x0c\x0e-\x1f]"
)


class _ShallowLoader(yaml.SafeLoader):
    """YAML loader that refuses deep nesting, before it takes long."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self._depth > _MAX_DEPTH:
            raise yaml.YAMLError("nested too deeply")
        self._depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


def read_config(folder: RunsFolder, entry: RunEntry) -> list[tuple[str, str]]:
    """Every value of config.yaml by its dotted key, as it is written there; empty where it cannot be read."""
    try:
        text = folder.read(*entry.parts, "config.yaml", limit=_MAX_CONFIG).decode()
        # nodes, not values: numbers stay as they were written, and nothing is constructed
        root = yaml.compose(text, Loader=_ShallowLoader)
        found = []
        for key, value in _flatten(root, "", 0):
            found.append((key, HIDDEN if is_secret_key(key) and value else hide_in_text(value)))
            if len(found) >= _MAX_VALUES:
                break
        return found
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return []


def _flatten(node: yaml.Node | None, key: str, depth: int) -> Iterator[tuple[str, str]]:
    if node is None or depth > _MAX_DEPTH:
        return
    if isinstance(node, yaml.MappingNode) and node.value:
        for name, value in node.value:
            own = str(name.value) if isinstance(name, yaml.ScalarNode) else "?"
            yield from _flatten(value, f"{key}.{own}" if key else own, depth + 1)
    elif isinstance(node, yaml.SequenceNode) and not all(isinstance(n, yaml.ScalarNode) for n in node.value):
        for index, value in enumerate(node.value):
            yield from _flatten(value, f"{key}.{index}", depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        yield key, "[" + ", ".join(str(one.value) for one in node.value) + "]"
    else:
        yield key, str(node.value) if isinstance(node, yaml.ScalarNode) else "{}"


def read_checkpoints(folder: RunsFolder, entry: RunEntry) -> list[dict[str, Any]]:
    """Return the checkpoints, newest first; empty if their folder contains links or special files."""
    hints = dict(folder.files(*entry.parts, "checkpoints"))
    small = all(status.st_size < MAX_JSON for status in hints.values())
    names = [name for name in folder.folders(*entry.parts, "checkpoints") if step_of(name) is not None]
    manifests = [
        os.path.join(entry.path, "checkpoints", *parts)
        for parts in [("best.json",), ("pins.json",), *((name, "MANIFEST.json") for name in names)]
    ]
    if not small or not all(map(_is_plain_or_missing, manifests)):
        return []
    found = list_checkpoints(RunDirectory(entry.path)) if names else []
    return [asdict(one) | {"path": f"checkpoints/{one.name}"} for one in reversed(found)]


def has_resumable_checkpoint(folder: RunsFolder, entry: RunEntry) -> bool:
    return any(one["resumable"] for one in read_checkpoints(folder, entry))


def list_videos(folder: RunsFolder, entry: RunEntry) -> list[dict[str, Any]]:
    """Return the videos, newest first."""
    found = [
        {"name": name, "size": status.st_size, "time": status.st_mtime, "step": _step_in(name)}
        for name, status in folder.files(*entry.parts, "videos")
        if name.lower().endswith(VIDEO_SUFFIXES)
    ]
    return sorted(found, key=lambda one: (one["time"], one["name"]), reverse=True)


def list_logs(folder: RunsFolder, entry: RunEntry) -> list[str]:
    """Return the names of the logs, the last changed first."""
    found = [
        (name, status)
        for name, status in folder.files(*entry.parts, "logs")
        if name.endswith((".log", ".txt"))
    ]
    return [name for name, status in sorted(found, key=lambda pair: -pair[1].st_mtime)]


def read_log(folder: RunsFolder, entry: RunEntry, name: str) -> str:
    """Return the end of a log as plain text. OSError if the file does not exist."""
    data = folder.tail(*entry.parts, "logs", name, size=_LOG_TAIL)
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    if len(data) == _LOG_TAIL:
        text = text.partition("\n")[2]
    # of a line that a progress bar wrote over and over, what was seen last
    text = "\n".join(line.rsplit("\r", 1)[-1] for line in text.split("\n"))
    return hide_in_text(_ANSI.sub("", text))


def read_league(folder: RunsFolder, entry: RunEntry) -> dict[str, Any] | None:
    """The league's table as of the newest checkpoint that has one; None for runs without a league."""
    names = sorted(folder.folders(*entry.parts, "checkpoints"), reverse=True)
    for name in [name for name in names if step_of(name) is not None][:3]:
        try:
            text = folder.read(*entry.parts, "checkpoints", name, "state.json", limit=_MAX_STATE)
            state = strict_json.loads(text.decode()).get("league")
            if state is not None:
                return {"checkpoint": name, "step": step_of(name), "table": _standings(state)}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # damaged, or of another version
    return None


def _standings(state: dict[str, Any]) -> list[dict[str, Any]]:
    from ludus.config.language import LeagueConfig
    from ludus.league.league import League

    league = League(LeagueConfig())
    league.load_state_dict(state)
    return [asdict(standing) for standing in league.table()[:500]]


def list_games(folder: RunsFolder, entry: RunEntry) -> list[dict[str, Any]]:
    """The files of games, newest update first; evaluations before the games of training."""
    found = []
    for kind in ("eval", "train", ""):
        parts = (*entry.parts, "games", kind) if kind else (*entry.parts, "games")
        for name, status in reversed(folder.files(*parts)):
            if name.endswith(".jsonl"):
                file = f"{kind}/{name}" if kind else name
                found.append({"file": file, "kind": kind, "name": name[:-6], "size": status.st_size})
    return found[:2000]


def read_games(folder: RunsFolder, entry: RunEntry, file: str, limit: int = 100) -> list[dict[str, Any]]:
    """The first matches of one of the files that `list_games` named; OSError if the file does not exist."""
    known = {one["file"] for one in list_games(folder, entry)}
    if file not in known:
        raise FileNotFoundError(file)
    found: list[dict[str, Any]] = []
    with folder.open(*entry.parts, "games", *file.split("/")) as games:
        for line in games.read(_MAX_GAMES).split(b"\n"):
            if len(found) >= limit:
                break
            with contextlib.suppress(ValueError, RecursionError):  # torn, or no match
                row = json.loads(line)
                if isinstance(row, dict):
                    found.append(_match(row))
    return found


def _match(row: dict[str, Any]) -> dict[str, Any]:
    """Return a match for a page: everything but the tokens."""
    plain = {name: _short(row.get(name)) for name in ("match", "game", "reason", "length", "cut_off", "seed")}
    for name in ("players", "rewards", "invalid"):
        value = row.get(name)
        plain[name] = [_short(one) for one in value[:64]] if isinstance(value, list) else []
    moves, turns = row.get("moves"), row.get("turns")
    plain["moves"] = [
        [_short(part) for part in move[:2]]
        for move in (moves[:500] if isinstance(moves, list) else [])
        if isinstance(move, list)
    ]
    shown = (
        "seat",
        "index",
        "player",
        "observation",
        "text",
        "action",
        "well_formed",
        "invalid",
        "truncated",
        "reward",
    )
    plain["turns"] = [
        {name: _short(turn.get(name)) for name in shown}
        for turn in (turns[:500] if isinstance(turns, list) else [])
        if isinstance(turn, dict)
    ]
    return plain


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else value[:_MAX_TEXT] + "…"
    if isinstance(value, float):
        return value if abs(value) < 1e300 else None
    return value if value is None or isinstance(value, bool | int) else str(value)[:_MAX_TEXT]


def _is_plain_or_missing(path: str) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return True
    return stat.S_ISREG(status.st_mode) and status.st_size < MAX_JSON


def _step_in(name: str) -> int | None:
    found = re.search(r"[0-9]{12}", name)
    return int(found[0]) if found else None

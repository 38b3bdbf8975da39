"""Sections of a report other than curves: videos, checkpoints with commands to load them, settings, origin."""

from __future__ import annotations

import base64
import os
import shlex
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ludus.config.plain_yaml import write_yaml
from ludus.reports.configs import flatten
from ludus.reports.page import rows_to_table, section
from ludus.reports.reading import VideoFile, list_checkpoints, list_videos
from ludus.runs.directory import RunDirectory
from ludus.runs.mirror.state import MirrorState

MAX_EMBEDDED = 1_000_000
"""Largest video in bytes that is embedded in the page."""

MAX_EMBEDDED_ALL = 3_000_000
MAX_VIDEOS = 12
_TYPES = {".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif"}
_MAIN = ("algorithm", "env.id", "n_envs", "total_timesteps", "normalize_obs", "normalize_reward")


def video_section(run: RunDirectory, page: Path, *, heading: bool = True) -> str:
    """Return the newest videos: small ones embedded, others as links relative to `page`. Empty if there are none."""
    videos = list_videos(run)
    shown, room = [], MAX_EMBEDDED_ALL
    for video in reversed(videos[-MAX_VIDEOS:]):
        embedded = video.size <= min(MAX_EMBEDDED, room)
        room -= video.size if embedded else 0
        shown.append(_video_figure(video, page, embedded=embedded))
    if not shown:
        return ""
    rest = len(videos) - len(shown)
    note = f"The newest {len(shown)}; {rest} more in {run.videos_dir}." if rest else ""
    body = f'<div class="videos">{"".join(shown)}</div>'
    return section("Videos", note, body) if heading else body


def checkpoint_section(run: RunDirectory, *, heading: bool = True) -> str:
    """Return every checkpoint with the command to load it. Empty if there are none."""
    found = list_checkpoints(run)
    if not found:
        return ""
    rows = []
    for one in reversed(found):
        kinds = ["best"] * one.best + ["pinned"] * one.pinned
        kinds += [] if one.intact else ["damaged"]
        kinds += ["policy only"] * (one.intact and not one.resumable)
        kinds += ["exact"] * one.exact
        name = f"{run.path}@{one.name}"
        rows.append(
            [
                f"{one.step:,}",
                escape(", ".join(kinds)),
                escape(one.created.replace("T", " ")[:19]),
                _size(one.size),
                f"<code>ludus play {escape(shlex.quote(name))}<br>ludus.load({escape(repr(name))})</code>",
            ]
        )
    loading = "in the shell, in Python"
    table = rows_to_table(["step", "", "saved (UTC)", "size", loading], rows, ("", "saved (UTC)", loading))
    note = f"Continue training with: ludus resume {shlex.quote(str(run.path))}"
    return section("Checkpoints", note, table) if heading else table


def hyperparameter_section(config: Mapping[str, Any]) -> str:
    """Return the hyperparameters as a table, and the whole config."""
    if not config:
        return ""
    flat = flatten(config)
    main = {key: flat[key] for key in _MAIN if key in flat}
    main |= {key: value for key, value in flat.items() if key.startswith("hyperparams.")}
    rows = "".join(
        f"<div><code>{escape(key.removeprefix('hyperparams.'))}</code><span>{escape(str(value))}</span></div>"
        for key, value in main.items()
        if value is not None
    )
    table = f'<div class="settings">{rows}</div>'
    whole = (
        f"<details><summary>The whole config</summary><pre>{escape(write_yaml(dict(config)))}</pre></details>"
    )
    return section("Hyperparameters", "", table + whole)


def origin_section(run: RunDirectory, info: Mapping[str, Any], mirror: MirrorState | None) -> str:
    """Return the paths of the run and its mirror, the command that started it and how it ended."""
    versions = info.get("versions")
    versions = versions if isinstance(versions, Mapping) else {}
    facts = {
        "directory": str(run.path.absolute()),
        "mirror": None if mirror is None else mirror.in_words(),
        "command": info.get("command"),
        "created": info.get("created"),
        "device": info.get("device"),
        "ended": info.get("reason") or info.get("error"),
        "tags": ", ".join(str(tag) for tag in info.get("tags") or []),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    rows = [[name, f"<code>{escape(str(value))}</code>"] for name, value in facts.items() if value]
    return section("Origin", "", rows_to_table(["", " "], rows, text=(" ",)))


def _video_figure(video: VideoFile, page: Path, *, embedded: bool) -> str:
    suffix = Path(video.name).suffix.lower()
    source = _inside(video, suffix) if embedded else None
    if source is None:
        source = quote(os.fsencode(os.path.relpath(video.path, page.parent).replace(os.sep, "/")))
    step = "" if video.step is None else f"step {video.step:,} · "
    caption = f"<figcaption>{step}{escape(video.name)} · {_size(video.size)}</figcaption>"
    if suffix == ".gif":
        return f'<figure><img src="{source}" alt="{escape(video.name)}" loading="lazy">{caption}</figure>'
    player = f'<video controls muted loop playsinline preload="metadata" src="{source}"></video>'
    return f"<figure>{player}{caption}</figure>"


def _inside(video: VideoFile, suffix: str) -> str | None:
    try:
        data = base64.b64encode(Path(video.path).read_bytes()).decode()
    except OSError:
        return None  # deleted meanwhile: the link will be broken
    return f"data:{_TYPES[suffix]};base64,{data}"


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"

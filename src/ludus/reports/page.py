"""A self-contained HTML page: Plotly is included, and it has a light and a dark mode."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from ludus.types import Array

CLOCK_BUTTON = '<button type="button" data-do="clock" aria-pressed="false">over time</button>'
"""Switches every figure that was drawn with `clocks` between env steps and seconds of training."""

_TAG = re.compile("<(?!/?extra>)")  # `extra` is our own: it ends a hover text


def html_page(
    title: str,
    subtitle: str,
    parts: Iterable[str],
    buttons: str = "",
    *,
    own_style: str = "",
    own_script: str | None = None,
) -> str:
    """Return a page in the common style; `parts` and `buttons` are HTML, titles are text.

    A page without figures brings its own script instead of Plotly.
    """
    style, script = ((files("ludus.reports") / name).read_text("utf-8") for name in ("page.css", "page.js"))
    style += own_style
    scripts = (get_plotlyjs() if own_script is None else own_script, script)
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">'
        '<meta name="referrer" content="no-referrer"><meta http-equiv="x-dns-prefetch-control" content="off">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style>"
        + "".join(f"<script>{one}</script>" for one in scripts)
        + "</head>\n<body><main>"
        f'<div class="bar"><span></span>{buttons}<button type="button" data-do="theme">light / dark</button></div>'
        f'<h1>{escape(title)}</h1><p class="sub">{escape(subtitle)}</p>\n'
        + "\n".join(part for part in parts if part)
        + "\n</main></body></html>\n"
    )
    return text.encode("utf-8", "replace").decode()  # file names may not be valid text


def _policy(scripts: Iterable[str]) -> str:
    """Return the content security policy: run `scripts`, show embedded data and videos next to it, send nothing."""
    hashes = (base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts)
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: 'self'; "
        "media-src data: 'self'; base-uri 'none'; form-action 'none'"
    )


def notices(lines: Iterable[str]) -> str:
    """Return important notices as a part of a page; empty without lines."""
    return "".join(f'<p class="notice">{escape(line)}</p>' for line in lines)


def draw(figure: go.Figure, clocks: Sequence[Array | None] | None = None) -> str:
    """Return a figure as a part of a page. `clocks`: for each of its lines the seconds of its points, or None."""
    content = _without_links(json.loads(figure.to_json()))
    if clocks is not None:
        content["clocks"] = [_packed(clock) for clock in clocks]
    height = int(figure.layout.height or 430)
    # no text in it can end the script: characters with a meaning in HTML are written as JSON escapes
    data = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<div class="figure" style="height:{height}px"><script type="application/json">{data}</script></div>'
    )


def section(title: str, note: str, body: str) -> str:
    """Return a part of a page: `title` and `note` are text, `body` is HTML."""
    head = (f"<h2>{escape(title)}</h2>" if title else "") + (f"<p>{escape(note)}</p>" if note else "")
    return f"<section>{head}{body}</section>"


def rows_to_table(head: Sequence[str], rows: Iterable[Sequence[str]], text: Sequence[str] = ()) -> str:
    """Return a table of HTML cells; `*` at the start marks the best of a column. `text` names columns of text."""
    of_text = [name in text for name in head]
    cells = "".join(_cell("th", name, is_text) for name, is_text in zip(head, of_text, strict=True))
    body = "".join(
        "<tr>"
        + "".join(_cell("td", cell, is_text) for cell, is_text in zip(row, of_text, strict=True))
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><tr>{cells}</tr>{body}</table></div>'


def _cell(kind: str, cell: str, is_text: bool) -> str:
    if kind == "td" and cell.startswith("*"):
        return f'<td class="best">{cell[1:]}</td>'
    return f'<{kind} class="text">{cell}</{kind}>' if is_text else f"<{kind}>{cell}</{kind}>"


def _without_links(value: Any) -> Any:
    """Return `value` with the tags that Plotly interprets in texts, such as links, escaped."""
    if isinstance(value, str):
        return _TAG.sub("&lt;", value)
    if isinstance(value, list):
        return [_without_links(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_links(item) for key, item in value.items()}
    return value


def _packed(values: Array | None) -> dict[str, str] | None:
    """Return numbers in Plotly's packed format."""
    if values is None:
        return None
    return {"dtype": "f4", "bdata": base64.b64encode(np.asarray(values, dtype="<f4").tobytes()).decode()}

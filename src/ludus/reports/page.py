"""A page in one HTML file that needs nothing else: Plotly is inside, and it is light or dark as its reader likes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

import numpy as np
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from ludus.types import Array

CLOCK_BUTTON = '<button type="button" data-do="clock" aria-pressed="false">over time</button>'
"""Switches every figure that was drawn with `clocks` between env steps and seconds of training."""


def html_page(title: str, subtitle: str, parts: Iterable[str], buttons: str = "") -> str:
    """A page in the house style; `parts` and `buttons` are HTML, the rest is text."""
    style, script = ((files("ludus.reports") / name).read_text("utf-8") for name in ("page.css", "page.js"))
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style>"
        f"<script>{get_plotlyjs()}</script><script>{script}</script></head>\n<body><main>"
        f'<div class="bar"><span></span>{buttons}<button type="button" data-do="theme">light / dark</button></div>'
        f'<h1>{escape(title)}</h1><p class="sub">{escape(subtitle)}</p>\n'
        + "\n".join(part for part in parts if part)
        + "\n</main></body></html>\n"
    )
    return text.encode("utf-8", "replace").decode()  # names of files may be no text


def notices(lines: Iterable[str]) -> str:
    """What the reader should know before anything else, as a part of a page; empty for nothing."""
    return "".join(f'<p class="notice">{escape(line)}</p>' for line in lines)


def draw(figure: go.Figure, clocks: Sequence[Array | None] | None = None) -> str:
    """A figure as a part of a page. `clocks`: for each of its lines the seconds that belong to its points, or None."""
    text: str = figure.to_json()
    if clocks is not None:
        text = f'{text[:-1]},"clocks":{json.dumps([_packed(clock) for clock in clocks])}}}'
    height = int(figure.layout.height or 430)
    # no text in it can end the script: what HTML could mistake is written as JSON's escape
    data = text.replace("<", "\\u003c")
    return (
        f'<div class="figure" style="height:{height}px"><script type="application/json">{data}</script></div>'
    )


def section(title: str, note: str, body: str) -> str:
    """A part of a page: `title` and `note` are text, `body` is HTML."""
    head = (f"<h2>{escape(title)}</h2>" if title else "") + (f"<p>{escape(note)}</p>" if note else "")
    return f"<section>{head}{body}</section>"


def rows_to_table(head: Sequence[str], rows: Iterable[Sequence[str]], text: Sequence[str] = ()) -> str:
    """Cells are HTML; one that begins with `*` is the best of its column. `text` names columns that are no numbers."""
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


def _packed(values: Array | None) -> dict[str, str] | None:
    """Numbers as Plotly packs them."""
    if values is None:
        return None
    return {"dtype": "f4", "bdata": base64.b64encode(np.asarray(values, dtype="<f4").tobytes()).decode()}

"""TextArena's games in `ludus envs`."""

from __future__ import annotations

import importlib.util
from typing import Any

from rich.padding import Padding
from rich.text import Text

from ludus.cli.output import Output

_TEXTARENA = "textarena"


def list_text_games(output: Output, filter: str | None) -> list[dict[str, Any]]:
    """Print and return TextArena's games whose ids fit the filter; without a filter, only print that they exist."""
    if importlib.util.find_spec("textarena") is None:
        return []
    if filter is None:
        output.print("\ngames for language models, hundreds of ids: `ludus envs textarena`")
        return []
    from ludus.language.text_games.catalog import games

    found = {
        game: [i for i in ids if filter.lower() in f"{_TEXTARENA} {i}".lower()]
        for game, ids in games().items()
    }
    if any(found.values()):
        note = "   games for language models; each also as -train and -raw"
        output.print(Text.assemble((f"\n{_TEXTARENA}", "bold"), (note, "dim")))
    for ids in found.values():
        plain = [i for i in ids if not i.endswith(("-train", "-raw"))]
        if plain:
            output.print(Padding(Text("  ".join(plain)), (0, 0, 0, 2)))
    return [{"id": i, "group": _TEXTARENA, "missing_extra": None} for ids in found.values() for i in ids]

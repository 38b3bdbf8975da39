"""Configs people already have, loaded as they are: one file per foreign format, found by the shape of the document.

Nothing in a foreign file is evaluated. What has no counterpart in Ludus is listed, never dropped in silence.
"""

from __future__ import annotations

from collections.abc import Callable

from ludus.config.importers import zoo
from ludus.config.importers.document import SUFFIXES, Document, read_document
from ludus.config.importers.translation import Imported, ImportOptions, PlaySection, Remark
from ludus.games.diambra import importer as diambra
from ludus.games.unity import import_env as unity
from ludus.games.unity import importer as pipeline

__all__ = [
    "SUFFIXES",
    "Document",
    "ImportOptions",
    "Imported",
    "PlaySection",
    "Remark",
    "import_foreign",
    "read_document",
]

_FORMATS: list[tuple[Callable[[Document], bool], Callable[[Document, ImportOptions], Imported]]] = [
    (pipeline.recognise, pipeline.translate),
    (diambra.recognise, diambra.translate),
    (unity.recognise, unity.translate),
    (zoo.recognise, zoo.translate),
]


def import_foreign(document: Document, choice: ImportOptions) -> Imported | None:
    """`document` in Ludus's terms; None when it is not of a foreign format that is known here.

    Raises ConfigError with the file, line and key at fault.
    """
    for recognise, translate in _FORMATS:
        if recognise(document):
            return translate(document, choice)
    return None

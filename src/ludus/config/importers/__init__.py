"""Import configs of other tools: one module per format, recognised by the structure of the document.

Nothing in a foreign file is evaluated. What has no counterpart in Ludus is listed, never dropped in silence.
"""

from __future__ import annotations

from ludus.config.importers import zoo
from ludus.config.importers.document import SUFFIXES, Document, read_document
from ludus.config.importers.translation import Imported, ImportOptions, PlaySection, Remark
from ludus.plugins import listed

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


def import_foreign(document: Document, choice: ImportOptions) -> Imported | None:
    """`document` in Ludus's terms; None when it is not of a foreign format that is known here.

    Raises ConfigError with the file, line and key at fault.
    """
    for importer in (*listed("config_importers"), zoo):
        if importer.recognise(document):
            imported: Imported = importer.translate(document, choice)
            return imported
    return None

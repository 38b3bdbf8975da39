"""Write the table of model families in docs/how-to/language-models.md: `python docs/generate_families.py`."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "language-models.md"


def main() -> None:
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from language_families import FAMILIES, table_row
    from transformers.utils import logging

    logging.disable_progress_bar()
    rows = ["| family | works | |", "|---|---|---|"]
    for name in FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(table_row(name, Path(folder)))
    table = "\n".join(["<!-- families -->", *rows, "<!-- end of families -->"])
    page = PAGE.read_text("utf-8")
    PAGE.write_text(
        re.sub(r"<!-- families -->.*<!-- end of families -->", lambda _: table, page, flags=re.S), "utf-8"
    )


if __name__ == "__main__":
    main()

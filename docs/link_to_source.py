"""A hook of mkdocs: links to files outside docs/ become links to the repository.

On GitHub `../../src/ludus/plugins.py` works as it is; a site has no such file. A link to a file that is not there is
not changed, and `mkdocs build --strict` refuses it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<=\]\()(\.\./[^)\s#]+)(#[^)\s]*)?(?=\))")
_ROOT = Path(__file__).resolve().parents[1]


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the page with its links to source files replaced."""
    folder = Path(page.file.abs_src_path).parent

    def replace(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / found[1]))
        if target.is_relative_to(_ROOT / "docs") or not target.exists():
            return found[0]
        kind = "tree" if target.is_dir() else "blob"
        return f"{config.repo_url}/{kind}/main/{target.relative_to(_ROOT).as_posix()}{found[2] or ''}"

    return _LINK.sub(replace, markdown)

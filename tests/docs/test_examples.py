"""The code that the documentation shows runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [
    "quickstart.md",
    "your-own-env.md",
    "your-own-network.md",
    "your-own-algorithm.md",
    "export.md",
    "video-and-analysis.md",
]
_BLOCK = re.compile(r"^```(python|yaml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# (\w+\.(?:py|yaml))\n")


def program(page: str, folder: Path) -> str:
    """The page's Python as one script; blocks that begin with a file's name are saved under it instead.

    A YAML block that is saved is resolved where it stood, as `ludus train` would do first.
    """
    parts: list[str] = []
    for language, code in _BLOCK.findall((DOCS / page).read_text("utf-8")):
        named = _FILE.match(code)
        if named is not None:
            (folder / named[1]).write_text(code, "utf-8")
        elif language == "python":
            parts.append(code)
        if named is not None and language == "yaml":
            parts.append(
                f"from ludus import create_trainer, load_config\n"
                f"_trainer = create_trainer(None, load_config({named[1]!r}).config)\n"
                f"_trainer.create_model()\n_trainer.close()\n"
            )
    assert parts, f"{page} shows no code"
    return "\n".join(parts)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_the_page_runs(page: str, tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(program(page, tmp_path), "utf-8")
    done = subprocess.run(
        [sys.executable, "page.py"],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{page}:\n{done.stdout}\n{done.stderr}"

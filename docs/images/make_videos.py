"""Makes the pictures of docs/how-to/video-and-analysis.md from a run: frames of its videos, the top of its analysis.

    ludus train quickstart
    python docs/images/make_videos.py latest

Chromium is the system's own (Debian: apt install chromium), driven by Playwright (extra `dev`).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import av
from PIL import Image

from ludus.runs.directory import find_run

FOLDER = Path(__file__).parent
FRAME, COMPARED, SMALL = 170, 110, (900, 1060)


def main(run: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        film = _ludus("video", run, "-n", 1, "-o", f"{folder}/film.mp4")["video"]
        _save(_frame(film, FRAME), "video.png")
        first = find_run(run, "runs").checkpoints_dir.glob("0*")
        both = ["--checkpoint", min(path.name for path in first), "--checkpoint", "best"]
        film = _ludus("video", run, *both, "-n", 1, "-o", f"{folder}/two.mp4")["video"]
        _save(_frame(film, COMPARED), "video-comparison.png")
        _screenshot(Path(_ludus("analyze", run, "-n", 5, "-o", folder)["page"]))


def _ludus(*arguments: Any) -> dict[str, Any]:
    command = [sys.executable, "-m", "ludus", *map(str, arguments), "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _frame(film: str, number: int) -> Image.Image:
    with av.open(film) as container:
        frames = list(container.decode(video=0))
    return frames[min(number, len(frames) - 1)].to_image()


def _save(picture: Image.Image, name: str) -> None:
    picture.save(FOLDER / name, optimize=True)
    print(f"wrote {FOLDER / name}")


def _screenshot(page: Path) -> None:
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        width, height = SMALL
        shown = browser.new_context(viewport={"width": width, "height": height}, offline=True).new_page()
        shown.goto(page.resolve().as_uri())
        shown.wait_for_function("document.documentElement.dataset.drawn !== undefined")
        shown.screenshot(path=str(page.with_suffix(".png")))
        browser.close()
    with Image.open(page.with_suffix(".png")) as picture:
        _save(picture.convert("RGB"), "analysis.png")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])

"""Takes the pictures of docs/how-to/seeing.md: pages in a headless Chromium, the terminal dashboard as it is drawn.

    ludus train quickstart video.every=150_000
    python docs/make_screenshots.py watch latest      while it trains
    python docs/make_screenshots.py report latest     when it has ended
    python docs/make_screenshots.py ui latest         the web dashboard of the folder that holds the run

Chromium is the system's own (Debian: apt install chromium), driven by Playwright (extra `dev`).
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ludus.runs.directory import RunDirectory, find_run

FOLDER = Path(__file__).parent / "images"
WIDTH = 1200


@contextmanager
def chromium(width: int = WIDTH, height: int = 900, scheme: str = "light") -> Any:
    """A page of a browser of this size, with no network."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, offline=True
        )
        yield context.new_page()
        browser.close()


def shoot_report(run: RunDirectory) -> list[Path]:
    """The top of the report, in the light and in the dark."""
    from ludus.reports.report import write_report

    made = []
    with tempfile.TemporaryDirectory() as folder:
        page_path = write_report([run], Path(folder) / "report.html")
        for scheme, name in (("light", "report.png"), ("dark", "report-dark.png")):
            with chromium(height=1150, scheme=scheme) as page:
                page.goto(page_path.as_uri())
                page.wait_for_function("document.documentElement.dataset.drawn !== undefined")
                page.screenshot(path=str(FOLDER / name))
            made.append(FOLDER / name)
    return made


def shoot_watch(run: RunDirectory) -> list[Path]:
    """The terminal dashboard at 100 by 30."""
    from rich.console import Console
    from rich.terminal_theme import SVG_EXPORT_THEME

    from ludus.reports.terminal.screen import frame
    from ludus.reports.terminal.watched import Watched

    watched = Watched(run)
    watched.refresh()
    console = Console(record=True, width=100, height=30, file=io.StringIO(), force_terminal=True)
    console.print(frame(watched, 100, 30), height=30)
    text = console.export_html(
        theme=SVG_EXPORT_THEME,
        inline_styles=True,
        code_format='<body style="margin:0;background:{background};color:{foreground}">'
        "<pre style=\"display:inline-block;margin:16px;font:15px/1.16 'DejaVu Sans Mono',monospace\">{code}</pre>",
    )
    with chromium(width=1000, height=640) as page:
        page.set_content(text)
        size = page.evaluate(
            "(r => [r.width, r.height])(document.querySelector('pre').getBoundingClientRect())"
        )
        page.set_viewport_size({"width": int(size[0]) + 32, "height": int(size[1]) + 32})
        page.screenshot(path=str(FOLDER / "watch.png"))
    return [FOLDER / "watch.png"]


def shoot_ui(run: RunDirectory) -> list[Path]:
    """The web dashboard: the table, this run, a comparison of runs of one env, and the run on a phone."""
    from playwright.sync_api import sync_playwright

    root = run.path.absolute().parents[2]
    command = [sys.executable, "-m", "ludus", "ui", "--root", str(root), "--port", "0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    made = []
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        with urllib.request.urlopen(url + "api/runs") as answer:
            runs = json.load(answer)["runs"]
        [own] = [one for one in runs if one["name"] == run.name]
        envs = [one["env"] for one in runs]
        same = [one["id"] for one in runs if one["env"] == max(envs, key=envs.count)][:6]
        with sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=shutil.which("chromium") or shutil.which("chromium-browser"),
                args=["--no-sandbox"],
            )
            for name, path, width, height, scheme in (
                ("dashboard.png", "", WIDTH, 640, "light"),
                ("dashboard-run.png", f"run/{own['id']}", WIDTH, 820, "dark"),
                ("dashboard-compare.png", f"compare?runs={','.join(same)}", WIDTH, 820, "light"),
                ("dashboard-phone.png", f"run/{own['id']}", 390, 844, "dark"),
            ):
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                page.goto(url + path)
                page.wait_for_selector("table.runs tbody tr, canvas[data-points]")
                page.wait_for_timeout(800)
                if "compare" in name:
                    page.locator("canvas").first.hover(position={"x": 110, "y": 90})
                    page.wait_for_timeout(200)
                page.screenshot(path=str(FOLDER / name))
                page.close()
                made.append(FOLDER / name)
            browser.close()
    finally:
        server.terminate()
        server.wait(20)
    return made


SHOTS: dict[str, Callable[[RunDirectory], list[Path]]] = {
    "report": shoot_report,
    "watch": shoot_watch,
    "ui": shoot_ui,
}


def main(arguments: list[str]) -> int:
    if len(arguments) not in (2, 3) or arguments[0] not in SHOTS:
        print(f"usage: make_screenshots.py {'|'.join(SHOTS)} RUN [ROOT]", file=sys.stderr)
        return 2
    root = arguments[2] if len(arguments) == 3 else "runs"
    for path in SHOTS[arguments[0]](find_run(arguments[1], root)):
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""Names and values of a run that was made to attack the viewer are shown as plain text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from dashboard_site import serving, wait_until, write_run

HOSTILE = [
    "<img src=x onerror=document.title='pwned'>",
    "<script>document.title='pwned'</script>",
    "\"><svg onload=document.title='pwned'>",
    "javascript:document.title='pwned'",
    "${document.title='pwned'}",
    "{{constructor.constructor('document.title=1')()}}",
    "\u202eevil\u202c",
    "</title><script>document.title='pwned'</script>",
    "name\nwith\rbreaks",
]


def test_hostile_names_and_values_are_shown_as_text(root: Path, browser: Any) -> None:
    for number, text in enumerate(HOSTILE):
        folder = text.replace("/", "\u2044")
        run = write_run(
            root, folder, [1.0, 2.0], tags=[text], env_id=text, algorithm=text, error=text, command=text
        )
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
        (run / "config.yaml").write_text(f'"{quoted}": "{quoted}"\nother: {number}\n')
        (run / "metrics.jsonl").write_text(
            f'{{"step": 1, "{quoted}": 2.0}}\n{{"step": 2, "{quoted}": 3.0}}\n'
        )
        (run / "logs").mkdir()
        (run / "logs" / "<b>x.log").write_text(text)
        (run / "videos").mkdir()
        (run / "videos" / "'><img src=x onerror=alert(1)>.mp4").write_bytes(b"")
        (run / "report.html").write_text(
            "<p id=untrusted>report</p><script>document.title = 'pwned'; location = 'about:blank'</script>"
        )
    (root / "CartPole-v1" / "PPO" / os.fsdecode(b"not-\xff-text")).mkdir()
    (root / "CartPole-v1" / "PPO" / os.fsdecode(b"not-\xff-text") / "run.json").write_text("{}")
    with serving(root) as site, browser.new_context() as context:
        page = context.new_page()
        page.on("dialog", lambda dialog: pytest.fail("a script of the run was run"))
        wait_until(lambda: len(site.get("/api/runs")["runs"]) == len(HOSTILE) + 1)
        runs = site.get("/api/runs")["runs"]
        page.goto(site.url)
        page.wait_for_selector(f"tbody tr:nth-child({len(HOSTILE) + 1})")
        assert page.locator("main img, main script, main svg:not(.spark)").count() == 0
        assert any("onerror" in text for text in page.locator(".col-name a").all_inner_texts())
        for run in runs[:: max(1, len(runs) // 3)]:
            for part in ("", "#config", "#videos", "#logs", "#checkpoints"):
                page.goto(f"{site.url}/run/{run['id']}{part}")
                page.wait_for_selector("[role=tablist]")
                page.wait_for_timeout(50)
                assert page.locator("main img, main script").count() == 0
                assert page.title() != "pwned"
        page.goto(f"{site.url}/compare?runs={','.join(run['id'] for run in runs)}#config")
        page.wait_for_selector("table.diff td")
        assert page.locator("main img, main script").count() == 0 and page.title() == "Compare · Ludus"
        # the report is drawn from the run's data: a page that came with the run is not shown
        page.goto(f"{site.url}/api/runs/{site.id_of(HOSTILE[0])}/report")
        page.wait_for_selector("html[data-drawn]")
        assert page.locator("#untrusted").count() == 0 and page.locator(".figure .main-svg").count() > 0
        assert HOSTILE[0] in page.title() and page.title() != "pwned"
        assert page.evaluate("self.origin") == "null"

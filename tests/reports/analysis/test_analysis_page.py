"""The page of an analysis opens from disk without a network and draws every chart; pictures have the same charts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ludus.errors import MissingExtra
from ludus.evaluation.analysis.charts import AnalysisChart, ChartSeries, Figure
from ludus.reports.analysis.page import plotted, write_page
from ludus.reports.analysis.pictures import write_pictures

STEPS = np.arange(50)
EVIL = "<script>alert(1)</script></script>&"


def wave(name: str, phase: float = 0.0) -> ChartSeries:
    return ChartSeries(name, STEPS, np.sin(STEPS / 5 + phase))


def episode(number: int) -> Figure:
    charts = (
        AnalysisChart("reward", "step", "", "lines", (wave("reward"),)),
        AnalysisChart("joints", "step", "rad", "lines", (wave("hip"), wave("knee", 1.0), wave(EVIL, 2.0))),
        AnalysisChart(
            "action", "step", "", "steps", (ChartSeries("action", STEPS, STEPS % 3.0),), ("a", "b", EVIL)
        ),
        AnalysisChart(
            "contacts",
            "step",
            "",
            "bands",
            (ChartSeries("left", STEPS, STEPS % 2.0), wave("right")),
            ("left", "right"),
        ),
    )
    return Figure(f"episode-{number}", f"Episode {number}", f"Seed {EVIL}", charts, stacked=True)


FIGURES = [
    episode(1),
    episode(2),
    Figure(
        "phase",
        "Phase",
        "",
        tuple(AnalysisChart(f"p{i}", "x", "dx", "lines", (wave("one"), wave("two", 1))) for i in range(4)),
    ),
    Figure(
        "actions", "Actions", "", (AnalysisChart("a", "choice", "share", "bars", (wave("a"),), ("x", "y")),)
    ),
    Figure(
        "value", "Value", "", (AnalysisChart("v", "return", "value", "points", (wave("v"),), diagonal=True),)
    ),
]


def test_every_chart_is_drawn_in_a_browser_without_network_or_errors(tmp_path: Path, browser: Any) -> None:
    path = write_page(tmp_path / "analysis.html", f"A run {EVIL}", EVIL, {"return": "1", EVIL: EVIL}, FIGURES)
    page = browser.new_context(offline=True, viewport={"width": 1100, "height": 800}).new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda request: complaints.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_function("document.documentElement.dataset.drawn === '5'")
    assert page.title() == f"A run {EVIL}"
    widths = "[...document.querySelectorAll('.figure')].map(f => f.querySelector('.main-svg').clientWidth)"
    assert [width > 500 for width in page.evaluate(widths)] == [True, False, True, True, True]
    traces = page.evaluate("[...document.querySelectorAll('.figure')].map(f => f.data.length)")
    assert traces == [6, 6, 8, 1, 2]
    page.select_option("#which-episode", "episode-2")
    page.wait_for_function(
        "document.querySelector('[data-episode=episode-2] .main-svg').getBoundingClientRect().width > 500"
    )
    assert not page.is_visible("[data-episode=episode-1]")
    page.close()
    assert complaints == []


def test_plotly_gets_the_same_numbers() -> None:
    drawn = plotted(FIGURES[0])
    np.testing.assert_array_equal(drawn.data[1].y, wave("hip").y.astype(np.float32))
    bands = drawn.data[-1]
    assert bands.type == "heatmap" and bands.z[0].tolist() == (STEPS % 2).tolist()
    assert list(bands.y) == ["left", "right"]


def test_pictures_are_pngs_named_after_their_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    paths = write_pictures(tmp_path, FIGURES)
    assert [path.name for path in paths] == [f"{figure.name}.png" for figure in FIGURES]
    for path in paths:
        with Image.open(path) as picture:
            assert picture.format == "PNG" and len(np.unique(np.asarray(picture.convert("L")))) > 20


def test_missing_matplotlib_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match="'plots'"):
        write_pictures(tmp_path, FIGURES)

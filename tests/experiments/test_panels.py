"""Charts are drawn at their values, as self-contained files."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ludus.experiments.panels import PanelChart, PanelLine, ticks, write_page, write_svg

SVG = "{http://www.w3.org/2000/svg}"
LINE = PanelLine("ludus & co", (0, 50, 100), (0.0, 10.0, 20.0), (0.0, 5.0, 10.0), (0.0, 15.0, 20.0))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 500, [0, 100, 200, 300, 400, 500]),
        (-1400, -140, [-1500, -1000, -500, 0]),
        (-1100, -100, [-1200, -1000, -800, -600, -400, -200, 0]),
        (500, 500, [500, 510, 520, 530, 540, 550]),
        (0, 0, [0, 0.02, 0.04, 0.06, 0.08, 0.1]),
    ],
)
def test_ticks_are_round_and_enclose_the_values(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


def test_line_is_drawn_at_its_values(tmp_path: Path) -> None:
    write_svg(tmp_path / "a.svg", "heading", [PanelChart("one", "steps", "reward", (LINE,))], columns=1)
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    drawn = root.find(f".//{SVG}polyline")
    assert drawn is not None
    points = [tuple(map(float, point.split(","))) for point in drawn.attrib["points"].split()]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert y2 < y0  # up is less in a picture
    assert len(root.findall(f".//{SVG}polygon")) == 1
    assert next(text.text for text in root.iter(f"{SVG}text")) == "ludus & co"


def test_a_logarithmic_axis_has_equal_steps_for_equal_factors(tmp_path: Path) -> None:
    line = PanelLine("a", (8, 64, 512), (1.0, 2.0, 3.0))
    write_svg(
        tmp_path / "a.svg", "heading", [PanelChart("one", "envs", "fps", (line,), log_x=True)], columns=1
    )
    at = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', (tmp_path / "a.svg").read_text())]
    assert at[1] - at[0] == pytest.approx(at[2] - at[1], abs=0.2)


def test_the_page_needs_no_network(tmp_path: Path) -> None:
    charts = [PanelChart("one", "steps", "reward", (LINE,)), PanelChart("two", "s", "reward", (LINE,))]
    write_page(tmp_path / "a.html", "heading", charts, columns=2)
    page = (tmp_path / "a.html").read_text()
    assert "<script src=" not in page
    assert "heading" in page

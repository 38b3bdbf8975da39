"""Python literals are read from their syntax; what would have to be run is refused, and never is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ludus.config.importers.literals import Symbol, Unreadable, parse_literal, read_python
from ludus.errors import ConfigError


def parse(text: str) -> Any:
    return parse_literal(text, where="f.yml, line 1", key="policy_kwargs")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("dict(a=1, b=[2.5, -3], c=(True, None))", {"a": 1, "b": [2.5, -3], "c": [True, None]}),
        ("{'norm_obs': False}", {"norm_obs": False}),
        ("dict(\n  net_arch=dict(pi=[256], vf=[256]),\n)", {"net_arch": {"pi": [256], "vf": [256]}}),
        ("dict(activation_fn=nn.ReLU)", {"activation_fn": "nn.ReLU"}),
        ("2 * 64 + 1", 129),
    ],
)
def test_literals_are_read(text: str, value: Any) -> None:
    assert parse(text) == value


def test_a_dotted_name_is_a_symbol_not_an_object() -> None:
    assert isinstance(parse("dict(a=os.system)")["a"], Symbol)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "dict(a=open('x', 'w'))",
        "dict(**{'a': 1})",
        "[x for x in (1,)]",
        "(lambda: 1)()",
        "f'{1}'",
        "dict(a=1)['b']",
        "'a' * 10**9",
        "[1] * 10**9",
        "9 ** 9 ** 9",
        "1 << 10**9",
        "10**9 * 10**9 * 10**9",
        "dict(a=1 if True else 2)",
        "(y := 5)",
        "1 / 0",
        "[" * 3000 + "]" * 3000,
        "[" * 50 + "]" * 50,
        "-" * 100_000 + "1",
        "dict(",
        "\x00",
        "b'bytes'",
        "1j",
        "...",
        "{1, 2}",
        "1 if 2 else",
    ],
)
def test_anything_else_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(ConfigError, match="not plain data") as caught:
        parse(text)
    assert caught.value.where == "f.yml, line 1"


def read(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "config.py"
    path.write_text(text)
    return read_python(path).data


def test_names_and_items_of_the_same_file_may_be_used(tmp_path: Path) -> None:
    data = read(tmp_path, "a = {'n': 4, 'l': [1, 2]}\nb = a['n'] * 2\nc: int = a['l'][1]\nd = [a, b]\n")
    assert (data["b"], data["c"], data["d"]) == (8, 2, [{"n": 4, "l": [1, 2]}, 8])


def test_one_call_among_literals_costs_only_itself(tmp_path: Path) -> None:
    data = read(tmp_path, "s = {'a': 1, 'b': {'c': f(2), 'd': 3}}\nt = s['b']['c']\n")
    assert data["s"] == {"a": 1, "b": {"c": Unreadable("f(2)"), "d": 3}}
    assert data["t"] == Unreadable("f(2)")


def test_lists_of_lists_cannot_explode(tmp_path: Path) -> None:
    lines = ["a0 = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n + 1} = [{', '.join([f'a{n}'] * 10)}]" for n in range(12)]
    data = read(tmp_path, "\n".join(lines))
    assert isinstance(data["a12"], Unreadable)


def test_functions_classes_and_loops_are_left_alone_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "config.py"
    path.write_text("import os\nx = 1\nfor i in range(3):\n    x += i\n\ndef f():\n    return 2\nx += 5\n")
    found = read_python(path)
    assert (found.data, found.skipped_lines) == ({"x": 1}, [3, 6, 8])


@pytest.mark.parametrize("text", ["x = (", "x = '\x00'", "(" * 5000])
def test_a_file_that_is_no_python_is_an_error_of_the_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="not valid Python"):
        read(tmp_path, text)

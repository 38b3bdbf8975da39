"""Untrusted configs: none of their content is executed, and files that would use much time or memory are refused."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ludus.config.loading import load_config
from ludus.config.plain_yaml import parse_value, read_yaml, write_yaml
from ludus.errors import ConfigError


def refused(folder: Path, text: str | bytes) -> ConfigError:
    path = folder / "hostile.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    return caught.value


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object/apply:os.system ['touch {owned}']",
        "!!python/object/apply:subprocess.check_output [['touch', '{owned}']]",
        "!!python/object/new:os.system ['touch {owned}']",
        "!!python/name:os.system",
        "!!python/module:antigravity",
        "!!python/tuple [1, 2]",
        "!mine 5",
        "!!binary aGVsbG8=",
        "!!set {{a, b}}",
        "!!timestamp 2024-01-01",
    ],
)
def test_tags_are_refused_and_run_nothing(tmp_path: Path, value: str) -> None:
    owned = tmp_path / "owned"
    for key in ("name", "env: {id: x}\nhyperparams: {a", "? "):
        if key == "? ":
            text = f"? {value.format(owned=owned)}\n: 1\n"
        else:
            text = f"{key}: {value.format(owned=owned)}" + ("}" if "{a" in key else "") + "\n"
        error = refused(tmp_path, text)
        assert "not plain data" in error.what or "not valid YAML" in error.what
    assert not owned.exists()


def bomb(line: str) -> str:
    """Ten levels, each ten times the one below."""
    names = "abcdefghij"
    lines = [f"{names[0]}: &{names[0]} " + line.format(*["x"] * 10)]
    for below, name in itertools.pairwise(names):
        lines.append(f"{name}: &{name} " + line.format(*[f"*{below}"] * 10))
    return "\n".join(lines)


LIST = "[{}, {}, {}, {}, {}, {}, {}, {}, {}, {}]"
MAPPING = "{{a: {}, b: {}, c: {}, d: {}, e: {}, f: {}, g: {}, h: {}, i: {}, j: {}}}"


@pytest.mark.parametrize("line", [LIST, MAPPING])
def test_an_alias_bomb_is_refused(tmp_path: Path, line: str) -> None:
    for text in (
        bomb(line),
        "env:\n  id: x\n  kwargs:\n" + "\n".join("    " + s for s in bomb(line).split("\n")),
    ):
        assert "more than a config can" in refused(tmp_path, text).what


def test_a_merge_bomb_is_refused(tmp_path: Path) -> None:
    names = "abcdefgh"
    lines = ["a: &a {x: 1, y: 2, z: 3}"]
    for below, name in itertools.pairwise(names):
        lines.append(f"{name}: &{name} {{<<: [{', '.join([f'*{below}'] * 10)}]}}")
    assert "more than a config can" in refused(tmp_path, "\n".join(lines)).what


@pytest.mark.parametrize(
    "text",
    [
        "name: " + "[" * 100_000,
        "name: " + "[" * 500 + "]" * 500,
        "name: " + "{a: " * 100 + "1" + "}" * 100,
        "\n".join(" " * i + "a:" for i in range(400)),
        "tags: &a [*a]",
        "env: &a {id: x, kwargs: *a}",
    ],
)
def test_endless_nesting_is_refused(tmp_path: Path, text: str) -> None:
    assert "nested deeper than a config can be" in refused(tmp_path, text).what


def test_a_file_of_two_megabytes_is_refused_unread(tmp_path: Path) -> None:
    assert "larger than a config can be" in refused(tmp_path, "a: " + "x" * 2_000_000).what


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe\x00name",
        b"name: \x00",
        "name: \x07",
        "a: 1\n---\nb: 2\n",
        "? [a, b]\n: 1\n",
        "1: 2\n",
        "null: 2\n",
        "*nobody : 2\n",
        "seed: " + "9" * 5_000,
        "%YAML 9.9\n---\nseed: 1\n",
        "\t: 1\n",
    ],
)
def test_nonsense_is_a_config_error(tmp_path: Path, text: str | bytes) -> None:
    error = refused(tmp_path, text)
    assert error.where.startswith(str(tmp_path)) and len(str(error).splitlines()) == 3


def test_anchors_and_merges_of_sensible_size_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "ok.yaml"
    path.write_text("checkpoint: &often {every: 5}\nevaluation:\n  <<: *often\n  episodes: 2\n")
    config = load_config(path).config
    assert config.evaluation.every == config.checkpoint.every and config.evaluation.episodes == 2


def test_text_that_looks_like_a_number_or_a_date_comes_back_as_text(tmp_path: Path) -> None:
    data = {"a": "1e5", "b": "2024-01-01", "c": 1e-5, "d": "1_000", "e": "yes", "f": "ü", "g": [None, "null"]}
    path = tmp_path / "data.yaml"
    path.write_text(write_yaml(data), encoding="utf-8")
    assert read_yaml(path)[0] == data
    assert parse_value("1e-3") == 0.001 and parse_value("2024-01-01") == "2024-01-01"


@pytest.mark.parametrize(
    "digits", ["0b" + "1" * 100_000, "9" * 5_000, "0x" + "f" * 50_000, "-" + "7" * 5_000]
)
def test_a_number_with_thousands_of_digits_is_refused_with_its_line(tmp_path: Path, digits: str) -> None:
    error = refused(tmp_path, f"env: CartPole-v1\nseed: {digits}\n")
    assert "digits" in error.what and error.where.endswith("line 2") and len(str(error)) < 300
    with pytest.raises(ConfigError, match="seed"):
        load_config(overrides=[f"seed={digits}"])
    with pytest.raises(ConfigError, match="seed"):
        load_config(flags={"seed": int(digits, 0) if "b" in digits or "x" in digits else 10**5_000})

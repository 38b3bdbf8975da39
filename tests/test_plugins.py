"""Plugins are found by scanning the bundled packages, and by entry points."""

from __future__ import annotations

from ludus.plugins import load, plugins


def test_bundled_plugins_are_found_by_scanning() -> None:
    names = [plugin.name for plugin in plugins()]
    assert {"balatro", "board", "diambra", "unity", "language", "sb3"} <= set(names)


def test_a_reference_names_an_object_or_a_module() -> None:
    import json

    assert load("json:dumps") is json.dumps
    assert load("json") is json

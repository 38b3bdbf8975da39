"""YAML as configs use it: plain data only, small, each key once, and the line of every key.

Two differences from PyYAML's own safe mode: `1e-3` is a number, as everywhere else, and a date is text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from ludus.errors import ConfigError

Key = tuple[str, ...]
MAX_BYTES = 200_000
MAX_VALUES = 20_000
MAX_DEPTH = 20
MAX_DIGITS = 400

_TAG = "tag:yaml.org,2002:"
_KEYS = (_TAG + "str", _TAG + "merge")
_PLAIN = {_TAG + name for name in ("null", "bool", "int", "float", "str", "seq", "map", "merge")}
_SCIENTIFIC = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$")


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML declares it without ClassVar
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TAG + "timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.depth > MAX_DEPTH:
            raise RecursionError
        self.depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _Dumper(yaml.SafeDumper):
    pass


for _side in (_Loader, _Dumper):  # the writer must quote what the reader would take for a number
    _side.add_implicit_resolver(_TAG + "float", _SCIENTIFIC, list("-+0123456789"))


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[Key, str]]:
    """Return the mapping in a YAML file, and the place of each key ("FILE, line N"). Raises ConfigError."""
    if path.stat().st_size > MAX_BYTES:
        raise ConfigError(
            f"{path.name} is larger than a config can be ({MAX_BYTES:,} bytes)",
            where=str(path),
            fix="check that this file is a config, and store data elsewhere",
        )
    places: dict[Key, str] = {}
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix.lower() == ".json":
            text = text.replace(
                "\t", " "
            )  # JSON is YAML but for tabs, which it holds only between its tokens
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            return {}, places
        _check_plain(root, path)
        _record_lines(root, (), path, places)
        data = loader.construct_document(root)
    except RecursionError:
        raise _too_deep(path) from None
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(
            f"not valid YAML: {problem}", where=_place(path, mark), fix="correct the file"
        ) from None
    if data is None:
        return {}, places
    if not isinstance(data, dict):
        raise ConfigError("a config is a mapping of keys to values", where=str(path), fix="see `ludus init`")
    return data, places


def parse_value(text: str) -> Any:
    """One value as it would be written in a file; ValueError when it is not plain YAML."""
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            return None
        _check_plain(root, Path("value"))
        return loader.construct_document(root)
    except (yaml.YAMLError, ConfigError, RecursionError) as error:
        raise ValueError(str(error)) from None


def write_yaml(data: dict[str, Any]) -> str:
    """Plain data as YAML that `read_yaml` reads back to the same data."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text


def _check_plain(root: yaml.Node, path: Path) -> None:
    """Refuse tags, deep nesting, and documents that become too large when their aliases are expanded."""
    values, pending = 0, [(root, 0)]
    while pending:
        node, depth = pending.pop()
        values += 1
        if node.tag not in _PLAIN:
            raise ConfigError(
                f"not plain data: {node.tag.replace(_TAG, '!!'):.60}",
                where=_place(path, node.start_mark),
                fix="write a number, a text, a list or a mapping",
            )
        if node.tag == _TAG + "int" and len(node.value) > MAX_DIGITS:
            raise ConfigError(
                f"a number with {len(node.value):,} digits is too long for any key: {node.value:.20}…",
                where=_place(path, node.start_mark),
                fix="shorten it, or quote it if it is text",
            )
        if depth > MAX_DEPTH:
            raise _too_deep(path)
        if values > MAX_VALUES:
            raise ConfigError(
                f"the YAML holds more than a config can ({MAX_VALUES:,} values)",
                where=str(path),
                fix="shorten it; an alias (*name) counts as what it stands for",
            )
        if isinstance(node, yaml.MappingNode):
            pending += [(part, depth + 1) for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            pending += [(part, depth + 1) for part in node.value]


def _record_lines(node: yaml.Node, prefix: Key, path: Path, places: dict[Key, str]) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    for key_node, value_node in node.value:
        key = (*prefix, str(key_node.value))
        place = _place(path, key_node.start_mark)
        if key_node.tag not in _KEYS:
            raise ConfigError(
                f"expected text as a key, got {key_node.tag.removeprefix(_TAG)}: {key[-1]:.60}",
                where=place,
                fix="quote it",
            )
        if key in places:
            raise ConfigError(
                f"the key '{'.'.join(key)}' is given twice",
                where=f"{place} (first: {places[key].rsplit(', ', 1)[-1]})",
                fix="keep one",
            )
        places[key] = place
        _record_lines(value_node, key, path, places)


def _place(path: Path, mark: Any) -> str:
    return str(path) if mark is None else f"{path}, line {mark.line + 1}"


def _too_deep(path: Path) -> ConfigError:
    return ConfigError(
        "the YAML is nested deeper than a config can be", where=str(path), fix="a config has few levels"
    )

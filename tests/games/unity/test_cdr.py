"""CDR: bytes computed by hand, round trips of every type, and errors for invalid bytes."""

from __future__ import annotations

import contextlib
import json
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ludus.errors import ConfigError
from ludus.games.unity.cdr import CdrCodec, CdrError, compile_messages
from ludus.games.unity.use_case import load_use_case, shipped_use_cases

DATA = Path(__file__).parents[2] / "data" / "unity"
HEADER = "00010000"


def codec(**fields: str) -> CdrCodec:
    inner = {"Point": {"x": "float32", "y": "float64"}, "Named": {"name": "string", "at": "Point"}}
    return compile_messages({**inner, "M": fields})["M"]


@pytest.mark.parametrize(
    ("fields", "message", "expected"),
    [
        ({"a": "uint8", "b": "uint32"}, {"a": 1, "b": 2}, "01 000000 02000000"),
        ({"a": "bool", "b": "float64"}, {"a": True, "b": 1.0}, "01 00000000000000 000000000000f03f"),
        ({"a": "int16", "b": "int8"}, {"a": -2, "b": -1}, "feff ff"),
        ({"s": "string"}, {"s": "hi"}, "03000000 686900"),
        ({"s": "string"}, {"s": ""}, "01000000 00"),
        ({"s": "string", "n": "uint32"}, {"s": "a", "n": 7}, "02000000 6100 0000 07000000"),
        ({"r": "float32[]"}, {"r": [1.0, -2.0]}, "02000000 0000803f 000000c0"),
        ({"r": "float64[]"}, {"r": [1.0]}, "01000000 00000000 000000000000f03f"),
        ({"r": "float64[]", "b": "uint8"}, {"r": [], "b": 9}, "00000000 00000000 09"),
        ({"r": "int16[2]"}, {"r": [1, 2]}, "0100 0200"),
        ({"b": "uint8[]"}, {"b": b"xyz"}, "03000000 78797a"),
        ({"a": "uint8", "p": "Point"}, {"a": 1, "p": {"x": 1.0, "y": 1.0}}, "01 000000 0000803f 000000000000f03f"),
        ({"l": "string[]"}, {"l": ["a", "b"]}, "02000000 02000000 6100 0000 02000000 6200"),
    ],
)  # fmt: skip
def test_encoded_bytes_match_unitys_connector(fields: dict[str, str], message: Any, expected: str) -> None:
    raw = bytes.fromhex(HEADER + expected.replace(" ", ""))
    assert codec(**fields).encode(message) == raw
    assert codec(**fields).encode(codec(**fields).decode(raw)) == raw


def test_messages_recorded_from_a_ros_library_round_trip_exactly() -> None:
    cases = json.loads(
        (DATA / "cdr.json").read_text("utf-8")
    )  # recorded with record_cdr.py in the same folder
    assert {case["source"] for case in cases} == {*shipped_use_cases(), "every type"}
    for case in cases:
        described = case.get("described") or load_use_case(case["source"]).messages
        codec = compile_messages(described)[case["message"]]
        raw = bytes.fromhex(case["bytes"])
        assert codec.encode(case["value"]) == raw
        assert plain(codec.decode(raw)) == case["value"]


NUMBERS = {
    "bool": st.booleans(),
    "byte": st.integers(0, 2**8 - 1),
    "char": st.integers(0, 2**8 - 1),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "uint8": st.integers(0, 2**8 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "float32": st.floats(width=32, allow_nan=False),
    "float64": st.floats(allow_nan=False),
}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def described(draw: st.DrawFn) -> tuple[dict[str, dict[str, str]], dict[str, Any]]:
    """Draw descriptions of messages, up to three levels deep, and a message of the last one."""
    messages: dict[str, dict[str, str]] = {}
    values: dict[str, st.SearchStrategy[Any]] = {}
    for depth in range(draw(st.integers(1, 3))):
        fields: dict[str, str] = {}
        contents: dict[str, st.SearchStrategy[Any]] = {}
        for number in range(draw(st.integers(1, 5))):
            item = draw(st.sampled_from([*NUMBERS, "string", *messages]))
            value = {**NUMBERS, "string": TEXT, **values}[item]
            shape = draw(st.sampled_from(["", "[]", "[<=4]", "[3]"]))
            least, most = (3, 3) if shape == "[3]" else (0, 4)
            fields[f"f{number}"] = item + shape
            contents[f"f{number}"] = value if not shape else st.lists(value, min_size=least, max_size=most)
        messages[f"M{depth}"] = fields
        values[f"M{depth}"] = st.fixed_dictionaries(contents)
    return messages, draw(values[f"M{depth}"])


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, bytes):
        return list(value)
    return [plain(part) for part in value] if isinstance(value, list) else value


@given(described())
@example(({"M": {"f0": "uint64[]"}}, {"f0": [0, 2**64 - 1]}))  # NumPy converts such a mix to floats
@settings(max_examples=150, deadline=None)
def test_every_type_round_trips(case: tuple[dict[str, dict[str, str]], Any]) -> None:
    messages, message = case
    last = compile_messages(messages)[list(messages)[-1]]
    assert plain(last.decode(last.encode(message))) == plain(message)


@given(described(), st.data())
@settings(max_examples=100, deadline=None)
def test_truncated_or_extended_message_raises_cdr_error(
    case: tuple[dict[str, dict[str, str]], Any], data: st.DataObject
) -> None:
    messages, message = case
    last = compile_messages(messages)[list(messages)[-1]]
    raw = last.encode(message)
    with pytest.raises(CdrError):
        last.decode(raw[: data.draw(st.integers(0, len(raw) - 1))])
    with pytest.raises(CdrError, match="left over"):
        last.decode(raw + b"\1")


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_arbitrary_bytes_decode_or_raise_cdr_error(raw: bytes) -> None:
    mixed = codec(a="bool", n="Named[]", r="float64[]", s="string", b="uint8[]", t="string[]")
    with contextlib.suppress(CdrError):
        assert set(mixed.decode(bytes.fromhex(HEADER) + raw)) == set("anrsbt")


@pytest.mark.parametrize("kind", ["float64[]", "uint8[]", "string[]", "Named[]", "string", "bool[]"])
def test_count_beyond_the_message_allocates_no_memory(kind: str) -> None:
    raw = bytes.fromhex(HEADER) + struct.pack("<I", 2**32 - 1) + bytes(64)
    tracemalloc.start()
    with pytest.raises(CdrError, match="does not fit"):
        codec(a=kind).decode(raw)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"", "invalid header: .* got nothing"),
        (b"\0\0\0\0\0\0\0\0", "expected 00 01 00 00, got 00 00 00 00"),
        (bytes.fromhex(HEADER + "02000000 6161"), "does not end with NUL"),
        (bytes.fromhex(HEADER + "02000000 ff00"), "not UTF-8"),
    ],
)
def test_invalid_bytes_raise_with_the_reason(raw: bytes, what: str) -> None:
    with pytest.raises(CdrError, match=what):
        codec(s="string").decode(raw)


@pytest.mark.parametrize(
    ("fields", "message", "what"),
    [
        ({"a": "uint8"}, {"a": 256}, r"M\.a: 256"),
        ({"a": "int32"}, {"a": 1.5}, r"M\.a: 1\.5"),
        ({"a": "int32[]"}, {"a": [2**40]}, r"M\.a: expected numbers of type int32"),
        ({"a": "int32[]"}, {"a": [1.5]}, r"M\.a: numbers that do not fit"),
        ({"a": "float32[2]"}, {"a": [1.0]}, r"M\.a: expected 2 numbers, got 1"),
        ({"a": "float32[<=2]"}, {"a": [1, 2, 3]}, "at most 2"),
        ({"a": "string"}, {"a": 5}, "expected a string"),
        ({"a": "Point"}, {"a": {"z": 1}}, "has no field 'z'"),
        ({"a": "Point[]"}, {"a": [{"z": 1}]}, "has no field 'z'"),
        ({"a": "float32"}, {"a": "x"}, r"M\.a"),
    ],
)  # fmt: skip
def test_invalid_value_names_its_field(fields: dict[str, str], message: Any, what: str) -> None:
    with pytest.raises(CdrError, match=what):
        codec(**fields).encode(message)


def test_missing_fields_are_zero_or_empty() -> None:
    everything = codec(a="int8", b="bool", s="string", r="float32[]", f="float32[2]", p="Point", n="Named[]")
    assert plain(everything.empty()) == {
        "a": 0, "b": False, "s": "", "r": [], "f": [0.0, 0.0], "p": {"x": 0.0, "y": 0.0}, "n": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("messages", "what"),
    [
        ({"M": {"a": "flaot32"}}, "unknown type 'flaot32'"),
        ({"M": {}}, "has no fields"),
        ({"M": {"a": "M"}}, "contains itself"),
        ({"M": {"a": "N[]"}, "N": {"b": "M"}}, "contains itself"),
        ({"M": {"a": "int8[<=]"}}, "invalid array length"),
        ({"M": {"a": "int8[99999999]"}}, "invalid array length"),
        ({"M": {"a b": "int8"}}, "invalid field name"),
        ({"A": {f"f{i}": "B" for i in range(60)}, "B": {f"f{i}": "int8" for i in range(60)}}, "more than"),
    ],
)
def test_invalid_message_description_raises(messages: Any, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        compile_messages(messages)

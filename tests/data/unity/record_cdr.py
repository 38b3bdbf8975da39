"""Records cdr.json: messages of the use cases and of every type of field, as rosbags, a ROS 2 library, writes them.

    pip install rosbags==0.11.9 pyyaml && python tests/data/unity/record_cdr.py

Time, Header and CompressedImage are ROS's own definitions there. Empty sequences of eight-byte numbers are left out:
before those Unity's connector pads, and ROS does not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

HERE = Path(__file__).parent
USE_CASES = HERE.parents[2] / "src" / "ludus" / "games" / "unity" / "use_cases"
ROS_TYPES = {
    "Time": "builtin_interfaces/msg/Time",
    "Header": "std_msgs/msg/Header",
    "CompressedImage": "sensor_msgs/msg/CompressedImage",
}
NUMBERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]
PACKAGE = "interfaces_pkg/msg/"
EACH = 4


def main() -> None:
    rng = np.random.default_rng(0)
    cases = []
    for path in sorted(USE_CASES.glob("*.yaml")):
        described = yaml.safe_load(path.read_text("utf-8"))
        for name in ("StepRequest", "ResetRequest", "Response"):
            cases += [case(rng, described["messages"], name, path.stem) for _ in range(EACH)]
    every = {
        "Inner": {"flag": "bool", "text": "string", "wide": "float64"},
        "Numbers": {f"a_{kind}": kind for kind in NUMBERS},
        "Mixed": {
            f"{kind.lower()}_{place}": f"{kind}{shape}"
            for kind in ("bool", *NUMBERS, "string", "Inner")
            for place, shape in enumerate(("", "[]", "[<=4]", "[3]"))
        },
        # one byte ahead of everything else: every alignment has to pad
        "Shifted": {
            "first": "uint8",
            "inner": "Inner",
            "second": "uint8",
            "numbers": "Numbers",
            "last": "int16[]",
        },
    }
    for name in every:
        cases += [case(rng, every, name, "every type") for _ in range(EACH)]
    lines = ",\n".join(json.dumps(each) for each in cases)
    (HERE / "cdr.json").write_text(f"[\n{lines}\n]\n", "utf-8")
    print(f"{len(cases)} messages")


def case(rng: Any, described: Any, name: str, source: str) -> dict[str, Any]:
    store = get_typestore(Stores.ROS2_HUMBLE)
    kinds: dict[str, Any] = {}
    for message, fields in described.items():
        if message not in ROS_TYPES:
            lines = [f"{_ros(kind)} {field}" for field, kind in fields.items()]
            kinds |= get_types_from_msg("\n".join(lines), PACKAGE + message)
    store.register(kinds)
    value = draw(rng, described, name)
    raw = store.serialize_cdr(build(store, described, name, value), _full(name))
    return {"source": source, "message": name, "value": value, "bytes": bytes(raw).hex()} | (
        {"described": described} if source == "every type" else {}
    )


def _full(name: str) -> str:
    return ROS_TYPES.get(name, PACKAGE + name)


def _ros(kind: str) -> str:
    item = kind.partition("[")[0]
    known = item in ("bool", "string", *NUMBERS)
    return kind if known else _full(item).replace("/msg/", "/") + kind[len(item) :]


def draw(rng: Any, described: Any, name: str) -> dict[str, Any]:
    return {field: _draw(rng, described, kind) for field, kind in described[name].items()}


def _draw(rng: Any, described: Any, kind: str) -> Any:
    item, _, rest = kind.partition("[")
    if not rest:
        return _one(rng, described, item)
    least = 1 if "64" in item else 0
    count = 3 if rest == "3]" else int(rng.integers(least, 5))
    return [_one(rng, described, item) for _ in range(count)]


def _one(rng: Any, described: Any, item: str) -> Any:
    if item == "bool":
        return bool(rng.integers(2))
    if item == "string":
        return "".join(rng.choice(list("abc ä✓"), size=int(rng.integers(0, 6))))
    if item.startswith("float"):
        return float(np.dtype(item).type(rng.normal() * 10.0 ** rng.integers(-3, 6)))
    if item in NUMBERS:
        bounds = np.iinfo(item)
        return int(rng.integers(bounds.min, bounds.max, dtype=item, endpoint=True))
    return draw(rng, described, item)


def build(store: Any, described: Any, name: str, value: Any) -> Any:
    made = {}
    for field, kind in described[name].items():
        item, _, rest = kind.partition("[")
        given = value[field]
        if item in described:
            given = (
                [build(store, described, item, one) for one in given]
                if rest
                else build(store, described, item, given)
            )
        elif rest and item != "string":
            given = np.array(given, dtype=item)
        made[field] = given
    return store.types[_full(name)](**made)


if __name__ == "__main__":
    main()
